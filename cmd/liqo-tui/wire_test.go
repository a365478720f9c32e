package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/frozen"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
	"github.com/liqo-tui/liqo-tui/tui/keys"
)

// Scripts, configuration files and habits rely on these.
func TestCommandsOfTheAdminsProgramStay(t *testing.T) {
	root, closeLog := rootCommand(streams{out: &bytes.Buffer{}, settings: &config.Screens{}})
	defer closeLog()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	frozen.Compare(t, "liqo-tui.txt",
		frozen.Section{Title: "Commands and flags of liqo-tui", Lines: frozen.Commands(root)},
		frozen.Section{Title: "Environment variables that flags and the configuration file have", Lines: environment(t, root)},
		frozen.Section{Title: "Commands of the terminal program in the configuration file, and their keys", Lines: boundKeys()},
		frozen.Section{Title: "Exit codes and the codes of errors", Lines: exitCodes()},
		frozen.Section{Title: "Codes that can be explained", Lines: codes()},
		frozen.Section{Title: "Schema of -o ndjson", Lines: schemaLines(t, []byte(report.EventsSchema))},
		frozen.Section{Title: "Schema of the file of network connect -f", Lines: schemaLines(t, peeringsText(t))},
	)
}

// environment are the variables that commands ask for before they run.
func environment(t *testing.T, root *cobra.Command) []string {
	t.Helper()
	asked, dir := map[string]bool{}, t.TempDir()
	env := func(name string) string {
		asked[name] = true
		if name == "XDG_CONFIG_HOME" {
			return dir
		}
		return ""
	}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if _, err := config.Apply(c, env); err != nil {
			t.Error(err)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	return slices.Sorted(maps.Keys(asked))
}

func boundKeys() (lines []string) {
	for _, n := range keys.Names() {
		lines = append(lines, n.Command+": "+strings.Join(n.Keys, ", "))
	}
	return lines
}

func exitCodes() (lines []string) {
	cause := errors.New("a cause")
	failed := func(kind flows.FailureKind) error { return &flows.StepError{Step: flows.Step{Kind: kind}} }
	for _, of := range []struct {
		what string
		err  error
	}{
		{"anything else", cause},
		{"a command line that can't be run", exit.UsageError{Err: cause}},
		{"no such context", &kubeconfig.ContextError{}},
		{"a kubeconfig that can't be read", &kubeconfig.Error{}},
		{"a step failed: usage", failed(flows.FailedUsage)},
		{"a step failed: not fit", failed(flows.FailedPreflight)},
		{"a step failed: unreachable", failed(flows.FailedUnreachable)},
		{"a step failed: access", failed(flows.FailedAccess)},
		{"a step failed: conflict", failed(flows.FailedConflict)},
		{"a step failed: apply", failed(flows.FailedApply)},
		{"a step failed: timeout", failed(flows.FailedTimeout)},
		{"a step failed: packets", failed(flows.FailedVerify)},
		{"another owner's fields", &flows.ConflictError{Cause: cause}},
		{"another program's object", &flows.ForeignError{}},
		{"a cluster does not answer", &flows.Problem{Kind: flows.Unreachable}},
		{"a cluster denies access", &flows.Problem{Kind: flows.Unreachable + 1}},
		{"a wait ended", &kube.WaitError{Cause: cause}},
		{"a deadline", context.DeadlineExceeded},
		{"declined", engine.Declined(false)},
		{"interrupted", exit.Interrupted{Signal: syscall.SIGINT}},
		{"terminated", exit.Interrupted{Signal: syscall.SIGTERM}},
		{"changes are pending", exit.Verdict(exit.Pending)},
		{"not healthy", exit.Verdict(exit.Unhealthy)},
	} {
		lines = append(lines, fmt.Sprintf("%s: %d %s", of.what, exit.Code(of.err), exit.Reason(of.err)))
	}
	return lines
}

func codes() (lines []string) {
	for _, id := range check.All() {
		lines = append(lines, string(id))
	}
	return lines
}

func peeringsText(t *testing.T) []byte {
	t.Helper()
	text, err := json.Marshal(peeringsSchema())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// schemaLines are the parts of a schema that say what fits, one a line.
func schemaLines(t *testing.T, text []byte) (lines []string) {
	t.Helper()
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if _, said := v[key].(string); said && (key == "description" || key == "title" || key == "$comment") {
					continue // for people
				}
				visit(path+"/"+key, v[key])
			}
		case []any:
			for _, item := range v {
				visit(path+"[]", item)
			}
		default:
			lines = append(lines, fmt.Sprintf("%s: %v", path, v))
		}
	}
	visit("", schema)
	return lines
}
