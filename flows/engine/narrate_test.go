package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/golden"
)

// transcript is what Narrate makes of a run, a line for each record.
func transcript(events []engine.Event) string {
	var b strings.Builder
	var last engine.Event
	for _, e := range events {
		for _, r := range engine.Narrate(last, e) {
			side := ""
			if r.Step.ID != "" {
				side = fmt.Sprintf("%s %s", r.Step.Side, e.Plan.ID(r.Step.Side))
			}
			fmt.Fprintf(&b, "%5.1fs %-10s %-8s %s\n", r.Elapsed.Seconds(), r.Type, side, r.Text)
		}
		last = e
	}
	return b.String()
}

func TestNarrate(t *testing.T) {
	for _, tc := range []struct {
		golden string
		past   func(*testing.T, *flowtest.Pair)
		plan   flows.Planner
		fails  bool
	}{
		{golden: "connect.txt", past: flowtest.Nothing, plan: flowtest.Connect(flowtest.NodePort())},
		{golden: "connect-again.txt", past: flowtest.Connected, plan: flowtest.Connect(flowtest.NodePort())},
		{golden: "reset.txt", past: flowtest.Connected, plan: flowtest.Reset},
		{golden: "reset-nothing.txt", past: flowtest.Nothing, plan: flowtest.Reset},
		{golden: "reset-liqoctl.txt", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) { p.ConnectByLiqoctl(flows.B) }), plan: flowtest.Reset},
		{golden: "connect-outage.txt", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
			p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 3, For: 4}} })
		}), plan: flowtest.Connect(flowtest.NodePort())},
		{golden: "connect-refused.txt", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
			p.B.Behave(func(b *flowtest.Behaviour) {
				b.WriteErrors = map[int]error{3: flowtest.Forbidden("ada", "gatewayservers", "liqo-tenant-rome")}
			})
		}), plan: flowtest.Connect(flowtest.NodePort()), fails: true},
		{golden: "connect-no-plan.txt", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
			p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
		}), plan: flowtest.Connect(flowtest.NodePort()), fails: true},
		{golden: "connect-timeout.txt", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
			p.B.Behave(func(b *flowtest.Behaviour) { b.LoadBalancerPending, b.NoCIDRs = true, true })
		}), plan: flowtest.Connect(flows.Defaults()), fails: true},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			p := flowtest.NewPair()
			tc.past(t, p)
			r, err := flowtest.Run(t, p, tc.plan)
			if (err != nil) != tc.fails {
				t.Errorf("run: %v", err)
			}
			golden.Compare(t, tc.golden, transcript(r.Events))
		})
	}
}

// A step that was found done, after it had been blocked, was not done by the run.
func TestNarrateClaimsNothingThatWasNotDone(t *testing.T) {
	started := flowtest.Epoch()
	event := func(s flows.Step) engine.Event {
		s.ID, s.Title = "x", "GatewayClient milan"
		return engine.Event{At: started, Started: started, Plan: flows.Plan{Steps: []flows.Step{s}}}
	}
	records := engine.Narrate(event(flows.Step{Status: flows.Blocked}), event(flows.Step{Status: flows.Done, Action: flows.Update}))
	if len(records) != 1 || records[0].Text != "GatewayClient milan: unchanged" {
		t.Errorf("got %+v, want one record: unchanged", records)
	}
	if records := engine.Narrate(event(flows.Step{Status: flows.Done}), event(flows.Step{Status: flows.Done, Reason: "latency 2ms"})); len(records) != 0 {
		t.Errorf("got %+v for a step that stays done", records)
	}
}
