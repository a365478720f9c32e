// Package flowtest runs plans on two simulated clusters, for tests of the programs
// that use package flows.
package flowtest

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// NodePort returns parameters for a connection without a load balancer.
func NodePort() flows.Params {
	p := flows.Defaults()
	p.ServiceType, p.Given = corev1.ServiceTypeNodePort, flows.AllFields
	return p
}

// Connect returns the goal of a connection with settings that stay as they are.
func Connect(params flows.Params) flows.Planner {
	return func(f flows.Facts) flows.Plan { return flows.PlanConnect(params, f) }
}

// Reset returns the plan that removes the connection and everything that belongs to
// it.
func Reset(f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{}, f) }

// Facts returns the facts of both clusters. Their namespaces contain no objects of
// others.
func Facts(p *Pair) flows.Facts {
	f := flows.Facts{Sides: [2]flows.ClusterFacts{p.A.Facts(), p.B.Facts()}, At: p.Now()}
	for _, side := range []flows.Side{flows.A, flows.B} {
		flows.Read(flows.AskContents{Side: side}, flows.Contents{}).Store(&f, f.At)
	}
	return f
}

// Recorder stores the events of a run.
type Recorder struct{ Events []engine.Event }

// Emit stores an event.
func (r *Recorder) Emit(e engine.Event) { r.Events = append(r.Events, e) }

// Run reaches a goal with the engine.
func Run(t *testing.T, p *Pair, goal flows.Goal) (*Recorder, error) {
	t.Helper()
	var r Recorder
	err := engine.Run(t.Context(), goal, p.A, p.B, r.Emit, engine.Options{Now: p.Now})
	return &r, err
}

// MustRun calls [Run] with a goal that must be reached.
func MustRun(t *testing.T, p *Pair, goal flows.Goal) *Recorder {
	t.Helper()
	r, err := Run(t, p, goal)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return r
}

// ManyRounds is more rounds than any plan needs.
const ManyRounds = 30

// PartWay begins a connection, and stops after a number of rounds.
func PartWay(rounds int, params flows.Params) func(*testing.T, *Pair) {
	return func(t *testing.T, p *Pair) {
		t.Helper()
		for range rounds {
			for _, s := range flows.PlanConnect(params, Facts(p)).Steps {
				if s.Status != flows.Ready {
					continue
				}
				if _, err := p.Side(s.Side).Apply(t.Context(), s.Objects); err != nil {
					t.Fatal(err)
				}
			}
			p.Tick()
		}
	}
}

// Connected makes a finished connection.
func Connected(t *testing.T, p *Pair) {
	t.Helper()
	PartWay(ManyRounds, NodePort())(t, p)
	if plan := flows.PlanConnect(NodePort(), Facts(p)); !plan.Done() {
		t.Fatalf("not connected: %q", Pending(plan))
	}
}

// But returns a past that consists of past and then more.
func But(past func(*testing.T, *Pair), more func(*Pair)) func(*testing.T, *Pair) {
	return func(t *testing.T, p *Pair) {
		t.Helper()
		past(t, p)
		more(p)
	}
}

// Nothing is the empty past.
func Nothing(*testing.T, *Pair) {}

// Pending lists the steps of p that wait, and the waits that have failed, one
// sentence each.
func Pending(p flows.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		if s.Status == flows.Waiting || s.Status == flows.Failed {
			out = append(out, fmt.Sprintf("%s %s: %s: %s", s.Side, p.ID(s.Side), s.Title, s.Reason))
		}
	}
	return out
}
