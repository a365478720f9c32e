package board

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// detail draws all facts about one connection. peers are the objects on each side; nil if
// they aren't known.
type detail struct {
	t     draw.Theme
	now   time.Time
	p     *peering
	peers [2]*flows.End
	// lendings are each side's views of lending.
	lendings [2][]view.Lending
	board    *board
	log      *eventLog
	began    time.Time // when the history begins
	pane     bool      // the detail does not scroll, so a chart is drawn completely or not at all
	// absence is the reason that a side has reported nothing.
	absence string
	// recorded is what the gateways have recorded of the last day.
	recorded recorded
	// measured returns lines about packets from pod to pod; nil if none can be sent.
	measured func(width int) []string
}

// The numbers of lines of a chart, including the axis of time, by the available room. Above
// the axis, the number is odd, so that there is a line in the middle.
const (
	leastChart   = 4
	chartHeight  = 8
	chartHighest = 16
)

// lines returns lines of at most width cells. Charts and events get the remaining height.
func (d detail) lines(width, height int) []string {
	v := d.p.together(d.now) // computed again, because the text contains the time
	if d.t.Frames() {
		return d.panels(v, width, height)
	}
	return d.page(v, width, height)
}

// headline returns the state, and for how long it has lasted.
func (d detail) headline(v view.Verdict) string {
	head := v.State.String()
	if since := d.p.began(); !since.IsZero() {
		head += " for " + draw.Short(d.now.Sub(since))
	}
	return head
}

// reasons returns the reason for the state, and what else an end says.
func (d detail) reasons(v view.Verdict) []string {
	all := []string{v.Why}
	for i, e := range d.p.ends {
		state, why := e.Reading.State(d.now)
		switch {
		case !e.Chosen || e.Reading.Peer == "":
		case !e.Silent.IsZero():
			if !strings.Contains(v.Why, e.Problem) {
				all = append(all, string(e.ID)+": "+e.Problem)
			}
			all = append(all, "The facts about "+string(e.ID)+" are the last that it said.")
		case state != flows.StateConnected && why != "" && !strings.Contains(v.Why, why):
			all = append(all, string(d.p.ends[i].ID)+": "+why)
		}
	}
	return all
}

// page draws the detail without frames. It scrolls, so its height matters for charts only.
func (d detail) page(v view.Verdict, width, height int) []string {
	t := d.t
	mark := draw.PairMarks[v.State]
	lines := []string{t.Marks[mark].Render(t.Glyphs[mark] + " " + d.headline(v))}
	picture := d.picture(v, width)
	if d.pane && height < wholeDetail { // the picture matters more than all words
		lines[0] = t.Fit(lines[0]+"  "+t.Plain(v.Why), width)
		picture.Lines = [2][]string{}
	} else {
		for _, why := range d.reasons(v) {
			for _, line := range t.Wrap(why, width-2, 0) {
				lines = append(lines, "  "+line)
			}
		}
	}
	if d.measured != nil { // the answer to a key has to be visible without scrolling
		const label = "Pods   "
		for i, line := range d.measured(width - len(label)) {
			lines = append(lines, map[bool]string{true: t.Label.Render(label), false: strings.Repeat(" ", len(label))}[i == 0]+line)
		}
	}
	lines = append(append(lines, ""), t.Connection(picture, width)...)
	for s, all := range d.lendings {
		lines = append(lines, t.Lending(all, d.p.ends[s].ID, d.p.ends[1-s].ID, width)...)
	}
	from := recent(d.began, d.now)
	lines = append(append(lines, ""), t.Field("History ", d.history(v), width)...)
	lines = append(lines, t.Lane(lane(d.log.past(d.p), from, d.now, width)), laneAxis(t, from, width))
	if day := d.day(width); len(day) > 0 {
		lines = append(append(lines, "", t.Label.Render(lastDay)), day...)
	}
	events := d.events(width)
	few := events[:min(len(events), latestEvents)]
	spare := height - len(lines) - len(few) - (1 + 2 + chartHeight) - 2
	traffic := d.traffic(width, spare >= chartHeight)
	spare -= len(traffic) - 2
	chart := chartHeight + max(0, min(spare/2*2, chartHighest-chartHeight))
	if d.pane { // the next lines are visible, or the last line says how many are not
		chart = min(chart, height-len(lines)-(1+2)-len(traffic)-min(1, len(few)))
	}
	if chart <= leastChart {
		chart = 0
	}
	title, latency := d.latency(width, chart)
	lines = append(append(lines, "", title), latency...)
	lines = append(lines, traffic...)
	if room := height - len(lines); room > len(few) {
		few = events[:min(len(events), room)]
	}
	if len(few) > 0 {
		lines = append(append(lines, "", t.Label.Render("Latest events")), few...)
	}
	return lines
}

