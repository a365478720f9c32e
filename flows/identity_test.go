package flows_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// third is another cluster with milan's ID, in place of milan in front of the admin.
func third(p *flowtest.Pair) {
	p.B.Remove(p.B.Objects()...)
	p.B.Be(func(f *flows.ClusterFacts) { f.UID = "uid-of-another" })
}

func TestAClusterWithAPeersIDDoesNotTakeOverItsConnection(t *testing.T) {
	for name, plan := range map[string]flows.Planner{
		"connect":    flowtest.Connect(flowtest.NodePort()),
		"init":       func(f flows.Facts) flows.Plan { return flows.PlanInit(flowtest.NodePort(), f) },
		"reset":      flowtest.Reset,
		"disconnect": func(f flows.Facts) flows.Plan { return flows.PlanDisconnect(flows.RemoveOptions{}, f) },
		"rotate":     func(f flows.Facts) flows.Plan { return upkeep.Rotate(upkeep.StartRotation(f), f) },
		"delegate":   func(f flows.Facts) flows.Plan { return upkeep.Delegate(upkeep.DelegateParams{}, f) },
		"renumber": func(f flows.Facts) flows.Plan {
			p := upkeep.RenumberParams{}
			return upkeep.Renumber(p, upkeep.StartRenumbering(p, f), f)
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			flowtest.Connected(t, pair)
			third(pair)
			before := pair.A.Names()
			pair.Forget()
			_, err := flowtest.Run(t, pair, plan)
			s := failureOf(t, err)
			if s.Code != flows.CodePeer || s.Kind != flows.FailedConflict {
				t.Fatalf("got %s of kind %d, want %s", s.Code, s.Kind, flows.CodePeer)
			}
			for _, uid := range []string{"uid-of-milan", "uid-of-another"} {
				if !strings.Contains(s.Reason, uid) {
					t.Errorf("the reason does not name UID %s: %s", uid, s.Reason)
				}
			}
			if log := pair.Log(); len(log) > 0 || strings.Join(before, " ") != strings.Join(pair.A.Names(), " ") {
				t.Errorf("the clusters were changed: %v", log)
			}
		})
	}
}

func failureOf(t *testing.T, err error) flows.Step {
	t.Helper()
	failed, ok := errors.AsType[*flows.StepError](err)
	if !ok {
		t.Fatalf("got %v, want a failed step", err)
	}
	return failed.Step
}

// The connection takes the annotation of the UID from its first plan on, so only what other
// tools or earlier versions made has none.
func TestAConnectionWithoutAUIDIsNotTakenOverWhileItWorks(t *testing.T) {
	pair := flowtest.NewPair()
	pair.ConnectByLiqoctl(flows.B)
	if plan := flows.PlanConnect(flowtest.NodePort(), flowtest.Facts(pair)); plan.Failure() != nil {
		t.Fatalf("the peer itself is refused: %s", plan.Failure().Reason)
	}
	third(pair)
	if f := flows.PlanConnect(flowtest.NodePort(), flowtest.Facts(pair)).Failure(); f == nil || f.Code != flows.CodePeer {
		t.Errorf("got %v, want %s", f, flows.CodePeer)
	}
}

func TestARebuiltClusterTakesTheFormersPlaceIfAskedTo(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.Connected(t, pair)
	third(pair)
	params := flowtest.NodePort()
	params.ReplacePeer = true
	var asked []flows.Plan
	err := engine.Run(t.Context(), flowtest.Connect(params), pair.A, pair.B, func(engine.Event) {}, engine.Options{
		Now: pair.Now, Approve: func(p flows.Plan) (bool, error) { asked = append(asked, p); return true, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) == 0 || len(asked[0].Replaces) != 1 || !strings.Contains(strings.Join(asked[0].Interrupts(), " "), "the former milan loses its connection") {
		t.Errorf("the admin was not told that a cluster is replaced: %+v", asked)
	}
	if uid := pair.A.Facts().End("milan").UID(); uid != "uid-of-another" {
		t.Errorf("rome has stored UID %q", uid)
	}
	if plan := flows.PlanConnect(flowtest.NodePort(), flowtest.Facts(pair)); !plan.Done() {
		t.Errorf("it is not connected: %v", flowtest.Pending(plan))
	}
}

// A plan that knows the peer by its ID alone leaves stored who it is.
func TestAPlanThatDoesNotSeeThePeerKeepsItsUID(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.Connected(t, pair)
	f := flowtest.Facts(pair)
	f.Sides[flows.B].UID = ""
	c := flows.NewConnection(flowtest.NodePort(), f)
	if s := c.Configuration(flows.A); s.Status != flows.Done || s.Want[0].GetAnnotations()[wire.AnnotationPeerUID] != "uid-of-milan" {
		t.Errorf("got %s %s", s.Status, s.Diff)
	}
}
