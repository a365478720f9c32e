package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// A computed part of a word: a name that only a run knows.
const computed = "\x00"

// advice is a command that the code makes.
type advice struct {
	words    []string
	clusters int    // that it names
	other    bool   // another cluster's admin runs it
	at       string // where in the code
}

// assignment is one to a local variable. always is set if it is in the block of the declaration.
type assignment struct {
	pos    token.Pos
	value  ast.Expr
	always bool
}

type bound struct {
	texts  []string   // of a string: one of these
	list   [][]string // of strings
	advice []advice   // of a command: one of these
}

// catalogue finds the commands in the code that becomes texts: it evaluates what makes them.
type catalogue struct {
	files    *token.FileSet
	info     types.Info
	bodies   map[string]*ast.FuncDecl
	params   map[types.Object]parameter
	assigned map[types.Object][]assignment
	calls    map[string][]*ast.CallExpr
	found    map[string]advice
	unknown  []string
}

type parameter struct {
	function string
	index    int
}

const inCommand = module + "internal/command"

func loadCatalogue(t *testing.T) *catalogue {
	t.Helper()
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax |
			packages.NeedTypesInfo | packages.NeedExportFile,
		Dir: "../..", Context: t.Context(), Env: append(os.Environ(), "CGO_ENABLED=0"),
	}, "./cmd/liqo-tui/...", "./flows/...", "./kube/...", "./tui/...")
	if err != nil {
		t.Fatal(err)
	}
	c := &catalogue{
		files: all[0].Fset, bodies: map[string]*ast.FuncDecl{}, params: map[types.Object]parameter{}, assigned: map[types.Object][]assignment{},
		calls: map[string][]*ast.CallExpr{}, found: map[string]advice{},
		info: types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}},
	}
	for _, p := range all {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
		maps.Copy(c.info.Types, p.TypesInfo.Types)
		maps.Copy(c.info.Uses, p.TypesInfo.Uses)
		maps.Copy(c.info.Defs, p.TypesInfo.Defs)
	}
	for _, p := range all {
		for _, f := range p.Syntax {
			c.read(f)
		}
	}
	for _, p := range all {
		for _, f := range p.Syntax {
			c.collect(f)
		}
	}
	return c
}

// read notes what expressions are made of.
func (c *catalogue) read(f *ast.File) {
	declared := map[types.Object]ast.Node{}
	ast.PreorderStack(f, nil, func(n ast.Node, stack []ast.Node) bool {
		block := func() ast.Node {
			for _, s := range slices.Backward(stack) {
				switch s.(type) {
				case *ast.BlockStmt, *ast.CaseClause:
					return s
				}
			}
			return nil
		}
		switch n := n.(type) {
		case *ast.FuncDecl:
			name := c.info.Defs[n.Name].(*types.Func).FullName()
			c.bodies[name] = n
			i := 0
			for _, field := range n.Type.Params.List {
				for _, p := range field.Names {
					c.params[c.info.Defs[p]] = parameter{name, i}
					declared[c.info.Defs[p]] = n.Body
					i++
				}
			}
		case *ast.CallExpr:
			if f := c.callee(n); f != nil {
				c.calls[f.FullName()] = append(c.calls[f.FullName()], n)
			}
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				name, ok := l.(*ast.Ident)
				if !ok || len(n.Rhs) != len(n.Lhs) {
					continue
				}
				o := cmp.Or(c.info.Defs[name], c.info.Uses[name])
				if c.info.Defs[name] != nil {
					declared[o] = block()
				}
				c.assigned[o] = append(c.assigned[o], assignment{n.Pos(), n.Rhs[i], declared[o] == block()})
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if o := c.info.Defs[name]; len(n.Values) == len(n.Names) {
					declared[o] = block()
					c.assigned[o] = append(c.assigned[o], assignment{n.Pos(), n.Values[i], true})
				}
			}
		}
		return true
	})
}

