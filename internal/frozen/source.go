package frozen

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Source is the code of the programs, with types. It finds the constants that reach a place that others see,
// such as the reason of a condition, on any path through any package. If a part of a text is known only while
// the program runs, a star replaces it.
//
// It follows the flow of values: assignments, arguments, results, elements of lists and maps, and fields of
// our own structs. It follows a function with the arguments of its call. It ignores the order of statements
// and their conditions, so it may find more texts than the programs write. It misses only values that pass
// through interfaces of other modules, channels and reflection.
type Source struct {
	module   string
	packages []*packages.Package
	info     types.Info

	assigned  map[types.Object][]flow     // to variables, parameters and fields
	keys      map[types.Object][]ast.Expr // of maps: the keys that were written
	returned  map[any][][]ast.Expr        // by functions: *types.Func or *ast.FuncLit
	bodies    map[any]*ast.FuncType
	receivers map[types.Object]types.Object
	owner     map[types.Object]string // the struct of a field in another module
	calls     []*ast.CallExpr
	indexed   []*ast.IndexExpr
	literals  []*ast.CompositeLit
	strings   map[string]bool // all string constants
	methods   map[*types.Func][]any
	texts     map[made][]string
}

// flow is an assigned value: an expression, or the keys of a map if keys is set. result is the index of the
// result if the expression is a call.
type flow struct {
	expr   ast.Expr
	keys   bool
	result int
}

// Load parses packages of the module in dir: the packages that patterns name, and their imports.
func Load(dir, module string, patterns ...string) (*Source, error) {
	env := append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	listed, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps, Dir: dir, Env: env}, patterns...)
	if err != nil {
		return nil, err
	}
	var ours []string
	packages.Visit(listed, nil, func(p *packages.Package) {
		if p.PkgPath == module || strings.HasPrefix(p.PkgPath, module+"/") {
			ours = append(ours, p.PkgPath)
		}
	})
	slices.Sort(ours)
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedExportFile,
		Dir:  dir, Env: env,
	}, ours...)
	if err != nil {
		return nil, err
	}
	s := &Source{
		module: module, packages: all,
		info: types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		},
		assigned: map[types.Object][]flow{}, keys: map[types.Object][]ast.Expr{}, returned: map[any][][]ast.Expr{}, bodies: map[any]*ast.FuncType{},
		receivers: map[types.Object]types.Object{},
		owner:     map[types.Object]string{}, strings: map[string]bool{}, methods: map[*types.Func][]any{}, texts: map[made][]string{},
	}
	for _, p := range all {
		for _, e := range p.Errors {
			return nil, fmt.Errorf("load %s: %w", p.PkgPath, e)
		}
		copyAll(s.info.Types, p.TypesInfo.Types)
		copyAll(s.info.Uses, p.TypesInfo.Uses)
		copyAll(s.info.Defs, p.TypesInfo.Defs)
		copyAll(s.info.Selections, p.TypesInfo.Selections)
	}
	for _, p := range all {
		for _, f := range p.Syntax {
			s.read(f)
		}
	}
	// Calls through a variable are bound last, because the arguments of the other calls show their functions.
	for _, known := range []bool{true, false} {
		for _, call := range s.calls {
			if (s.callee(call) != nil) == known {
				s.bind(call)
			}
		}
	}
	return s, nil
}

func copyAll[K comparable, V any](to, from map[K]V) {
	maps.Copy(to, from)
}

// read notes all flows in one file.
func (s *Source) read(f *ast.File) {
	var inside []any // the functions that a statement is in
	ast.PreorderStack(f, nil, func(n ast.Node, stack []ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			if v := s.info.Types[e].Value; v != nil && v.Kind() == constant.String {
				s.strings[constant.StringVal(v)] = true
			}
		}
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.FuncDecl:
			f := s.info.Defs[n.Name]
			s.bodies[f] = n.Type
			if n.Recv != nil && len(n.Recv.List[0].Names) > 0 {
				s.receivers[f] = s.info.Defs[n.Recv.List[0].Names[0]]
			}
		case *ast.FuncLit:
			s.bodies[n] = n.Type
		case *ast.ReturnStmt:
			inside = inside[:0]
			for _, outer := range stack {
				switch outer := outer.(type) {
				case *ast.FuncDecl:
					inside = append(inside, s.info.Defs[outer.Name])
				case *ast.FuncLit:
					inside = append(inside, outer)
				}
			}
			in := inside[len(inside)-1]
			s.returned[in] = append(s.returned[in], n.Results)
		case *ast.AssignStmt:
			s.assign(n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			names := make([]ast.Expr, len(n.Names))
			for i := range n.Names {
				names[i] = n.Names[i]
			}
			s.assign(names, n.Values)
		case *ast.RangeStmt:
			_, isMap := under(s.info.TypeOf(n.X)).(*types.Map)
			if n.Key != nil && isMap {
				s.note(n.Key, flow{expr: n.X, keys: true})
			}
			if n.Value != nil {
				s.note(n.Value, flow{expr: n.X})
			} else if n.Key != nil && !isMap {
				s.note(n.Key, flow{expr: n.X}) // of an iterator
			}
		case *ast.CompositeLit:
			s.literals = append(s.literals, n)
			s.readLiteral(n)
		case *ast.CallExpr:
			s.calls = append(s.calls, n)
		case *ast.IndexExpr:
			s.indexed = append(s.indexed, n)
		}
		return true
	})
}

