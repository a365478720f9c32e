package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
)

// terminal is the real program in a terminal of its own, a tmux server that no
// other test and no user shares.
type terminal struct {
	t      *testing.T
	socket string
	status string // file with the program's exit code, once it has ended
}

// buildProgram is the program as people run it. It is built once for a test.
func buildProgram(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "liqo-tui")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return file
}

// openTerminal starts a program at a size, and ends it with the test.
func openTerminal(t *testing.T, width, height int, env []string, program string, args ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("REQUIRE_LAB") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	term := &terminal{t: t, socket: filepath.Join(t.TempDir(), "tmux"), status: filepath.Join(t.TempDir(), "status")}
	// No configuration, and no answers to an earlier test.
	home := t.TempDir()
	words := append([]string{"env", "LANG=C.UTF-8", "COLORTERM=truecolor", "XDG_CONFIG_HOME=" + home, "XDG_STATE_HOME=" + home}, env...)
	words = append(append(words, program), args...)
	for i, word := range words {
		words[i] = report.ShellWord(word)
	}
	// The shell stays, so that what the program leaves on the screen can be seen.
	script := fmt.Sprintf("%s; echo $? > %s; exec sleep 1000", strings.Join(words, " "), term.status)
	term.tmux("new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), script)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	return term
}

func (s *terminal) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "tmux", append([]string{"-u", "-f", os.DevNull, "-S", s.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LANG=C.UTF-8", "CI=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %s: %v: %s", args[0], err, out)
	}
	return string(out)
}

// press sends keys, by tmux' names: Down, Enter, C-c, or characters.
func (s *terminal) press(keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		s.tmux("send-keys", key)
	}
}

func (s *terminal) resize(width, height int) {
	s.t.Helper()
	s.tmux("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
}

// screen is what the terminal shows.
func (s *terminal) screen() string {
	s.t.Helper()
	return strings.TrimRight(s.tmux("capture-pane", "-p"), "\n") + "\n"
}

// wait waits until the screen shows all of the texts.
func (s *terminal) wait(within time.Duration, texts ...string) string {
	s.t.Helper()
	var screen string
	within *= patience
	deadline := time.Now().Add(within)
	for {
		screen = s.screen()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing == "" {
			return screen
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not within %s: %q on the screen:\n%s", within, missing, screen)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// exit waits for the end of the program, and is its exit code.
func (s *terminal) exit(within time.Duration) string {
	s.t.Helper()
	within *= patience
	deadline := time.Now().Add(within)
	for {
		if code, err := os.ReadFile(s.status); err == nil && len(code) > 0 {
			return strings.TrimSpace(string(code))
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the program did not end within %s:\n%s", within, s.screen())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// waitWithout waits until the screen does not show the text.
func (s *terminal) waitWithout(within time.Duration, text string) {
	s.t.Helper()
	within *= patience
	deadline := time.Now().Add(within)
	for strings.Contains(s.screen(), text) {
		if time.Now().After(deadline) {
			s.t.Fatalf("after %s there still is %q on the screen:\n%s", within, text, s.screen())
		}
		time.Sleep(100 * time.Millisecond)
	}
}
