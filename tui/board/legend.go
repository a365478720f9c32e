package board

import (
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// meanings are what help says of the states of a peering.
var meanings = [view.States]string{
	view.Connected:    "packets of pods were seen both ways",
	view.NotConnected: "neither has a gateway for the other",
	view.Untested:     "gateways answer; no pod's packet yet",
	view.Starting:     "a gateway is being made",
	view.Connecting:   "gateways have not reached each other",
	view.Unknown:      "nobody says how it is",
	view.Degraded:     "it works, but pings are lost, nodes don't reach the gateway, or the last test failed",
	view.Stale:        "the latest report is too old to tell",
	view.Unreachable:  "an API server does not answer; the tunnel may well work",
	view.OneSided:     "only one has a gateway for the other",
	view.Down:         "it worked; pings have no answer now",
}

// checkMeanings are what help says of the states of a check.
var checkMeanings = [...]string{
	check.Pass: "it is as it should be", check.Warn: "it works, and you should know", check.Fail: "it has to be mended",
	check.Inconclusive: "it is not known", check.Skipped: "another check has to pass first",
	check.Measuring: "a second look will tell, in seconds",
}

// legend is rows of signs or words, with what they mean beside them.
type legend struct {
	title string
	rows  [][2]string
}

func (l *legend) add(sign, means string) { l.rows = append(l.rows, [2]string{sign, means}) }

func (l legend) lines(t draw.Theme, width int) []string {
	if len(l.rows) == 0 {
		return nil
	}
	side := 0
	for _, row := range l.rows {
		side = max(side, 2+draw.Cells(row[0])+2)
	}
	lines := []string{t.Label.Render(l.title)}
	for _, row := range l.rows {
		text := t.Wrap(row[1], width, side)
		text[0] = draw.Pad("  "+row[0], side) + text[0]
		lines = append(lines, text...)
	}
	return append(lines, "")
}

// Legend says what signs and columns mean. It draws them as rows do, from the same tables.
func (s Screen) Legend(e session.Env) []string {
	t := e.Theme
	states := legend{title: "States, as timelines and rows show them"}
	for state, means := range slices.Backward(meanings[:]) {
		m := draw.PairMarks[state]
		states.add(t.Lane([]draw.Mark{m, m})+"  "+t.State(m, view.State(state).String(), 0), means)
	}
	round := legend{title: "Lines of round trips", rows: t.RTTLegend()}
	all := append([]legend{states}, append(s.columnLegends(e), round)...)
	if s.Detail && s.page == pageDiagnosis {
		checks := legend{title: "Checks"}
		for state, means := range checkMeanings {
			checks.add(t.State(draw.CheckMarks[check.State(state)], check.State(state).String(), 0), means)
		}
		all = []legend{checks}
	}
	width := e.Width
	if width >= draw.TwoColumns {
		width = (width - 3) / 2
	}
	first := all[0].lines(t, width)
	var others []string
	for _, l := range all[1:] {
		others = append(others, l.lines(t, width)...)
	}
	if width < e.Width {
		return t.Beside(first, others, e.Width)
	}
	return append(first, others...)
}

// columnLegends are of the columns in sight, and of those that more room would show.
func (s Screen) columnLegends(e session.Env) []legend {
	if s.Detail {
		return nil
	}
	inSight, more := legend{title: "Columns (a dash: unknown, or too old)"}, legend{title: "Columns that a wider terminal has"}
	shown := tableFor(e.Theme, e.Width, s.wide)
	for _, c := range shown {
		inSight.add(strings.Join(strings.Fields(c.title), " "), c.means)
	}
	for _, c := range columnsOf(e.Theme, sparkCells) {
		if !slices.ContainsFunc(shown, func(o tableColumn) bool { return o.rank == c.rank }) {
			more.add(strings.Join(strings.Fields(c.title), " "), c.means)
		}
	}
	return []legend{inSight, more}
}
