package engine_test

import (
	"fmt"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// killable is what an admin runs, and what was there before.
type killable struct {
	past func(t *testing.T, p *flowtest.Pair)
	goal flows.Goal
}

func commands() map[string]killable {
	moved := flows.Defaults()
	moved.Server, moved.Given = flows.A, flows.FieldServer
	changed := flows.Defaults()
	changed.Port, changed.MTU, changed.Given = 4242, 1300, flows.FieldPort|flows.FieldMTU
	initial := func(f flows.Facts) flows.Plan { return flows.PlanInit(flowtest.NodePort(), f) }
	alone := flows.RemoveOptions{LocalOnly: true}
	made := func(t *testing.T, p *flowtest.Pair) { flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort())) }
	return map[string]killable{
		"init":             {flowtest.Nothing, flows.Planner(initial)},
		"connect":          {flowtest.Nothing, connect.Goal{Params: flowtest.NodePort()}},
		"change":           {made, connect.Goal{Params: changed}},
		"move the server":  {made, connect.Goal{Params: moved}},
		"disconnect":       {made, flows.Planner(disconnect)},
		"reset":            {made, flows.Planner(flowtest.Reset)},
		"reset one side":   {made, flows.Removal{RemoveOptions: alone}},
		"after disconnect": {func(t *testing.T, p *flowtest.Pair) { made(t, p); flowtest.MustRun(t, p, flows.Planner(disconnect)) }, connect.Goal{Params: flowtest.NodePort()}},
	}
}

// A program that is killed after any of its writes, on either cluster, has left
// something from which the same command ends where it would have ended.
func TestKilledAfterEveryWrite(t *testing.T) {
	for name, c := range commands() {
		t.Run(name, func(t *testing.T) {
			past := func(t *testing.T) *flowtest.Pair {
				t.Helper()
				p := flowtest.NewPair()
				c.past(t, p)
				return p
			}
			flowtest.Command{Past: past, Goal: c.goal, World: world}.KilledAnywhere(t, true)
		})
	}
}

// world is what matters of a pair: which objects there are, how the server is
// set, and whom the client dials.
func world(p *flowtest.Pair) []string {
	var out []string
	for _, side := range []flows.Side{flows.A, flows.B} {
		for _, o := range p.Side(side).Objects() {
			out = append(out, side.String()+" "+apply.Name(o))
		}
		for _, s := range p.Side(side).Facts().Servers {
			out = append(out, fmt.Sprintf("%s serves %s port %d MTU %d", side, s.Spec.Endpoint.ServiceType, s.Spec.Endpoint.Port, s.Spec.MTU))
		}
		for _, c := range p.Side(side).Facts().Clients {
			out = append(out, fmt.Sprintf("%s dials %v port %d MTU %d", side, c.Spec.Endpoint.Addresses, c.Spec.Endpoint.Port, c.Spec.MTU))
		}
	}
	return out
}