func (c *catalogue) callee(call *ast.CallExpr) *types.Func {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		fn, _ := c.info.Uses[f].(*types.Func)
		return fn
	case *ast.SelectorExpr:
		fn, _ := c.info.Uses[f.Sel].(*types.Func)
		return fn
	}
	return nil
}

func (c *catalogue) isCommand(e ast.Expr) bool {
	t := c.info.Types[e].Type
	return t != nil && t.String() == inCommand+".Command"
}

// collect evaluates each command that becomes a text or a part of a result.
func (c *catalogue) collect(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "String" || s.Sel.Name == "Args") {
				c.use(s.X)
			}
			signature, _ := c.info.Types[n.Fun].Type.Underlying().(*types.Signature)
			for i, a := range n.Args {
				var to types.Type
				switch {
				case signature == nil:
				case signature.Variadic() && i >= signature.Params().Len()-1:
					to = signature.Params().At(signature.Params().Len() - 1).Type().(*types.Slice).Elem()
				case i < signature.Params().Len():
					to = signature.Params().At(i).Type()
				}
				name, builtin := n.Fun.(*ast.Ident)
				if to != nil && types.IsInterface(to) || builtin && name.Name == "append" && i > 0 {
					c.use(a)
				}
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					e = kv.Value
				}
				c.use(e)
			}
		}
		return true
	})
}

func (c *catalogue) use(e ast.Expr) {
	if !c.isCommand(e) || !c.made(e) {
		return
	}
	p := c.files.Position(e.Pos())
	if strings.HasSuffix(p.Filename, "tui/wizard/scene.go") || strings.HasSuffix(p.Filename, "tui/accessible/accessible.go") {
		return // of a program without options, as in tests
	}
	at := fmt.Sprintf("%s:%d", filepath.Base(filepath.Dir(p.Filename))+"/"+filepath.Base(p.Filename), p.Line)
	all := c.commands(e, nil, 0)
	if len(all) == 0 {
		c.unknown = append(c.unknown, at)
	}
	for _, a := range all {
		a.at = at
		if key := fmt.Sprint(a.words, a.clusters, a.other); c.found[key].at == "" {
			c.found[key] = a
		}
	}
}

// made reports whether an expression makes a command. Others pass on what some other code made.
func (c *catalogue) made(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return c.callee(e) != nil
	case *ast.Ident:
		o := c.info.Uses[e]
		return len(c.assigned[o]) > 0 || c.params[o] != parameter{}
	}
	return false
}

// commands are those that an expression may be; none if that can't be found out.
func (c *catalogue) commands(e ast.Expr, env map[types.Object]bound, depth int) (all []advice) {
	if depth > 12 {
		return nil
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return c.variable(e, env, depth)
	case *ast.CallExpr:
		f := c.callee(e)
		if f == nil {
			return nil
		}
		var before []advice
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && c.isCommand(s.X) {
			if before = c.commands(s.X, env, depth+1); len(before) == 0 {
				return nil
			}
		}
		extend := func(list [][]string) (longer []advice) {
			for _, a := range before {
				for _, words := range combine(list) {
					b := a
					b.words = slices.Concat(a.words, words)
					longer = append(longer, b)
				}
			}
			return longer
		}
		switch f.FullName() {
		case inCommand + ".Ours":
			before = []advice{{words: []string{command.Program}}}
			return extend(c.list(e, 0, env, depth))
		case inCommand + ".Of":
			before = []advice{{}}
			return extend(c.list(e, 0, env, depth))
		case inCommand + ".Kubectl", inCommand + ".Helm":
			before = []advice{{words: []string{strings.ToLower(f.Name())}, clusters: 1}}
			if literal, ok := e.Args[0].(*ast.CompositeLit); ok && len(literal.Elts) == 0 {
				before[0].clusters = 0
			}
			return extend(c.list(e, 1, env, depth))
		case "(" + inCommand + ".Command).On":
			for i := range before {
				before[i].clusters += len(e.Args)
			}
			return before
		case "(" + inCommand + ".Command).Add", "(" + inCommand + ".Command).Flag":
			return extend(c.list(e, 0, env, depth))
		case "(" + inCommand + ".Command).For":
			for i := range before {
				before[i].other = true
			}
			return before
		}
		body := c.bodies[f.FullName()]
		if body == nil {
			return nil
		}
		within := c.bind(body, e, env, depth)
		ast.Inspect(body.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ReturnStmt:
				all = append(all, c.commands(n.Results[0], within, depth+1)...)
			}
			return true
		})
	}
	return all
}

