package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// liveScreen is the connection as each side sees it.
type liveScreen struct {
	history [2]history
	verify  verification
}

// status is one side's word on the connection, and how far to believe it.
type status struct {
	mark mark
	word string
	why  string
}

// lossy is the share of lost pings from which a connection counts as degraded:
// two of the thirty that a minute has.
const lossy = 0.05

// status is what the side says of the connection now.
func (m Model) status(s flows.Side) status {
	state, peer := m.on(s), m.peer(s)
	if p := state.latest.Problem; p != nil {
		why := fmt.Sprintf("for %s: %s", age(m.clock.Sub(state.since)), p.Message)
		return status{markUnknown, "not answering", why}
	}
	conn := peer.Connection
	switch {
	case conn == nil && peer.Server == nil && peer.Client == nil:
		return status{markPending, "not connected", "there is no gateway"}
	case conn == nil && peer.Pod != nil && peer.Pod.Waiting != "":
		return status{markRunning, "starting", "pod " + peer.Pod.Name + ": " + peer.Pod.Waiting}
	case conn == nil:
		return status{markRunning, "starting", "the gateway has reported nothing yet"}
	}
	return connectionStatus(conn, m.clock)
}

// connectionStatus is what a Connection says, unless that is too old to believe.
func connectionStatus(c *networkingv1beta1.Connection, now time.Time) status {
	value := cmp.Or(string(c.Status.Value), "nothing")
	report, ok, err := render.ParseReport(c.Annotations)
	why := report.Message
	switch {
	case err != nil:
		why = err.Error()
	case !ok:
		why = "the gateway gives no reason"
	case report.Stale(now):
		return status{markUnknown, "stale", fmt.Sprintf("it said %s %s ago, and nothing since", value, age(now.Sub(report.At)))}
	}
	switch c.Status.Value {
	case networkingv1beta1.Connected:
		if ok && report.Loss > lossy {
			return status{markWarn, "degraded", fmt.Sprintf("connected, but %s of the pings are lost", percent(report.Loss))}
		}
		return status{markOK, "connected", why}
	case networkingv1beta1.Connecting:
		return status{markRunning, "connecting", why}
	case networkingv1beta1.ConnectionError:
		return status{markFail, "error", why}
	}
	return status{markUnknown, "unknown", why}
}

func percent(share float64) string { return fmt.Sprintf("%.3g%%", share*100) }

// sample adds to a history what a Connection measured, if that is new.
func sample(h history, c *networkingv1beta1.Connection) history {
	if c == nil {
		return h
	}
	at, roundTrip := c.Status.Latency.Timestamp.Time, parseLatency(c.Status.Latency.Value)
	if report, ok, err := render.ParseReport(c.Annotations); ok && err == nil {
		at, roundTrip = report.At, time.Duration(report.LatencyMicros)*time.Microsecond
	}
	if c.Status.Value != networkingv1beta1.Connected {
		roundTrip = 0
	}
	return h.add(at, roundTrip)
}

// parseLatency reads Liqo's latency; 0 for none. Liqo writes microseconds with
// the Greek letter, which time.ParseDuration knows.
func parseLatency(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return max(0, d)
}

func (m Model) liveCommands() []command {
	k := m.keys
	toPlan := func(m Model) (Model, tea.Cmd) {
		m.screen, m.plan.pinned = screenPlan, true
		return m, nil
	}
	return []command{
		{Binding: k.verify, do: Model.verify},
		{Binding: k.settings, do: Model.openSettings},
		{Binding: k.plan, do: toPlan},
		{Binding: k.disconnect, do: func(m Model) (Model, tea.Cmd) { return m.takeAway(Disconnect), nil }},
		{Binding: k.reset, do: func(m Model) (Model, tea.Cmd) { return m.takeAway(Reset), nil }},
		{Binding: k.copyCommand, do: Model.copyCommandLine},
		{Binding: k.back, do: Model.toClusters},
		{Binding: k.dashboard, do: Model.toDashboard},
	}
}

// takeAway shows the plan that removes the connection.
func (m Model) takeAway(g Goal) Model {
	return m.begin(g)
}

// twoColumns is the width from which both sides stand beside each other.
const twoColumns = 120

