package command_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// texts are files that explain or name commands. Nobody pastes these commands.
var texts = map[string]string{
	"flows/check/explain.go":               "explains codes, of any cluster",
	"flows/check/explainrun.go":            "explains codes, of any cluster",
	"flows/check/lending.go":               "explains codes, of any cluster",
	"flows/install/settings.go":            "help of flags",
	"flows/byhand/settings.go":             "help of flags",
	"flows/peerfile/peerfile.go":           "names the command that reads the file",
	"tui/keys/rebind.go":                   "an error of the configuration, of no cluster",
	"flows/byhand/words.go":                "help of commands",
	"gateway/operator/health.go":           "help of a metric",
	"gateway/operator/consumer/serving.go": "names what does not work",
	"flows/names/corefile.go":              "a comment in a Corefile",
}

var pasted = regexp.MustCompile(`(^|[^a-z-])(liqo-tui (install|uninstall|network|peer|unpeer|check|info|rbac|offload|unoffload|create|generate|delete|address|discover|explain|bundle|service)|` +
	`kubectl (get|describe|logs|delete|annotate|label|apply|edit|create|rollout|uncordon))\b`)

// A command in a plain string names no kubeconfig, and its words are not quoted. The programs in the clusters
// know no context. They report a reason, and the admin's program makes a command from it.
func TestCommandsAreValues(t *testing.T) {
	for _, root := range []string{"flows", "tui", "gateway", "cmd/liqo-gateway", "internal/wire", "internal/offload", "render"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, d fs.DirEntry, err error) error {
			name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("../..")+string(filepath.Separator)))
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || texts[name] != "" {
				return err
			}
			files := token.NewFileSet()
			tree, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && pasted.MatchString(s.Value) {
					t.Errorf("%s:%d: %s: make the command by internal/command", name, files.Position(s.Pos()).Line, s.Value)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