// panels draws the detail in frames. In a pane, it draws the panels that have room.
func (d detail) panels(v view.Verdict, width, height int) []string {
	t, inside := d.t, d.t.Inside(width)
	mark := draw.PairMarks[v.State]
	var lines []string
	add := func(panel []string) {
		if !d.pane || len(lines)+len(panel) <= height {
			lines = append(lines, panel...)
		}
	}
	panel := func(title, right string, m draw.Mark, text ...string) {
		add(t.Panel(draw.Panel{Title: t.Title.Render(title), Right: t.Faint.Render(right), Lines: text, Mark: m}, width, 0))
	}
	if v.State != view.Connected && v.State != view.Untested {
		var text []string
		for _, why := range d.reasons(v) {
			text = append(text, t.Clauses(why, inside)...)
		}
		title := t.Marks[mark].Render(d.headline(v))
		if mark != draw.Warn && mark != draw.Fail {
			title = t.State(mark, d.headline(v), 0)
		}
		add(t.Panel(draw.Panel{Title: title, Lines: text, Mark: mark}, width, 0))
	}
	add(t.Connection(d.picture(v, width), width))
	if d.measured != nil {
		panel("From pod to pod", "", draw.Blank, d.measured(inside)...)
	}
	var events []string
	if !d.pane { // else events have their own panel below
		events = d.events(inside)
	}
	day := d.day(inside)
	few := min(len(events), latestEvents)
	const laneLines = 2
	after := t.Edges() + laneLines + t.Edges() + few
	if few == 0 {
		after -= t.Edges()
	}
	if len(day) > 0 {
		after += t.Edges() + len(day)
	}
	for s, all := range d.lendings {
		for range t.Lending(all, d.p.ends[s].ID, d.p.ends[1-s].ID, inside) {
			after++
		}
		after += min(1, len(all)) * t.Edges()
	}
	least, most := t.Edges()+1+chartHeight, t.Edges()+1+chartHighest
	charts := max(least, min(most, height-len(lines)-after))
	if d.pane {
		charts = min(charts, height-len(lines))
	}
	if charts > t.Edges()+1+leastChart {
		add(d.charts(width, charts))
	}
	for s, all := range d.lendings {
		if len(all) > 0 {
			text := t.Lending(all, d.p.ends[s].ID, d.p.ends[1-s].ID, inside)
			m := draw.Blank
			if slices.ContainsFunc(all, func(l view.Lending) bool { return !l.Healthy() }) {
				m = draw.Warn
			}
			panel("Lending", "", m, text...)
		}
	}
	from := recent(d.began, d.now)
	panel("Availability", d.history(v), draw.Blank, t.Lane(lane(d.log.past(d.p), from, d.now, inside)), laneAxis(t, from, inside))
	if len(day) > 0 {
		panel(lastDay, fmt.Sprintf("gateways write it every %.0f min", history.Interval.Minutes()), draw.Blank, day...)
	}
	room := height - len(lines) - t.Edges()
	if !d.pane {
		room = max(room, few)
	}
	if shown := min(len(events), room); shown > 0 {
		panel("Events", "", draw.Blank, events[:shown]...)
	}
	return lines
}