func (s *Source) readLiteral(n *ast.CompositeLit) {
	t, ok := under(s.info.TypeOf(n)).(*types.Struct)
	if !ok {
		return
	}
	for i, e := range n.Elts {
		field, value := types.Object(nil), e
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			field, value = s.info.Uses[kv.Key.(*ast.Ident)], kv.Value
		} else {
			field = t.Field(i)
		}
		s.assigned[origin(field)] = append(s.assigned[origin(field)], flow{expr: value})
		s.owner[origin(field)] = typeName(s.info.TypeOf(n))
	}
}

func (s *Source) assign(to, from []ast.Expr) {
	for i, l := range to {
		switch {
		case len(from) == len(to):
			s.note(l, flow{expr: from[i]})
		case len(from) == 1:
			s.note(l, flow{expr: from[0], result: i})
		}
	}
}

// note notes that a value is assigned to an expression.
func (s *Source) note(to ast.Expr, f flow) {
	switch to := ast.Unparen(to).(type) {
	case *ast.IndexExpr:
		if o := s.object(to.X); o != nil {
			s.keys[o] = append(s.keys[o], to.Index)
			s.assigned[o] = append(s.assigned[o], f)
		}
	case *ast.StarExpr:
		s.note(to.X, f)
	default:
		if o := s.object(to); o != nil {
			s.assigned[o] = append(s.assigned[o], f)
			if sel, ok := to.(*ast.SelectorExpr); ok && s.info.Selections[sel] != nil {
				s.owner[o] = ownerOf(s.info.Selections[sel])
			}
		}
	}
}

// object returns the variable, parameter or field that an expression denotes.
func (s *Source) object(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		o := s.info.Defs[e]
		if o == nil {
			o = s.info.Uses[e]
		}
		if _, ok := o.(*types.Var); ok {
			return origin(o)
		}
	case *ast.SelectorExpr:
		o := s.info.Uses[e.Sel]
		if selection := s.info.Selections[e]; selection != nil {
			o = selection.Obj()
		}
		if _, ok := o.(*types.Var); ok {
			return origin(o)
		}
	}
	return nil
}

func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Var:
		return o.Origin()
	case *types.Func:
		return o.Origin()
	}
	return o
}