// variable follows the assignments to a local variable in their order, and those to a parameter by all calls.
func (c *catalogue) variable(e *ast.Ident, env map[types.Object]bound, depth int) (all []advice) {
	o := c.info.Uses[e]
	if b, ok := env[o]; ok {
		all = b.advice
	} else if p, ok := c.params[o]; ok {
		for _, call := range c.calls[p.function] {
			if p.index < len(call.Args) {
				all = append(all, c.commands(call.Args[p.index], nil, depth+1)...)
			}
		}
	}
	for _, a := range c.assigned[o] {
		if a.pos >= e.Pos() {
			break
		}
		within := maps.Clone(env)
		if within == nil {
			within = map[types.Object]bound{}
		}
		within[o] = bound{advice: all}
		if c.uses(a.value, o) { // it becomes longer
			saved := c.assigned[o]
			c.assigned[o] = nil
			longer := c.commands(a.value, within, depth+1)
			c.assigned[o] = saved
			if all = slices.Concat(all, longer); a.always {
				all = longer
			}
			continue
		}
		next := c.commands(a.value, env, depth+1)
		if all = slices.Concat(all, next); a.always {
			all = next
		}
	}
	return all
}

func (c *catalogue) uses(e ast.Expr, o types.Object) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		found = found || ok && c.info.Uses[name] == o
		return !found
	})
	return found
}

func (c *catalogue) bind(f *ast.FuncDecl, call *ast.CallExpr, env map[types.Object]bound, depth int) map[types.Object]bound {
	within, i := map[types.Object]bound{}, 0
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && f.Recv != nil && len(f.Recv.List[0].Names) > 0 {
		within[c.info.Defs[f.Recv.List[0].Names[0]]] = bound{texts: c.texts(s.X, env, depth+1)}
	}
	for _, field := range f.Type.Params.List {
		for _, p := range field.Names {
			o := c.info.Defs[p]
			_, variadic := field.Type.(*ast.Ellipsis)
			switch {
			case variadic:
				within[o] = bound{list: c.list(call, i, env, depth)}
			case i < len(call.Args) && c.isCommand(call.Args[i]):
				within[o] = bound{advice: c.commands(call.Args[i], env, depth+1)}
			case i < len(call.Args):
				within[o] = bound{texts: c.texts(call.Args[i], env, depth)}
			}
			i++
		}
	}
	return within
}

// list has the words of a call's arguments from one on.
func (c *catalogue) list(call *ast.CallExpr, from int, env map[types.Object]bound, depth int) (list [][]string) {
	for i := from; i < len(call.Args); i++ {
		if call.Ellipsis == token.NoPos || i < len(call.Args)-1 {
			list = append(list, c.texts(call.Args[i], env, depth))
			continue
		}
		name, ok := call.Args[i].(*ast.Ident)
		if ok && c.params[c.info.Uses[name]] != (parameter{}) { // none, where the call is not known
			list = append(list, env[c.info.Uses[name]].list...)
			continue
		}
		if _, call := call.Args[i].(*ast.CallExpr); !call { // what a function returns may be nothing
			list = append(list, []string{computed})
		}
	}
	return list
}

