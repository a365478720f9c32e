package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
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
	log      *eventLog
	names    string
	began    time.Time // when watching did
	pane     bool      // it does not scroll: a chart is there as a whole or not at all
	// absence is why a side says nothing.
	absence string
	// measured returns lines about packets from pod to pod; nil if none can be sent.
	measured func(width int) []string
}

// The numbers of lines of a chart, including the axis of time, by the available room. Above
// the axis, the number is odd, so that there is a line in the middle.
const (
	leastChart   = 5
	chartHeight  = 8
	chartHighest = 16
)

// lines returns lines of at most width cells. Charts and events get the remaining height.
func (d detail) lines(width, height int) []string {
	t := d.t
	v := d.p.together(d.now) // anew: its words tell the time
	head := t.Glyphs[draw.PairMarks[v.State]] + " " + v.State.String()
	if since := d.p.began(); !since.IsZero() {
		head += " for " + draw.Minutes(d.now.Sub(since))
	}
	lines := []string{t.Marks[draw.PairMarks[v.State]].Render(head)}
	for _, line := range t.Wrap(v.Why, width-2, 0) {
		lines = append(lines, "  "+line)
	}
	if d.measured != nil { // what a key starts is to be seen without scrolling
		const label = "Pods   "
		for i, line := range d.measured(width - len(label)) {
			lines = append(lines, map[bool]string{true: t.Label.Render(label), false: strings.Repeat(" ", len(label))}[i == 0]+line)
		}
	}
	lines = append(append(lines, ""), d.sides(v, width)...)
	history, outages := " in the last 24 h", d.p.flapCount(d.now)
	switch {
	case outages == 0 && d.now.Sub(d.p.came) < flapWindow:
		history = " since it first worked, at " + d.p.came.Format("15:04")
	case d.now.Sub(d.began) < flapWindow:
		history = " since " + d.began.Format("15:04") + ", when watching began"
	}
	history = flapText(outages, v.State) + history
	if at := d.p.created(); !at.IsZero() {
		history += "; gateways are " + draw.Minutes(d.now.Sub(at)) + " old"
	}
	from := recent(d.began, d.now)
	lines = append(append(lines, ""), t.Field("History ", history, width)...)
	lines = append(lines, t.Lane(lane(d.log.past(d.p), from, d.now, width)), laneAxis(t, from, width))
	events := d.events(width)
	few := events[:min(len(events), latestEvents)]
	spare := height - len(lines) - len(few) - (1 + 3 + chartHeight) - 2
	traffic := d.traffic(width, spare >= chartHeight)
	spare -= len(traffic) - 2
	chart := chartHeight + max(0, min(spare/2*2, chartHighest-chartHeight))
	if d.pane { // what follows it is in sight, or the last line says how many lines are not
		chart = min(chart, height-len(lines)-(1+3)-len(traffic)-min(1, len(few)))
	}
	if chart < leastChart {
		chart = 0
	}
	lines = append(append(lines, ""), d.latency(width, chart)...)
	lines = append(lines, traffic...)
	if room := height - len(lines); room > len(few) {
		few = events[:min(len(events), room)]
	}
	return append(lines, few...)
}

