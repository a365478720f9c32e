package draw

import (
	"strings"
)

// At is a line by its number; "" where there is none.
func At(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// TwoColumns is the width from which both sides of a connection stand beside each other.
const TwoColumns = 120

// BesideFrom is the width from which a list has what belongs to it next to it, and not below.
const BesideFrom = 160

// Half is the width of each of two blocks next to each other.
func Half(width int) int { return (width - 3) / 2 } //nolint:mnd // a gap, and two of them

// Beside puts two blocks of lines next to each other, each with half of the width.
func (t Theme) Beside(left, right []string, width int) []string {
	half := Half(width)
	lines := make([]string, max(len(left), len(right)))
	for i := range lines {
		lines[i] = strings.TrimRight(Pad(t.Fit(At(left, i), half), half)+"   "+t.Fit(At(right, i), half), " ")
	}
	return lines
}

// Row is one of a list: the selected one has a sign and is bold.
func (t Theme) Row(selected bool, row string) string {
	if selected {
		return t.selected.Render(t.Pointer + " " + row)
	}
	return "  " + row
}

// RuleLine is a line across the screen, with a heading in it.
func (t Theme) RuleLine(heading string, width int) string {
	if heading != "" {
		heading = strings.Repeat(t.Rule, 2) + " " + t.Plain(heading) + " "
	}
	heading = t.Fit(heading, width)
	return t.Faint.Render(heading + strings.Repeat(t.Rule, max(0, width-Cells(heading))))
}

// Window is the part of rows, at most height, that shows the one at index.
func Window(rows []string, index, height int) []string {
	top := WindowTop(index, len(rows), height)
	return rows[top:min(top+height, len(rows))]
}

// WindowTop is the first of n rows in sight, with the one of an index among them.
func WindowTop(index, n, height int) int {
	return max(0, min(index-height/2, n-height))
}