// texts are the words that an expression may be.
func (c *catalogue) texts(e ast.Expr, env map[types.Object]bound, depth int) []string {
	if v := c.info.Types[e].Value; v != nil && v.Kind() == constant.String {
		return []string{constant.StringVal(v)}
	}
	if depth > 12 {
		return []string{computed}
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.BinaryExpr:
		var all []string
		for _, words := range combine([][]string{c.texts(e.X, env, depth+1), c.texts(e.Y, env, depth+1)}) {
			all = append(all, strings.Join(words, ""))
		}
		return all
	case *ast.IndexExpr:
		if literal, ok := e.X.(*ast.CompositeLit); ok {
			var all []string
			for _, element := range literal.Elts {
				if kv, ok := element.(*ast.KeyValueExpr); ok {
					element = kv.Value
				}
				all = append(all, c.texts(element, env, depth+1)...)
			}
			return all
		}
	case *ast.CallExpr:
		if c.info.Types[e.Fun].IsType() && len(e.Args) == 1 {
			return c.texts(e.Args[0], env, depth+1)
		}
		f := c.callee(e)
		if f == nil {
			break
		}
		if f.FullName() == "strings.ToLower" {
			all := slices.Clone(c.texts(e.Args[0], env, depth+1))
			for i := range all {
				all[i] = strings.ToLower(all[i])
			}
			return all
		}
		if body := c.bodies[f.FullName()]; body != nil {
			var all []string
			within := c.bind(body, e, env, depth)
			ast.Inspect(body.Body, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok {
					all = append(all, c.texts(r.Results[0], within, depth+3)...)
				}
				return true
			})
			return all
		}
	case *ast.Ident:
		o := c.info.Uses[e]
		if b, ok := env[o]; ok && b.texts != nil {
			return b.texts
		}
		var all []string
		for _, a := range c.assigned[o] {
			all = append(all, c.texts(a.value, nil, depth+4)...)
		}
		p, is := c.params[o]
		for _, call := range c.calls[p.function] {
			if is && p.index < len(call.Args) {
				all = append(all, c.texts(call.Args[p.index], nil, depth+4)...)
			}
		}
		if len(all) > 0 {
			slices.Sort(all)
			return slices.Compact(all)
		}
	}
	return []string{computed}
}

// combine takes one of each.
func combine(list [][]string) [][]string {
	all := [][]string{nil}
	for _, alternatives := range list {
		var longer [][]string
		for _, words := range all {
			for _, a := range alternatives {
				longer = append(longer, append(slices.Clone(words), a))
			}
		}
		all = longer
	}
	return all
}

// What an admin puts in the place of a word, and runs compute.
var (
	chosen = map[string]string{
		"ADDRESS": "198.51.100.7", "CIDR": "10.244.0.0/16", "CONTEXT": "c d", "FILE": "my file", "IMAGE": "example.org/gateway:v1",
		"NAME": "web", "PEER": "milan", "URL": "https://198.51.100.7:6443", "NODE": "node-1",
		"RANGE": "10.9.0.0/16", "CLUSTER_ID": "milan", "HOST:PORT": "relay.example.org:51840", "PORT": "51840", "cpu=AMOUNT": "cpu=8",
		"NAMESPACE": "shop", "NAMESPACE/NAME": "shop/web",
	}
	values = map[string]string{
		"--service-cidr": "10.96.0.0/16", "--external-cidr": "10.9.0.0/16", "--mtu": "1340", "--remote-kubeconfig": "my config",
		"explain": "LT-D020", "create": "gatewayserver", "network": "verify", "join": "my file", "accept": "my file", "-f": "my file", "unexport": "shop/web",
		"--allow": "all", "--remote-allow": "all", "--addresses": "198.51.100.7", "--port": "51840", "--pod-cidr": "10.244.0.0/16,10.245.0.0/16", "--image": "example.org/gateway:v1",
	}
)

func (a advice) filled() []string {
	words := slices.Clone(a.words)
	for i, w := range words {
		flag := words[max(0, i-1)]
		if strings.Contains(w, computed) {
			words[i] = cmp.Or(values[flag], strings.ReplaceAll(w, computed, "milan"))
		} else if c := chosen[w]; c != "" {
			words[i] = c
		}
	}
	return words
}

