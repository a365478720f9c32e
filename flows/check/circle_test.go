package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
)

// After advice was followed without success, the next advice does not lead back to the earlier state.
func TestAdviceDoesNotLeadInCircles(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	pair.Join("rome", "milan", func(l *simulated.Link) { l.Closed = true })
	diagnose := func() (r check.Result, advice string) {
		pair.TickTo(pair.Now().Add(2 * time.Minute))
		earlier := factsOf(pair)
		pair.TickTo(pair.Now().Add(20 * time.Second))
		f := factsOf(pair)
		for _, r = range check.Diagnose(f, &earlier) {
			if r.ID == check.UDPPath && r.State == check.Fail {
				break
			}
		}
		plan := flows.PlanConnect(flows.Defaults(), f)
		var all []string
		for _, s := range plan.Steps {
			for _, fix := range s.Fix {
				all = append(all, fix.String())
			}
		}
		for _, fix := range r.Fix {
			all = append(all, fix.String())
		}
		return r, strings.Join(all, "\n")
	}
	r, _ := diagnose()
	if r.State != check.Fail || r.Plan == nil || r.Plan.Value != "Local" {
		t.Fatalf("got %s %q and %+v, want a plan to swap the roles", r.State, r.Summary, r.Plan)
	}
	p := nodePort()
	p.Server, p.Wait = flows.A, flows.WaitNone
	flowtest.MustRun(t, pair, connect.Goal{Params: p})
	for _, again := range []string{"after the swap", "after another apply"} {
		r, advice := diagnose()
		if r.State != check.Fail || r.Plan != nil || strings.Contains(advice, "--server-location") || strings.Count(advice, "--relay HOST:PORT") == 0 {
			t.Errorf("%s: got %s %q, %+v and advice\n%s", again, r.State, r.Summary, r.Plan, advice)
		}
		p.OtherWay = false
		flowtest.MustRun(t, pair, connect.Goal{Params: p})
	}
}

// After the swap of a working connection, the former direction does not count as failed.
func TestASwapOfAWorkingConnectionIsNoFailure(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	p := nodePort()
	p.Server = flows.A
	flowtest.MustRun(t, pair, connect.Goal{Params: p})
	if f := factsOf(pair); f.End(flows.A).OtherWayFailed() {
		t.Error("the former way counts as failed")
	}
}
