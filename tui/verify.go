package tui

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// verification is the latest measurement of a connection with packets, or the
// one that is under way.
type verification struct {
	id    int // of the latest one
	pair  [2]flows.ContextRef
	began time.Time
	stop  context.CancelFunc // of the one under way; nil for none
	// result is that of the latest one that has ended; err is why it has none.
	result flows.Verification
	err    error
	ended  bool
}

func (v verification) running() bool { return v.stop != nil }

// verifiedMsg is what a measurement has found.
type verifiedMsg struct {
	id     int
	result flows.Verification
	err    error
	at     time.Time
}

// verify measures the connection of the pair, from pod to pod.
func (m Model) verify() (Model, tea.Cmd) {
	a, b := m.on(flows.A).cluster, m.on(flows.B).cluster
	switch v := m.live.verify; {
	case v.running() && v.pair == m.pair:
		return m, nil
	case a == nil || b == nil:
		m.note = "A cluster does not answer: nothing can be measured."
		return m, nil
	}
	ctx, stop := context.WithCancel(m.ctx)
	before := m.live.verify.stop // of another pair
	m.live.verify = verification{id: m.live.verify.id + 1, pair: m.pair, began: m.clock, stop: stop}
	id, now := m.live.verify.id, m.options.Now
	return m, func() tea.Msg {
		if before != nil {
			before()
		}
		defer stop()
		result, err := flows.VerifyPair(ctx, a, b, flows.VerifyRequest{Now: now}, func(flows.Side, string) {})
		return verifiedMsg{id, result, err, now()}
	}
}

func (m Model) updateVerified(msg verifiedMsg) Model {
	if v := &m.live.verify; v.running() && msg.id == v.id {
		v.stop, v.result, v.err, v.ended = nil, msg.result, msg.err, true
		m.clock = m.later(msg.at)
	}
	return m
}

// measuring makes a run's last step send packets, where the plan has one.
func measuring(a, b flows.Cluster, now func() time.Time) func(context.Context, flows.Facts) (flows.Measurement, error) {
	return func(ctx context.Context, _ flows.Facts) (flows.Measurement, error) {
		v, err := flows.VerifyPair(ctx, a, b, flows.VerifyRequest{Now: now}, func(flows.Side, string) {})
		if err != nil {
			return flows.Measurement{}, err
		}
		return v.Measurement(), nil
	}
}

// verifyText says what was measured, as lines of at most width cells.
func (m Model) verifyText(width int) []string {
	t, v := m.theme, m.live.verify
	switch {
	case v.running() && v.pair == m.pair:
		text := fmt.Sprintf("measuring with a pod on each side, for %s", age(m.clock.Sub(v.began)))
		return []string{t.state(markRunning, text, 0)}
	case !v.ended || v.pair != m.pair:
		return t.wrap("No packet was measured from pod to pod yet: v does.", width, 0)
	case v.err != nil:
		return t.wrap("Not measured: "+v.err.Error(), width, 0)
	}
	look := map[flows.Verdict]mark{flows.Works: markOK, flows.Degraded: markWarn, flows.Broken: markFail}[v.result.Verdict()]
	if look == markOK && !v.result.Verified() {
		look = markUnknown
	}
	found := v.result.Measurement().Result
	if v.result.Between == flows.Gateways {
		found = "not verified: only the gateways' pings are known"
	}
	lines := []string{t.state(look, found, 0) + t.faint.Render(", "+age(m.clock.Sub(v.result.At))+" ago")}
	for _, text := range v.result.Lines() {
		// Its last line says what the first one here does.
		if !strings.HasPrefix(text, "verified") && !strings.HasPrefix(text, "not verified") {
			lines = append(lines, t.wrap(text, width-2, 4)...)
		}
	}
	for i := range lines[1:] {
		lines[i+1] = "  " + strings.TrimPrefix(lines[i+1], "  ")
	}
	return lines
}
