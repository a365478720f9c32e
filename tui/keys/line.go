package keys

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// maxLine is the largest length of a field's text.
const maxLine = 256

// Line is a line of text that the admin types.
type Line struct {
	text   []rune
	cursor int // before the rune with this index
}

func (l Line) String() string { return string(l.text) }

// Insert inserts pasted text, as much as fits.
func (l Line) Insert(text string) Line {
	text, _, _ = strings.Cut(strings.TrimLeft(text, "\r\n\t "), "\n")
	return l.typed(text)
}

// typed inserts printable text, including spaces.
func (l Line) typed(text string) Line {
	var typed []rune
	for _, r := range text {
		if unicode.IsPrint(r) && len(l.text)+len(typed) < maxLine {
			typed = append(typed, r)
		}
	}
	l.text = slices.Insert(slices.Clone(l.text), l.cursor, typed...)
	l.cursor += len(typed)
	return l
}

// Update handles a key that edits the text; ok is false for any other key.
func (l Line) Update(msg tea.KeyPressMsg) (_ Line, ok bool) {
	switch msg.String() {
	case "left":
		l.cursor = max(0, l.cursor-1)
	case "right":
		l.cursor = min(len(l.text), l.cursor+1)
	case "home", "ctrl+a":
		l.cursor = 0
	case "end":
		l.cursor = len(l.text)
	case "backspace", "ctrl+h":
		if l.cursor > 0 {
			l.text = slices.Delete(slices.Clone(l.text), l.cursor-1, l.cursor)
			l.cursor--
		}
	case "delete":
		if l.cursor < len(l.text) {
			l.text = slices.Delete(slices.Clone(l.text), l.cursor, l.cursor+1)
		}
	case "ctrl+u":
		l = Line{}
	default:
		if msg.Text == "" {
			return l, false
		}
		return l.typed(msg.Text), true
	}
	return l, true
}

// View returns at most width cells of the text, including the cursor.
func (l Line) View(t draw.Theme, width int, focused bool) string {
	if !focused {
		return t.Fit(t.Plain(l.String()), width)
	}
	// This is the part around the cursor. A rune may be two cells wide, so half
	// as many runes as cells always fit.
	from := max(0, l.cursor-max(1, width/2))
	before, at, after := string(l.text[from:l.cursor]), " ", ""
	if l.cursor < len(l.text) {
		at, after = string(l.text[l.cursor]), string(l.text[l.cursor+1:])
	}
	return t.Fit(t.Plain(before)+t.Cursor.Render(t.Plain(at))+t.Plain(after), width)
}
