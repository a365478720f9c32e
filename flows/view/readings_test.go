package view

import (
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestReadingsTellWhatChanged(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	var r Readings
	facts := p.A.Facts()
	if changed, _ := r.Update(facts); len(changed) != 1 || changed[0].Peer != "milan" {
		t.Fatalf("got %v, want milan's", changed)
	}
	if changed, gone := r.Update(p.A.Facts()); len(changed)+len(gone) > 0 {
		t.Errorf("nothing happened: got %v changed and %v gone", changed, gone)
	}
	facts = p.A.Facts()
	facts.Connections[0].Status.Value = networkingv1beta1.ConnectionError
	if changed, _ := r.Update(facts); len(changed) != 1 || changed[0].Value != networkingv1beta1.ConnectionError {
		t.Errorf("the Connection changed: got %v", changed)
	}
	facts.Pods[0].Waiting = "CrashLoopBackOff"
	if changed, _ := r.Update(facts); len(changed) != 1 || !strings.HasSuffix(changed[0].Waiting, ": CrashLoopBackOff") {
		t.Errorf("the pod changed: got %v", changed)
	}
	facts.Unreached = []flows.UnreachedFacts{{Node: "rome-2", Gateways: []string{facts.Clients[0].Namespace + "/" + facts.Clients[0].Name}}}
	if changed, _ := r.Update(facts); len(changed) != 1 || changed[0].Unreached != "rome-2" {
		t.Errorf("a node can't reach the gateway: got %v", changed)
	}
	facts.AgentStatus = map[string]wire.NodeStatus{"rome-2": {Problem: "busy"}, "rome-3": {Unfit: map[string]string{"liqo-tenant-turin/turin": "does not lead to the peer"}}}
	if changed, _ := r.Update(facts); len(changed) != 1 || changed[0].NodeProblem != "node rome-2 is not set up as it has to be: busy" {
		t.Errorf("a node is not as it has to be: got %v", changed)
	}
	if changed, gone := r.Update(flows.ClusterFacts{}); len(changed) != 0 || len(gone) != 1 || gone[0] != "milan" {
		t.Errorf("all was deleted: got %v changed and %v gone", changed, gone)
	}
}

// An API server gives every change a version: what has the same one is not read
// again, which is what makes many peerings cheap.
func TestReadingsAreNotMadeAgainOfTheSameVersions(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	facts := p.A.Facts()
	version := func(v string) {
		facts.Configurations[0].ResourceVersion, facts.Connections[0].ResourceVersion = v, v
		for i := range facts.Clients {
			facts.Clients[i].ResourceVersion = v
		}
	}
	version("7")
	var r Readings
	r.Update(facts)
	facts.Connections[0].Status.Value = networkingv1beta1.ConnectionError
	if changed, _ := r.Update(facts); len(changed) != 0 {
		t.Errorf("got %v, want nothing of the same version", changed)
	}
	version("8")
	if changed, _ := r.Update(facts); len(changed) != 1 {
		t.Errorf("got %v, want the one that changed", changed)
	}
}

func TestFactsAreEqualWhenNothingIsDifferent(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	versioned := func() flows.ClusterFacts {
		f := p.A.Facts()
		f.Connections[0].ResourceVersion, f.Configurations[0].ResourceVersion = "7", "7"
		return f
	}
	for name, test := range map[string]struct {
		change func(*flows.ClusterFacts)
		want   bool
	}{
		"nothing": {func(*flows.ClusterFacts) {}, true},
		"a version": {func(f *flows.ClusterFacts) {
			f.Connections[0].ResourceVersion = "8"
			f.Connections[0].Status.Value = "Error"
		}, false},
		"an object that was made again": {func(f *flows.ClusterFacts) { f.Connections[0].UID = "another"; f.Connections[0].Status.Value = "Error" }, false},
		"an object without a version":   {func(f *flows.ClusterFacts) { f.Clients[0].Spec.MTU++ }, false},
		"an object less":                {func(f *flows.ClusterFacts) { f.PublicKeys = nil }, false},
		"a pod":                         {func(f *flows.ClusterFacts) { f.Pods[0].Ready = !f.Pods[0].Ready }, false},
		"a problem":                     {func(f *flows.ClusterFacts) { f.Problem = &flows.Problem{Message: "gone"} }, false},
		"the ID":                        {func(f *flows.ClusterFacts) { f.ID = "turin" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := versioned()
			test.change(&f)
			if got := Equal(versioned(), f); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// What is kept of a peering is read again when only the clock has turned out to
// be wrong.
func TestReadingsFollowTheClock(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	var kept Readings
	f := p.A.Facts()
	before, _ := kept.Update(f)
	f.ClockAhead = 35 * time.Second
	after, _ := kept.Update(f)
	if len(before) != 1 || len(after) != 1 || !after[0].At.Equal(before[0].At.Add(-35*time.Second)) {
		t.Errorf("got %+v, then %+v", before, after)
	}
}