// summary draws the connection in a panel, with both charts beside it.
func (d detail) summary(width, height int) []string {
	t := d.t
	v := d.p.together(d.now)
	left := width / 2
	inside := t.Inside(left)
	mark := draw.PairMarks[v.State]
	text := []string{t.State(mark, d.headline(v), 0) + "  " + t.Plain(v.Why)}
	if height >= highSummary {
		text[0] = t.State(mark, d.headline(v), 0)
		why := t.Clauses(v.Why, inside)
		for i := range reasonLines {
			text = append(text, draw.At(why, i))
		}
	}
	bare := t.Framed(0, 0)
	picture := d.picture(v, inside)
	var ends [2][]draw.Fact
	for s := range picture.Lines {
		ends[s], _ = d.facts(flows.Side(s), v)
		picture.Lines[s] = nil
	}
	text = append(append(text, ""), bare.Connection(picture, inside)...)
	column := (inside - labelled) / 2
	for i := range max(len(ends[0]), len(ends[1])) {
		var cells [2]draw.Fact
		for s := range cells {
			if i < len(ends[s]) {
				cells[s] = ends[s][i]
			}
		}
		label := cells[0].Label
		if i > 0 && cells[1].Label != label && label != "" && cells[1].Label != "" { // one dials, the other listens
			label = "address"
		}
		value := func(c draw.Fact) string {
			return draw.Pad(t.Fit(cmp.Or(c.Value, t.Faint.Render("-")), column-1), column)
		}
		text = append(text, t.Faint.Render(draw.Pad(cmp.Or(label, cells[1].Label), labelled))+value(cells[0])+value(cells[1]))
	}
	lines := t.Panel(draw.Panel{Title: t.Title.Render(d.p.title(t)), Right: t.Faint.Render("enter"), Lines: text, Mark: mark}, left, height)
	right := width - left
	upper := height
	if height >= 2*(t.Edges()+1+leastChart+2) {
		upper = (height + 1) / 2
	}
	charts := d.chart(d.latency, right, upper)
	if upper < height {
		charts = append(charts, d.chart(d.flow, right, height-upper)...)
	}
	return draw.Join(lines, charts)
}

// highSummary is the height of the panel from which on the reason has lines of its own below the state. There are
// always reasonLines of them, so that the facts below stay where they are.
const (
	highSummary = 20
	reasonLines = 3
)

// labelled is the width of the labels of a table with both ends.
const labelled = 11

// chart draws one chart in a panel.
func (d detail) chart(of func(width, height int) (string, []string), width, height int) []string {
	t := d.t
	plot := (height - t.Edges() - 1) / 2 * 2 // an even number: the axis, and an odd number of lines
	if plot <= leastChart {
		plot = 0
	}
	title, lines := of(t.Inside(width), plot)
	back := fmt.Sprintf("last %d min", int((time.Duration(d.span(t.Inside(width))) * session.Bucket).Minutes()))
	return t.Panel(draw.Panel{Title: title, Right: t.Faint.Render(back), Lines: lines}, width, height)
}

// charts draws both charts beside each other, in panels with height lines.
func (d detail) charts(width, height int) []string {
	left := width / 2
	return draw.Join(d.chart(d.latency, left, height), d.chart(d.flow, width-left, height))
}

// day returns what the gateways have recorded of the last day. In a pane, it would scroll out of sight.
func (d detail) day(width int) []string {
	if d.pane {
		return nil
	}
	return d.recorded.lines(d.t, d.p, d.now, width)
}

// history says how often the connection was interrupted, and since when that is known.
func (d detail) history(v view.Verdict) string {
	since, outages := " in the last 24 h", d.p.flapCount(d.now)
	switch {
	case outages == 0 && d.now.Sub(d.p.came) < flapWindow:
		since = " since it first worked, at " + d.p.came.Format("15:04")
	case d.now.Sub(d.began) < flapWindow:
		since = " since " + d.began.Format("15:04") + " (history begins there)"
	}
	return flapText(outages, v.State) + since
}

// picture returns the picture of the connection, with the facts about both ends.
func (d detail) picture(v view.Verdict, width int) draw.Connection {
	t := d.t
	c := draw.Connection{Line: draw.PairMarks[v.State], Notes: d.notes(v)}
	if v.State == view.Untested { // the tunnel itself works
		c.Line = draw.OK
	}
	c.Listens, c.Known = d.p.server()
	for s, e := range d.p.ends {
		c.Names[s] = string(e.ID)
		c.Lines[s], c.Marks[s] = d.end(flows.Side(s), v, t.EndWidth(width))
	}
	return c
}

