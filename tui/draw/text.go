package draw

import (
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Plain makes a text of a cluster fit for one line of a terminal. It removes control and
// formatting characters, which could draw anything anywhere, and replaces characters that
// the terminal can't show.
func (t Theme) Plain(text string) string {
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
		return "u" // as in 340us; Liqo writes the Greek letter
	case '→':
		return "->"
	case '…':
		return "..."
	case '·', '─', '–':
		return "-"
	}
	return "?"
}

// Pad adds spaces up to a width.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-Cells(text)))
}

// Fit cuts a styled line to width cells.
func (t Theme) Fit(line string, width int) string {
	if Cells(line) <= width {
		return line
	}
	return ansi.Truncate(line, max(0, width), t.Ellipsis)
}

// Wrap breaks text into lines of at most width cells. All lines but the first have an
// indent; before the first line there may be a label.
func (t Theme) Wrap(text string, width, indent int) []string {
	lines := Wrapped(t.Plain(text), max(1, width-indent))
	for i := 1; i < len(lines); i++ {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return lines
}

// Wrapped breaks plain text into lines of at most width cells. It breaks a word only if the
// word is longer than a line, because a flag or a path in two pieces can't be copied.
// [ansi.Wrap] makes a line one cell too long if the line ends with a hyphen.
func Wrapped(text string, width int) []string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if Cells(word) <= width {
			words[i] = whole.Replace(word)
		}
	}
	text = ""
	for i, word := range words {
		if i > 0 {
			text += between(words[i-1], word, width)
		}
		text += word
	}
	for limit := width; ; limit-- {
		lines := strings.Split(broken.Replace(ansi.Wrap(text, limit, "/")), "\n")
		if limit == 1 || !slices.ContainsFunc(lines, func(line string) bool { return Cells(line) > width }) {
			return lines
		}
	}
}

// whole replaces the characters at which [ansi.Wrap] breaks words with characters of the
// same width. broken restores them. These stand-ins are not printable, so no plain text has
// them.
var whole, broken = strings.NewReplacer("-", "\ue000", "/", "\ue001"), strings.NewReplacer("\ue000", "-", "\ue001", "/", "\ue002", " ")

// between keeps a flag and its value together, if one line is long enough for both.
func between(word, next string, width int) string {
	const dash = "\ue000"
	flag := strings.HasPrefix(word, dash+dash) && !strings.Contains(word, "=")
	if flag && !strings.HasPrefix(next, dash) && Cells(word)+1+Cells(next) <= width {
		return "\ue002"
	}
	return " "
}

// Clauses breaks a text into lines of at most width cells between its clauses. A line of a panel ends in the middle of one
// only if the clause is longer than a line: then between its phrases. Without frames, text is wrapped.
func (t Theme) Clauses(text string, width int) []string {
	if !t.frames {
		return t.Wrap(text, width, 0)
	}
	var lines []string
	for _, clause := range clauses(t.Plain(text)) {
		parts := []string{clause}
		if Cells(clause) > width {
			parts = phrases(clause)
		}
		for _, part := range parts {
			if last := len(lines) - 1; last >= 0 && Cells(lines[last])+1+Cells(part) <= width {
				lines[last] += " " + part
				continue
			}
			lines = append(lines, Wrapped(part, max(1, width))...)
		}
	}
	return lines
}

// clauses splits a text after the signs that end a sentence or a clause. A word with a colon at the beginning of a clause
// belongs to what it introduces.
func clauses(text string) (all []string) {
	begin := 0
	for i := range len(text) - 1 {
		ends := text[i+1] == ' ' && strings.IndexByte(".,:;", text[i]) >= 0
		if ends && (text[i] != ':' || strings.Contains(text[begin:i], " ")) {
			all = append(all, text[begin:i+1])
			begin = i + 2
		}
	}
	return append(all, text[begin:])
}

// joints are words with which phrases begin.
var joints = strings.Fields("and or but that which because by for from in into on through to with")

// phrases splits a clause before the words with which phrases begin.
func phrases(clause string) (all []string) {
	for i, word := range strings.Split(clause, " ") {
		if i == 0 || slices.Contains(joints, word) {
			all = append(all, word)
			continue
		}
		all[len(all)-1] += " " + word
	}
	return all
}

// Pastes reports whether advice has commands, which somebody copies from the terminal.
func Pastes(advice ...command.Hint) bool {
	return slices.ContainsFunc(advice, func(h command.Hint) bool { return len(h.Commands()) > 0 })
}

