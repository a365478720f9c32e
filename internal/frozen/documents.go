package frozen

import (
	"go/ast"
	"go/constant"
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// coders are functions that write or read documents, each with the index of its argument for the document.
var coders = map[string]int{
	"encoding/json.Marshal": 0, "encoding/json.MarshalIndent": 0, "encoding/json.Unmarshal": 1,
	"(*encoding/json.Encoder).Encode": 0, "(*encoding/json.Decoder).Decode": 0,
	"sigs.k8s.io/yaml.Marshal": 0, "sigs.k8s.io/yaml.Unmarshal": 1, "sigs.k8s.io/yaml.UnmarshalStrict": 1,
	"go.yaml.in/yaml/v3.Marshal": 0, "go.yaml.in/yaml/v3.Unmarshal": 1, "(*go.yaml.in/yaml/v3.Decoder).Decode": 0, "(*go.yaml.in/yaml/v3.Encoder).Encode": 0,
	"go.yaml.in/yaml/v2.Marshal": 0, "go.yaml.in/yaml/v2.Unmarshal": 1,
}

// Documents returns the types of all documents that are written or read as JSON or YAML: a paragraph for each
// type, with a line for each path. It finds the types by the arguments of the packages for JSON and YAML, and
// by the tags of fields. Names of types and packages are left out.
func (s *Source) Documents() []string {
	roots, nested := map[*types.Named]bool{}, map[*types.Named]bool{}
	var add func(t types.Type, into map[*types.Named]bool)
	add = func(t types.Type, into map[*types.Named]bool) {
		switch t := types.Unalias(t).(type) {
		case *types.Pointer:
			add(t.Elem(), into)
		case *types.Slice:
			add(t.Elem(), into)
		case *types.Array:
			add(t.Elem(), into)
		case *types.Map:
			add(t.Elem(), into)
		case *types.Named:
			if _, ok := t.Underlying().(*types.Struct); ok && s.ours(t.Obj()) {
				into[t] = true
			}
		}
	}
	var anonymous []*types.Struct
	for _, call := range s.calls {
		f := s.callee(call)
		if f == nil {
			continue
		}
		at, ok := coders[f.FullName()]
		if !ok {
			continue
		}
		s.search([]item{{flow{expr: call.Args[at]}, nil, true}}, 0, func(e ast.Expr, _ *scope) { add(s.info.TypeOf(e), roots) })
		s.typesOf(call.Args[at], map[types.Object]bool{}, func(t types.Type) {
			add(t, roots)
			if p, ok := t.(*types.Pointer); ok {
				t = p.Elem()
			}
			if t, ok := t.(*types.Struct); ok {
				anonymous = append(anonymous, t)
			}
		})
	}
	for _, p := range s.packages {
		for _, o := range p.TypesInfo.Defs {
			if _, ok := o.(*types.TypeName); ok && tagged(o.Type()) {
				add(o.Type(), roots)
			}
		}
	}
	for t := range roots {
		st := t.Underlying().(*types.Struct)
		for f := range st.Fields() {
			add(f.Type(), nested)
		}
	}
	var all []string
	for t := range roots {
		if !nested[t] {
			all = append(all, s.document(t))
		}
	}
	for _, t := range anonymous {
		all = append(all, s.document(t))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// typesOf calls each for the possible types of an expression of an interface type.
func (s *Source) typesOf(e ast.Expr, seen map[types.Object]bool, each func(types.Type)) {
	e = ast.Unparen(e)
	t := s.info.TypeOf(e)
	if t != nil && !types.IsInterface(t) {
		each(t)
		return
	}
	if o := s.object(e); o != nil && !seen[o] {
		seen[o] = true
		for _, f := range s.assigned[o] {
			if f.result == 0 && !f.keys {
				s.typesOf(f.expr, seen, each)
			}
		}
	}
	if call, ok := e.(*ast.CallExpr); ok {
		for _, f := range s.functions(call.Fun) {
			for _, results := range s.returned[f] {
				if len(results) > 0 {
					s.typesOf(results[0], seen, each)
				}
			}
		}
	}
}

func tagged(t types.Type) bool {
	st, ok := t.Underlying().(*types.Struct)
	for i := 0; ok && i < st.NumFields(); i++ {
		if key, _ := tagOf(st.Tag(i)); key != "" {
			return true
		}
	}
	return false
}

// tagOf returns the key and the options in a field's tag.
func tagOf(tag string) (key, options string) {
	for _, format := range []string{"json", "yaml"} {
		if text, ok := reflect.StructTag(tag).Lookup(format); ok {
			key, options, _ = strings.Cut(text, ",")
			if key == "" {
				key = "," // a tag without a key
			}
			return key, options
		}
	}
	return "", ""
}

func (s *Source) document(t types.Type) string {
	lines := s.fields(t, "", nil)
	slices.Sort(lines)
	top := make([]string, len(lines))
	for i, l := range lines {
		top[i] = l[:strings.IndexAny(l, ":.[{")]
	}
	top = slices.Compact(top)
	return "{" + strings.Join(top, ", ") + "}\n  " + strings.Join(lines, "\n  ") + "\n"
}

// fields returns the lines of a struct, in the order of its fields. inside are the
// enclosing structs.
func (s *Source) fields(t types.Type, path string, inside []types.Type) (lines []string) {
	st := under(t).(*types.Struct)
	for i := range st.NumFields() {
		f := st.Field(i)
		key, options := tagOf(st.Tag(i))
		_, isStruct := under(f.Type()).(*types.Struct)
		switch {
		case key == "-" && options == "":
			continue
		case f.Embedded() && isStruct && (key == "" || key == ",") && s.within(f.Type()):
			lines = append(lines, s.fields(f.Type(), path, append(slices.Clone(inside), t))...)
			continue
		case !f.Exported():
			continue
		case key == "" || key == ",":
			key = f.Name()
		}
		at := key
		if path != "" {
			at = path + "." + key
		}
		lines = append(lines, s.value(f.Type(), at, options, append(slices.Clone(inside), t))...)
	}
	return lines
}

// within reports whether a type belongs to the module, or has no name.
func (s *Source) within(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return !ok || s.ours(n.Obj())
}

func (s *Source) value(t types.Type, path, options string, inside []types.Type) []string {
	line := func(what string) []string {
		if options != "" {
			what += " (" + options + ")"
		}
		return []string{path + ": " + what}
	}
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	for _, method := range []string{"MarshalJSON", "MarshalYAML", "MarshalText"} {
		if m, _, _ := types.LookupFieldOrMethod(t, true, nil, method); m != nil {
			if n, ok := t.(*types.Named); ok && s.ours(n.Obj()) {
				return line("as it says itself")
			}
		}
	}
	if !s.within(t) {
		return line(types.TypeString(t, func(p *types.Package) string { return p.Name() }))
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		if slices.ContainsFunc(inside, func(outer types.Type) bool { return types.Identical(outer, t) }) {
			return line("the same again")
		}
		return append(line("object"), s.fields(t, path, inside)...)
	case *types.Slice:
		return s.value(u.Elem(), path+"[]", options, inside)
	case *types.Array:
		return s.value(u.Elem(), path+"[]", options, inside)
	case *types.Map:
		return s.value(u.Elem(), path+"{}", options, inside)
	case *types.Basic:
		if words := s.words(t); len(words) > 0 {
			return line(u.Name() + ": " + strings.Join(words, "|"))
		}
		return line(u.Name())
	case *types.Interface:
		return line("anything")
	}
	return line(t.String())
}

// words returns the constants of a named string type.
func (s *Source) words(t types.Type) []string {
	all := map[string]bool{}
	if b, ok := t.Underlying().(*types.Basic); !ok || b.Kind() != types.String {
		return nil
	}
	if _, ok := t.(*types.Named); !ok {
		return nil
	}
	for _, p := range s.packages {
		for _, o := range p.TypesInfo.Defs {
			if c, ok := o.(*types.Const); ok && types.Identical(c.Type(), t) {
				all[constant.StringVal(c.Val())] = true
			}
		}
	}
	delete(all, "")
	return sorted(all)
}