// notes returns what stands at the line between both ends: the state, and the latest measurements.
func (d detail) notes(v view.Verdict) []string {
	t := d.t
	state := t.Marks[draw.PairMarks[v.State]].Render(d.headline(v))
	rtt := max(d.p.roundTrip(flows.A, d.now), d.p.roundTrip(flows.B, d.now))
	if !t.Frames() {
		if rtt == 0 {
			return nil
		}
		return []string{draw.RoundTrip(rtt)}
	}
	notes := []string{state, "", ""}
	if rtt > 0 {
		notes[1] = draw.RoundTrip(rtt)
	}
	if lost, known := d.p.loss(d.now); known {
		notes[2] = draw.Percent(lost) + " lost"
	}
	if r := d.p.traffic(d.now); r.Known {
		notes = append(notes, t.Sides[flows.A].Render(draw.PerSecond(r.Sent)+"/s "+t.Heads[1]), t.Sides[flows.B].Render(t.Heads[0]+" "+draw.PerSecond(r.Received)+"/s"))
	}
	return notes
}

func flapText(n int, now view.PairState) string {
	switch {
	case n == 0 && now.Broken():
		return "never seen to work"
	case n == 0:
		return "no outage"
	}
	return draw.Counted(n, "outage")
}

// end returns the facts about one end as a table, and the state of the end.
func (d detail) end(s flows.Side, both view.Verdict, width int) ([]string, draw.Mark) {
	t := d.t
	facts, mark := d.facts(s, both)
	if !d.p.ends[s].Chosen {
		return []string{facts[0].Value, t.Faint.Render(t.Fit(d.absence, width))}, mark
	}
	return t.Table(facts, width), mark
}

// facts returns the facts about one end, and its state, which is the first fact.
func (d detail) facts(s flows.Side, both view.Verdict) ([]draw.Fact, draw.Mark) {
	t, e := d.t, d.p.ends[s]
	r := e.Reading
	is := func(m draw.Mark, word string) draw.Fact { return draw.Fact{Label: "state", Value: t.State(m, word, 0)} }
	switch {
	case !e.Chosen:
		return []draw.Fact{is(draw.Unknown, "nothing is known from it")}, draw.Unknown
	case r.Peer == "":
		return []draw.Fact{is(draw.Fail, "has nothing of this connection")}, draw.Fail
	}
	state, _ := r.State(d.now)
	mark, word := draw.EndMark(state, both.State), state.Word()
	if !e.Silent.IsZero() {
		mark, word = draw.Unknown, "no answer for "+draw.Short(d.now.Sub(e.Silent))
	}
	pod := ""
	if end := d.peers[s]; end != nil && end.Pod != nil {
		pod = end.Pod.Name
	}
	var seen *networkingv1beta1.Configuration
	if other := d.peers[s.Other()]; other != nil {
		seen = other.Configuration
	}
	facts := t.EndFacts(r, seen, pod, func(at time.Time) string { return draw.Short(d.now.Sub(at)) })
	if !e.Fresh(d.now) {
		for i, f := range facts {
			facts[i].Value = t.Faint.Render(f.Value)
		}
	}
	return append([]draw.Fact{is(mark, word)}, facts...), mark
}

// latency returns a title, and the round trips that both ends measure: as numbers, and as a chart with a height; 0
// means no chart. Both ends measure the same way, so a band shows where they differ.
func (d detail) latency(width, height int) (title string, lines []string) {
	t := d.t
	length := d.span(width)
	var ends [2][]float64
	var lost [2][]bool
	var latest time.Duration
	for s := range d.p.ends {
		points := d.p.History[s].Until(d.now, length)
		ends[s], lost[s] = session.RoundTrips(points), session.Lost(points)
		latest = max(latest, d.p.roundTrip(flows.Side(s), d.now))
	}
	c := draw.Curve{Style: t.Sides[flows.A], Mark: '*'}
	for i := range length {
		a, b := ends[0][i], ends[1][i]
		low, high, mean := min(a, b), max(a, b), (a+b)/2
		switch {
		case math.IsNaN(a):
			low, high, mean = b, b, b
		case math.IsNaN(b):
			low, high, mean = a, a, a
		}
		c.Values, c.Low, c.High = append(c.Values, mean), append(c.Low, low), append(c.High, high)
		c.Lost = append(c.Lost, lost[0][i] || lost[1][i])
	}
	title = t.Title.Render("Round trip")
	mean, p95, highest, ok := draw.Statistics(c.Values, latest)
	if !ok {
		return title, []string{"not measured yet"}
	}
	field := func(label, text string) string { return t.Faint.Render(label+" ") + text }
	lines = []string{t.Fit(strings.Join([]string{
		field("now", draw.Latency(latest)), field("mean", draw.Milliseconds(mean)),
		field("p95", draw.Milliseconds(p95)), field("max", draw.Milliseconds(highest)),
	}, "  "), width)}
	if height == 0 || !draw.Curved(c.Values) {
		return title, lines
	}
	return title, append(lines, t.Chart([]draw.Curve{c}, time.Duration(length)*session.Bucket, width, height, draw.InMilliseconds)...)
}