// sides are what both ends say, beside each other where there is room.
func (d detail) sides(both view.Verdict, width int) []string {
	if width >= draw.TwoColumns {
		half := draw.Half(width)
		return d.t.Beside(d.side(flows.A, both, half), d.side(flows.B, both, half), width)
	}
	return append(append(d.side(flows.A, both, width), ""), d.side(flows.B, both, width)...)
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

// side is what one end says, and how old that is. What was said already is not
// repeated.
func (d detail) side(s flows.Side, both view.Verdict, width int) []string {
	t, e := d.t, d.p.ends[s]
	name := t.Title.Render(t.Side(s, string(e.ID), 0))
	r := e.Reading
	switch {
	case !e.Chosen:
		return []string{name + "  " + t.Faint.Render(d.absence+": nothing is known from it")}
	case r.Peer == "":
		return []string{name + "  " + t.State(draw.Fail, "has nothing of this peering", 0)}
	}
	state, why := r.State(d.now)
	mark, word := draw.EndMark(state, both.State), string(state)
	if !e.Silent.IsZero() {
		mark, word, why = draw.Unknown, "not answering for "+draw.Minutes(d.now.Sub(e.Silent)), e.Problem+". What it said last:"
	}
	lines := []string{name + "  " + t.Faint.Render(cmp.Or(string(r.Role), "no gateway")) + "  " + t.State(mark, word, 0)}
	add := func(look draw.Style, text string) {
		for _, line := range t.Wrap(text, width-2, 0) {
			lines = append(lines, "  "+look.Render(line))
		}
	}
	if state != flows.StateConnected && !strings.Contains(both.Why, why) || !e.Silent.IsZero() {
		add(draw.Style{}, why)
	}
	var look draw.Style
	if !e.Fresh(d.now) {
		look = t.Faint
	}
	for _, line := range t.Pack(d.facts(s), width-2) {
		lines = append(lines, "  "+look.Render(line))
	}
	if end := d.peers[s]; end != nil {
		for _, text := range draw.CIDRText(string(d.p.ends[s.Other()].ID), end.Configuration) {
			add(look, text)
		}
	}
	for _, line := range t.Lending(d.lendings[s], e.ID, d.p.ends[s.Other()].ID, width-2) {
		lines = append(lines, "  "+line)
	}
	return lines
}

// facts of one end, as short texts.
func (d detail) facts(s flows.Side) []string {
	pod := ""
	if end := d.peers[s]; end != nil && end.Pod != nil {
		pod = end.Pod.Name
	}
	return d.t.ReadingFacts(d.p.ends[s].Reading, pod, func(at time.Time) string { return draw.Minutes(d.now.Sub(at)) })
}

// latency is both ends' round trips, as figures and as a chart of a height; 0: without it.
func (d detail) latency(width, height int) []string {
	t := d.t
	length := d.span(width)
	var curves []draw.Curve
	measured := false
	lines := []string{t.Label.Render("Round trip") + t.Faint.Render(fmt.Sprintf(" between the gateways, every %s, last %d min", session.Bucket, int((time.Duration(length)*session.Bucket).Minutes())))}
	for s := range d.p.ends {
		side := flows.Side(s)
		points := d.p.History[s].Until(d.now, length)
		values := session.RoundTrips(points)
		mean, p95, highest, ok := draw.Statistics(values)
		if !ok {
			continue
		}
		measured = true
		if draw.Curved(values) {
			curves = append(curves, draw.Curve{Values: values, Lost: session.Lost(points), Style: t.Sides[s], Mark: []rune(side.String())[0]})
		}
		facts := []string{
			"now " + draw.Latency(d.p.roundTrip(side, d.now)), "mean " + draw.Milliseconds(mean),
			"p95 " + draw.Milliseconds(p95), "max " + draw.Milliseconds(highest),
		}
		key := side.String() + t.To + side.Other().String()
		lines = append(lines, t.Fit("  "+t.Sides[s].Render(key)+"  "+t.Pack(facts, 1000)[0], width))
	}
	switch {
	case !measured:
		return append(lines, "  not measured yet")
	case len(curves) == 0, height == 0:
		return lines
	}
	return append(lines, t.Chart(curves, time.Duration(length)*session.Bucket, width, height, draw.Milliseconds)...)
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
	return max(fewBuckets, min(known, session.SeriesLength, 2*(width-8)))
}

// traffic is what the measuring end has received and sent: as a chart where there is room,
// or else as two lines of bars, which have one scale.
func (d detail) traffic(width int, chart bool) []string {
	t := d.t
	side := flows.A
	if len(d.p.History[flows.A].Points) == 0 {
		side = flows.B
	}
	now := "not known"
	rates := [2]string{now, now}
	if r := d.p.ends[side].rate; r.Known && d.p.ends[side].Fresh(d.now) {
		rates = [2]string{draw.PerSecond(r.Received) + "/s", draw.PerSecond(r.Sent) + "/s"}
	}
	length := max(8, min(40, (width-30)/2))
	if chart {
		length = d.span(width)
	}
	points := d.p.History[side].Until(d.now.Add(-session.Bucket), length)
	received, sent := session.ReceivedRates(points), session.SentRates(points)
	top, back := draw.Highest(received, sent), time.Duration(length)*session.Bucket
	by := t.Faint.Render(fmt.Sprintf("by %s, last %d min", side, int(back.Minutes())))
	if chart && top > 0 && draw.Curved(received) {
		key := func(s flows.Side, text string) string { return t.Sides[s].Render(text) }
		head := t.Label.Render("Traffic ") + key(side.Other(), "RX "+rates[0]) + "  " + key(side, "TX "+rates[1]) + "  " + by
		curves := []draw.Curve{{Values: received, Style: t.Sides[side.Other()], Mark: 'r'}, {Values: sent, Style: t.Sides[side], Mark: 't'}}
		return append([]string{head}, t.Chart(curves, back, width, chartHeight, func(v float64) string { return draw.PerSecond(v) + "/s" })...)
	}
	parts := []string{
		t.Label.Render("RX ") + draw.Pad(rates[0], 9) + " " + t.Sides[side.Other()].Render(t.Spark(received, top)),
		t.Label.Render("TX ") + draw.Pad(rates[1], 9) + " " + t.Sides[side].Render(t.Spark(sent, top)),
		by,
	}
	joined := parts[0] + "  " + parts[1] + "  " + parts[2]
	if draw.Cells(joined) <= width {
		return []string{joined}
	}
	return []string{parts[0], parts[1] + "  " + parts[2]}
}

// latestEvents is the smallest number of lines for events in the overview.
const latestEvents = 6

// events returns a line for each event, the latest first.
func (d detail) events(width int) []string {
	all := d.log.all(func(e event) bool { return e.id == d.p.ID })
	if len(all) == 0 {
		return nil
	}
	lines := []string{"", d.t.Label.Render("Latest events")}
	for _, e := range slices.Backward(all[max(0, len(all)-mostEvents):]) {
		lines = append(lines, eventLines(d.t, e, d.names, d.now, width)...)
	}
	return lines
}

// mostEvents is the largest number of events in the overview, on a high terminal.
const mostEvents = 20
