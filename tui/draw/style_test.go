package draw

import (
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

func FuzzCells(f *testing.F) {
	for _, seed := range []string{
		"", "plain", "✓ connected 5m", "\x1b[1;31m✗ down\x1b[m", "\x1b[38:2::1:2:3mx\x1b[0m", "\x1b]8;;http://x\x07link\x1b]8;;\x07",
		"⣿⠁ ▁▂▃ ┤→", "日本", "e\u0301", "→\ufe0f", "▸\ufe0f", "·\u200d·", "\x1b[", "\x1b[3", "\x1b[2J", "a\tb", "\xff", "👩‍👩‍👧 x", "~\u0301",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := Cells(text), ansi.StringWidth(text); got != want {
			t.Errorf("%q: got %d cells, want %d", text, got, want)
		}
	})
}

// TestStylesAreThoseOfLipgloss compares the quick way with the careful one.
func TestStylesAreThoseOfLipgloss(t *testing.T) {
	for _, s := range []lipgloss.Style{
		lipgloss.NewStyle(), lipgloss.NewStyle().Bold(true), lipgloss.NewStyle().Faint(true), lipgloss.NewStyle().Reverse(true),
		lipgloss.NewStyle().Foreground(lipgloss.Color("3")).Bold(true), lipgloss.NewStyle().Foreground(lipgloss.Color("#7a5200")),
	} {
		for _, text := range []string{" ", "x", "  two words ", "✓ ok"} {
			if got, want := newStyle(s).Render(text), s.Render(text); got != want {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		}
	}
}
