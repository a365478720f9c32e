package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/terminaltest"
)

// testQuestions answers on a terminal what connect asks there: it shows the plan
// and the diff first, and a no changes nothing.
func (s *stage) testQuestions(t *testing.T) {
	program, err := exec.LookPath("liqo-tui") // the test binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	config := t.TempDir()
	connect := func(t *testing.T) *terminaltest.Terminal {
		return terminaltest.Open(t, 120, 200, []string{"CI=", "KUBECONFIG=" + s.kubeconfig, "XDG_CONFIG_HOME=" + config}, program,
			"network", "connect", "--context", "rome", "--remote-context", "milan", "--server-service-type", "NodePort", "--timeout", "30s")
	}
	if err := s.reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []string{"n", "", "yesterday"} {
		term := connect(t)
		term.Wait(time.Minute, "milan: create GatewayServer rome", "+  mtu: 9000", "Apply these changes? [y/N]")
		if answer != "" {
			term.Press(answer)
		}
		term.Press("Enter")
		if got := term.Exit(30 * time.Second); got != "130" {
			t.Errorf("answer %q: got exit code %s, want 130", answer, got)
		}
		term.Wait(10*time.Second, "declined, nothing was changed")
	}
	term := connect(t)
	term.Wait(time.Minute, "Apply these changes? [y/N]")
	term.Press("C-c")
	if got := term.Exit(10 * time.Second); got != "130" {
		t.Errorf("ctrl+c: got exit code %s, want 130", got)
	}
	term.Wait(10*time.Second, "stopped by Ctrl-C; nothing was changed")
	s.testQuestionsOfPipes(t, program)
	// Where a context is protected, a yes is no yes.
	file := filepath.Join(config, "liqo-tui", "config.yaml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("protected: ^mil\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	const protected = `Apply these changes? The cluster is protected: type "milan" to go on:`
	for _, answer := range []string{"y", "rome"} {
		term := connect(t)
		term.Wait(time.Minute, protected)
		term.Press(answer, "Enter")
		if got := term.Exit(30 * time.Second); got != "130" {
			t.Errorf("answer %q: got exit code %s, want 130", answer, got)
		}
	}
	out, err := exec.CommandContext(t.Context(), program, "info", "--kubeconfig", s.kubeconfig, "--context", "rome").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(out); !strings.Contains(got, "No peers.") {
		t.Errorf("after five times no, rome has: %s", got)
	}
	term = connect(t)
	term.Wait(time.Minute, protected)
	term.Press("milan", "Enter")
	if got := term.Exit(30 * time.Second); got != "0" {
		t.Errorf("answer milan: got exit code %s, want 0; the screen:\n%s", got, term.Screen())
	}
}

// testQuestionsOfPipes: where the result goes to a program or a file, somebody still sits
// at the terminal, and is asked there.
func (s *stage) testQuestionsOfPipes(t *testing.T, program string) {
	const install = "liqo-tui install --context rome --image lab.local/liqo-gateway:next --timeout 30s"
	for _, to := range []string{" | cat", " -o json > " + filepath.Join(t.TempDir(), "result")} {
		term := terminaltest.Open(t, 120, 200, []string{"CI=", "KUBECONFIG=" + s.kubeconfig, "XDG_CONFIG_HOME=" + t.TempDir()}, "sh", "-c", install+to)
		term.Wait(time.Minute, "Apply these changes? [y/N]")
		term.Press("n", "Enter")
		term.Wait(30*time.Second, "declined, nothing was changed")
		words := append(strings.Fields(install)[1:], "--dry-run", "--kubeconfig", s.kubeconfig)
		err := exec.CommandContext(t.Context(), program, words...).Run()
		if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != exit.Pending {
			t.Errorf("install%s: a dry run afterwards says %v, want that all is still to be done", to, err)
		}
	}
}