func under(t types.Type) types.Type {
	if t == nil {
		return nil
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	return t.Underlying()
}

func typeName(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

func ownerOf(s *types.Selection) string {
	t := s.Recv()
	for _, i := range s.Index()[:len(s.Index())-1] {
		t = under(t).(*types.Struct).Field(i).Type()
	}
	return typeName(t)
}

// ours reports whether an object belongs to the module.
func (s *Source) ours(o types.Object) bool {
	return o.Pkg() != nil && (o.Pkg().Path() == s.module || strings.HasPrefix(o.Pkg().Path(), s.module+"/"))
}

// callee returns the called function, if the function has a name.
func (s *Source) callee(call *ast.CallExpr) *types.Func {
	fun := ast.Unparen(call.Fun)
	switch indexed := fun.(type) {
	case *ast.IndexExpr:
		fun = indexed.X
	case *ast.IndexListExpr:
		fun = indexed.X
	}
	var o types.Object
	switch fun := fun.(type) {
	case *ast.Ident:
		o = s.info.Uses[fun]
	case *ast.SelectorExpr:
		o = s.info.Uses[fun.Sel]
	}
	f, _ := o.(*types.Func)
	if f != nil {
		f = f.Origin()
	}
	return f
}

// functions returns the functions that an expression may denote: named functions, literals, and methods that
// implement an interface's method.
func (s *Source) functions(e ast.Expr) (all []any) {
	seen := map[types.Object]bool{}
	var look func(ast.Expr)
	look = func(e ast.Expr) {
		e = ast.Unparen(e)
		switch x := e.(type) {
		case *ast.FuncLit:
			all = append(all, x)
			return
		case *ast.IndexExpr:
			e = x.X
		}
		o := s.object(e)
		if o == nil {
			call := &ast.CallExpr{Fun: e}
			if f := s.callee(call); f != nil {
				all = append(all, s.implementations(f)...)
			}
			return
		}
		if seen[o] {
			return
		}
		seen[o] = true
		for _, f := range s.assigned[o] {
			look(f.expr)
		}
	}
	look(e)
	return all
}

func (s *Source) implementations(f *types.Func) []any {
	receiver := f.Signature().Recv()
	if receiver == nil || !types.IsInterface(receiver.Type()) || !s.ours(f) {
		return []any{f}
	}
	all, known := s.methods[f]
	if known {
		return all
	}
	for o := range s.bodies {
		m, ok := o.(*types.Func)
		if !ok || m.Name() != f.Name() || m.Signature().Recv() == nil {
			continue
		}
		if i, ok := receiver.Type().Underlying().(*types.Interface); ok && types.Implements(m.Signature().Recv().Type(), i) {
			all = append(all, m)
		}
	}
	s.methods[f] = all
	return all
}

// bind notes that arguments flow into parameters, and that lists and maps flow into the receivers of their
// methods.
func (s *Source) bind(call *ast.CallExpr) {
	for _, f := range s.functions(call.Fun) {
		if m, ok := f.(*types.Func); ok && s.receivers[m] != nil {
			if x, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
				switch under(s.receivers[m].Type()).(type) {
				case *types.Map, *types.Slice:
					s.assigned[s.receivers[m]] = append(s.assigned[s.receivers[m]], flow{expr: x.X})
				}
			}
		}
		for i, p := range s.parameters(f) {
			for _, a := range arguments(call, s.parameters(f), i) {
				s.assigned[p] = append(s.assigned[p], flow{expr: a})
			}
		}
	}
}

// parameters returns the parameters of a function, including functions of other modules.
func (s *Source) parameters(f any) (all []types.Object) {
	t, ok := s.bodies[f]
	if !ok {
		return nil
	}
	for _, field := range t.Params.List {
		for _, name := range field.Names {
			all = append(all, s.info.Defs[name])
		}
		if len(field.Names) == 0 {
			all = append(all, types.NewParam(token.NoPos, nil, "", nil))
		}
	}
	return all
}

// arguments returns the arguments of a call for the parameter with an index.
func arguments(call *ast.CallExpr, parameters []types.Object, i int) []ast.Expr {
	switch {
	case i >= len(call.Args):
		return nil
	case i == len(parameters)-1: // the last parameter may be variadic
		return call.Args[i:]
	}
	return call.Args[i : i+1]
}

// scope contains the arguments of one call, for the parameters of the function.
type scope map[types.Object][]ast.Expr

// Limits that do not depend on the order in which code is read: the depth to which the parts of a text are
// followed, the number of places that a part may come from, and the number of its different values. Above a
// limit, the part is unknown.
const (
	deepest  = 2
	furthest = 300
	variety  = 8
)

type item struct {
	flow
	in    *scope
	first bool // at the start of a search, calls are followed with their own arguments instead of the arguments of all calls
}

type made struct {
	expr  ast.Expr
	in    *scope
	depth int
}

type seenObject struct {
	o    any
	keys bool
	in   *scope
}

// search follows expressions back to their sources, and calls each for every source. It reports whether it
// found all sources. If most is not 0, it visits at most that many places.
func (s *Source) search(start []item, most int, each func(e ast.Expr, in *scope)) bool {
	seen := map[seenObject]bool{}
	first := func(o any, keys bool, in *scope) bool {
		k := seenObject{o, keys, in}
		was := seen[k]
		seen[k] = true
		return !was
	}
	work := slices.Clone(start)
	push := func(e ast.Expr, keys bool, result int, in *scope) {
		work = append(work, item{flow{e, keys, result}, in, false})
	}
	for len(work) > 0 {
		if most > 0 && len(seen) > most {
			return false
		}
		it := work[len(work)-1]
		work = work[:len(work)-1]
		e := ast.Unparen(it.expr)
		tv := s.info.Types[e]
		if tv.Value != nil || tv.IsNil() {
			if !it.keys && tv.Value != nil {
				each(e, it.in)
			}
			continue
		}
		switch e := e.(type) {
		case *ast.UnaryExpr:
			if e.Op == token.AND {
				push(e.X, it.keys, 0, it.in)
				continue
			}
		case *ast.StarExpr:
			push(e.X, it.keys, 0, it.in)
			continue
		case *ast.SliceExpr:
			if _, text := under(tv.Type).(*types.Basic); !text {
				push(e.X, it.keys, 0, it.in)
				continue
			}
		case *ast.IndexExpr:
			push(e.X, it.keys, 0, it.in)
			continue
		case *ast.CompositeLit:
			switch under(tv.Type).(type) {
			case *types.Map, *types.Slice, *types.Array:
				for _, elt := range e.Elts {
					kv, ok := elt.(*ast.KeyValueExpr)
					_, isMap := under(tv.Type).(*types.Map)
					switch {
					case it.keys && ok && isMap:
						push(kv.Key, false, 0, it.in)
					case it.keys:
					case ok:
						push(kv.Value, false, 0, it.in)
					default:
						push(elt, false, 0, it.in)
					}
				}
				continue
			}
		case *ast.CallExpr:
			if s.info.Types[e.Fun].IsType() {
				push(e.Args[0], it.keys, 0, it.in)
				continue
			}
			if f := s.callee(e); f != nil && f.FullName() == "maps.Keys" {
				push(e.Args[0], true, 0, it.in)
				continue
			}
			if args, ok := s.passes(e); ok {
				for _, a := range args {
					push(a, it.keys, 0, it.in)
				}
				continue
			}
			if s.made(e) {
				break
			}
			if !first(e, it.keys, it.in) {
				continue
			}
			followed := false
			for _, f := range s.functions(e.Fun) {
				t, ok := s.bodies[f]
				if !ok {
					continue
				}
				followed = true
				var in *scope
				if it.first && it.in == nil {
					in = &scope{}
					parameters := s.parameters(f)
					for i, p := range parameters {
						(*in)[p] = arguments(e, parameters, i)
					}
				}
				for _, results := range s.returned[f] {
					switch {
					case it.result < len(results):
						push(results[it.result], it.keys, 0, in)
					case len(results) == 1:
						push(results[0], it.keys, it.result, in)
					}
				}
				for _, name := range named(t, it.result) {
					push(name, it.keys, 0, in)
				}
			}
			if followed {
				continue
			}
		}
		if o := s.object(e); o != nil && s.followed(o) {
			if it.in != nil {
				if args, ok := (*it.in)[o]; ok {
					for _, a := range args {
						push(a, it.keys, 0, nil)
					}
					continue
				}
			}
			if !first(o, it.keys, it.in) {
				continue
			}
			if it.keys {
				for _, k := range s.keys[o] {
					push(k, false, 0, it.in)
				}
			}
			for _, f := range s.assigned[o] {
				if it.keys && f.keys {
					continue
				}
				push(f.expr, it.keys || f.keys, f.result, it.in)
			}
			continue
		}
		if !it.keys {
			each(e, it.in)
		}
	}
	return true
}

// followed reports whether all assignments to an object are known. Assignments to fields of other modules'
// structs are not known.
func (s *Source) followed(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && (!v.IsField() || s.ours(o)) && (v.IsField() || o.Pkg() == nil || s.ours(o))
}

// named returns the result with an index, if the results have names.
func named(t *ast.FuncType, result int) []ast.Expr {
	if t.Results == nil {
		return nil
	}
	for _, field := range t.Results.List {
		for _, name := range field.Names {
			if result == 0 {
				return []ast.Expr{name}
			}
			result--
		}
	}
	return nil
}

// passes returns the arguments of a call whose result is one of the arguments, or consists of their elements.
func (s *Source) passes(call *ast.CallExpr) ([]ast.Expr, bool) {
	if id, ok := ast.Unparen(call.Fun).(*ast.Ident); ok {
		if b, ok := s.info.Uses[id].(*types.Builtin); ok {
			switch b.Name() {
			case "append", "min", "max":
				return call.Args, true
			case "new":
				if !s.info.Types[call.Args[0]].IsType() {
					return call.Args, true
				}
			}
		}
	}
	if f := s.callee(call); f != nil {
		switch f.FullName() {
		case "cmp.Or", "slices.Clone", "slices.Concat", "slices.Compact", "slices.Sorted", "maps.Clone", "maps.Values", "strings.TrimSpace":
			return call.Args, true
		}
	}
	return nil, false
}

// made reports whether a call joins texts.
func (s *Source) made(call *ast.CallExpr) bool {
	f := s.callee(call)
	return f != nil && slices.Contains([]string{"fmt.Sprintf", "path/filepath.Join", "path.Join", "strings.Join"}, f.FullName())
}

// Unknown replaces a part that is known only while the program runs.
const Unknown = "*"

// most is the largest number of texts from one expression. An expression with more texts counts as unknown.
const most = 64

// valuesOf returns the constants that reach the items.
func (s *Source) valuesOf(items []item) []string {
	all := map[string]bool{}
	s.search(items, 0, func(e ast.Expr, in *scope) {
		for _, v := range s.text(e, in, 0) {
			all[v] = true
		}
	})
	return sorted(all)
}

// part returns the possible values of a part of a text.
func (s *Source) part(e ast.Expr, in *scope, depth int) []string {
	all := map[string]bool{}
	ended := depth < deepest && s.search([]item{{flow{expr: e}, in, true}}, furthest, func(e ast.Expr, in *scope) {
		for _, v := range s.text(e, in, depth+1) {
			all[v] = true
		}
	})
	if v := s.info.Types[e].Value; v != nil && v.Kind() == constant.String {
		return []string{constant.StringVal(v)}
	}
	if !ended || len(all) == 0 || len(all) > variety {
		return []string{Unknown}
	}
	return sorted(all)
}

// text returns the possible values of one expression.
func (s *Source) text(e ast.Expr, in *scope, depth int) []string {
	k := made{e, in, depth}
	all, known := s.texts[k]
	if !known {
		all = s.make(e, in, depth)
		s.texts[k] = all
	}
	return all
}

func (s *Source) make(e ast.Expr, in *scope, depth int) []string {
	if v := s.info.Types[e].Value; v != nil {
		if v.Kind() == constant.String {
			return []string{constant.StringVal(v)}
		}
		return []string{v.ExactString()}
	}
	part := func(e ast.Expr) []string { return s.part(e, in, depth) }
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if b, ok := under(s.info.TypeOf(e)).(*types.Basic); ok && b.Info()&types.IsString != 0 {
			return product(part(e.X), part(e.Y))
		}
	case *ast.CallExpr:
		f := s.callee(e)
		if f == nil {
			break
		}
		switch f.FullName() {
		case "path/filepath.Join", "path.Join":
			all := part(e.Args[0])
			for _, a := range e.Args[1:] {
				all = product(all, []string{"/"}, part(a))
			}
			return all
		case "fmt.Sprintf":
			if format := s.info.Types[e.Args[0]].Value; format != nil {
				return sprintf(constant.StringVal(format), e.Args[1:], part)
			}
		}
	}
	return []string{Unknown}
}

