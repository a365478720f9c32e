package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"liqo-tui": main})
}

// TestScripts runs testdata/script: the command line as a manual shows it.
// `exits N COMMAND` expects that exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", env.WorkDir+"/kubeconfig")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	ts.Check(os.WriteFile(ts.MkAbs("run.sh"), []byte("\"$@\" 2>err\necho $?\n"), 0o600))
	ts.Check(ts.Exec("sh", append([]string{ts.MkAbs("run.sh")}, args[1:]...)...))
	if got := ts.ReadFile("stdout"); !hasLastLine(got, args[0]) {
		ts.Fatalf("%v: got output and exit code %q, want exit code %s; stderr:\n%s", args[1:], got, args[0], ts.ReadFile("err"))
	}
}

func hasLastLine(text, want string) bool {
	return len(text) >= len(want)+1 && text[len(text)-len(want)-1:] == want+"\n"
}
