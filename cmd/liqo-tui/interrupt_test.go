package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report/reporttest"
)

// What the user has asked for is no error.
func TestCtrlCIsReportedAsNoError(t *testing.T) {
	var out bytes.Buffer
	code := conclude(streams{out: &out, err: &out}, &cobra.Command{}, nil, fmt.Errorf("connect: %w", exit.Interrupted{Signal: syscall.SIGINT}))
	if want := "connect: stopped by Ctrl-C\n"; code != exit.Signal+int(syscall.SIGINT) || out.String() != want {
		t.Errorf("got %d and %q, want 130 and %q", code, out.String(), want)
	}
}

// testInterrupts sends Ctrl-C after each change that a connect makes: the run
// says so in its last line, and the same command ends what it began.
func (s *stage) testInterrupts(t *testing.T) {
	const most = 20 // a connect makes fewer changes than this
	for n := 1; ; n++ {
		if n == most {
			t.Fatalf("the run was still changing something after %d changes", most)
		}
		if err := s.reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		reached := true
		t.Run("after change "+strconv.Itoa(n), func(t *testing.T) {
			var code int
			var text string
			code, text, reached = s.connectInterrupted(t, n)
			lines := reporttest.CheckEvents(t, text)
			last := lines[len(lines)-1]
			if code != exit.Signal+int(syscall.SIGINT) && code != exit.OK || last["exit"] != float64(code) {
				t.Fatalf("got exit code %d and result %v, want 130 in both, or 0 if it was done by then", code, last)
			}
			if code != exit.OK && last["changed"] != true {
				t.Errorf("got result %v after %d changes, want changed", last, n)
			}
			again, text, _ := s.connectInterrupted(t, most)
			if again != exit.OK {
				t.Errorf("the same command again: got exit code %d, want 0:\n%s", again, text)
			}
		})
		if !reached {
			return // it was connected before the nth change
		}
	}
}

// connectInterrupted runs a connect, and interrupts it at the nth change. reached
// is false if there were fewer.
func (s *stage) connectInterrupted(t *testing.T, n int) (code int, text string, reached bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = []string{
		"liqo-tui", "network", "connect", "--kubeconfig", s.kubeconfig, "--context", "rome",
		"--remote-kubeconfig", s.kubeconfig, "--remote-context", "milan", "--server-service-type", "NodePort", "--yes", "-o", "ndjson", "--timeout", "30s",
	}
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	changes := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), `"type":"change"`) {
			if changes++; changes == n {
				reached = true
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
			}
		}
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), all.String(), reached
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, all.String(), reached
}
