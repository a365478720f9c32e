package engine_test

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/render"
)

// withNodes has a pair whose nodes' addresses are known.
func withNodes() *flowtest.Pair {
	pair := flowtest.NewPair()
	for side, external := range []string{"203.0.113.7", ""} {
		n := flows.NodeFacts{Name: "node-1", Ready: true, Internal: []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.9.0.4")}}
		if external != "" {
			n.External = []netip.Addr{netip.MustParseAddr(external)}
		}
		down := flows.NodeFacts{Name: "node-2", Internal: []netip.Addr{netip.MustParseAddr("10.9.0.5")}}
		pair.Side(flows.Side(side)).Be(func(f *flows.ClusterFacts) { f.Nodes = []flows.NodeFacts{n, down} })
	}
	return pair
}

func tryReach(t *testing.T, pair *flowtest.Pair, p flows.Params) trial.Reach {
	t.Helper()
	r, err := engine.TryReach(t.Context(), p, flowtest.Facts(pair), pair.A, pair.B, "", pair.Now)
	if err != nil {
		t.Fatal(err)
	}
	if n := pair.A.Probes() + pair.B.Probes(); n != 0 {
		t.Errorf("%d pods are left", n)
	}
	return r
}

func TestBothWaysAreTriedBeforeThereIsAConnection(t *testing.T) {
	for name, c := range map[string]struct {
		a, b   flowtest.Behaviour
		params func(*flows.Params)
		want   [2]string // of A to B, and of B to A
	}{
		"all is open": {want: [2]string{
			"UDP 10.9.0.4:30999: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; 10 packets arrived there, from 172.18.0.10",
			"UDP 203.0.113.7:30999: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; 10 packets arrived there, from 172.18.0.20",
		}},
		"a firewall before B": {b: flowtest.Behaviour{Firewalled: true}, want: [2]string{
			"UDP 10.9.0.4:30999: no answer; no packet arrived there",
			"UDP 203.0.113.7:30999: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; 10 packets arrived there, from 172.18.0.20",
		}},
		"answers of A get lost": {a: flowtest.Behaviour{Mute: true}, want: [2]string{
			"UDP 10.9.0.4:30999: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; 10 packets arrived there, from 172.18.0.10",
			"UDP 203.0.113.7:30999: no answer; 10 packets arrived there, from 172.18.0.20",
		}},
		"an address and a port of the admin's": {params: func(p *flows.Params) { p.ClientAddress, p.ClientPort = "gw.example.org", 4500 }, want: [2]string{
			"UDP gw.example.org:4500: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; 10 packets arrived there, from 172.18.0.10",
			"UDP 203.0.113.7:30999: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; 10 packets arrived there, from 172.18.0.20",
		}},
		"several addresses of the admin's": {params: func(p *flows.Params) { p.ClientAddress = "a.example.org,192.0.2.7" }, want: [2]string{
			"UDP a.example.org:30999: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; UDP 192.0.2.7:30999: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; 10 packets arrived there, from 172.18.0.10",
			"UDP 203.0.113.7:30999: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; 10 packets arrived there, from 172.18.0.20",
		}},
		"no pods on A": {a: flowtest.Behaviour{NoPods: "you may not create jobs"}, want: [2]string{
			"not tried: on rome: you may not create jobs", "not tried: on rome: you may not create jobs",
		}},
		"a port that is taken on B": {
			b:      flowtest.Behaviour{Refuses: map[uint16]string{31000: "provided port is already allocated"}},
			params: func(p *flows.Params) { p.NodePort = 31000 },
			want: [2]string{
				"not tried: on milan: provided port is already allocated",
				"UDP 203.0.113.7:31000: 10 of 10 packets were answered, round trip 0.9 ms, largest packet 1500 bytes; 10 packets arrived there, from 172.18.0.20",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair := withNodes()
			pair.A.Behave(func(b *flowtest.Behaviour) { *b = c.a })
			pair.B.Behave(func(b *flowtest.Behaviour) { *b = c.b })
			params := flowtest.NodePort()
			if c.params != nil {
				c.params(&params)
			}
			var got [2]string
			for i, w := range tryReach(t, pair, params).Ways {
				if got[i] = strings.Join(w.Text(), "; "); w.Unknown != "" {
					got[i] = "not tried: " + w.Unknown
				}
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got[:], "\n"), strings.Join(c.want[:], "\n"))
			}
		})
	}
}

// rude is a cluster that was interrupted while its pod measures.
type rude struct {
	*flowtest.Cluster
	interrupt context.CancelFunc
}

type rudePod struct {
	engine.ReachPod
	interrupt context.CancelFunc
}

