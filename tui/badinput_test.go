package tui

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/board"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// A clock that is wrong for a while makes what it says wrong for as long, and no
// longer.
func TestAClockThatJumps(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		d.has("1 · untested")
		right := d.model.options.Now
		var wrong atomic.Int64
		d.model.options.Now = func() time.Time { return right().Add(time.Duration(wrong.Load())) }
		for _, by := range []time.Duration{30 * 24 * time.Hour, -30 * 24 * time.Hour} {
			wrong.Store(int64(by))
			d.wait(25 * time.Second) // gateways report every 10 s, and news have the time with them
			if at := d.model.clock; at.Sub(right()).Round(time.Hour) != by {
				t.Errorf("after a jump by %s: the screen is at %s", by, at)
			}
			wrong.Store(0)
			d.wait(25 * time.Second)
			d.has("1 · untested")
			row := d.model.dashboard.Board.Rows[board.PairOf("rome", "milan")]
			if at := d.model.clock; at.Sub(right()).Abs() > 2*time.Minute || len(row.History[0].Points) == 0 || row.History[0].Last > session.BucketOf(right()) {
				t.Errorf("after the end of a jump by %s: the screen is at %s, and the history at %d of %d", by, at, row.History[0].Last, session.BucketOf(right()))
			}
		}
	})
}

func TestAKubeconfigThatDisappearsWhileTheDashboardWatches(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		files := d.world.clusters
		d.world.mu.Lock()
		d.world.clusters, d.world.contexts = map[flows.ContextRef]engine.Cluster{}, nil
		d.world.mu.Unlock()
		d.wait(10 * time.Second)
		d.has("1 · untested", "2 contexts") // nobody needs the file while the clusters are open
		d.keys("r")
		d.wait(time.Second)
		d.has("1 ? unreachable", "not usable: 2 contexts", "rome", "milan")
		d.world.mu.Lock()
		d.world.clusters = files
		d.world.mu.Unlock()
		d.wait(3 * time.Second)
		d.has("1 · untested")
		d.hasNot("not usable")
	})
}

// noisy is a cluster that gives a hundred other warnings whenever it is looked
// at, and always has something new.
type noisy struct {
	engine.Cluster
	given *atomic.Int64
}

func (n noisy) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	f, err := n.Cluster.Observe(ctx)
	f.Events = slices.Clone(f.Events)
	for range 100 {
		i := n.given.Add(1)
		f.Events = append(f.Events, flows.EventFacts{
			Object: "Pod liqo-tenant-milan/gw-" + fmt.Sprint(i), Reason: "BackOff", Message: "restarting a container that failed", Count: 1, At: flowtest.Epoch(),
		})
	}
	return f, err
}

func (noisy) Changed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestAThousandEventsASecond(t *testing.T) {
	var given atomic.Int64
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		connectedPair(t)(p)
		w.replace("kind-rome", noisy{p.A, &given})
		return session.Options{Start: session.StartDashboard, InfoCommand: func(flows.ContextRef, wire.ClusterID) command.Command { return command.Command{} }}
	}, func(t *testing.T, d *driver) {
		before, began := d.got, given.Load()
		d.wait(5 * time.Second)
		if n := given.Load() - began; n < 4000 {
			t.Fatalf("got %d events in 5 s, want about a thousand a second", n)
		}
		if got := d.got - before; got > 60 {
			t.Errorf("got %d messages in 5 s, want at most about ten a second", got)
		}
		log := &d.model.dashboard.Board.Log
		if log.Total < 4000 || len(log.Events) > board.EventsKept {
			t.Errorf("got %d events in the log, of %d, want the latest %d", len(log.Events), log.Total, board.EventsKept)
		}
		d.keys("E")
		d.has("BackOff: restarting a container that failed")
		d.keys("esc")
		d.has("1 · untested")
	})
}
