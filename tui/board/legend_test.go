package board

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// What a row may show has its line in help, and what that has, has a meaning.
func TestHelpExplainsAllThatRowsShow(t *testing.T) {
	for _, width := range []int{40, 80, 120, 200} {
		e := around(width, 40)
		s := New(session.Options{}, e)
		lines := s.Legend(e)
		text := strings.Join(strings.Fields(ansi.Strip(strings.Join(lines, "\n"))), " ")
		for _, line := range lines {
			if draw.Cells(line) > width {
				t.Errorf("at %d cells a line has %d: %q", width, draw.Cells(line), line)
			}
		}
		for state := range view.States {
			if sign := e.Theme.Glyphs[draw.PairMarks[state]] + " " + state.String(); !strings.Contains(text, sign) || meanings[state] == "" {
				t.Errorf("at %d cells nothing says what %q is", width, sign)
			}
		}
		for _, c := range tableFor(e.Theme, width, false) {
			if title := strings.Join(strings.Fields(c.title), " "); !strings.Contains(text, title) {
				t.Errorf("at %d cells nothing says what %q is", width, title)
			}
		}
		for _, c := range columnsOf(e.Theme, sparkCells) {
			if c.means == "" || !strings.Contains(text, c.means) {
				t.Errorf("at %d cells nothing says what %q means", width, c.title)
			}
		}
		s.Detail, s.page = true, pageDiagnosis
		text = ansi.Strip(strings.Join(s.Legend(e), "\n"))
		for state := check.Pass; state <= check.Measuring; state++ {
			if sign := e.Theme.Glyphs[draw.CheckMarks[state]] + " " + state.String(); !strings.Contains(text, sign) {
				t.Errorf("at %d cells nothing says what %q of a check is", width, sign)
			}
		}
	}
}
