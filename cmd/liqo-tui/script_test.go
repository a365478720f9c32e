package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report/reporttest"
)

var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "events": events}

func TestMain(m *testing.M) {
	testscript.Main(allTests{m}, map[string]func(){
		"liqo-tui": traced(main), "kubectl-liqo_tui": traced(main), operatorProgram: operatorMain,
		crashingProgram: traced(func() { go panic("on purpose"); select {} }),
	})
}

const (
	// crashesVariable names the file that the programs of a script crash into. A
	// crash ends with 2, as a usage error does.
	crashesVariable = "CRASHES"
	crashingProgram = "crashes" // with a panic
)

// traced is a program that tells of a crash in any of its goroutines.
func traced(program func()) func() {
	return func() {
		if name := os.Getenv(crashesVariable); name != "" {
			f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				err = debug.SetCrashOutput(f, debug.CrashOptions{})
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(125)
			}
		}
		program()
	}
}

// failOnCrash has a script fail if any of its programs crashes, whatever the script
// expects of it.
func failOnCrash(env *testscript.Env) {
	file := filepath.Join(env.WorkDir, ".crashes")
	env.Setenv(crashesVariable, file)
	env.Defer(func() {
		if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
			env.T().Fatal("a program crashed:\n" + string(text))
		}
	})
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
			failOnCrash(env)
			env.Setenv("KUBECONFIG", env.WorkDir+"/kubeconfig")
			env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
			return nil
		},
		Cmds: scriptCommands,
	})
}

func TestAScriptFailsIfAProgramCrashes(t *testing.T) {
	for name, script := range map[string]string{
		"which is to end with 2":   "exits 2 " + crashingProgram,
		"which is to fail":         "! exec " + crashingProgram,
		"in the background":        "! exec " + crashingProgram + " &\nwait",
		"which a shell starts":     "! exec sh -c " + crashingProgram,
		"before another that ends": "! exec " + crashingProgram + "\nexec liqo-tui version",
	} {
		file := filepath.Join(t.TempDir(), "script.txtar")
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		said := ""
		t.Run(name, func(t *testing.T) {
			testscript.RunT(fails{t, &said}, testscript.Params{Files: []string{file}, Cmds: scriptCommands, Setup: func(env *testscript.Env) error {
				failOnCrash(env)
				return nil
			}})
		})
		if !strings.Contains(said, "panic: on purpose") {
			t.Errorf("a program %s: the script says %q, want the panic", name, said)
		}
	}
}

// fails is a test that says why it fails, and passes.
type fails struct {
	*testing.T
	why *string
}

func (f fails) Parallel()     {}
func (f fails) Verbose() bool { return false }
func (f fails) Fatal(args ...any) {
	*f.why += fmt.Sprint(args...)
	runtime.Goexit()
}
func (f fails) FailNow() { f.Fatal("a command failed\n") }
func (f fails) Run(_ string, script func(testscript.T)) {
	ended := make(chan struct{})
	go func() { // which a failure ends: it would end the test
		defer close(ended)
		script(f)
	}()
	<-ended
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
	lines := reporttest.CheckEvents(ts, ts.ReadFile(args[0]))
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
