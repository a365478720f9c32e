package main

import (
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/info"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/board"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Each row breaks a connection, or is about one that never worked.
func TestCheckInfoAndDashboardHaveOneVerdict(t *testing.T) {
	behave := func(before bool, edit func(*flowtest.Behaviour)) func(*flowtest.Pair, bool) {
		return func(p *flowtest.Pair, connected bool) {
			if connected != before {
				p.B.Behave(edit)
			}
		}
	}
	link := func(edit func(*simulated.Link)) func(*flowtest.Pair, bool) {
		return func(p *flowtest.Pair, connected bool) {
			if connected {
				p.Join("rome", "milan", edit)
			}
		}
	}
	now := func(edit func(*flowtest.Pair)) func(*flowtest.Pair, bool) {
		return func(p *flowtest.Pair, connected bool) {
			if connected {
				edit(p)
			}
		}
	}
	remove := func(kinds ...string) func(*flowtest.Pair, bool) {
		return now(func(p *flowtest.Pair) {
			for _, c := range []*flowtest.Cluster{p.A, p.B} {
				for _, o := range c.Objects() {
					for _, kind := range kinds {
						if o.GetObjectKind().GroupVersionKind().Kind == kind {
							c.Remove(o)
						}
					}
				}
			}
		})
	}
	for name, test := range map[string]struct {
		// fault is called before the connection is made, and again once it works.
		fault func(p *flowtest.Pair, connected bool)
		after time.Duration
		want  view.Health
	}{
		"nothing":            {link(func(*simulated.Link) {}), time.Minute, view.Healthy},
		"UDP cut":            {link(func(l *simulated.Link) { l.Closed = true }), 2 * time.Minute, view.HealthDown},
		"never dialled":      {behave(true, func(b *flowtest.Behaviour) { b.Firewalled = true }), time.Minute, view.HealthDown},
		"packets lost":       {link(func(l *simulated.Link) { l.Loss = 0.3 }), 3 * time.Minute, view.HealthDegraded},
		"few packets lost":   {link(func(l *simulated.Link) { l.Loss = 0.001 }), 3 * time.Minute, view.Healthy},
		"wrong key":          {behave(true, func(b *flowtest.Behaviour) { b.WrongKey = true }), time.Minute, view.HealthDown},
		"key lost":           {behave(false, func(b *flowtest.Behaviour) { b.WrongKey = true }), 2 * time.Minute, view.HealthDown},
		"no keys":            {behave(true, func(b *flowtest.Behaviour) { b.NoKeys = true }), time.Minute, view.HealthDown},
		"no reports":         {behave(false, func(b *flowtest.Behaviour) { b.NoReports = true }), 5 * time.Minute, view.HealthUnknown},
		"never reported":     {behave(true, func(b *flowtest.Behaviour) { b.NoReports = true }), time.Minute, view.HealthDown},
		"no load balancer":   {behave(true, func(b *flowtest.Behaviour) { b.LoadBalancerPending = true }), time.Minute, view.Healthy}, // a NodePort needs none
		"no addresses":       {behave(true, func(b *flowtest.Behaviour) { b.NoCIDRs = true }), time.Minute, view.HealthDegraded},
		"operator is silent": {behave(true, func(b *flowtest.Behaviour) { b.Silent = true }), time.Minute, view.HealthDown},
		"pod waits":          {behave(true, func(b *flowtest.Behaviour) { b.PodWaiting = "ImagePullBackOff" }), time.Minute, view.HealthDown},
		"pod ended":          {behave(false, func(b *flowtest.Behaviour) { b.PodWaiting = "ImagePullBackOff" }), 5 * time.Minute, view.HealthDown},
		"no gateways":        {remove("GatewayServer", "GatewayClient", "Connection"), time.Minute, view.HealthDown},
		"no server":          {remove("GatewayServer"), time.Minute, view.HealthDown},
		"no client":          {remove("GatewayClient"), time.Minute, view.HealthDown},
		"no Configurations":  {remove("Configuration"), time.Minute, view.HealthDegraded},
		"operator is down": {now(func(p *flowtest.Pair) {
			p.B.Be(func(f *flows.ClusterFacts) { f.Operator.Problem = "its pod does not start: ImagePullBackOff" })
		}), time.Minute, view.HealthDegraded},
		"operator is gone": {now(func(p *flowtest.Pair) {
			p.B.Be(func(f *flows.ClusterFacts) { f.Software = flows.NoSoftware })
		}), 5 * time.Second, view.HealthDegraded},
		"told other ranges": {now(func(p *flowtest.Pair) {
			for _, o := range p.A.Objects() {
				if conf, ok := o.(*networkingv1beta1.Configuration); ok {
					conf.Spec.Remote.CIDR.Pod = []networkingv1beta1.CIDR{"10.9.0.0/16"}
					p.A.Put(conf)
				}
			}
		}), time.Minute, view.HealthDegraded},
		"another cluster": {now(func(p *flowtest.Pair) {
			p.B.Be(func(f *flows.ClusterFacts) { f.UID = "another" })
		}), time.Minute, view.HealthDegraded},
		"a node is cut off": {now(func(p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) {
				f.Unreached = []flows.UnreachedFacts{{Node: "rome-2", Gateways: []string{"liqo-tenant-milan/milan"}}}
			})
		}), time.Minute, view.HealthDegraded},
		"A does not answer": {behaveA(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} }), time.Minute, view.HealthUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			p.Pacing = flowtest.Manual
			test.fault(p, false)
			for range flowtest.ManyRounds {
				for _, s := range flows.PlanConnect(flowtest.NodePort(), flowtest.Facts(p)).Steps {
					if s.Status == flows.Ready && s.Action.Changes() {
						if _, err := p.Side(s.Side).Apply(t.Context(), s.Objects); err != nil {
							t.Fatal(err)
						}
					}
				}
				p.Tick()
			}
			screen := board.New(session.Options{}, session.Env{Now: p.Now(), Fleet: fleetOf(flowtest.Facts(p))})
			screen = screen.Take(session.Env{Now: p.Now()}, newsOf(flowtest.Facts(p)))
			test.fault(p, true)
			for end := p.Now().Add(test.after); p.Now().Before(end); {
				p.Tick()
			}
			f := flows.Facts{At: p.Now()}
			for _, side := range []flows.Side{flows.A, flows.B} {
				var err error
				if f.Sides[side], err = p.Side(side).Observe(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			var verdicts []string
			got := map[string]view.Health{}
			v := check.Verdict(f, check.Diagnose(f, nil))
			got["check"] = v.Health()
			verdicts = append(verdicts, v.Why)

			screen = screen.Take(session.Env{Now: f.At}, newsOf(f))
			row := screen.Board.Rows[board.PairOf("rome", "milan")]
			got["dashboard"] = row.Health()
			verdicts = append(verdicts, row.Why)

			if f.Sides[flows.A].Problem == nil { // else the command has another exit code
				peer := info.Describe(f.Sides[flows.A], f.At, f.Sides[flows.B]).Peers["milan"]
				for _, h := range []view.Health{view.HealthUnknown, view.Healthy, view.HealthDegraded, view.HealthDown} {
					if h.String() == peer.Health {
						got["info"] = h
					}
				}
			}
			for reader, health := range got {
				if health != test.want {
					t.Errorf("%s: got %s, want %s: %q", reader, health, test.want, verdicts)
				}
			}
			exits := (checkFlags{}).verdict(f, check.Diagnose(f, nil))
			if (exits == nil) != (test.want == view.Healthy) {
				t.Errorf("got exit code %v of check, want that of %s", exits, test.want)
			}
		})
	}
}

func behaveA(edit func(*flowtest.Behaviour)) func(*flowtest.Pair, bool) {
	return func(p *flowtest.Pair, connected bool) {
		if connected {
			p.A.Behave(edit)
		}
	}
}

func newsOf(f flows.Facts) (news []board.News) {
	for _, c := range f.Sides {
		n := board.News{Ref: c.Context, Problem: c.Problem, ID: c.ID, UID: c.UID, Complete: true}
		if c.Problem == nil {
			n.Changed, n.Gone = new(view.Readings).Update(c)
		}
		news = append(news, n)
	}
	return news
}

func fleetOf(f flows.Facts) (fleet session.Fleet) {
	for _, c := range f.Sides {
		fleet = fleet.With(session.Member{Context: session.Context{Ref: c.Context}})
	}
	return fleet
}
