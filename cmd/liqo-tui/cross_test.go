package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// The admin's program is for Windows and macOS, too. Compiling all that it is
// made of for these takes minutes on an empty cache; checking the types of our
// code, against the declarations of everybody else's, takes seconds and finds
// what does not exist there.
func TestTypesFitOnOtherSystems(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"windows", "darwin"} {
		t.Run(system, func(t *testing.T) {
			all, err := packages.Load(&packages.Config{
				Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
					packages.NeedTypes | packages.NeedTypesInfo | packages.NeedSyntax | packages.NeedModule,
				Context: t.Context(), Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
				ParseFile: func(fset *token.FileSet, file string, text []byte) (*ast.File, error) {
					f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
					if f != nil && !strings.HasPrefix(file, root+string(filepath.Separator)) {
						withoutBodies(f)
					}
					return f, err
				},
			}, ".")
			if err != nil {
				t.Fatal(err)
			}
			checked := 0
			packages.Visit(all, nil, func(p *packages.Package) {
				if !strings.HasPrefix(p.PkgPath+"/", module) {
					return // without bodies, imports are not used
				}
				checked++
				for _, e := range p.Errors {
					t.Error(e)
				}
			})
			if checked < 5 {
				t.Errorf("got %d packages of ours, which can't be all", checked)
			}
		})
	}
}

func withoutBodies(f *ast.File) {
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			d.Body = nil
		}
	}
}
