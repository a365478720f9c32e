package keys

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// maxLine bounds what can be typed or pasted into a field.
const maxLine = 256

// Line is a text that is being typed.
type Line struct {
	text   []rune
	cursor int // before the rune of this index
}

func (l Line) String() string { return string(l.text) }

// Insert puts in what was pasted, as far as it fits on one line.
func (l Line) Insert(text string) Line {
	text, _, _ = strings.Cut(strings.TrimLeft(text, "\r\n\t "), "\n")
	return l.typed(text)
}

// typed puts printable text in, spaces included.
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

// Update takes a key that edits; ok is false for any other.
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

// View shows the text in at most width cells, with the cursor in sight.
func (l Line) View(t draw.Theme, width int, focused bool) string {
	if !focused {
		return t.Fit(t.Plain(l.String()), width)
	}
	// The part around the cursor; a rune may be two cells wide, so half of the
	// width in runes always fits.
	from := max(0, l.cursor-max(1, width/2))
	before, at, after := string(l.text[from:l.cursor]), " ", ""
	if l.cursor < len(l.text) {
		at, after = string(l.text[l.cursor]), string(l.text[l.cursor+1:])
	}
	return t.Fit(t.Plain(before)+t.Cursor.Render(t.Plain(at))+t.Plain(after), width)
}
