package tui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// connectedPair prepares two clusters that are connected.
func connectedPair(t *testing.T) func(*flowtest.Pair) {
	return func(p *flowtest.Pair) { connectPair(t, p, flows.B, corev1.ServiceTypeNodePort) }
}

// connect makes a connection as an earlier run would have.
func connectPair(t *testing.T, p *flowtest.Pair, server flows.Side, service corev1.ServiceType) {
	t.Helper()
	params := flows.Defaults()
	params.Server, params.ServiceType = server, service
	earlier(t, p, func(f flows.Facts) flows.Plan { return flows.PlanConnect(params, f) })
}

// earlier is a run before the program began.
func earlier(t *testing.T, p *flowtest.Pair, plan flows.Planner) {
	t.Helper()
	pacing := p.Pacing
	p.Pacing = flowtest.PerObserve
	// Not the context of t, which may be of another bubble than the pair.
	ctx := context.Background()
	if err := engine.Run(ctx, plan, p.A, p.B, func(engine.Event) {}, engine.Options{Now: p.Now}); err != nil {
		t.Fatal(err)
	}
	p.Pacing = pacing
	p.Forget()
}

func TestAClusterThatStopsAnsweringIsAStateOfItsSide(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
		d.wait(5 * time.Second)
		d.has("Live", "rome says tunnel up, milan says not answering", "does not answer", "seen as")
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = nil })
		d.wait(3 * time.Second)
		d.has("untested: each gateway gets answers")
	})
}

func TestTheLiveScreenSaysWhichAddressToCall(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(t *testing.T, d *driver) {
		ask := func(text string) {
			d.keys("u")
			d.has("Which pod or Service of milan?")
			d.send(tea.PasteMsg{Content: text})
			d.keys("enter")
			d.wait(time.Second)
		}
		ask("web")
		d.has("is not pod/NAME, service/NAME or an IP address")
		d.keys("esc")
		ask("10.244.0.4")
		conf := d.pair.A.Facts().End("milan").Configuration
		d.has("10.244.0.4 of milan, called from pods of rome: ", " (10.244.0.4 there).")
		d.hasNot("  (10.244.0.4")
		seen, err := address.SeenAs(conf, netip.MustParseAddr("10.244.0.4"))
		if err != nil {
			t.Fatal(err)
		}
		d.has(seen.String())
		ask("svc/web -n shop")
		d.has("can't be looked up here")
	})
}

func TestAReportThatIsTooOldLooksStale(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.NoReports = true })
		d.wait(20 * time.Second)
		d.has("untested: each gateway gets answers")
		d.wait(25 * time.Second)
		d.has("milan says stale", "it said Connected", "and nothing since")
	})
}

func TestALostConnectionIsSeen(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true })
		d.wait(12 * time.Second)
		d.has("both sides say: down", "none (kernel)")
		for _, o := range d.pair.A.Objects() {
			if o.GetObjectKind().GroupVersionKind().Kind == "GatewayClient" {
				d.pair.A.Remove(o)
			}
		}
		d.wait(10 * time.Second)
		d.has("there is no gateway", "to see them")
	})
}

func TestTheAdminsChoiceOfAScreenStays(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(t *testing.T, d *driver) {
		d.keys("p")
		d.wait(5 * time.Second)
		d.has("Plan", "Nothing is left to do")
		d.hasNot("swap server", "service type")
		d.keys("esc")
		d.has("Live")
	})
}

func TestALossyConnectionIsDegraded(t *testing.T) {
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		connectedPair(t)(p)
		w.replace("kind-milan", reporting{p.B, func(r *wire.Report) { r.Loss, r.Since = 0.2, new(r.At.Add(-time.Hour)) }})
		return session.Options{A: refOf("kind-rome"), B: refOf("kind-milan")}
	}, func(t *testing.T, d *driver) {
		d.has("rome says tunnel up, milan says degraded", "! degraded", "20% of the pings are lost")
	})
}

func TestTheClockDoesNotGoBack(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.send(tickMsg(flowtest.Epoch().Add(time.Minute)))
		d.send(tickMsg(flowtest.Epoch().Add(time.Second)))
		d.has("12:01:00")
	})
}

// hanging is a cluster whose API server takes requests and answers nothing.
type hanging struct{ engine.Cluster }

