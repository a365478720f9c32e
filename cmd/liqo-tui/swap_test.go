package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// Where the client dials in vain, the roles are swapped if nothing of the kind was
// asked for. Else that is offered.
func TestTheOtherClusterHostsTheServerWhereTheDialIsInVain(t *testing.T) {
	for name, c := range map[string]struct {
		flags      []string
		closed     [2]bool // to UDP from the other cluster
		wantServer flows.Side
		wantWhy    string // "": the roles are not swapped
		wantHint   string // "": it connects
	}{
		"all is open":              {wantServer: flows.B},
		"nothing reaches B":        {closed: [2]bool{flows.B: true}, wantServer: flows.A, wantWhy: "rome hosts the server now, because its gateway got no answer from milan for 20s"},
		"facts were to decide":     {flags: []string{"--server-location=auto", "--server-service-type=NodePort"}, closed: [2]bool{flows.B: true}, wantServer: flows.A, wantWhy: "rome hosts the server now"},
		"neither is reached":       {closed: [2]bool{true, true}, wantServer: flows.A, wantWhy: "rome hosts the server now", wantHint: "since they did not reach each other with the server on milan either: liqo-tui network connect --context kind-rome --remote-context kind-milan --relay HOST:PORT"},
		"B was asked for":          {flags: []string{"--server-location=Remote"}, closed: [2]bool{flows.B: true}, wantServer: flows.B, wantHint: "liqo-tui network connect --context kind-rome --remote-context kind-milan --server-location Local"},
		"a port of B's was chosen": {flags: []string{"--server-service-type=NodePort", "--node-port=31840"}, closed: [2]bool{flows.B: true}, wantServer: flows.B, wantHint: "--server-location Local"},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			for side, closed := range c.closed {
				pair.Side(flows.Side(side)).Behave(func(b *flowtest.Behaviour) { b.Firewalled = closed })
			}
			flags, f := newConnectFlags(), pflag.NewFlagSet("", pflag.ContinueOnError)
			flags.add(f, nil)
			if err := f.Parse(c.flags); err != nil {
				t.Fatal(err)
			}
			goal, err := flags.goal()
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			err = engine.Run(t.Context(), goal, pair.A, pair.B, func(e engine.Event) {
				for _, kept := range e.Plan.Kept {
					if strings.Contains(kept, "hosts the server now") && !slices.Contains(said, kept) {
						said = append(said, kept)
					}
				}
			}, engine.Options{Now: pair.Now})
			var failed *flows.StepError
			switch {
			case c.wantHint == "" && err != nil:
				t.Errorf("got %v, want a connection", err)
			case c.wantHint != "" && (!errors.As(err, &failed) || !strings.Contains(failed.Hint().String(), c.wantHint)):
				t.Errorf("got %v (%s), want a hint with %q", err, flows.HintOf(err), c.wantHint)
			}
			if c.wantWhy == "" && len(said) > 0 || c.wantWhy != "" && (len(said) != 1 || !strings.HasPrefix(said[0], c.wantWhy)) {
				t.Errorf("got %q, want it to begin with %q, once", said, c.wantWhy)
			}
			facts := flowtest.Facts(pair)
			for _, side := range []flows.Side{flows.A, flows.B} {
				end := facts.End(side)
				if hosts := flows.Live(end.Server); hosts != (side == c.wantServer) {
					t.Errorf("%s hosts the server: %v, want the server on %s", side, hosts, c.wantServer)
				}
			}
		})
	}
}