func (r rude) StartReach(ctx context.Context, q engine.ReachRequest) (engine.ReachPod, error) {
	p, err := r.Cluster.StartReach(ctx, q)
	return rudePod{p, r.interrupt}, err
}

func (p rudePod) Measure(ctx context.Context, _ render.ProbeTarget) (render.ProbeResult, error) {
	p.interrupt()
	<-ctx.Done()
	return render.ProbeResult{}, ctx.Err()
}

func TestAnInterruptedTrialOfWaysLeavesNothingBehind(t *testing.T) {
	pair := withNodes()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := engine.TryReach(ctx, flowtest.NodePort(), flowtest.Facts(pair), rude{pair.A, cancel}, pair.B, "", pair.Now)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if a, b := pair.A.Probes(), pair.B.Probes(); a != 0 || b != 0 {
		t.Errorf("%d and %d pods are left", a, b)
	}
}

// late is a cluster whose kubelet tells a second after its pod has ended that it did; its
// clock is half a second behind.
type late struct{ *flowtest.Cluster }

type latePod struct{ engine.ReachPod }

func (l late) StartReach(ctx context.Context, q engine.ReachRequest) (engine.ReachPod, error) {
	p, err := l.Cluster.StartReach(ctx, q)
	return latePod{p}, err
}

func (p latePod) Measure(ctx context.Context, t render.ProbeTarget) (render.ProbeResult, error) {
	if !sleep.For(ctx, time.Until(t.Ways.Until)+500*time.Millisecond+time.Second) {
		return render.ProbeResult{}, ctx.Err()
	}
	return p.ReachPod.Measure(ctx, t)
}

func TestAClosedWayIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := withNodes()
		pair.B.Behave(func(b *flowtest.Behaviour) { b.Firewalled = true })
		began := time.Now()
		got, err := engine.TryReach(t.Context(), flowtest.NodePort(), flowtest.Facts(pair), late{pair.A}, late{pair.B}, "", time.Now)
		if err != nil || !got.Ways[flows.A].Closed() || !got.Ways[flows.B].Open() {
			t.Errorf("got %+v, %v, want the way to milan closed", got, err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// The cluster that was reached is the server, unless both or none were.
func TestTheServerIsWherePacketsArrived(t *testing.T) {
	for name, c := range map[string]struct {
		a, b   flowtest.Behaviour
		server flows.Side
		why    string
	}{
		"only B is reached":  {flowtest.Behaviour{Firewalled: true}, flowtest.Behaviour{}, flows.B, "pods of rome have reached it by UDP"},
		"only A is reached":  {flowtest.Behaviour{}, flowtest.Behaviour{Firewalled: true}, flows.A, "pods of milan have reached it by UDP"},
		"both are reached":   {flowtest.Behaviour{}, flowtest.Behaviour{}, flows.A, "nodes of rome have public addresses, and nodes of milan have private addresses only"},
		"answers of A fail":  {flowtest.Behaviour{Mute: true}, flowtest.Behaviour{}, flows.B, "pods of rome have reached it by UDP"},
		"it can't be tried":  {flowtest.Behaviour{NoPods: "no"}, flowtest.Behaviour{}, flows.A, "nodes of rome have public addresses, and nodes of milan have private addresses only"},
		"neither is reached": {flowtest.Behaviour{Firewalled: true}, flowtest.Behaviour{Firewalled: true}, flows.A, "nodes of rome have public addresses, and nodes of milan have private addresses only"},
	} {
		t.Run(name, func(t *testing.T) {
			pair := withNodes()
			pair.A.Behave(func(b *flowtest.Behaviour) { *b = c.a })
			pair.B.Behave(func(b *flowtest.Behaviour) { *b = c.b })
			f := flowtest.Facts(pair)
			f.Reach = new(tryReach(t, pair, flowtest.NodePort()))
			if server, why := flows.SuggestServer(f); server != c.server || why != c.why {
				t.Errorf("got %s because %s, want %s because %s", server, why, c.server, c.why)
			}
		})
	}
}

func TestClustersThatCanNotRunPodsAreAResult(t *testing.T) {
	pair := withNodes()
	got, err := engine.TryReach(t.Context(), flowtest.NodePort(), flowtest.Facts(pair), pair.A, engine.Absent{}, "", pair.Now)
	if err != nil || got.Ways[0].Unknown != "on milan: this program can't run pods there" || got.Ways[0].Tried() {
		t.Errorf("got %+v, %v", got, err)
	}
	if n := pair.A.Probes(); n != 0 {
		t.Errorf("%d pods are left", n)
	}
	if w := (trial.Way{}); w.Open() || w.Closed() || w.Tried() || !reflect.DeepEqual(w.Text(), []string(nil)) {
		t.Error("what was not tried says something")
	}
}
