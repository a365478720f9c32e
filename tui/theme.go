package tui

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
)

// mark is the kind of a state. It is shown as a glyph and a colour, and always
// beside a word: neither is the only signal.
type mark uint8

const (
	markPending mark = iota
	markRunning
	markOK
	markWarn
	markFail
	markUnknown
)

// theme is how things look: glyphs that the terminal can show, and styles in
// the 16 colours that every palette defines.
type theme struct {
	ascii bool

	glyphs   [6]string // by mark
	between  string    // the two clusters
	rule     string
	ellipsis string
	dot      string    // between facts on a line
	bars     []string  // of a sparkline, from low to high
	gap      string    // in a sparkline: no measurement
	bullets  [6]string // before a sentence
	done     string    // after the number of a step
	radio    [2]string // of a choice: not taken, taken
	axis     string    // between a chart and its labels
	to       string    // from one cluster to the other
	into     string    // from a list to one of it
	bar      string    // between two panes
	pointer  string    // before the selected row
	sorted   [2]string // after the column that rows are sorted by: as usual, reversed

	marks                         [6]style
	sides                         [2]style
	title, faint, selected, label style
	added, removed, hunk, cursor  style
}

// newTheme is for a terminal whose background is dark, unless it is known to be
// light: yellow and cyan can't be read on white.
func newTheme(ascii, light bool) theme {
	var none lipgloss.Style
	colour := func(c string) style { return newStyle(none.Foreground(lipgloss.Color(c))) }
	bright := func(c string) style { return newStyle(none.Foreground(lipgloss.Color(c)).Bold(true)) }
	red, green, yellow, blue, magenta, cyan := "1", "2", "3", "4", "5", "6"
	if light {
		yellow, cyan = "#7a5200", "#005f6b"
	}
	t := theme{
		glyphs:  [...]string{markPending: "·", markRunning: "▸", markOK: "✓", markWarn: "!", markFail: "✗", markUnknown: "?"},
		bullets: [...]string{markPending: "·", markRunning: "▸", markOK: "✓", markWarn: "!", markFail: "✗", markUnknown: "?"},
		between: "⇄", rule: "─", ellipsis: "…", dot: " · ", gap: "·", done: "✓", radio: [2]string{"( )", "(•)"},
		axis: "┤", to: "→", into: "›", bar: "│", pointer: "▸", sorted: [2]string{"▼", "▲"},
		bars:  strings.Split("▁▂▃▄▅▆▇█", ""),
		sides: [2]style{flows.A: colour(cyan), flows.B: colour(magenta)},
		title: newStyle(none.Bold(true)), faint: newStyle(none.Faint(true)),
		selected: newStyle(none.Bold(true)), label: colour(blue),
		added: colour(green), removed: colour(red), hunk: colour(cyan),
		cursor: newStyle(none.Reverse(true)),
	}
	t.marks = [...]style{
		markPending: t.faint, markRunning: colour(yellow), markOK: colour(green),
		markWarn: bright(yellow), markFail: bright(red), markUnknown: colour(magenta),
	}
	if ascii {
		t.ascii = true
		t.glyphs = [...]string{markPending: "[..]", markRunning: "[>>]", markOK: "[ok]", markWarn: "[!!]", markFail: "[XX]", markUnknown: "[??]"}
		t.bullets = [...]string{markPending: "-", markRunning: ">", markOK: "*", markWarn: "!", markFail: "X", markUnknown: "?"}
		t.between, t.rule, t.ellipsis, t.dot, t.gap, t.done = "<->", "-", "...", " - ", " ", "*"
		t.radio[1] = "(*)"
		t.bars = strings.Split("_.-~=*^#", "")
		t.axis, t.to, t.pointer, t.sorted, t.into, t.bar = "|", ">", ">", [2]string{"v", "^"}, ">", "|"
	}
	return t
}

// state is a glyph and a word, padded to width cells.
func (t theme) state(m mark, word string, width int) string {
	return t.marks[m].Render(pad(t.glyphs[m]+" "+t.plain(word), width))
}

// side names a cluster: its letter, and its ID when that is known.
func (t theme) side(s flows.Side, id string, width int) string {
	return t.sides[s].Render(pad(t.plain(strings.TrimSpace(s.String()+" "+id)), width))
}

// plain makes text of a cluster fit for one line of a terminal: no control or
// formatting characters, which could draw anything anywhere, and no characters
// that the terminal can't show.
func (t theme) plain(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if !t.ascii && isPlain(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case !unicode.IsPrint(r):
		case !t.ascii || r < unicode.MaxASCII:
			b.WriteRune(r)
		default:
			b.WriteString(inASCII(r))
		}
	}
	return b.String()
}

func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

