package draw

import (
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
)

// Legend has rows of signs or words with their meanings.
type Legend struct {
	Title string
	Rows  [][2]string
}

// Add adds a row.
func (l *Legend) Add(sign, means string) { l.Rows = append(l.Rows, [2]string{sign, means}) }

// Legend draws a legend with an empty line below it; nothing if it has no rows.
func (t Theme) Legend(l Legend, width int) []string {
	if len(l.Rows) == 0 {
		return nil
	}
	side := 0
	for _, row := range l.Rows {
		side = max(side, 2+Cells(row[0])+2)
	}
	lines := []string{t.Label.Render(l.Title)}
	for _, row := range l.Rows {
		text := t.Wrap(row[1], width, side)
		text[0] = Pad("  "+row[0], side) + text[0]
		lines = append(lines, text...)
	}
	return append(lines, "")
}

var checkMeanings = [check.Outcomes]struct {
	state check.Outcome
	means string
}{
	{check.Pass, "it is as it should be"},
	{check.Warn, "it works, and you should know"},
	{check.Fail, "it has to be mended"},
	{check.Inconclusive, "it is not known"},
	{check.Skipped, "another check has to pass first"},
	{check.Measuring, "a second look will tell, in seconds"},
	{check.Planned, "it is not so yet; the plan sees to it"},
}

// CheckLegend explains the states of checks, except one that is impossible here.
func (t Theme) CheckLegend(never check.Outcome) Legend {
	l := Legend{Title: "Checks"}
	for _, m := range checkMeanings {
		if m.state != never {
			l.Add(t.State(CheckMarks[m.state], m.state.String(), 0), m.means)
		}
	}
	return l
}

// StepLegend explains the states of a plan's steps.
func (t Theme) StepLegend() Legend {
	l := Legend{Title: "Steps of a plan"}
	for s, means := range [...]string{
		flows.Blocked: "it needs what a step before it brings", flows.Ready: "it can be applied now",
		flows.Waiting: "it was applied, and others have to do their part", flows.Done: "the cluster has what is wanted",
		flows.Failed: "it can't be done; the reason stands beside it",
	} {
		l.Add(t.State(StepMark(flows.Status(s)), StepWord(flows.Status(s)), 0), means)
	}
	return l
}
