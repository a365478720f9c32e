package draw

import (
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Style is a [lipgloss.Style] of one line whose sequences are known: a frame
// renders hundreds of short texts, and lipgloss finds out about borders and
// margins for each of them.
type Style struct {
	lipgloss.Style
	on, off string
}

func newStyle(s lipgloss.Style) Style {
	on, off, _ := strings.Cut(s.Render("x"), "x")
	return Style{s, on, off}
}

// Render is for text without line breaks and tabs. Of no text it makes none.
func (s Style) Render(text string) string {
	if text == "" {
		return ""
	}
	return s.on + text + s.off
}

// Cells is the width of a text on the screen. It knows by itself what most of
// our lines are made of; what a character is in other texts, ansi takes its time
// to find out.
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

// styling is the length of the sequence of colours that a text starts with; 0 if
// it starts with something else.
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

// drawn are characters that screens are drawn with, one cell each: lines and
// blocks, Braille patterns, and the theme's glyphs.
func drawn(r rune) bool {
	return '\u2500' <= r && r <= '\u259f' || '\u2800' <= r && r <= '\u28ff' || strings.ContainsRune("·…→⇄✓✗•›▸▼▲○×", r)
}