func inASCII(r rune) string {
	switch r {
	case 'μ', 'µ':
		return "u" // as in 340us: Liqo writes the Greek letter
	case '→':
		return "->"
	case '…':
		return "..."
	case '·', '─', '–':
		return "-"
	}
	return "?"
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-cells(text)))
}

// fit cuts a styled line to width cells.
func (t theme) fit(line string, width int) string {
	if cells(line) <= width {
		return line
	}
	return ansi.Truncate(line, max(0, width), t.ellipsis)
}

// wrap breaks text into lines of at most width cells with an indent, which the
// first one leaves to a label.
func (t theme) wrap(text string, width, indent int) []string {
	lines := wrapped(t.plain(text), max(1, width-indent))
	for i := 1; i < len(lines); i++ {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return lines
}

// whole are stand-ins for the characters that [ansi.Wrap] breaks words at, one
// cell wide as these are. They are not printable, so no plain text has them.
var whole, broken = strings.NewReplacer("-", "\ue000", "/", "\ue001"), strings.NewReplacer("\ue000", "-", "\ue001", "/")

// wrapped breaks plain text into lines of at most width cells, and a word only if
// no line is long enough for it: a flag or a path in two pieces is no longer one.
// [ansi.Wrap] lets a line that ends with a hyphen be one cell too wide.
func wrapped(text string, width int) []string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if cells(word) <= width {
			words[i] = whole.Replace(word)
		}
	}
	text = strings.Join(words, " ")
	for limit := width; ; limit-- {
		lines := strings.Split(broken.Replace(ansi.Wrap(text, limit, "/")), "\n")
		if limit == 1 || !slices.ContainsFunc(lines, func(line string) bool { return cells(line) > width }) {
			return lines
		}
	}
}

// field is a labelled text, wrapped beside its label.
func (t theme) field(label, text string, width int) []string {
	if text == "" {
		return nil
	}
	indent := cells(label)
	lines := t.wrap(text, width, indent)
	lines[0] = t.label.Render(label) + lines[0]
	return lines
}

// pack puts facts on lines, as many on each as fit.
func (t theme) pack(facts []string, width int) []string {
	var lines []string
	for _, fact := range facts {
		last := len(lines) - 1
		if last >= 0 && cells(lines[last]+t.dot+fact) <= width {
			lines[last] += t.dot + fact
			continue
		}
		lines = append(lines, fact)
	}
	return lines
}

// command breaks a command line between words, so that it can be copied and run.
func (t theme) command(label, text string, width int) []string {
	const more = " \\"
	var lines []string
	line := label
	for i, word := range commandWords(t.plain(text)) {
		if i > 0 && cells(line)+1+cells(word)+len(more) > width {
			lines = append(lines, line+more)
			line = strings.Repeat(" ", len(label)) + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// commandWords are the words of a command line, a flag together with its value.
func commandWords(text string) []string {
	var words []string
	flag := false
	for word := range strings.FieldsSeq(text) {
		if flag && !strings.HasPrefix(word, "-") {
			words[len(words)-1] += " " + word
			flag = false
			continue
		}
		flag = strings.HasPrefix(word, "-") && !strings.Contains(word, "=")
		words = append(words, word)
	}
	return words
}

// diff styles a unified diff; the signs say the same as the colours. It leaves
// out the lines that say nothing about the object.
func (t theme) diff(text string) []string {
	text = strings.TrimPrefix(text, "--- live\n+++ wanted\n")
	if strings.HasPrefix(text, "@@ -0,0 ") {
		_, text, _ = strings.Cut(text, "\n") // all of it is new
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		plain := t.plain(strings.ReplaceAll(line, "\t", "    "))
		var style style
		switch {
		case strings.HasPrefix(line, "+"):
			style = t.added
		case strings.HasPrefix(line, "-"):
			style = t.removed
		case strings.HasPrefix(line, "@@"):
			style = t.hunk
		}
		lines[i] = style.Render(plain)
	}
	return lines
}

// stepMark is how a step's status looks.
func stepMark(s flows.Status) mark {
	switch s {
	case flows.Done:
		return markOK
	case flows.Failed:
		return markFail
	case flows.Waiting:
		return markRunning
	case flows.Ready, flows.Blocked:
	}
	return markPending
}

// stepWord is a step's status as people read it: that a step needs another one's
// result is how a plan is, and no trouble.
func stepWord(s flows.Status) string {
	if s == flows.Blocked {
		return "later"
	}
	return s.String()
}

// stateWidth is the room for a step's glyph and the longest word.
func (t theme) stateWidth() int { return len("waiting") + 2 + cells(t.glyphs[markOK]) }

// counted is a number of things.
func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// byteCount writes a count of bytes in at most eight cells.
func byteCount(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for ; value >= 999.5 && prefix < 5; prefix++ {
		value /= unit
	}
	return fmt.Sprintf("%.3g %ciB", value, "KMGTPE"[prefix])
}