// liveText is the whole live screen, as lines of at most width cells.
func (m Model) liveText(width int) []string {
	lines := []string{m.verdict()}
	var measured []string
	if both := m.peer(flows.A).Connection != nil && m.peer(flows.B).Connection != nil; both {
		measured = m.verifyText(width)
		lines = append(lines, measured[0])
		measured = measured[1:]
	}
	lines = append(lines, "")
	if width >= twoColumns {
		half := (width - 3) / 2
		a, b := m.sideText(flows.A, half), m.sideText(flows.B, half)
		for i := range max(len(a), len(b)) {
			lines = append(lines, pad(m.theme.fit(at(a, i), half), half)+"   "+m.theme.fit(at(b, i), half))
		}
	} else {
		lines = append(lines, m.sideText(flows.A, width)...)
		lines = append(lines, "")
		lines = append(lines, m.sideText(flows.B, width)...)
	}
	if len(measured) > 0 {
		lines = append(lines, "")
		lines = append(lines, measured...)
	}
	if left := m.leftToDo(); left != "" {
		lines = append(lines, "")
		lines = append(lines, m.theme.wrap(left, width, 0)...)
	}
	return lines
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// verdict sums both sides up.
func (m Model) verdict() string {
	a, b := m.status(flows.A), m.status(flows.B)
	worst := a
	if severity(b.mark) > severity(a.mark) {
		worst = b
	}
	text := fmt.Sprintf("A says %s, B says %s", a.word, b.word)
	if a.word == b.word {
		text = "both sides say: " + a.word
	}
	if a.mark == markOK && b.mark == markOK {
		text = "connected: each gateway answers the other's pings"
	}
	return m.theme.marks[worst.mark].Render(m.theme.glyphs[worst.mark] + " " + text)
}

// severity orders marks from fine to bad.
func severity(k mark) int {
	return map[mark]int{markOK: 0, markPending: 1, markRunning: 2, markWarn: 3, markUnknown: 4, markFail: 5}[k]
}

// leftToDo says what differs from what is wanted.
func (m Model) leftToDo() string {
	switch n := m.current.Changes().Total(); {
	case !m.planned() || m.current.Failure() != nil || n == 0:
		return ""
	default:
		return fmt.Sprintf("%d of the plan's steps would change something: p shows them.", n)
	}
}

// sideText is one side's view, as lines of at most width cells.
func (m Model) sideText(s flows.Side, width int) []string {
	t, now, peer := m.theme, m.status(s), m.peer(s)
	lines := []string{
		t.title.Render(t.side(s, string(m.id(s)), 0)) + "  " + t.faint.Render(role(peer)) + "  " + t.state(now.mark, now.word, 0),
	}
	add := func(text string) {
		for _, line := range t.wrap(text, width-2, 0) {
			lines = append(lines, "  "+line)
		}
	}
	if now.why != "" {
		add(now.why)
	}
	if peer.Connection != nil {
		lines = append(lines, m.latencyLine(s, peer.Connection))
		for _, line := range t.pack(m.reportFacts(peer.Connection), width-2) {
			lines = append(lines, "  "+line)
		}
	}
	for _, text := range cidrText(string(m.id(s.Other())), peer.Configuration) {
		add(text)
	}
	if m.on(s).latest.Problem != nil {
		for i := 1; i < len(lines); i++ {
			lines[i] = t.faint.Render(lines[i]) // as it was when it last answered
		}
	}
	return lines
}

func role(p flows.Peer) string {
	switch {
	case p.Server != nil:
		return "server"
	case p.Client != nil:
		return "client"
	}
	return "no gateway"
}

// latencyLine is the latest round trip and how it was before.
func (m Model) latencyLine(s flows.Side, c *networkingv1beta1.Connection) string {
	h := m.live.history[s]
	value := cmp.Or(c.Status.Latency.Value, "not measured")
	if report, ok, err := render.ParseReport(c.Annotations); ok && err == nil && report.LatencyMicros > 0 {
		value = roundTrip(time.Duration(report.LatencyMicros) * time.Microsecond)
	}
	line := "  round trip " + m.theme.plain(value)
	if low, high, ok := h.bounds(); ok {
		line += "  " + h.sparkline(m.theme, 20)
		if low != high {
			line += m.theme.faint.Render(fmt.Sprintf("  %s to %s", roundTrip(low), roundTrip(high)))
		}
	}
	return line
}

// roundTrip writes a duration with the digits that mean something.
func roundTrip(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%dus", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

// reportFacts are what a gateway says beyond its state.
func (m Model) reportFacts(c *networkingv1beta1.Connection) []string {
	r, ok, err := render.ParseReport(c.Annotations)
	if !ok || err != nil {
		return nil
	}
	var facts []string
	add := func(known bool, text string) {
		if known {
			facts = append(facts, m.theme.plain(text))
		}
	}
	if r.Handshake != nil {
		add(true, "handshake "+age(m.clock.Sub(*r.Handshake))+" ago")
	}
	add(r.Handshake == nil && c.Status.Value != networkingv1beta1.Connected, "no handshake yet")
	add(true, "loss "+percent(r.Loss))
	add(true, "received "+byteCount(r.ReceivedBytes))
	add(true, "sent "+byteCount(r.SentBytes))
	add(r.Endpoint != "", "peer at UDP "+r.Endpoint)
	add(r.Implementation != "", r.Implementation+" WireGuard")
	add(r.MTU != 0, fmt.Sprintf("MTU %d", r.MTU))
	add(true, "reported "+age(m.clock.Sub(r.At))+" ago")
	return facts
}

// cidrText says as which addresses the side sees the other's.
func cidrText(other string, conf *networkingv1beta1.Configuration) []string {
	if conf == nil {
		return nil
	}
	if !flows.CIDRsConfigured(conf) {
		return []string{"addresses of " + other + " are not assigned yet"}
	}
	own, seen := conf.Spec.Remote.CIDR, conf.Status.Remote.CIDR
	return []string{
		fmt.Sprintf("sees %s's pods %s as %s", other, join(own.Pod), join(seen.Pod)),
		fmt.Sprintf("sees %s's external %s as %s", other, join(own.External), join(seen.External)),
	}
}

func join(cidrs []networkingv1beta1.CIDR) string {
	text := make([]string, len(cidrs))
	for i, c := range cidrs {
		text[i] = string(c)
	}
	return strings.Join(text, ", ")
}