// Advice breaks a text with commands in it into lines of at most width cells. A command for which the line of its sentence
// has no room has lines of its own, which can be copied and run.
func (t Theme) Advice(text string, run []command.Command, width int) (lines []string) {
	for _, c := range run {
		before, after, ok := strings.Cut(text, c.String())
		if !ok {
			continue
		}
		line := t.Plain(c.String())
		if before = strings.TrimSpace(before); before != "" {
			lines = append(lines, t.Clauses(before, width)...)
		}
		if last := len(lines) - 1; last >= 0 && before != "" && Cells(lines[last])+1+Cells(line) <= width {
			lines[last] += " " + line
		} else {
			lines = append(lines, t.Command("", line, width)...)
		}
		text = strings.TrimLeft(after, ";,. ")
	}
	if text != "" {
		lines = append(lines, t.Clauses(text, width)...)
	}
	return lines
}

// Field returns a text with a label. Its lines stand beside the label. run are the commands in the text.
func (t Theme) Field(label, text string, width int, run ...command.Command) []string {
	if text == "" {
		return nil
	}
	indent := Cells(label)
	lines := t.Advice(text, run, width-indent)
	for i, line := range lines {
		if i == 0 {
			lines[i] = t.Label.Render(label) + line
			continue
		}
		lines[i] = strings.Repeat(" ", indent) + line
	}
	return lines
}

// Pack writes facts into lines, as many in each as fit.
func (t Theme) Pack(facts []string, width int) []string { return pack(facts, t.Dot, width) }

// PackApart is Pack with spaces between the facts, because some facts begin with a dot.
func (t Theme) PackApart(facts []string, width int) []string { return pack(facts, "   ", width) }

func pack(facts []string, between string, width int) []string {
	var lines []string
	for _, fact := range facts {
		last := len(lines) - 1
		if last >= 0 && Cells(lines[last]+between+fact) <= width {
			lines[last] += between + fact
			continue
		}
		lines = append(lines, fact)
	}
	return lines
}

// Command breaks a command line between words, so that it can still be copied and run.
func (t Theme) Command(label, text string, width int) []string {
	const more = " \\"
	var lines []string
	line := label
	for i, word := range commandWords(t.Plain(text)) {
		if i > 0 && Cells(line)+1+Cells(word)+len(more) > width {
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

// commandWords returns the words of a command line. A flag and its value are one word.
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

// Diff styles the unified diffs of some objects, with an empty line between them. The signs
// have the same meaning as the colours. It leaves out lines without information about an
// object.
func (t Theme) Diff(text string) []string {
	var lines []string
	for i, one := range strings.Split(strings.TrimPrefix(text, diffHead), "\n"+diffHead) {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, t.diffOfOne(one)...)
	}
	return lines
}

const diffHead = "--- live\n+++ wanted\n"

func (t Theme) diffOfOne(text string) []string {
	if strings.HasPrefix(text, "@@ -0,0 ") {
		_, text, _ = strings.Cut(text, "\n") // everything is new
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		plain := t.Plain(strings.ReplaceAll(line, "\t", "    "))
		var style Style
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

// Instead returns the text for an empty field, with the field's cursor on it.
func (t Theme) Instead(text string, focused bool) string {
	if !focused {
		return t.Faint.Render(text)
	}
	return t.Cursor.Render(text[:1]) + t.Faint.Render(text[1:])
}

// Middle cuts out the middle of a name, because its beginning and its end distinguish it.
func (t Theme) Middle(text string, width int) string {
	over := Cells(text) - width
	if over <= 0 {
		return text
	}
	keep := width - Cells(t.Ellipsis)
	if keep < 2 {
		return ansi.Truncate(text, max(0, width), "")
	}
	return ansi.Truncate(text, (keep+1)/2, "") + t.Ellipsis + ansi.TruncateLeft(text, Cells(text)-keep/2, "")
}

// PadLeft adds spaces on the left, so that the last digits of numbers are below each other.
func PadLeft(text string, width int) string {
	return strings.Repeat(" ", max(0, width-Cells(text))) + text
}

// State returns a glyph and a word, padded to width cells.
func (t Theme) State(m Mark, word string, width int) string {
	return t.Marks[m].Render(Pad(t.Glyphs[m]+" "+t.Plain(word), width))
}

// Side returns the name of a cluster in the colour of its side.
func (t Theme) Side(s flows.Side, name string, width int) string {
	return t.Sides[s].Render(Pad(t.Plain(name), width))
}