func (hanging) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	<-ctx.Done()
	return flows.ClusterFacts{Context: flows.ContextRef{Name: "kind-hanging"}}, ctx.Err()
}

func TestAClusterThatHangsHidesNothingOfTheOther(t *testing.T) {
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		w.replace("kind-milan", hanging{p.B})
		return session.Options{A: refOf("kind-rome"), B: refOf("kind-milan")}
	}, func(t *testing.T, d *driver) {
		d.wait(3 * time.Second)
		d.has("rome", "answers", "kind-milan  ○ asked")
		d.wait(15 * time.Second)
		d.has("no answer within 15s", "LT-P001")
	})
}

// restless is a cluster in which something is different whenever it is looked at.
type restless struct {
	engine.Cluster
	looks *atomic.Int64
}

func (r restless) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	f, err := r.Cluster.Observe(ctx)
	f.Version = fmt.Sprint("v", r.looks.Add(1))
	return f, err
}

func (restless) Changed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestUpdatesAreCoalesced(t *testing.T) {
	var looks atomic.Int64
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		for i := range 20 {
			w.add(session.Context{Ref: refOf(fmt.Sprint("restless-", i))}, restless{p.A, &looks})
		}
		return session.Options{Start: session.StartDashboard}
	}, func(t *testing.T, d *driver) {
		before, looked := d.got, looks.Load()
		d.wait(5 * time.Second)
		if got := d.got - before; got < 40 || got > 60 {
			t.Errorf("got %d messages in 5 s, want about 10 a second of all clusters together", got)
		}
		if got := looks.Load() - looked; got < 20*40 {
			t.Errorf("got %d looks in 5 s, want about 10 a second at each of 20 clusters", got)
		}
	})
}

func TestWithoutChangesTheDashboardIsToldNothing(t *testing.T) {
	inWorld(t, func(p *flowtest.Pair, _ *world) session.Options {
		return session.Options{Start: session.StartDashboard}
	}, func(t *testing.T, d *driver) {
		d.wait(time.Second)
		before, screen := d.got, d.screen()
		d.wait(50 * time.Second)
		if got := d.got - before; got > 0 || d.screen() != screen {
			t.Errorf("got %d messages within a minute in which nothing happened, want none", got)
		}
		d.wait(10 * time.Second)
		if d.got == before {
			t.Error("got no message with the new minute, want one")
		}
	})
}

// reporting is a cluster whose gateway says more than flowtest's do.
type reporting struct {
	*flowtest.Cluster
	report func(*wire.Report)
}

func (r reporting) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	f, err := r.Cluster.Observe(ctx)
	for i := range f.Connections {
		report, ok, _ := wire.ParseReport(f.Connections[i].Annotations)
		if !ok {
			continue
		}
		r.report(&report)
		text, err := json.Marshal(report)
		if err != nil {
			return f, err
		}
		f.Connections[i].Annotations[wire.AnnotationStatus] = string(text)
	}
	return f, err
}

func TestAConnectionIsMeasuredWhenItIsMade(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.keys("enter", "y")
		d.wait(30 * time.Second)
		d.at(wizard.Live)
		d.view(80, 30)
		// These clusters run no probes: then that is said, and what is known instead.
		d.has("not verified: only the gateways' pings are known", "can't run probes")
		d.has("rome → milan")
	})
}

func TestNothingIsMeasuredThatNobodyAskedFor(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(t *testing.T, d *driver) {
		d.wait(10 * time.Second)
		d.has("Not tested from pod to pod yet. Press v to test.")
		d.view(60, 24) // all of the verdict stays in sight
		d.has("no pod traffic", "seen yet")
		d.view(80, 24)
		d.keys("v")
		d.wait(time.Second)
		d.view(80, 30)
		d.has("can't run probes")
	})
}

// Where there is room the live screen shows how the round trips were; where there is none, it
// does not scroll for that.
func TestTheLiveScreenFillsItsRoom(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.at(wizard.Live)
		d.wait(time.Minute)
		d.view(120, 40)
		d.has("Round trip between the gateways, every 10s  rome → milan milan → rome", "┤", "-5 min", "now")
		d.hasNot("lines 1 to")
		d.view(120, 24)
		d.hasNot("┤", "lines 1 to")
	})
}
