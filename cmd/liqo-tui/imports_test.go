package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/liqo-tui/liqo-tui/"

// The rules are the table "Import rules" of ARCHITECTURE.md, so that text and
// test can't differ.
func TestImportsPointOneWay(t *testing.T) {
	document, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	graph := importGraph(t)
	rules, err := parseImportRules(string(document), func(pkg string) bool { return graph[pkg].standard })
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range graph {
		if strings.HasPrefix(pkg, module) && rules.folderOf(pkg) == "" {
			t.Errorf("%s has no row in the table", strings.TrimPrefix(pkg, module))
		}
	}
	for folder, forbidden := range rules {
		t.Run(folder, func(t *testing.T) {
			found := false
			for pkg := range graph {
				if strings.HasPrefix(pkg, module) && rules.folderOf(pkg) == folder {
					found = true
					for _, f := range forbidden {
						f.check(t, graph, pkg)
					}
				}
			}
			if !found {
				t.Errorf("no package is in folder %s", folder)
			}
			for _, f := range forbidden {
				if f.what != everything && !slices.ContainsFunc(slices.Collect(maps.Keys(graph)), f.is) {
					t.Errorf("%s: nothing that the project imports is %s", folder, f.what)
				}
			}
		})
	}
}

func TestReadingImportRules(t *testing.T) {
	const table = "## Import rules\n\n| folder | may not import |\n|---|---|\n| `a` | screen, `b` except `b/c` |\n\n" +
		"| name | packages |\n|---|---|\n| screen | `charm.land`, `example.com/x` |\n\n## Next\n| `z` | `y` |\n"
	never := func(string) bool { return false }
	rules, err := parseImportRules(table, never)
	if err != nil {
		t.Fatal(err)
	}
	want := "map[a:[{charm.land []} {example.com/x []} {github.com/liqo-tui/liqo-tui/b [github.com/liqo-tui/liqo-tui/b/c]}]]"
	if got := fmt.Sprint(rules); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, wrong := range []string{strings.Replace(table, "| screen, `b`", "| screens, `b`", 1), "## Import rules\n"} {
		if _, err := parseImportRules(wrong, never); err == nil {
			t.Errorf("no error of %q", wrong)
		}
	}
}

const (
	everything = "everything"
	standard   = "the standard library"
)

// ban is what a folder may not import.
type ban struct {
	what   string   // a package and what is below it, or everything
	except []string // packages, or the standard library
}

func (b ban) is(dep string) bool {
	return (b.what == everything || within(dep, b.what)) && !slices.ContainsFunc(b.except, func(e string) bool { return within(dep, e) })
}

// check fails for what pkg imports itself, and for what comes in through others.
// Of the standard library only the former counts: the latter is all of it.
func (b ban) check(t *testing.T, graph imports, pkg string) {
	reached := map[string]bool{}
	graph.reach(reached, pkg)
	allowed := map[string]bool{}
	if b.what == everything {
		for dep := range reached {
			if slices.ContainsFunc(b.except, func(e string) bool { return within(dep, e) }) {
				graph.reach(allowed, dep) // an allowed package brings its own
			}
		}
	}
	for dep := range reached {
		isStandard := graph[dep].standard
		switch {
		case dep == pkg || !b.is(dep) || allowed[dep]:
		case isStandard && (slices.Contains(b.except, standard) || !slices.Contains(graph[pkg].imports, dep)):
		default:
			t.Errorf("%s must not import %s, directly or through others", strings.TrimPrefix(pkg, module), strings.TrimPrefix(dep, module))
		}
	}
}

type importRules map[string][]ban

// folderOf is the row that holds for a package: that of its folder, or of the
// nearest one above it.
func (r importRules) folderOf(pkg string) string {
	best := ""
	for folder := range r {
		if within(pkg, module+folder) && len(folder) > len(best) {
			best = folder
		}
	}
	return best
}

// parseImportRules reads both tables of the section: what a folder may not
// import, and what the names in it stand for.
func parseImportRules(document string, isStandard func(pkg string) bool) (importRules, error) {
	_, section, _ := strings.Cut(document, "## Import rules\n")
	section, _, _ = strings.Cut(section, "\n## ")
	cells, names := map[string]string{}, map[string][]ban{}
	for line := range strings.Lines(section) {
		columns := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(columns) != 2 {
			continue
		}
		first, second := strings.TrimSpace(columns[0]), strings.TrimSpace(columns[1])
		if folder, ok := quoted(first); ok {
			cells[folder] = second
		} else if strings.HasPrefix(second, "`") {
			bans, err := parseBans(second, nil, isStandard)
			if err != nil {
				return nil, err
			}
			names[first] = bans
		}
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("no table of import rules")
	}
	rules := importRules{}
	for folder, cell := range cells {
		bans, err := parseBans(cell, names, isStandard)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", folder, err)
		}
		rules[folder] = bans
	}
	return rules, nil
}

// parseBans reads "screen, `b` except `b/c` and `b/d`".
func parseBans(cell string, names map[string][]ban, isStandard func(pkg string) bool) ([]ban, error) {
	path := func(pkg string) string { // a folder of this project has no dot in its first element
		if first, _, _ := strings.Cut(pkg, "/"); strings.Contains(first, ".") || isStandard(pkg) {
			return pkg
		}
		return module + pkg
	}
	var bans []ban
	for item := range strings.SplitSeq(cell, ", ") {
		what, except, _ := strings.Cut(item, " except ")
		if named := names[what]; named != nil && except == "" {
			bans = append(bans, named...)
			continue
		}
		b := ban{what: what}
		if pkg, ok := quoted(what); ok {
			b.what = path(pkg)
		} else if what != everything {
			return nil, fmt.Errorf("nothing says what %q stands for", what)
		}
		for e := range strings.SplitSeq(except, " and ") {
			if pkg, ok := quoted(e); ok {
				b.except = append(b.except, path(pkg))
			} else if e == standard {
				b.except = append(b.except, e)
			} else if e != "" {
				return nil, fmt.Errorf("nothing says what %q stands for", e)
			}
		}
		bans = append(bans, b)
	}
	return bans, nil
}

func quoted(s string) (inner string, ok bool) {
	if len(s) > 2 && s[0] == '`' && s[len(s)-1] == '`' {
		return s[1 : len(s)-1], true
	}
	return "", false
}

// within reports whether package dep is f or below it.
func within(dep, f string) bool { return dep == f || strings.HasPrefix(dep, f+"/") }

type listed struct {
	standard bool
	imports  []string
}

type imports map[string]listed

// importGraph is what this project's packages import, without their tests, and
// what that imports.
func importGraph(t *testing.T) imports {
	const format = `{{.ImportPath}} {{.Standard}}{{range .Imports}} {{.}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, module+"...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as the project is built
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list what the project imports: %v", err)
	}
	graph := imports{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		graph[fields[0]] = listed{fields[1] == "true", fields[2:]}
	}
	return graph
}

// reach adds pkg and all that it imports, through any number of others.
func (g imports) reach(reached map[string]bool, pkg string) {
	if reached[pkg] {
		return
	}
	reached[pkg] = true
	for _, dep := range g[pkg].imports {
		g.reach(reached, dep)
	}
}
