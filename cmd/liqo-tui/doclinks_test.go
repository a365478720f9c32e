package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// declared are the names of a package: Name, and Type.Member.
type declared map[string]bool

// docLink is the name of something between brackets in a comment: a name, a type and its
// member, or either behind the name of a package.
var docLink = regexp.MustCompile(`(?:^|[\s("])\[([A-Za-z]\w*(?:\.\w+){0,2})\](?:[\s).,:;'"]|$)`)

// TestLinksOfCommentsLeadSomewhere finds names in comments that were moved or renamed.
func TestLinksOfCommentsLeadSomewhere(t *testing.T) {
	root := filepath.Join("..", "..")
	packages := map[string]declared{} // by folder
	files := map[string]*ast.File{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, file)
		if d.IsDir() && (name == "bin" || name == "testdata" || strings.HasPrefix(name, ".git")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") {
			return nil
		}
		tree, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		files[name] = tree
		folder := path.Dir(name)
		if packages[folder] == nil {
			packages[folder] = declared{}
		}
		packages[folder].add(tree)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, tree := range files {
		imported := importedBy(tree)
		for _, group := range tree.Comments {
			for _, m := range docLink.FindAllStringSubmatch(group.Text(), -1) {
				first, rest, qualified := strings.Cut(m[1], ".")
				own := packages[path.Dir(name)]
				folder, known := imported[first]
				if !known && qualified {
					folder = ofName(packages, first)
				}
				switch {
				case own[m[1]], known && !qualified, qualified && first[0] >= 'a' && (folder == "" || packages[folder][rest]):
					seen++
				case first[0] >= 'a' && !qualified: // a word in brackets
				default:
					t.Errorf("%s: [%s] in a comment leads nowhere", name, m[1])
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("got %d links, want all of them", seen)
	}
}

// ofName is the folder of our package of a name, "" if there is none: then it is another
// module's.
func ofName(packages map[string]declared, name string) string {
	for folder := range packages {
		if path.Base(folder) == name {
			return folder
		}
	}
	return ""
}

// importedBy are the packages that a file imports, by name: the folder, or "" if it is
// another module's.
func importedBy(f *ast.File) map[string]string {
	out := map[string]string{}
	for _, i := range f.Imports {
		from, _ := strconv.Unquote(i.Path.Value) // it was parsed
		name := path.Base(from)
		if i.Name != nil {
			name = i.Name.Name
		}
		folder, own := strings.CutPrefix(from, module)
		if !own {
			folder = ""
		}
		out[name] = folder
	}
	return out
}

func (all declared) add(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = base(d.Recv.List[0].Type) + "." + name
			}
			all[name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, n := range s.Names {
						all[n.Name] = true
					}
				case *ast.TypeSpec:
					all[s.Name.Name] = true
					all.members(s)
				}
			}
		}
	}
}

func (all declared) members(s *ast.TypeSpec) {
	var list *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			all[s.Name.Name+"."+n.Name] = true
		}
	}
}

// base is the name of a receiver's type.
func base(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return base(e.X)
	case *ast.IndexExpr:
		return base(e.X)
	case *ast.IndexListExpr:
		return base(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
