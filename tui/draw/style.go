package draw

import (
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Style is a [lipgloss.Style] for single lines, with computed control sequences.
// A frame has hundreds of short texts, and lipgloss would look for borders and
// margins in each of them.
type Style struct {
	lipgloss.Style
	on, off string
}

func newStyle(s lipgloss.Style) Style {
	on, off, _ := strings.Cut(s.Render("x"), "x")
	return Style{s, on, off}
}

// Render styles a text without line breaks and tabs. The result for "" is "".
func (s Style) Render(text string) string {
	if text == "" {
		return ""
	}
	return s.on + text + s.off
}

// Cells returns the width of a text on the screen. It knows the width of the
// usual characters of our lines. For other texts it calls package ansi, which is
// slower.
func Cells(text string) int {
	n := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case ' ' <= c && c <= '~':
			n, i = n+1, i+1
		case c == '\x1b':
			size := styling(text[i:])
			if size == 0 {
				return ansi.StringWidth(text)
			}
			i += size
		default:
			r, size := utf8.DecodeRuneInString(text[i:])
			if !drawn(r) {
				return ansi.StringWidth(text)
			}
			n, i = n+1, i+size
		}
	}
	return n
}

// styling returns the length of the colour sequence at the start of a text; 0 if
// there is none.
func styling(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	parameters := strings.TrimLeft(text[2:], "0123456789;:")
	if !strings.HasPrefix(parameters, "m") {
		return 0
	}
	return len(text) - len(parameters) + 1
}

// drawn reports whether screens are drawn with the character r, which is one
// cell wide: lines and blocks, Braille patterns, and the theme's glyphs.
func drawn(r rune) bool {
	return '\u2500' <= r && r <= '\u259f' || '\u2800' <= r && r <= '\u28ff' || strings.ContainsRune("·…→⇄✓✗•›▸◂▼▲○×", r)
}
