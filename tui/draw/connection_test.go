package draw

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
)

func pictureOf(c Connection, t Theme, width int) string {
	lines := t.Connection(c, width)
	for i, line := range lines {
		lines[i] = strings.TrimRight(ansi.Strip(line), " ")
	}
	return strings.Join(lines, "\n")
}

func TestAConnectionIsTwoClustersAndALine(t *testing.T) {
	c := Connection{
		Names: [2]string{"rome", "milan"}, Lines: [2][]string{{"one", "two", "three"}, {"four"}},
		Line: OK, Listens: flows.B, Known: true, Notes: []string{"connected", "7.8ms"},
	}
	framed := NewTheme(false, false).Framed(100, 30)
	want := strings.TrimPrefix(`
╭─ rome ───────╮                        ╭─ milan ──────╮
│ one          │       connected        │ four         │
│ two          │ ═════════ ✓ ═════════▸ │              │
│ three        │         7.8ms          │              │
╰──────────────╯                        ╰──────────────╯`, "\n")
	if got := pictureOf(c, framed, 56); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = strings.TrimPrefix(`
rome ══════ 7.8ms ✓ ═══════▸ milan
── rome ──────────────────────────
one
── milan ─────────────────────────
four`, "\n")
	c.Notes, c.Lines[flows.A] = []string{"7.8ms"}, []string{"one"}
	if got := pictureOf(c, framed.Framed(0, 0), 34); got != want {
		t.Errorf("without frames: got\n%s\nwant\n%s", got, want)
	}
}

// A line that leads nowhere is seen without its colour.
func TestTheLineShowsWhatPasses(t *testing.T) {
	theme := NewTheme(false, false)
	for want, c := range map[string]Connection{
		"═══════ ✓ ═══════▸": {Line: OK, Listens: flows.B, Known: true},
		"◂═══════ ! ═══════": {Line: Warn, Listens: flows.A, Known: true},
		"═══════ ✗         ": {Line: Fail, Listens: flows.B, Known: true},
		"         ✗ ═══════": {Line: Fail, Listens: flows.A, Known: true},
		"═══════ ? ════════": {Line: Unknown},
		"─────── ○ ───────▸": {Line: Running, Listens: flows.B, Known: true},
		"─────── · ────────": {Line: Pending},
	} {
		if got := ansi.Strip(theme.line(c, 18, "")); got != want {
			t.Errorf("mark %d: got %q, want %q", c.Line, got, want)
		}
	}
}

// No size makes a line that is too long, whatever the names are.
func TestAConnectionKeepsToItsWidth(t *testing.T) {
	for _, ascii := range []bool{false, true} {
		for _, names := range [][2]string{{"rome", "milan"}, {strings.Repeat("long-", 20), "日本日本日本日本日本日本日本日本"}, {"", ""}} {
			for mark := Pending; mark <= Blank; mark++ {
				for width := 40; width < 220; width++ {
					theme := NewTheme(ascii, false).Framed(width, 30)
					c := Connection{Names: names, Line: min(mark, Unknown), Marks: [2]Mark{mark, OK}, Listens: flows.A, Known: mark != OK, Notes: []string{"日本日本日本日本日本日本", "note"}}
					for s := range c.Lines {
						c.Lines[s] = theme.Table([]Fact{{"pods", strings.Repeat("10.244.0.0/16, ", 20)}}, theme.EndWidth(width))
					}
					for _, line := range theme.Connection(c, width) {
						if got := Cells(line); got > width {
							t.Fatalf("width %d, names %q: got %d cells: %q", width, names, got, ansi.Strip(line))
						}
					}
				}
			}
		}
	}
}
