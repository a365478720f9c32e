package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "events": events}

func TestMain(m *testing.M) {
	testscript.Main(allTests{m}, map[string]func(){"liqo-tui": main, "kubectl-liqo_tui": main, operatorProgram: operatorMain})
}

// allTests end what they share when all have run.
type allTests struct{ *testing.M }

func (m allTests) Run() int {
	code := m.M.Run()
	if err := endStages(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// TestScripts runs testdata/script: the command line as a manual shows it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", env.WorkDir+"/kubeconfig")
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			return nil
		},
		Cmds: scriptCommands,
	})
}

// exits runs a command that ends with CODE. What it writes is there for the
// commands stdout and stderr.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	got := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if want := args[0]; strconv.Itoa(got) != want {
		ts.Fatalf("got exit code %d, want %s", got, want)
	}
}

// events holds a file, or stdout, against the schema of NDJSON. Its arguments
// are TYPE or TYPE:FIELD=VALUE of lines that have to be there, in this order.
func events(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: events FILE [TYPE[:FIELD=VALUE]...]")
	}
	lines := checkEvents(ts, ts.ReadFile(args[0]))
	for _, want := range args[1:] {
		i := slices.IndexFunc(lines, func(l map[string]any) bool { return isEvent(l, want) })
		if i < 0 {
			ts.Fatalf("no line %s where it belongs in:\n%s", want, ts.ReadFile(args[0]))
		}
		lines = lines[i+1:]
	}
}

func isEvent(l map[string]any, want string) bool {
	kind, condition, _ := strings.Cut(want, ":")
	field, value, _ := strings.Cut(condition, "=")
	return l["type"] == kind && (condition == "" || fmt.Sprint(l[field]) == value)
}
