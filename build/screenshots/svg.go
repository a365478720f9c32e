package main

import (
	"fmt"
	"html"
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// screen is the content of a terminal: pieces of text, line by line.
type screen struct {
	width int
	lines [][]piece
}

// piece is text in one style.
type piece struct {
	column, cells int
	text          string
	style         style
}

type style struct {
	fg, bg      string // "" for the terminal's own colour
	bold, faint bool
	underline   bool
}

func screenOf(e *vt.Emulator) screen {
	s := screen{width: e.Width()}
	for y := range e.Height() {
		var line []piece
		for x := 0; x < e.Width(); x++ {
			cell := e.CellAt(x, y)
			text, look, cells := " ", style{}, 1
			if cell != nil {
				text, look, cells = cell.Content, styleOf(cell.Style), max(1, cell.Width)
			}
			if text == "" {
				text = " "
			}
			if last := len(line) - 1; last >= 0 && line[last].style == look {
				line[last].text += text
				line[last].cells += cells
			} else {
				line = append(line, piece{x, cells, text, look})
			}
			x += cells - 1
		}
		s.lines = append(s.lines, line)
	}
	return s
}

func (s screen) text() string {
	var b strings.Builder
	for _, line := range s.lines {
		for _, p := range line {
			b.WriteString(p.text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// palette has the sixteen colours of a terminal. They are legible on the
// background.
var palette = [16]string{
	"#15181e", "#f2777a", "#8ccf7e", "#e5c76b", "#7aa5ee", "#c58fe0", "#6fc9cf", "#d3d7de",
	"#6b7280", "#ff9a9c", "#a9e39c", "#f3da8d", "#9dbff7", "#dab0ef", "#94e0e4", "#ffffff",
}

const (
	background = "#15181e"
	foreground = "#d3d7de"
	cellWidth  = 8.4 // for a font of 14 px
	cellHeight = 18
	margin     = 12
)

func styleOf(s uv.Style) style {
	look := style{fg: colourOf(s.Fg), bg: colourOf(s.Bg), bold: s.Attrs&uv.AttrBold != 0, faint: s.Attrs&uv.AttrFaint != 0, underline: s.Underline != 0}
	if s.Attrs&uv.AttrReverse != 0 {
		fg, bg := look.fg, look.bg
		if fg == "" {
			fg = foreground
		}
		if bg == "" {
			bg = background
		}
		look.fg, look.bg = bg, fg
	}
	return look
}

func colourOf(c interface{ RGBA() (r, g, b, a uint32) }) string {
	switch c := c.(type) {
	case nil:
		return ""
	case ansi.BasicColor:
		return palette[c&15]
	case ansi.IndexedColor:
		if c < 16 {
			return palette[c]
		}
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

func draw(s screen) string {
	var b strings.Builder
	head(&b, s, "")
	for y, line := range s.lines {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">%s</g>`+"\n", margin, margin+y*cellHeight, lineOf(line))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func head(b *strings.Builder, s screen, css string) {
	width, height := int(float64(s.width)*cellWidth)+2*margin, len(s.lines)*cellHeight+2*margin
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n", width, height, width, height)
	fmt.Fprintf(b, "<style>text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre;fill:%s}.b{font-weight:bold}.f{opacity:.6}%s</style>\n", foreground, css)
	fmt.Fprintf(b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
}

// lineOf returns one line, with its top left at 0,0. Each piece is as wide as
// its cells, whatever font the viewer has.
func lineOf(line []piece) string {
	var b strings.Builder
	for _, p := range line {
		x := float64(p.column) * cellWidth
		if p.style.bg != "" {
			fmt.Fprintf(&b, `<rect x="%.1f" width="%.1f" height="%d" fill="%s"/>`, x, float64(p.cells)*cellWidth, cellHeight, p.style.bg)
		}
		var attributes strings.Builder
		class := ""
		if p.style.bold {
			class += " b"
		}
		if p.style.faint {
			class += " f"
		}
		if p.style.fg != "" {
			fmt.Fprintf(&attributes, ` style="fill:%s"`, p.style.fg)
		}
		if class != "" {
			fmt.Fprintf(&attributes, ` class="%s"`, class[1:])
		}
		for _, w := range words(p.text) {
			fmt.Fprintf(&b, `<text x="%.1f" y="13.5" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s>%s</text>`,
				x+float64(w.column)*cellWidth, float64(ansi.StringWidth(w.text))*cellWidth, attributes.String(), html.EscapeString(w.text))
		}
	}
	return b.String()
}

// words returns the parts of a text between runs of two or more spaces, because
// a viewer may show such a run as one space.
func words(text string) []piece {
	var all []piece
	column := 0
	for text != "" {
		lead := len(text) - len(strings.TrimLeft(text, " "))
		column, text = column+lead, text[lead:]
		word, _, _ := strings.Cut(text, "  ")
		if word = strings.TrimRight(word, " "); word == "" {
			break
		}
		all = append(all, piece{column: column, text: word})
		column, text = column+ansi.StringWidth(word), text[len(word):]
	}
	return all
}

const (
	// longest is the longest time for a screen on which nothing happens.
	longest = 2500 * time.Millisecond
	// last is the time for the last screen, before the animation begins again.
	last = 5 * time.Second
)

// animate shows the frames one after the other, for ever. A line that several
// frames have is drawn once.
func animate(frames []frame) string {
	frames = distinct(frames)
	if len(frames) == 0 {
		return ""
	}
	var total time.Duration
	shown := make([]time.Duration, len(frames))
	for i := range frames {
		shown[i] = last
		if i+1 < len(frames) {
			shown[i] = min(frames[i+1].at.Sub(frames[i].at), longest)
		}
		total += shown[i]
	}
	size := frames[0].screen
	height := len(size.lines)*cellHeight + 2*margin
	var steps strings.Builder
	at := time.Duration(0)
	for i := range frames {
		fmt.Fprintf(&steps, "%.3f%%{transform:translateY(%dpx)}", 100*at.Seconds()/total.Seconds(), -i*height)
		at += shown[i]
	}
	fmt.Fprintf(&steps, "100%%{transform:translateY(%dpx)}", -(len(frames)-1)*height)
	var b strings.Builder
	head(&b, size, fmt.Sprintf("#run{animation:run %.1fs step-end infinite}@keyframes run{%s}", total.Seconds(), steps.String()))
	known := map[string]int{}
	var defs, uses strings.Builder
	for i, f := range frames {
		for y, line := range f.screen.lines {
			text := lineOf(line)
			if text == "" {
				continue
			}
			n, ok := known[text]
			if !ok {
				n = len(known)
				known[text] = n
				fmt.Fprintf(&defs, `<g id="l%d">%s</g>`+"\n", n, text)
			}
			fmt.Fprintf(&uses, `<use href="#l%d" x="%d" y="%d"/>`, n, margin, i*height+margin+y*cellHeight)
		}
		uses.WriteByte('\n')
	}
	fmt.Fprintf(&b, "<defs>\n%s</defs>\n<g id=\"run\">\n%s</g>\n</svg>\n", defs.String(), uses.String())
	return b.String()
}

// distinct leaves out empty frames, and frames that look like the one before.
func distinct(frames []frame) []frame {
	var kept []frame
	before := ""
	for _, f := range frames {
		text := draw(f.screen)
		if strings.TrimSpace(f.screen.text()) == "" || text == before {
			continue
		}
		kept, before = append(kept, f), text
	}
	return kept
}
