package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// TestLabDashboard watches two connected clusters in a terminal while one API server
// becomes unreachable and comes back, and the terminal changes its size.
func TestLabDashboard(t *testing.T) {
	l := useLab(t)
	l.prepare(t)
	program := program(t)
	l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK)

	way := l.detour(t, "lab-milan")
	s := openTerminal(t, 120, 40, nil, program, "dashboard", "--kubeconfig", way.kubeconfig)
	s.Wait(30*time.Second, "2 contexts", "milan", "rome", "untested for")

	way.close()
	s.Wait(40*time.Second, "1 ? unreachable", "no answer from milan for", "no answer for")
	// It is a state of the row at any size: no dialog covers it.
	for _, size := range [][2]int{{80, 24}, {40, 12}, {60, 20}, {100, 30}} {
		s.Resize(size[0], size[1])
		edge := strings.Repeat("─", size[0])
		if size[0] >= 100 { // panels have frames
			edge = "╭─ Connections ─"
		}
		s.Wait(20*time.Second, edge, "? unreachable", "milan")
		s.fits(size[0], size[1])
	}
	s.Resize(20, 5)
	s.Wait(20*time.Second, "1 unreachable")
	s.Resize(80, 24)
	s.Wait(20*time.Second, "? unreachable")
	s.Press("D")
	s.Wait(20*time.Second, "diagnosis", "LT-D001", "ROOT CAUSE")
	s.Press("Escape") // back to the list
	s.WaitWithout(20*time.Second, "ROOT CAUSE")
	s.Wait(20*time.Second, "STATUS▼", "? unreachable")

	way.open(t)
	s.Wait(60*time.Second, "· untested")
	s.WaitWithout(20*time.Second, "no answer from")
	s.Press("E")
	s.Wait(20*time.Second, "unreachable (was ", "(was unreachable)")
	s.Press("q")
	s.Wait(20*time.Second, "2 contexts")
	s.Press("q")
	if code := s.Exit(30 * time.Second); code != "0" {
		t.Errorf("got exit code %s, want 0", code)
	}
	s.Wait(30*time.Second, "1 connection: 1 untested")
}

// fits checks that the screen becomes one picture of that size: the title in the
// first line, the keys in the last one. Until the program has drawn again, the
// terminal shows a part of the former picture.
func (s *terminal) fits(width, height int) {
	s.t.Helper()
	eventually(s.t, 20*time.Second, func() error {
		lines := strings.Split(strings.TrimSuffix(s.Screen(), "\n"), "\n")
		first, last := lines[0], lines[len(lines)-1]
		if len(lines) != height || !strings.Contains(first, "Connections") || !strings.Contains(last, "? help") {
			return fmt.Errorf("at %dx%d: got %d lines, the first is %q, the last %q", width, height, len(lines), first, last)
		}
		return nil
	})
}
