package draw

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

func TestACommandLineIsBrokenSoThatItRuns(t *testing.T) {
	const command = "liqo-tui network connect --context a-very-long-name --remote-context another-very-long-name"
	lines := NewTheme(false, false).Command("same: ", command, 50)
	var words []string
	for i, line := range lines {
		if got := ansi.StringWidth(line); got > 50 {
			t.Errorf("line %q has %d cells", line, got)
		}
		line, more := strings.CutSuffix(line, " \\")
		if more != (i < len(lines)-1) {
			t.Errorf("line %q: got continued %v", line, more)
		}
		words = append(words, strings.Fields(strings.TrimPrefix(line, "same: "))...)
	}
	if got := strings.Join(words, " "); got != command {
		t.Errorf("got %q, want %q", got, command)
	}
}
