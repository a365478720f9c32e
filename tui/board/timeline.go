package board

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// since is a state, and the time at which it was first seen.
type since struct {
	at    time.Time
	state view.PairState
}

// past returns the states in which a connection was seen, the oldest first. States before the
// oldest event in the log are unknown.
func (l *eventLog) past(p *peering) []since {
	from := p.known
	if l.Total > len(l.Events) {
		from = later(from, l.Events[l.next%len(l.Events)].at)
	}
	states := []since{{from, p.State}}
	for _, e := range l.all(func(e event) bool { return e.kind == eventState && e.id == p.ID && !e.at.Before(from) }) {
		states[len(states)-1].state = e.was
		states = append(states, since{e.at, e.is})
	}
	return states
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lane returns the worst state in each of several cells of equal time, so that even an outage
// of seconds is visible.
func lane(states []since, from, now time.Time, cells int) []draw.Mark {
	marks := make([]draw.Mark, cells)
	step := max(1, now.Sub(from)/time.Duration(cells))
	for i := range marks {
		begin := from.Add(time.Duration(i) * step)
		end := begin.Add(step)
		if i == cells-1 {
			end = now.Add(1)
		}
		worst := view.States
		for n, s := range states {
			over := n+1 < len(states) && !states[n+1].at.After(begin)
			if !over && s.at.Before(end) {
				worst = min(worst, s.state)
			}
		}
		if marks[i] = draw.Blank; worst < view.States {
			marks[i] = draw.PairMarks[worst]
		}
	}
	return marks
}

// recent returns the beginning of timelines: when the program began to watch, but at most a
// day ago.
func recent(began, now time.Time) time.Time { return later(began, now.Add(-flapWindow)) }

// laneAxis returns the line with the beginning and the end of a timeline.
func laneAxis(t draw.Theme, from time.Time, cells int) string {
	left, right := from.Format("15:04"), "now"
	return t.Faint.Render(left + strings.Repeat(" ", max(1, cells-len(left)-len(right))) + right)
}

// mostLanes is the largest number of timelines on a page, because each message makes all of
// them again.
const mostLanes = 50

// lanesText returns the timelines of connections, in the order of the list, below one axis.
func (s Screen) lanesText(e session.Env, all []*peering) []string {
	t, b := e.Theme, s.Board
	names, more := 0, len(all)-mostLanes
	all = all[:min(len(all), mostLanes)]
	for _, p := range all {
		names = max(names, draw.Cells(b.names(p.ID)))
	}
	names = min(names, e.Width/3) + 1
	cells, from := max(1, e.Width-names), recent(b.began, b.now)
	lines := []string{strings.Repeat(" ", names) + laneAxis(t, from, cells)}
	for _, p := range all {
		name := draw.Pad(t.Middle(t.Plain(b.names(p.ID)), names-1), names)
		lines = append(lines, name+t.Lane(lane(b.Log.past(p), from, b.now, cells)))
	}
	if more > 0 {
		lines = append(lines, t.Faint.Render(draw.Counted(more, "more peering")+": filter or sort the list to see others here"))
	}
	return lines
}

// eventsText returns the timelines of connections, and below them the events, the latest
// first.
func (s Screen) eventsText(e session.Env, of []*peering, keep func(event) bool) []string {
	b, t := s.Board, e.Theme
	var lines []string
	if len(of) > 0 {
		lines = append(s.lanesText(e, of), "")
	}
	events := b.Log.all(keep)
	for _, ev := range slices.Backward(events) {
		lines = append(lines, eventLines(t, ev, b.names(ev.id), b.now, e.Width)...)
	}
	what := "Watching since "
	switch {
	case len(events) == 0:
		what = "No events since " + b.beginning + " began at "
	case b.beginning != watching:
		what = "Simulated since "
	}
	return append(lines, "", t.Faint.Render(what+b.began.Format(time.DateTime)+"."))
}

// eventTime returns the beginning of an event's lines.
func eventTime(e event, now time.Time) string {
	return fmt.Sprintf("%s %s  ", e.at.Format(time.TimeOnly), draw.PadLeft(draw.Short(now.Sub(e.at)), 3))
}

// eventLine returns an event as one line, which may be cut.
func eventLine(t draw.Theme, e event, names string, now time.Time) string {
	return t.Faint.Render(eventTime(e, now)) + t.Plain(e.line(t, names))
}

func eventLines(t draw.Theme, e event, names string, now time.Time, width int) []string {
	at := eventTime(e, now)
	lines := t.Wrap(e.line(t, names), width, len(at))
	lines[0] = t.Faint.Render(at) + lines[0]
	return lines
}
