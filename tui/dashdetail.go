package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
)

// detail draws all that is known of one peering. peers are the objects that
// each side has of it, nil where they aren't known.
type detail struct {
	t     theme
	now   time.Time
	p     *peering
	peers [2]*flows.Peer
	log   *eventLog
	names string
	// measured tells of packets from pod to pod; nil if none were sent.
	measured func(width int) []string
}

// chartHeight is the lines of a chart, its axis of time included: an odd number
// of lines above that has one in the middle.
const chartHeight = 8

// lines are at most width cells.
func (d detail) lines(width int) []string {
	t := d.t
	v := judge(d.p.ends, d.now) // anew: its words tell the time
	head := t.glyphs[v.state.mark()] + " " + v.state.String()
	if since := d.p.began(); !since.IsZero() {
		head += " for " + minutes(d.now.Sub(since))
	}
	lines := []string{t.marks[v.state.mark()].Render(head)}
	for _, line := range t.wrap(v.why, width-2, 0) {
		lines = append(lines, "  "+line)
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		lines = append(lines, "")
		lines = append(lines, d.side(side, v.why, width)...)
	}
	lines = append(lines, "")
	lines = append(lines, d.latency(width)...)
	lines = append(lines, d.traffic(width)...)
	lines = append(lines, "")
	if d.measured != nil {
		lines = append(lines, t.label.Render("From pod to pod"))
		for _, line := range d.measured(width - 2) {
			lines = append(lines, "  "+line)
		}
	} else {
		lines = append(lines, t.field("Pods    ", "not measured: the states above are what gateways say of their pings. v sends packets from pod to pod.", width)...)
	}
	history := flapText(d.p.flapCount(d.now), v.state) + " in the last 24 h, as far as this program watched"
	if at := d.p.created(); !at.IsZero() {
		history += "; gateways made " + minutes(d.now.Sub(at)) + " ago"
	}
	lines = append(lines, t.field("History ", history, width)...)
	return append(lines, d.events(width)...)
}

func flapText(n int, now peeringState) string {
	switch {
	case n == 0 && now.broken():
		return "never seen to work"
	case n == 0:
		return "never broke"
	case n == 1:
		return "broke once"
	}
	return fmt.Sprintf("broke %d times", n)
}

// side is what one end says, and how old that is. What was said already is not
// repeated.
func (d detail) side(s flows.Side, said string, width int) []string {
	t, e := d.t, d.p.ends[s]
	name := t.title.Render(t.side(s, string(e.id), 0))
	r := e.reading
	switch {
	case !e.chosen:
		return []string{name + "  " + t.faint.Render("not among the contexts: nothing is known of its side")}
	case r.Peer == "":
		return []string{name + "  " + t.state(markFail, "has nothing of this peering", 0)}
	}
	state, why := r.State(d.now)
	mark, word := stateMarks[state], string(state)
	if !e.silent.IsZero() {
		mark, word, why = markUnknown, "not answering for "+minutes(d.now.Sub(e.silent)), e.problem+". What it said last:"
	}
	lines := []string{name + "  " + t.faint.Render(cmp.Or(string(r.Role), "no gateway")) + "  " + t.state(mark, word, 0)}
	add := func(look style, text string) {
		for _, line := range t.wrap(text, width-2, 0) {
			lines = append(lines, "  "+look.Render(line))
		}
	}
	if state != flows.StateConnected && !strings.Contains(said, why) || !e.silent.IsZero() {
		add(style{}, why)
	}
	var look style
	if !e.fresh(d.now) {
		look = t.faint
	}
	for _, line := range t.pack(d.facts(s), width-2) {
		lines = append(lines, "  "+look.Render(line))
	}
	if peer := d.peers[s]; peer != nil {
		for _, text := range cidrText(string(d.p.ends[s.Other()].id), peer.Configuration) {
			add(look, text)
		}
	}
	return lines
}

// stateMarks are how an end's states look.
var stateMarks = map[flows.State]mark{
	flows.StateNotConnected: markPending, flows.StateStarting: markRunning, flows.StateConnecting: markRunning,
	flows.StateConnected: markOK, flows.StateDegraded: markWarn, flows.StateDown: markFail,
	flows.StateStale: markUnknown, flows.StateUnknown: markUnknown,
}

// facts of one end, as short texts.
func (d detail) facts(s flows.Side) []string {
	pod := ""
	if peer := d.peers[s]; peer != nil && peer.Pod != nil {
		pod = peer.Pod.Name
	}
	return d.t.readingFacts(d.p.ends[s].reading, pod, func(at time.Time) string { return minutes(d.now.Sub(at)) })
}

