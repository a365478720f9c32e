package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// apitest is the package that a test uses if it needs an API server.
const apitest = "github.com/liqo-tui/liqo-tui/internal/apitest"

// test is a test that `go test` runs: Test, Fuzz with its examples, or Example.
type test struct {
	pkg  string // the folder in the repository
	name string
	file string // the path in the repository
	api  bool   // it needs an API server, directly or through a function of its package
}

// testsIn lists the tests of a module's packages, as `go test -list` does, without
// building them.
func testsIn(module string) ([]test, error) {
	cmd := exec.CommandContext(context.Background(), "go", "list", "-json=Dir,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir = module
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = errors.New(strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("list the packages of module %s: %w", module, err)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	var tests []test
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir                       string
			TestGoFiles, XTestGoFiles []string
		}
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return tests, nil
		case err != nil:
			return nil, fmt.Errorf("read the packages of module %s: %w", module, err)
		}
		folder, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return nil, err
		}
		found, err := testsOf(folder, append(p.TestGoFiles, p.XTestGoFiles...))
		if err != nil {
			return nil, err
		}
		tests = append(tests, found...)
	}
}

func testsOf(folder string, files []string) ([]test, error) {
	var tests []test
	uses := map[string][]string{} // function → functions of the package that it names
	needs := map[string]bool{}    // function → whether it calls apitest
	for _, name := range files {
		file := filepath.Join(folder, name)
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		imported := slices.ContainsFunc(syntax.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+apitest+`"` })
		for _, d := range syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					uses[f.Name.Name] = append(uses[f.Name.Name], id.Name)
					needs[f.Name.Name] = needs[f.Name.Name] || imported && id.Name == "apitest"
				}
				return true
			})
			if f.Recv == nil && isTest(f) {
				tests = append(tests, test{pkg: folder, name: f.Name.Name, file: file})
			}
		}
	}
	for i := range tests {
		tests[i].api = reaches(tests[i].name, uses, needs, map[string]bool{})
	}
	return tests, nil
}

func reaches(name string, uses map[string][]string, needs, seen map[string]bool) bool {
	if seen[name] {
		return false
	}
	seen[name] = true
	return needs[name] || slices.ContainsFunc(uses[name], func(next string) bool { return uses[next] != nil && reaches(next, uses, needs, seen) })
}

// isTest reports whether testing runs a function; see "go help testfunc". It does not run
// TestMain as a test, and it only compiles an example without expected output.
func isTest(f *ast.FuncDecl) bool {
	name := f.Name.Name
	for prefix, parameter := range map[string]string{"Test": "T", "Fuzz": "F"} {
		rest, ok := strings.CutPrefix(name, prefix)
		if first, _ := utf8.DecodeRuneInString(rest); !ok || rest != "" && unicode.IsLower(first) || len(f.Type.Params.List) != 1 {
			continue
		}
		star, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
		if !ok {
			continue
		}
		selector, ok := star.X.(*ast.SelectorExpr)
		return ok && selector.Sel.Name == parameter
	}
	return false
}
