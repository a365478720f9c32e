// Package draw makes texts of values: wrapped text, rounded numbers, states with a
// glyph and a colour, lists and charts. It is pure: it knows no screen and no
// terminal, only the number of cells.
package draw

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Mark is the class of a state. It is shown as a glyph and a colour, always with a
// word, so that neither is the only signal.
type Mark uint8

// The marks, in the order of progress.
const (
	Pending Mark = iota
	Running
	OK
	Warn
	Fail
	Unknown
	Blank // nothing was observed; it has no glyph and no colour
)

// Theme has the glyphs that the terminal can show, and styles in the 16 colours of
// every palette, as far as these colours can be read everywhere.
type Theme struct {
	ascii  bool
	frames bool // panels have frames

	Glyphs   [6]string // by mark
	Between  string    // between the names of two clusters
	Rule     string
	Heavy    string // a thicker rule
	Ellipsis string
	Dot      string    // between facts on a line
	Bars     []string  // of a sparkline, from low to high
	gauge    [2]string // a cell of a bar: full, empty
	gap      string    // no measurement, in a sparkline
	lost     string    // unanswered pings, in a sparkline
	lane     [6]string // a cell of a line of states, by mark
	Bullets  [6]string // before a sentence
	Done     string    // after the number of a step
	Radio    [2]string // before a choice: not taken, taken
	axis     string    // between a chart and its labels
	To       string    // from one cluster to the other
	Into     string    // before the subject of a page that was opened from a list
	Bar      string    // between two panes
	Pointer  string    // before what is selected
	here     string    // before the selected row of a list
	Sorted   [2]string // after the column that rows are sorted by: down, up
	frame    corners   // of a panel
	Heads    [2]string // of a line to the left and to the right

	Marks                        [6]Style
	tint                         Style    // the background of the selected row; the zero value: it is reversed
	edges                        [6]Style // of panels, by mark; not bold, because bold lines have gaps
	Sides                        [2]Style
	Title, Faint, Label          Style
	added, removed, hunk, Cursor Style
}

// NewTheme returns the theme for a terminal. Its background counts as dark, unless
// it is known to be light.
func NewTheme(ascii, light bool) Theme {
	var none lipgloss.Style
	colour := func(c string) Style { return newStyle(none.Foreground(lipgloss.Color(c))) }
	bright := func(c string) Style { return newStyle(none.Foreground(lipgloss.Color(c)).Bold(true)) }
	p := usualDark
	if light {
		p = usualLight
	}
	t := Theme{
		Glyphs:  [...]string{Pending: "·", Running: "○", OK: "✓", Warn: "!", Fail: "✗", Unknown: "?"},
		Bullets: [...]string{Pending: "·", Running: "○", OK: "✓", Warn: "!", Fail: "✗", Unknown: "?"},
		Between: "⇄", Rule: "─", Heavy: "═", Ellipsis: "…", Dot: " · ", gap: "·", lost: "×", Done: "✓", Radio: [2]string{"( )", "(•)"},
		axis: "┤", To: "→", Into: "›", Bar: "│", Pointer: "▸", here: "┃", Sorted: [2]string{"▼", "▲"},
		frame: corners{"╭", "╮", "╰", "╯", "│"}, Heads: [2]string{"◂", "▸"},
		Bars: strings.Split("▁▂▃▄▅▆▇█", ""), gauge: [2]string{"█", "░"},
		lane:  [...]string{Pending: "─", Running: "○", OK: "━", Warn: "!", Fail: "×", Unknown: "?"},
		Sides: [2]Style{flows.A: colour(p.a), flows.B: colour(p.b)},
		Title: newStyle(none.Bold(true)), Faint: newStyle(none.Faint(true)),
		Label: colour(p.label),
		added: colour(p.ok), removed: colour(p.fail), hunk: colour(p.a),
		Cursor: newStyle(none.Reverse(true)),
	}
	t.Marks = [...]Style{
		Pending: t.Faint, Running: colour(p.running), OK: colour(p.ok),
		Warn: bright(p.warn), Fail: bright(p.fail), Unknown: colour(p.unknown),
	}
	t.edges[Warn], t.edges[Fail] = colour(p.warn), colour(p.fail)
	t.tint = newStyle(none.Background(lipgloss.Color(p.tint)))
	if ascii {
		t.ascii = true
		t.Glyphs = [...]string{Pending: "[..]", Running: "[>>]", OK: "[ok]", Warn: "[!!]", Fail: "[XX]", Unknown: "[??]"}
		t.Bullets = [...]string{Pending: "-", Running: ">", OK: "*", Warn: "!", Fail: "X", Unknown: "?"}
		t.Between, t.Rule, t.Ellipsis, t.Dot, t.gap, t.lost, t.Done = "<->", "-", "...", " - ", " ", "x", "*"
		t.Radio[1], t.Heavy = "(*)", "="
		t.Bars, t.gauge = strings.Split("_.-~=*^#", ""), [2]string{"#", "."}
		t.lane = [...]string{Pending: "-", Running: "o", OK: "=", Warn: "!", Fail: "X", Unknown: "?"}
		t.frame, t.Heads = corners{"+", "+", "+", "+", "|"}, [2]string{"<", ">"}
		t.axis, t.To, t.Pointer, t.here, t.Sorted, t.Into, t.Bar = "|", ">", ">", ">", [2]string{" v", " ^"}, ">", "|"
	}
	return t
}
