package flows_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// The operator would refuse it only when the GatewayServer is written, and later runs
// keep what is written there.
func TestANodePortThatIsNotGivenOutIsRefusedBeforeAnythingIsChanged(t *testing.T) {
	for _, tc := range []struct {
		name  string
		known flows.PortRange
		port  uint16
		want  string
	}{
		{"one of the range", flows.PortRange{From: 30000, To: 32767}, 31840, ""},
		{"the range is not known", flows.PortRange{}, 80, ""},
		{"outside of the range", flows.PortRange{From: 30000, To: 32767}, 80, "80 is outside of milan's range 30000-32767"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := flowtest.Facts(flowtest.NewPair())
			f.Sides[flows.B].NodePorts = tc.known
			p := flowtest.NodePort()
			p.Server, p.NodePort = flows.B, tc.port
			plan := flows.PlanConnect(p, f)
			failed := plan.Failure()
			if tc.want == "" {
				if failed != nil {
					t.Errorf("got %q, want no refusal", failed.Reason)
				}
				return
			}
			if failed == nil || failed.Code != flows.CodeFreePort || failed.Reason != tc.want || !strings.Contains(failed.Hint().String(), "--node-port 0") {
				t.Fatalf("got %+v, want the reason %q", failed, tc.want)
			}
			if slices.ContainsFunc(plan.Steps, func(s flows.Step) bool { return s.Action.Changes() }) {
				t.Errorf("got %+v, want nothing to be changed", plan.Steps)
			}
		})
	}
}

// Of the minute that is counted, a connection that has just come back was down for most.
func TestAConnectionThatRecoversIsTold(t *testing.T) {
	now := flowtest.Epoch()
	r := flows.Reading{Role: flows.RoleClient, Exists: true, Value: "Connected", Reported: true, At: now, Loss: 0.966, Since: now.Add(-8 * time.Second)}
	if state, why := r.State(now.Add(time.Second)); state != flows.StateRecovering || why != "back for 9s" {
		t.Errorf("got %s: %s", state, why)
	}
	r.Since = now.Add(-2 * time.Minute)
	if _, why := r.State(now); why != "connected, but 96.6% of the pings are lost" {
		t.Errorf("long after: got %s", why)
	}
	r.AnsweredSince = now.Add(-20 * time.Second)
	if state, why := r.State(now); state != flows.StateRecovering || why != "back for 20s" {
		t.Errorf("after an interruption that was too short for another value: got %s: %s", state, why)
	}
	r.Since = now.Add(-40 * time.Second)
	if _, why := r.State(now); why != "back for 20s" {
		t.Errorf("lost again after the change of the value: got %s", why)
	}
}

// A replacement is two things: what goes, and what comes.
func TestAReplacementShowsWhatGoes(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.A)
	params := flowtest.NodePort()
	params.Server = flows.B
	step, ok := flows.PlanConnect(params, flowtest.Facts(p)).Step("gateway-server-b")
	if !ok || step.Action != flows.Replace {
		t.Fatalf("got %+v, want a replacement", step)
	}
	for _, line := range []string{"-kind: GatewayClient\n", "+kind: GatewayServer\n"} {
		if !strings.Contains(step.Diff, line) {
			t.Errorf("the diff has no %q:\n%s", line, step.Diff)
		}
	}
}
