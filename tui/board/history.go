package board

import (
	"math"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// recorded is the state of the overview's part about the last day, as the gateways have recorded it.
type recorded struct {
	look  int                             // the number of the latest opened overview; messages of earlier ones are dropped
	of    pairID                          // the connection of sides
	sides [2]flows.Answer[history.Record] // not asked: the cluster is not chosen, or has no gateway
}

// lastDay is the heading of that part.
const lastDay = "Last 24 h"

type (
	// historyDueMsg says that it is time to read the history again.
	historyDueMsg int
	// historyMsg has what was read.
	historyMsg struct {
		look  int
		sides [2]flows.Answer[history.Record]
	}
)

// openHistory begins to read for the overview that was opened.
func (s Screen) openHistory(e session.Env) (Screen, tea.Cmd) {
	if p := s.Subject(); s.recorded.of != p.ID {
		s.recorded = recorded{look: s.recorded.look, of: p.ID}
	}
	s.recorded.look++
	return s, s.readHistory(e)
}

// readHistory is a command that asks both clusters, at the same time.
func (s Screen) readHistory(e session.Env) tea.Cmd {
	p, look, ctx := s.Subject(), s.recorded.look, e.Ctx
	facts := s.factsOf(e, p)
	refs, _ := s.contextsOf(p)
	var clusters [2]engine.Cluster
	var asks []flows.Question
	for side, end := range p.ends {
		clusters[side] = e.Fleet.Member(refs[side]).Cluster
		if objects := s.objectsOf(e, p, flows.Side(side)); end.Chosen && clusters[side] != nil && objects != nil {
			asks = append(asks, objects.AskHistory(flows.Side(side))...)
		}
	}
	return func() tea.Msg {
		answers := engine.Answers{Now: e.Clock}
		if err := answers.Ask(ctx, &facts, clusters, asks...); err != nil {
			return nil // the program ends
		}
		for _, q := range asks {
			if problem := facts.Sides[q.On()].Problem; problem != nil {
				flows.Unknown(q, problem.Message).Store(&facts, e.Clock())
			}
		}
		return historyMsg{look, [2]flows.Answer[history.Record]{facts.Sides[flows.A].History, facts.Sides[flows.B].History}}
	}
}

// updateHistory stores what was read, and reads it again while the overview is shown.
func (s Screen) updateHistory(e session.Env, msg historyMsg) (Screen, tea.Cmd) {
	if !s.showsHistory(msg.look) {
		return s, nil
	}
	if s.paused.IsZero() {
		s.recorded.sides = msg.sides
	}
	ctx := e.Ctx
	return s, func() tea.Msg {
		if !sleep.For(ctx, history.Step) {
			return nil
		}
		return historyDueMsg(msg.look)
	}
}

// showsHistory reports whether the overview is shown, and was opened by this look.
func (s Screen) showsHistory(look int) bool {
	return look == s.recorded.look && s.Detail && s.page == pageOverview && s.Subject() != nil && s.Subject().ID == s.recorded.of
}

// lines returns the last day as a timeline for each side, and the round trips. A part that was not recorded is blank,
// or has the sign of what is unknown if another part was recorded.
func (r recorded) lines(t draw.Theme, p *peering, now time.Time, width int) (lines []string) {
	const roundTrip = "Round trip"
	label := len(roundTrip)
	for _, end := range p.ends {
		label = max(label, min(draw.Cells(t.Plain(string(end.ID))), mostName))
	}
	label += 2
	cells := max(1, width-label)
	from := now.Add(-history.Span)
	var trips string
	for side, end := range p.ends {
		a := r.sides[side]
		name := t.Sides[side].Render(draw.Pad(t.Middle(t.Plain(string(end.ID)), label-2), label))
		text := "not known: " + a.Unknown()
		found := a.Value()
		if found != nil {
			marks, means, lost := pastOf(*found, from, now, cells)
			lines = append(lines, name+t.Lane(marks))
			name, text = strings.Repeat(" ", label), found.Words()
			if trips == "" && found.Sum().Answered > 0 {
				trips = t.Faint.Render(draw.Pad(roundTrip, label)) + t.SparkRTT(means, lost)
			}
		}
		if !a.Asked() {
			continue
		}
		for _, line := range t.Wrap(text, cells, 0) {
			lines = append(lines, name+line)
			name = strings.Repeat(" ", label)
		}
	}
	if trips != "" {
		lines = append(lines, trips)
	}
	if len(lines) > 0 {
		lines = append(lines, strings.Repeat(" ", label)+laneAxis(t, from, cells))
	}
	return lines
}

// pastOf returns what a record says of several cells of equal time: the worst state, the mean round trip in ms (NaN: not
// measured), and whether pings got no answer at all. A cell is good only if all of it was recorded.
func pastOf(r history.Record, from, now time.Time, cells int) (marks []draw.Mark, means []float64, lost []bool) {
	marks, means, lost = make([]draw.Mark, cells), make([]float64, cells), make([]bool, cells)
	step := now.Sub(from) / time.Duration(cells)
	for i := range marks {
		begin := from.Add(time.Duration(i) * step)
		var within history.Record
		var gap bool
		next := begin
		for _, c := range r.Cells {
			end := c.Start.Add(history.Step)
			if !end.After(begin) || !c.Start.Before(begin.Add(step)) {
				continue
			}
			within.Cells = append(within.Cells, c)
			gap = gap || c.Start.After(next) || !c.Whole()
			next = end
		}
		sum := within.Sum()
		gap = gap || next.Before(begin.Add(step))
		means[i], lost[i] = math.NaN(), sum.Lost > 0 && sum.Answered == 0
		if sum.Answered > 0 {
			means[i] = float64(sum.Mean) / float64(time.Millisecond)
		}
		switch {
		case sum.Down > 0:
			marks[i] = draw.Fail
		case sum.Recorded() == 0:
			marks[i] = draw.Blank
		case gap:
			marks[i] = draw.Unknown
		default:
			marks[i] = draw.OK
		}
	}
	return marks, means, lost
}
