package draw

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// A step may change several objects. Where the next one begins is a space, and no line that
// looks as if something went.
func TestDiffsOfSeveralObjectsAreALineApart(t *testing.T) {
	const head = "--- live\n+++ wanted\n"
	got := NewTheme(false, false).Diff(head + "@@ -0,0 +1 @@\n+kind: ConfigMap\n" + head + "@@ -0,0 +1 @@\n+kind: Network\n" + head + "@@ -1 +1 @@\n-a: 1\n+a: 2\n")
	if want := "+kind: ConfigMap||+kind: Network||@@ -1 +1 @@|-a: 1|+a: 2"; ansi.Strip(strings.Join(got, "|")) != want {
		t.Errorf("got %q, want %q", strings.Join(got, "|"), want)
	}
}

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

// What is copied from two lines of a sentence is a command that misses nothing.
func TestAFlagStaysWithItsValue(t *testing.T) {
	text := "or let edge-07 dial: liqo-tui network connect --remote-context edge-07 --server-location Local"
	for width := 30; width <= len(text); width++ {
		lines := Wrapped(text, width)
		for _, line := range lines {
			if flag := strings.HasSuffix(line, "--remote-context") || strings.HasSuffix(line, "--server-location"); flag || Cells(line) > width {
				t.Errorf("at %d cells there is a line %q", width, line)
			}
		}
		if got := strings.Join(lines, " "); got != text {
			t.Errorf("at %d cells: got %q, want %q", width, got, text)
		}
	}
}
