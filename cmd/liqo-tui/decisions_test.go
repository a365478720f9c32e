package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What an admin left open is decided by connect.Goal alone, so command, wizard and
// accessible wizard decide the same.
func TestFrontEndsDecideNoSetting(t *testing.T) {
	decisions := []string{"Adopt", "Suggest", "SuggestServer", "SuggestServiceType", "Undecided"}
	files := 0
	for _, root := range []string{".", "../../tui"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok || !slices.Contains(decisions, s.Sel.Name) {
					return true
				}
				if of, ok := s.X.(*ast.Ident); s.Sel.Name == "Undecided" || ok && of.Name == "flows" {
					t.Errorf("%s: %s is called here; connect.Goal decides", path, s.Sel.Name)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}
