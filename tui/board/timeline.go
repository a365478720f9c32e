package board

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
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

// lanesText returns the timelines of connections, in the order of the list, below one axis. tall adds the round trips
// to each.
func (s Screen) lanesText(e session.Env, all []*peering, width int, tall bool) []string {
	t, b := e.Theme, s.Board
	names, more := 0, len(all)-mostLanes
	all = all[:min(len(all), mostLanes)]
	for _, p := range all {
		names = max(names, draw.Cells(p.title(t)))
	}
	names = min(names, width/3) + 1
	cells, from := max(1, width-names), recent(b.began, b.now)
	lines := []string{strings.Repeat(" ", names) + laneAxis(t, from, cells)}
	for _, p := range all {
		lines = append(lines, draw.Pad(t.Middle(p.title(t), names-1), names)+t.Lane(lane(b.Log.past(p), from, b.now, cells)))
		if tall {
			lines = append(lines, t.Faint.Render(draw.Pad("  round trip", names))+t.SparkRTT(p.pastTrips(from, b.now, cells)))
		}
	}
	if more > 0 {
		lines = append(lines, t.Faint.Render(draw.Counted(more, "more connection")+": filter or sort the list to see others here"))
	}
	return lines
}

// pastTrips returns the round trips, and the lost pings, in each of several cells of equal time.
func (p *peering) pastTrips(from, now time.Time, cells int) (values []float64, lost []bool) {
	side := flows.A
	if len(p.History[side].Points) == 0 {
		side = flows.B
	}
	all := int(now.Sub(from)/session.Bucket) + 1
	points := p.History[side].Until(now.Add(-session.Bucket), min(all, session.SeriesLength))
	trips, gone := session.RoundTrips(points), session.Lost(points)
	for i := range cells {
		// The last cell ends now. Before the history begins, nothing was measured.
		begin, end := i*all/cells-(all-len(points)), (i+1)*all/cells-(all-len(points))
		end = min(max(end, begin+1), len(points))
		value, none := math.NaN(), false
		for j := max(0, begin); j < end; j++ {
			if none = none || gone[j]; math.IsNaN(value) || trips[j] > value {
				value = trips[j]
			}
		}
		values, lost = append(values, value), append(lost, none)
	}
	return values, lost
}

// eventsText returns the timelines of connections, and below them the events, the latest first. of is empty if there
// is no connection.
func (s Screen) eventsText(e session.Env, of []*peering, keep func(event) bool) []string {
	e.Theme = s.theme(e)
	b, t, inside := s.Board, e.Theme, e.Theme.Inside(e.Width)
	events := b.Log.all(keep)
	rows := b.eventRows(t, events, s.page == pageEvents, inside)
	since := "watching since "
	if b.beginning != watching {
		since = "simulated since "
	}
	since += b.began.Format(time.DateTime)
	if len(rows) == 0 {
		rows = []string{"No events."}
	}
	happened := draw.Panel{Title: t.Title.Render("Events"), Right: t.Faint.Render(since), Lines: rows, Grows: true}
	if len(of) == 0 {
		return t.Stack(e.Width, e.Room(), []draw.Panel{happened})
	}
	room := e.Room() - len(rows) - 2*t.Edges()
	tall := t.Frames() && 2*len(of)+1 <= room
	past := draw.Panel{Title: t.Title.Render("Availability"), Lines: s.lanesText(e, of, inside, tall && s.page == pageAllEvents)}
	if s.page == pageAllEvents {
		return t.Stack(e.Width, e.Room(), []draw.Panel{past}, []draw.Panel{happened})
	}
	d := s.detailOf(e, of[0])
	past.Right = t.Faint.Render(d.history(d.p.together(d.now)))
	lines := t.Stack(e.Width, 0, []draw.Panel{past})
	if charts := min((room-len(past.Lines))*2/3, mostCharts); t.Frames() && charts > t.Edges()+1+leastChart {
		lines = append(lines, d.charts(e.Width, charts)...)
	}
	return append(lines, t.Stack(e.Width, e.Room()-len(lines), []draw.Panel{happened})...)
}

// mostCharts is the largest height of the charts on a page about the past.
const mostCharts = 24

// eventTime returns the beginning of an event's lines.
func eventTime(e event, now time.Time) string {
	return fmt.Sprintf("%s %s  ", e.at.Format(time.TimeOnly), draw.PadLeft(draw.Short(now.Sub(e.at)), 3))
}

// eventRows returns events as a table, the latest first. Each begins with its time, its age and its state. one leaves
// out the names of the connection. With width 0, each event has one line, which may be cut. Without frames, an event
// is a sentence.
func (b *board) eventRows(t draw.Theme, events []event, one bool, width int) (lines []string) {
	if !t.Frames() {
		for _, e := range slices.Backward(events) {
			lines = append(lines, eventLines(t, e, b.names(e.id), b.now, width)...)
		}
		return lines
	}
	words, names := 0, 0
	for _, e := range events {
		_, word, _ := e.row()
		words, names = max(words, draw.Cells(word)), max(names, draw.Cells(b.whose(t, e)))
	}
	if names = min(names, 2*mostName); one {
		names = 0
	}
	for _, e := range slices.Backward(events) {
		mark, word, why := e.row()
		lead := t.Faint.Render(eventTime(e, b.now)) + t.State(mark, word, draw.Cells(t.Glyphs[mark])+1+words) + "  "
		if names > 0 {
			lead += draw.Pad(t.Middle(b.whose(t, e), names), names) + "  "
		}
		indent := strings.Repeat(" ", draw.Cells(lead))
		clauses := []string{t.Plain(why)}
		if width > 0 {
			clauses = t.Clauses(why, width-len(indent))
		}
		for i, clause := range clauses {
			lines = append(lines, map[bool]string{true: lead, false: indent}[i == 0]+clause)
		}
	}
	return lines
}

// whose returns the connection of an event, or the cluster that warned.
func (b *board) whose(t draw.Theme, e event) string {
	if p, ok := b.Rows[e.id]; ok {
		return p.title(t)
	}
	if e.kind == eventWarning {
		return t.Plain(string(e.cluster))
	}
	return t.Plain(string(e.id.low) + " " + t.To + " " + string(e.id.high))
}

func eventLines(t draw.Theme, e event, names string, now time.Time, width int) []string {
	at := eventTime(e, now)
	lines := t.Wrap(e.line(t, names), width, len(at))
	lines[0] = t.Faint.Render(at) + lines[0]
	return lines
}