// fewBuckets is the smallest number of buckets in a chart: five minutes.
const fewBuckets = 30

// span returns the number of buckets in a chart of that width: all buckets, if they fit.
func (d detail) span(width int) int {
	known := fewBuckets
	for _, h := range d.p.History {
		if n := len(h.Points); n > 0 {
			known = max(known, n+int(session.BucketOf(d.now)-h.Last))
		}
	}
	return max(fewBuckets, min(known, session.SeriesLength, 2*draw.PlotWidth(width)))
}

// rates returns the traffic in both directions over the latest buckets, as the measuring end counts it: what it
// received, and what it sent.
func (d detail) rates(length int) (side flows.Side, received, sent []float64) {
	if len(d.p.History[flows.A].Points) == 0 {
		side = flows.B
	}
	points := d.p.History[side].Until(d.now.Add(-session.Bucket), length)
	return side, session.ReceivedRates(points), session.SentRates(points)
}

// flow returns a title, and the traffic in both directions as numbers and as a chart with a height.
func (d detail) flow(width, height int) (title string, lines []string) {
	t, length := d.t, d.span(width)
	side, received, sent := d.rates(length)
	now := [2]string{"not known", "not known"} // from this side, and to it
	if r := d.p.ends[side].rate; r.Known && d.p.ends[side].Fresh(d.now) {
		now = [2]string{draw.PerSecond(r.Sent) + "/s", draw.PerSecond(r.Received) + "/s"}
	}
	from := func(s flows.Side, rate string) string {
		return t.Sides[s].Render(t.Plain(fmt.Sprintf("from %s %s", t.Middle(string(d.p.ends[s].ID), max(leastName, width/2-20)), rate)))
	}
	title = t.Title.Render("Traffic")
	lines = []string{t.Fit(from(side, now[0])+"  "+from(side.Other(), now[1]), width)}
	if height == 0 || draw.Highest(received, sent) == 0 || !draw.Curved(received) {
		return title, lines
	}
	curves := []draw.Curve{{Values: received, Style: t.Sides[side.Other()], Mark: 'r'}, {Values: sent, Style: t.Sides[side], Mark: 't'}}
	return title, append(lines, t.Chart(curves, time.Duration(length)*session.Bucket, width, height, draw.InBytes)...)
}

// traffic returns the traffic without frames: as a chart if there is room, otherwise as two lines of bars with the
// same scale.
func (d detail) traffic(width int, chart bool) []string {
	t := d.t
	if chart {
		if title, lines := d.flow(width, chartHeight); len(lines) > 1 {
			return append([]string{title + "  " + lines[0]}, lines[1:]...)
		}
	}
	length := max(8, min(40, (width-40)/2))
	side, received, sent := d.rates(length)
	_, numbers := d.flow(width, 0)
	top := draw.Highest(received, sent)
	bars := t.Sides[side].Render(t.Spark(sent, top)) + "  " + t.Sides[side.Other()].Render(t.Spark(received, top))
	head := t.Title.Render("Traffic") + "  " + numbers[0]
	if both := head + "  " + bars; draw.Cells(both) <= width {
		return []string{both}
	}
	return []string{t.Fit(head, width), t.Fit(bars, width)}
}

// latestEvents is the smallest number of lines for events in the overview.
const latestEvents = 6

// events returns a line for each event, the latest first.
func (d detail) events(width int) []string {
	all := d.log.all(func(e event) bool { return e.id == d.p.ID })
	if d.t.Frames() {
		width = 0
	}
	return d.board.eventRows(d.t, all[max(0, len(all)-mostEvents):], true, width)
}

// mostEvents is the largest number of events in the overview, on a high terminal.
const mostEvents = 20