// Every command that the program advises runs as it is pasted, with names that the shell would split:
// it reaches the clusters that it names, and no others.
func TestAdviceCanBePasted(t *testing.T) {
	c := loadCatalogue(t)
	if len(c.found) < 120 {
		t.Errorf("got %d commands, which can't be all", len(c.found))
	}
	for _, at := range c.unknown {
		t.Errorf("%s: the test can't find out which command that is", at)
	}
	t.Chdir(t.TempDir())
	var requests [2]atomic.Int32
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a b\nusers: [{name: ada, user: {token: t}}]\n"
	clusters, contexts := "clusters:\n", "contexts:\n"
	for i, context := range []string{"a b", "c d"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests[i].Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		}))
		t.Cleanup(server.Close)
		clusters += fmt.Sprintf("- {name: c%d, cluster: {server: %q}}\n", i, server.URL)
		contexts += fmt.Sprintf("- {name: %q, context: {cluster: c%d, user: ada}}\n", context, i)
	}
	for name, text := range map[string]string{"my config": text + clusters + contexts, "my file": ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "my config")
	var lines []string
	all := slices.SortedFunc(maps.Values(c.found), func(a, b advice) int { return cmp.Compare(a.at, b.at) })
	var commands []command.Command
	for _, a := range all {
		on := []command.Cluster{{Kubeconfigs: []string{"my config"}, Context: "a b"}, {Kubeconfigs: []string{"my config"}, Context: "c d"}}
		words := a.filled()
		var run command.Command
		switch {
		case a.clusters > 0 && words[0] == "kubectl":
			run = command.Kubectl(on[0], words[1:]...)
		case a.clusters > 0 && words[0] == "helm":
			run = command.Helm(on[0], words[1:]...)
		default:
			run = command.Of(words[0], words[1:]...).On(on[:min(a.clusters, 2)]...)
			if a.other {
				run = run.Flag("--context", "c d")
			}
		}
		commands, lines = append(commands, run), append(lines, "argv "+run.String())
	}
	split, err := exec.CommandContext(t.Context(), "sh", "-c", "argv() { printf '%s\\001' \"$@\"; echo; }\n"+strings.Join(lines, "\n")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(split)), "\n") {
		a, args := all[i], strings.Split(strings.TrimSuffix(line, "\x01"), "\x01")
		if !slices.Equal(args, commands[i].Args()) {
			t.Errorf("%s: a shell makes %q of %s", a.at, args, commands[i])
		}
		if args[0] != command.Program {
			if a.clusters == 0 && args[1] != "config" && (args[0] == "kubectl" || args[0] == "helm") && !a.other {
				t.Errorf("%s: %s names no cluster", a.at, commands[i])
			}
			continue
		}
		if len(a.words) == 2 && a.words[1] == computed {
			continue // a list of words, such as the command line of this run
		}
		for side := range requests {
			requests[side].Store(0)
		}
		var out, errs bytes.Buffer
		code := run(args[1:], strings.NewReader(""), &out, &errs)
		if code == exit.Usage && strings.HasPrefix(errs.String(), "error: my file: ") {
			continue // of which only a run has the content
		}
		if code == exit.Usage || code == exit.Unexpected {
			t.Errorf("%s: %s:\nexit code %d: %s", a.at, commands[i], code, strings.TrimSpace(errs.String()))
			continue
		}
		want := [2]bool{a.clusters > 0 || slices.Contains(args, "my config"), a.clusters > 1 || a.other || slices.Contains(args, "c d")}
		if got := [2]bool{requests[0].Load() > 0, requests[1].Load() > 0}; got != want {
			t.Errorf("%s: %s: got requests to the clusters %v, want %v; exit code %d: %s", a.at, commands[i], got, want, code, errs.String())
		}
	}
}
