package flows_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// An ability that all programs have, or none, is no reason for a condition.
func TestEveryAbilityDistinguishesPrograms(t *testing.T) {
	lends := flows.OperatorFacts{Peering: render.PeeringBoth}
	var all []reflect.Value
	for _, c := range []flows.ClusterFacts{{}, {Software: flows.Operator, Operator: lends}, {Software: flows.Liqo}} {
		all = append(all, reflect.ValueOf(c.Can()))
	}
	for i := range all[0].NumField() {
		have := slices.DeleteFunc(slices.Clone(all), func(can reflect.Value) bool { return !can.Field(i).Bool() })
		if len(have) == 0 || len(have) == len(all) {
			t.Errorf("%s: %d of %d have it", all[0].Type().Field(i).Name, len(have), len(all))
		}
	}
}

func TestOurOperatorLendsAsItWasTold(t *testing.T) {
	for role, want := range map[render.PeeringRole][2]bool{
		"": {}, render.PeeringConsumer: {true, false}, render.PeeringProvider: {false, true}, render.PeeringBoth: {true, true},
	} {
		can := flows.ClusterFacts{Software: flows.Operator, Operator: flows.OperatorFacts{Peering: role}}.Can()
		if got := [2]bool{can.Consume, can.Provide}; got != want {
			t.Errorf("%q: consumes and provides: got %v, want %v", role, got, want)
		}
	}
}

// aboutPrograms are the functions that may compare a cluster's Software, with the reason. A call
// of the method runsOurs in flows/peer counts as a comparison.
var aboutPrograms = map[string]string{
	"flows/abilities.go Can":                  "fills the abilities",
	"flows/agents.go agents":                  "installation",
	"flows/check/preflight.go software":       "versions of a pair of the same programs",
	"flows/collect/collect.go Add":            "Liqo outranks ours",
	"flows/collect/collect.go elsewhere":      "Liqo outranks ours",
	"flows/definitions.go DefinitionFix":      "advice names our installation",
	"flows/facts.go self":                     "whether one is installed at all",
	"flows/fitness.go InstalledElsewhere":     "name of the program",
	"flows/fitness.go ObstaclesOf":            "advice names our installation",
	"flows/install/install.go Bring":          "installation",
	"flows/install/install.go Plan":           "installation",
	"flows/install/install.go operatorWorks":  "installation",
	"flows/peer/fit.go missing":               "kinds that the program's installation brings",
	"flows/peer/fit.go runsOurs":              "names and advice, for the functions below",
	"flows/peer/fit.go obstacles":             "advice names the installation",
	"flows/peer/fit.go unfitKey":              "name of the program",
	"flows/peer/handshake.go makeAccess":      "advice names the installation",
	"flows/peer/handshake.go makeReachable":   "advice names the installation",
	"flows/peer/handshake.go nonceMade":       "advice names Liqo's Helm values",
	"flows/peer/inband.go proxy":              "advice names the installation",
	"flows/peer/offload.go offload":           "name of the program",
	"flows/peer/offload.go consumerObstacles": "advice names the installation",
	"flows/peer/peering.go program":           "name of the program",
	"flows/peer/peering.go readLog":           "name of the Deployment",
	"flows/peer/slice.go denial":              "advice names our installation",
	"flows/peer/slice.go makeGranted":         "advice names the program's log",
	"flows/peer/slice.go pending":             "text names Liqo's program",
}

// A condition asks for an ability: then it says why programs differ. flows/simulated stands for the
// programs themselves.
func TestConditionsAskForAbilities(t *testing.T) {
	unused := map[string]bool{}
	for name := range aboutPrograms {
		unused[name] = true
	}
	for _, root := range []string{"flows", "kube", "cmd", "tui", "render"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, _ fs.DirEntry, err error) error {
			name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "flows/simulated/") {
				return err
			}
			files := token.NewFileSet()
			tree, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range tree.Decls {
				function := ""
				if f, ok := d.(*ast.FuncDecl); ok {
					function = f.Name.Name
				}
				ast.Inspect(d, func(n ast.Node) bool {
					if !comparesSoftware(n) {
						return true
					}
					place := name + " " + function
					if aboutPrograms[place] == "" {
						t.Errorf("%s: %s asks which program is installed: ask for an ability (flows/abilities.go)", files.Position(n.Pos()), function)
					}
					delete(unused, place)
					return true
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for place := range unused {
		t.Errorf("%s compares no Software any more: take it off the list", place)
	}
}

func comparesSoftware(n ast.Node) bool {
	is := func(e ast.Expr, name string) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && s.Sel.Name == name
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return is(n.X, "Software") || is(n.Y, "Software")
	case *ast.SwitchStmt:
		return is(n.Tag, "Software")
	case *ast.IndexExpr:
		return is(n.Index, "Software")
	case *ast.CallExpr:
		return is(n.Fun, "runsOurs")
	}
	return false
}
