package board

import (
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

var meanings = [view.States]string{
	view.Connected:    "packets of pods were seen both ways",
	view.NotConnected: "neither has a gateway for the other",
	view.Untested:     "gateways answer; no pod's packet yet",
	view.Starting:     "a gateway is being made",
	view.Connecting:   "gateways have not reached each other",
	view.Unknown:      "nobody says how it is",
	view.Degraded:     "it works, but pings are lost, nodes don't reach the gateway, or the last test failed",
	view.Recovering:   "it works again; pings lost before still count",
	view.Stale:        "the latest report is too old to tell",
	view.Unreachable:  "an API server does not answer; the tunnel may well work",
	view.OneSided:     "only one has a gateway for the other",
	view.Down:         "it worked; pings have no answer now",
}

// Legend explains signs and columns. It draws them with the same tables as the rows.
func (s Screen) Legend(e session.Env) []string {
	t := e.Theme
	states := draw.Legend{Title: "States, as timelines and rows show them"}
	for state, means := range slices.Backward(meanings[:]) {
		m := draw.PairMarks[state]
		states.Add(t.Lane([]draw.Mark{m, m})+"  "+t.State(m, view.PairState(state).String(), 0), means)
	}
	round := draw.Legend{Title: "Lines of round trips", Rows: t.RTTLegend()}
	all := append([]draw.Legend{states}, append(s.columnLegends(e), round)...)
	if s.Detail && s.page == pageDiagnosis {
		all = []draw.Legend{t.CheckLegend(check.Planned)}
	}
	if s.Detail && (s.page == pageServices || s.page == pageService) {
		all = []draw.Legend{s.serviceLegend(t)}
	}
	width := e.Width
	if width >= draw.TwoColumns {
		width = draw.Half(width)
	}
	first := t.Legend(all[0], width)
	var others []string
	for _, l := range all[1:] {
		others = append(others, t.Legend(l, width)...)
	}
	if width < e.Width {
		return t.Beside(first, others, e.Width)
	}
	return append(first, others...)
}

// columnLegends explains the visible columns, and the columns that a wider list would
// show.
func (s Screen) columnLegends(e session.Env) []draw.Legend {
	if s.Detail {
		return nil
	}
	inSight, more := draw.Legend{Title: "Columns (a dash: unknown, or too old)"}, draw.Legend{Title: "Columns that a wider terminal has"}
	shown := tableFor(e.Theme, e.Width, s.wide)
	for _, c := range shown {
		inSight.Add(strings.Join(strings.Fields(c.title), " "), c.means)
	}
	for _, c := range columnsOf(e.Theme, sparkCells) {
		if !slices.ContainsFunc(shown, func(o tableColumn) bool { return o.rank == c.rank }) {
			more.Add(strings.Join(strings.Fields(c.title), " "), c.means)
		}
	}
	return []draw.Legend{inSight, more}
}
