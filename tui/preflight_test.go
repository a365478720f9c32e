package tui

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// reviewer is a cluster that says what its user may not do.
type reviewer struct {
	*flowtest.Cluster
	missing []rights.Permission
	err     error
}

func (r reviewer) Review(context.Context, []rights.Permission) (rights.Review, error) {
	return rights.Review{User: "ada", Missing: r.missing}, r.err
}

// noServers is the right that the plan needs on the server's cluster.
var noServers = []rights.Permission{{Verb: "create", Group: "networking.liqo.io", Resource: "gatewayservers", Namespace: "liqo-tenant-rome"}}

func inPreflight(t *testing.T, prepare func(*flowtest.Pair, *world), test func(*testing.T, *driver)) {
	inChoice(t, prepare, func(t *testing.T, d *driver) {
		d.keys("enter", "down", "enter")
		if d.model.wizard.Step == wizard.Plan { // no check has failed
			d.keys("n", "i")
		}
		d.at(wizard.Preflight)
		test(t, d)
	})
}

func TestWhatTheUserMayNotDoIsSaidBeforeThePlan(t *testing.T) {
	prepare := func(p *flowtest.Pair, w *world) {
		w.replace("kind-rome", reviewer{Cluster: p.A})
		w.replace("kind-milan", reviewer{Cluster: p.B, missing: noServers})
	}
	inPreflight(t, prepare, func(_ *testing.T, d *driver) {
		d.view(120, 40)
		d.has("1 failed", "ada may do all that the plan does", `user "ada" may not create gatewayservers`)
		d.keys("enter")
		d.at(wizard.Preflight)
		d.has("LT-P006", "fix this first", "liqo-tui rbac", "gatewayservers.networking.liqo.io in liqo-tenant-rome")
		text, _ := check.Explain(flows.CodePermission)
		d.has(text.Meaning[:60]) // there is room for what the check is about
		// Somebody grants it.
		d.world.replace("kind-milan", reviewer{Cluster: d.pair.B})
		d.keys("r")
		d.wait(time.Second)
		d.hasNot("failed")
		d.keys("enter")
		d.at(wizard.Plan)
	})
}

func TestRightsThatCantBeToldAreNoFailure(t *testing.T) {
	prepare := func(p *flowtest.Pair, w *world) {
		w.replace("kind-milan", reviewer{Cluster: p.B, err: errors.New("selfsubjectaccessreviews is forbidden")})
	}
	inPreflight(t, prepare, func(_ *testing.T, d *driver) {
		d.has("Ready", "can't be known yet")
		d.keys("f")
		d.view(120, 40)
		d.has("unknown  milan", "LT-P006")
		d.keys("enter")
		d.at(wizard.Plan)
	})
}

func TestOnlyProblemsAreShownOnRequest(t *testing.T) {
	inPreflight(t, nil, func(_ *testing.T, d *driver) {
		d.has("the clusters are different")
		d.keys("f")
		d.hasNot("the clusters are different")
		d.keys("f", "g")
		d.has("the clusters are different")
	})
}

// Pods try the ways on request, and what they find decides which cluster hosts the
// server.
func TestTheWaysAreTriedOnRequest(t *testing.T) {
	prepare := func(p *flowtest.Pair, _ *world) {
		for side, address := range []string{"192.0.2.11", "192.0.2.21"} {
			p.Side(flows.Side(side)).Be(func(f *flows.ClusterFacts) {
				f.Nodes = []flows.NodeFacts{{Name: "node-1", Ready: true, Internal: []netip.Addr{netip.MustParseAddr(address)}}}
			})
		}
		p.B.Behave(func(b *flowtest.Behaviour) { b.Firewalled = true })
	}
	inPreflight(t, prepare, func(t *testing.T, d *driver) {
		d.view(120, 40)
		d.hasNot("LT-P022")
		d.keys("v")
		d.wait(time.Second)
		d.has("LT-P022", "a pod of milan has reached one of rome")
		if n := d.pair.A.Probes() + d.pair.B.Probes(); n != 0 {
			t.Errorf("%d pods are left", n)
		}
		d.pair.A.Behave(func(b *flowtest.Behaviour) { b.Firewalled = true })
		d.keys("v")
		d.wait(time.Second)
		d.has("1 failed", "nothing that a pod of rome sends to UDP")
		d.keys("enter")
		d.at(wizard.Preflight)
	})
}

func TestEveryCheckExplainsItself(t *testing.T) {
	inPreflight(t, nil, func(t *testing.T, d *driver) {
		for range 16 { // more than there are: the last one again
			d.keys("i")
			if len(d.model.wizard.Text(d.model.env()).Lines) < 6 {
				t.Errorf("a check explains nothing:\n%s", d.screen())
			}
			d.keys("esc", "down")
		}
		d.at(wizard.Preflight)
	})
}

func TestTheChecksFollowTheClusters(t *testing.T) {
	inPreflight(t, nil, func(_ *testing.T, d *driver) {
		d.hasNot("failed")
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
		d.wait(3 * time.Second)
		d.has("failed", "skipped")
		d.keys("enter")
		d.at(wizard.Preflight)
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = nil })
		d.wait(3 * time.Second)
		d.keys("enter")
		d.at(wizard.Plan)
	})
}

func TestThePlanSaysAsWhichAddressesEachSideWillSeeTheOther(t *testing.T) {
	inPreflight(t, nil, func(_ *testing.T, d *driver) {
		d.keys("enter", "enter")
		d.view(120, 40)
		d.has("rome will see milan's pods 10.244.0.0/16 as 253.18.0.0/16.", "milan will see rome's pods 10.244.0.0/16 as 240.160.0.0/16.")
	})
}
