// Package terminaltest runs the program in tests on a terminal. The terminal is a tmux
// server that no other test and no user shares.
package terminaltest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Patience multiplies the times of Wait. They were measured on fast machines, but on
// some machines, programs take three times as long to start.
const Patience = 3

// Terminal is a program on a terminal of its own.
type Terminal struct {
	t      *testing.T
	socket string
	status string // the file with the program's exit code, after its end
}

// Open starts a program on a terminal of this size. The end of the test ends it.
func Open(t *testing.T, width, height int, env []string, program string, args ...string) *Terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("REQUIRE_LAB") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	term := &Terminal{t: t, socket: filepath.Join(t.TempDir(), "tmux"), status: filepath.Join(t.TempDir(), "status")}
	// There must be no configuration, and no answers of earlier tests.
	home := t.TempDir()
	words := append([]string{"env", "LANG=C.UTF-8", "COLORTERM=truecolor", "XDG_CONFIG_HOME=" + home, "XDG_STATE_HOME=" + home}, env...)
	words = append(append(words, program), args...)
	for i, word := range words {
		words[i] = command.Word(word)
	}
	// The shell continues after the program, so that the last screen can be read.
	script := fmt.Sprintf("%s; echo $? > %s; exec sleep 1000", strings.Join(words, " "), term.status)
	term.Tmux("new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), script)
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "tmux", "-S", term.socket, "kill-server").Run() })
	return term
}

// Tmux runs a command on the terminal's server.
func (s *Terminal) Tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "tmux", append([]string{"-u", "-f", os.DevNull, "-S", s.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LANG=C.UTF-8", "CI=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %s: %v: %s", args[0], err, out)
	}
	return string(out)
}

// Press sends keys. They have tmux's names: Down, Enter, C-c, or characters.
func (s *Terminal) Press(keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		s.Tmux("send-keys", key)
	}
}

// Resize changes the size of the terminal.
func (s *Terminal) Resize(width, height int) {
	s.t.Helper()
	s.Tmux("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
}

// Screen returns the text that the terminal shows.
func (s *Terminal) Screen() string {
	s.t.Helper()
	return strings.TrimRight(s.Tmux("capture-pane", "-p"), "\n") + "\n"
}

// Wait waits until the screen shows all of the texts.
func (s *Terminal) Wait(within time.Duration, texts ...string) string {
	s.t.Helper()
	var screen string
	within *= Patience
	deadline := time.Now().Add(within)
	for {
		screen = s.Screen()
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

// Exit waits for the end of the program, and returns its exit code.
func (s *Terminal) Exit(within time.Duration) string {
	s.t.Helper()
	within *= Patience
	deadline := time.Now().Add(within)
	for {
		if code, err := os.ReadFile(s.status); err == nil && len(code) > 0 {
			return strings.TrimSpace(string(code))
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the program did not end within %s:\n%s", within, s.Screen())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// WaitWithout waits until the screen no longer shows the text.
func (s *Terminal) WaitWithout(within time.Duration, text string) {
	s.t.Helper()
	within *= Patience
	deadline := time.Now().Add(within)
	for strings.Contains(s.Screen(), text) {
		if time.Now().After(deadline) {
			s.t.Fatalf("after %s there still is %q on the screen:\n%s", within, text, s.Screen())
		}
		time.Sleep(100 * time.Millisecond)
	}
}