// readingFacts are what a side says beyond its state, as short texts; ago
// writes how long ago something was.
func (t theme) readingFacts(r flows.Reading, pod string, ago func(time.Time) string) []string {
	var facts []string
	add := func(known bool, format string, args ...any) {
		if known {
			facts = append(facts, t.plain(fmt.Sprintf(format, args...)))
		}
	}
	add(r.Role == flows.RoleServer && r.Endpoint != "", "listens at %s", r.Endpoint)
	add(r.Role == flows.RoleClient && r.Endpoint != "", "dials %s", r.Endpoint)
	hears := "hears the peer at %s"
	if r.Value != networkingv1beta1.Connected {
		hears = "heard the peer last at %s"
	}
	add(r.PeerAddress != "" && "UDP "+r.PeerAddress != r.Endpoint, hears, r.PeerAddress)
	if !r.Handshake.IsZero() {
		add(true, "handshake %s ago", ago(r.Handshake))
	}
	add(r.Reported && r.Handshake.IsZero() && r.Value != networkingv1beta1.Connected, "no handshake yet")
	add(r.Reported, "loss %s", percent(r.Loss))
	add(r.Reported, "received %s", byteCount(r.Received))
	add(r.Reported, "sent %s", byteCount(r.Sent))
	add(r.Implementation != "", "%s WireGuard", r.Implementation)
	add(r.MTU != 0, "MTU %d", r.MTU)
	add(pod != "", "pod %s", pod)
	if !r.At.IsZero() {
		add(true, "reported %s ago", ago(r.At))
	}
	return facts
}

// latency is the chart of both ends' round trips.
func (d detail) latency(width int) []string {
	t := d.t
	length := d.span(width)
	var curves []curve
	lines := []string{t.label.Render("Round trip") + t.faint.Render(fmt.Sprintf(" between the gateways, every %s, last %d min", bucket, int((time.Duration(length)*bucket).Minutes())))}
	for s := range d.p.ends {
		side := flows.Side(s)
		values := roundTrips(d.p.history[s].until(d.now, length))
		mean, p95, highest, ok := statistics(values)
		if !ok {
			continue
		}
		curves = append(curves, curve{values, t.sides[s], []rune(side.String())[0]})
		facts := []string{
			"now " + latency(d.p.roundTrip(side, d.now)), "mean " + milliseconds(mean),
			"p95 " + milliseconds(p95), "max " + milliseconds(highest),
		}
		key := side.String() + t.to + side.Other().String()
		lines = append(lines, t.fit("  "+t.sides[s].Render(key)+"  "+t.pack(facts, 1000)[0], width))
	}
	if len(curves) == 0 {
		return append(lines, "  nothing was measured yet")
	}
	return append(lines, t.chart(curves, width, chartHeight, milliseconds)...)
}

// span is how many buckets a chart of that width shows.
func (d detail) span(width int) int {
	return max(30, min(seriesLength, 2*(width-8)))
}

// traffic is received, sent and lost, as the measuring end counts.
func (d detail) traffic(width int) []string {
	t := d.t
	side := flows.A
	if len(d.p.history[flows.A].points) == 0 {
		side = flows.B
	}
	length := max(8, min(40, (width-30)/2))
	points := d.p.history[side].until(d.now, length)
	now := "not known"
	received, sent := now, now
	if r := d.p.ends[side].rate; r.known && d.p.ends[side].fresh(d.now) {
		received, sent = perSecond(r.received)+"/s", perSecond(r.sent)+"/s"
	}
	parts := []string{
		t.label.Render("RX ") + pad(received, 9) + " " + t.spark(receivedRates(points)),
		t.label.Render("TX ") + pad(sent, 9) + " " + t.spark(sentRates(points)),
		t.faint.Render(fmt.Sprintf("by %s, last %d min", side, int((time.Duration(length) * bucket).Minutes()))),
	}
	joined := parts[0] + "  " + parts[1] + "  " + parts[2]
	if cells(joined) <= width {
		return []string{joined}
	}
	return []string{parts[0], parts[1] + "  " + parts[2]}
}

// latestEvents is how many events the overview shows.
const latestEvents = 4

func (d detail) events(width int) []string {
	all := d.log.all(func(e event) bool { return e.id == d.p.id })
	if len(all) == 0 {
		return nil
	}
	lines := []string{"", d.t.label.Render("Latest events")}
	for i := range min(latestEvents, len(all)) {
		lines = append(lines, d.t.eventLines(all[len(all)-1-i], d.names, width)...)
	}
	return lines
}

// eventLines is one event with its time, wrapped.
func (t theme) eventLines(e event, names string, width int) []string {
	at := e.at.Format(time.TimeOnly) + " "
	lines := t.wrap(e.line(t, names), width, len(at))
	lines[0] = t.faint.Render(at) + lines[0]
	return lines
}