// sprintf fills in a format. Verbs with a width are not supported, because no name uses them.
func sprintf(format string, args []ast.Expr, part func(ast.Expr) []string) []string {
	all, next := []string{""}, 0
	for format != "" {
		before, rest, found := strings.Cut(format, "%")
		all = product(all, []string{before})
		if !found {
			break
		}
		var value []string
		switch end := strings.IndexAny(rest, "%sdvqxXobcgtTf"); {
		case end < 0:
			return []string{Unknown}
		case rest[end] == '%':
			value, format = []string{"%"}, rest[end+1:]
		case end == 0 && next < len(args):
			value, format = part(args[next]), rest[1:]
			next++
		default:
			return []string{Unknown}
		}
		all = product(all, value)
	}
	return all
}

// product returns all ways to join one text of each list.
func product(lists ...[]string) []string {
	all := []string{""}
	for _, list := range lists {
		if len(all)*len(list) > most {
			list = []string{Unknown}
		}
		var next []string
		for _, a := range all {
			for _, b := range list {
				next = append(next, strings.ReplaceAll(a+b, "**", "*"))
			}
		}
		all = next
	}
	return all
}

func sorted[V any](set map[string]V) []string {
	all := make([]string, 0, len(set))
	for v := range set {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a), strings.ToLower(b)), cmp.Compare(a, b))
	})
	return all
}
