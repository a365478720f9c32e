package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
)

// liveScreen is the connection as each side sees it.
type liveScreen struct {
	witnesses [2]witness
	verify    verification
}

// witness is one side of the pair, and what it measured while it was watched.
type witness struct {
	of      flows.ContextRef
	reading flows.Reading
	history series
}

// note takes in what the side says now. What another cluster said, or of
// another peer, is forgotten.
func (w witness) note(now time.Time, of flows.ContextRef, r flows.Reading) witness {
	if w.of != of || w.reading.Peer != r.Peer {
		w = witness{of: of}
	}
	if newer(w.reading, r) {
		w.history.points = slices.Clone(w.history.points) // models share them
		w.history.add(now, r, rateOf(w.reading, r))
	}
	w.reading = r
	return w
}

// status is one side's word on the connection, and how far to believe it.
type status struct {
	mark mark
	word string
	why  string
}

// status is what the side says of the connection now.
func (m Model) status(s flows.Side) status {
	side := m.on(s)
	if p := side.latest.Problem; p != nil {
		why := fmt.Sprintf("for %s: %s", age(m.clock.Sub(side.since)), p.Message)
		return status{markUnknown, "not answering", why}
	}
	state, why := m.peer(s).Reading().State(m.clock)
	return status{stateMarks[state], string(state), why}
}

func percent(share float64) string { return fmt.Sprintf("%.3g%%", share*100) }

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
		return fmt.Sprintf("%d of the plan's steps would change something: %s shows them.", n, called(m.keys.plan))
	}
}

// sideText is one side's view, as lines of at most width cells.
func (m Model) sideText(s flows.Side, width int) []string {
	t, now, peer := m.theme, m.status(s), m.peer(s)
	lines := []string{
		t.title.Render(t.side(s, string(m.id(s)), 0)) + "  " + t.faint.Render(cmp.Or(string(peer.Reading().Role), "no gateway")) + "  " + t.state(now.mark, now.word, 0),
	}
	add := func(text string) {
		for _, line := range t.wrap(text, width-2, 0) {
			lines = append(lines, "  "+line)
		}
	}
	if now.why != "" {
		add(now.why)
	}
	r := peer.Reading()
	if r.Exists {
		lines = append(lines, m.latencyLine(s, r))
	}
	ago := func(at time.Time) string { return age(m.clock.Sub(at)) }
	for _, line := range t.pack(t.readingFacts(r, "", ago), width-2) {
		lines = append(lines, "  "+line)
	}
	for _, text := range cidrText(string(m.id(s.Other())), peer.Configuration) {
		add(text)
	}
	if now.mark == markUnknown {
		for i := 1; i < len(lines); i++ {
			lines[i] = t.faint.Render(lines[i]) // as it was when it was last known
		}
	}
	return lines
}

// liveBuckets is how far back a side's sparkline goes: three minutes.
const liveBuckets = 18

// latencyLine is the latest round trip and how it was before.
func (m Model) latencyLine(s flows.Side, r flows.Reading) string {
	value := "not measured"
	if r.Latency > 0 {
		value = roundTrip(r.Latency)
	}
	line := "  round trip " + value
	values := roundTrips(m.live.witnesses[s].history.until(m.clock, liveBuckets))
	if _, _, highest, ok := statistics(values); ok {
		line += "  " + m.theme.spark(values) + m.theme.faint.Render("  max "+milliseconds(highest))
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
