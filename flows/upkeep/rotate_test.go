package upkeep_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func rotate(r upkeep.Rotation) flows.Planner {
	return func(f flows.Facts) flows.Plan { return upkeep.Rotate(r, f) }
}

// keysOf are the gateways' own keys, and what each is known by on the other side.
func keysOf(p *flowtest.Pair) (own, known [2]wgtypes.Key) {
	f := flowtest.Facts(p)
	for _, side := range []flows.Side{flows.A, flows.B} {
		here, there := f.Sides[side], f.Sides[side.Other()]
		own[side] = *here.End(there.ID).Key
		copy(known[side][:], there.End(here.ID).PublicKey.Spec.PublicKey)
	}
	return own, known
}

func wantRotated(t *testing.T, p *flowtest.Pair, before [2]wgtypes.Key, replaced [2]bool) {
	t.Helper()
	own, known := keysOf(p)
	if own != known {
		t.Errorf("the gateways have keys %v, and know each other by %v", own, known)
	}
	for side := range before {
		if (own[side] != before[side]) != replaced[side] {
			t.Errorf("side %s: key before %s, after %s; want replaced: %v", flows.Side(side), before[side], own[side], replaced[side])
		}
	}
	for _, f := range []flows.ClusterFacts{p.A.Facts(), p.B.Facts()} {
		if next := f.PublicKeys[0].Annotations[wire.AnnotationNextPublicKey]; next != "" {
			t.Errorf("%s still has a next key %s for its peer", f.ID, next)
		}
	}
}

func TestRotateReplacesBothKeysWithoutALapse(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	before, _ := keysOf(p)
	r := upkeep.StartRotation(flowtest.Facts(p))
	recorded := flowtest.MustRun(t, p, rotate(r))
	wantRotated(t, p, before, [2]bool{true, true})
	if got, want := upkeep.Rotated(recorded.Events[len(recorded.Events)-1].Plan), "Both gateways use new keys."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, e := range recorded.Events {
		for _, id := range []flows.StepID{"connected-a", "connected-b"} {
			if s, _ := e.Plan.Step(id); s.Status != flows.Done {
				t.Fatalf("%s: %s %s", id, s.Status, s.Reason)
			}
		}
		if lost := e.Plan.Interrupts(); len(lost) > 0 {
			t.Fatalf("traffic would stop: %q", lost)
		}
	}
	p.Forget()
	if flowtest.MustRun(t, p, rotate(r)); len(p.Log()) > 0 {
		t.Errorf("the same run again wrote %v", p.Log())
	}
}

// A peer never sees a key that it was not told before.
func TestRotateUsesNoKeyThatThePeerIsNotReadyFor(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	p.B.Behave(func(b *flowtest.Behaviour) { b.NoReports = true })
	before, _ := keysOf(p)
	if _, err := flowtest.Run(t, p, rotate(upkeep.StartRotation(flowtest.Facts(p)))); err == nil {
		t.Fatal("the peer's gateway never said that it is ready: got no error")
	}
	if own, _ := keysOf(p); own != before {
		t.Errorf("got keys %v, want those of before, %v", own, before)
	}
}

func TestRotateGoesOnWhereARunBroke(t *testing.T) {
	for breaks := range 12 {
		p := flowtest.NewPair()
		flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
		before, _ := keysOf(p)
		// The program dies behind so many observations.
		r := upkeep.StartRotation(flowtest.Facts(p))
		for range breaks {
			plan := upkeep.Rotate(r, flowtest.Facts(p))
			for _, s := range plan.Steps {
				if s.Status == flows.Ready {
					if _, err := p.Side(s.Side).Apply(t.Context(), s.Objects); err != nil {
						t.Fatal(err)
					}
				}
			}
			p.Tick()
		}
		flowtest.MustRun(t, p, rotate(upkeep.StartRotation(flowtest.Facts(p))))
		wantRotated(t, p, before, [2]bool{true, true})
	}
}

