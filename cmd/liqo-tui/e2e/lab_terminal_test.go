package e2e

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/terminaltest"
)

// terminal is the program on a terminal, with the user's actions on its screens.
type terminal struct {
	*terminaltest.Terminal
	t *testing.T
}

func openTerminal(t *testing.T, width, height int, env []string, program string, args ...string) *terminal {
	t.Helper()
	return &terminal{terminaltest.Open(t, width, height, env, program, args...), t}
}