func TestRotateWithAPeerOfLiqosSaysThatTrafficStops(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	before, _ := keysOf(p)
	recorded := flowtest.MustRun(t, p, rotate(upkeep.StartRotation(flowtest.Facts(p))))
	wantRotated(t, p, before, [2]bool{true, false})
	last := recorded.Events[len(recorded.Events)-1].Plan
	if got, want := upkeep.Rotated(last), "rome's gateway uses a new key. The key of milan's gateway was kept: it is Liqo's own, which can't replace a key in operation."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(last.Kept) != 1 || !strings.Contains(last.Kept[0], "milan") {
		t.Errorf("got %q as what is kept, want milan's key", last.Kept)
	}
	if !slices.ContainsFunc(recorded.Events, func(e engine.Event) bool { return len(e.Plan.Interrupts()) == 1 }) {
		t.Error("no plan said that traffic stops")
	}
}

func TestRotateOfTwoOfLiqosGatewaysChangesNothingAndSaysSo(t *testing.T) {
	p := flowtest.NewPair()
	for _, c := range []*flowtest.Cluster{p.A, p.B} {
		c.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
	}
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	p.Forget()
	_, err := flowtest.Run(t, p, rotate(upkeep.StartRotation(flowtest.Facts(p))))
	failed, ok := errors.AsType[*flows.StepError](err)
	if !ok {
		t.Fatalf("got error %v, want a failed step", err)
	}
	if s := failed.Step; s.Code != flows.CodeKeysKept || s.Kind != flows.FailedPreflight || s.Hint().IsZero() {
		t.Errorf("got code %s, kind %d, hint %q", s.Code, s.Kind, s.Hint())
	}
	if len(p.Log()) > 0 {
		t.Errorf("wrote %v", p.Log())
	}
}

// A key that is not known can't be replaced: it is not said that it was.
func TestRotateNeedsTheKeysOfOurGateways(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	f := flowtest.Facts(p)
	f.Sides[flows.B].Keys = nil
	s := upkeep.Rotate(upkeep.StartRotation(f), f).Failure()
	if s == nil || s.Code != flows.CodeKey || s.Side != flows.B || s.Kind != flows.FailedPreflight {
		t.Errorf("got %+v, want the failure that milan's key is not known", s)
	}
}

func TestRotateNeedsAConnection(t *testing.T) {
	p := flowtest.NewPair()
	_, err := flowtest.Run(t, p, rotate(upkeep.StartRotation(flowtest.Facts(p))))
	if err == nil {
		t.Error("got no error")
	}
	if len(p.Log()) > 0 {
		t.Errorf("wrote %v", p.Log())
	}
}

// A run of connect in the middle takes back nothing of what a rotation has asked
// for: the operator would drop a key that the peer may have been told of.
func TestConnectLeavesARotationAlone(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	before, _ := keysOf(p)
	begun := upkeep.StartRotation(flowtest.Facts(p))
	seen := 0
	flowtest.MustRun(t, p, flows.Planner(func(f flows.Facts) flows.Plan {
		if plan := flows.PlanConnect(flows.Defaults(), f); plan.Failure() != nil {
			t.Fatalf("connect fails: %v", plan.Failure())
		}
		for _, s := range flows.PlanConnect(flows.Defaults(), f).Steps {
			// A key that is in use already is told to the peer, by whoever is first.
			if s.Status == flows.Ready && s.Action.Changes() && !strings.HasPrefix(string(s.ID), "public-key") {
				t.Errorf("connect would change %s:\n%s", s.Title, s.Diff)
			}
		}
		for _, side := range []flows.Side{flows.A, flows.B} {
			if key := f.Sides[side].PublicKeys[0]; key.Annotations[wire.AnnotationNextPublicKey] != "" {
				seen++
				step, _ := flows.PlanConnect(flows.Defaults(), f).Step(flows.StepID("public-key-" + strings.ToLower(side.String())))
				if step.Status == flows.Ready && strings.Contains(step.Diff, "-    "+wire.AnnotationNextPublicKey) && !strings.Contains(step.Diff, "-  publicKey") {
					t.Errorf("connect would take back the next key:\n%s", step.Diff)
				}
			}
		}
		return upkeep.Rotate(begun, f)
	}))
	if seen == 0 {
		t.Error("no state with an announced key was looked at")
	}
	wantRotated(t, p, before, [2]bool{true, true})
}
