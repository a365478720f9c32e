package simulated

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// TickLength is how far a tick moves the clock.
const TickLength = time.Second

// Epoch is the time of the clock of a new pair.
func Epoch() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// Pacing says when time passes.
type Pacing uint8

const (
	// PerObserve lets one tick pass between two observations of the same cluster, and sends
	// a value to Changed after each observation. So a run needs no real time: its deadline
	// in seconds is a number of rounds. A program that never ends, and observes after each
	// value from Changed, must not use it, because it would never wait.
	PerObserve Pacing = iota
	// Manual lets time pass only in Tick and Settle. Changed has a value after a tick or a
	// write that changed something on that cluster.
	Manual
)

// World has clusters that can reach each other. Several goroutines may call its methods and
// those of its clusters.
type World struct {
	// Pacing must be set before the clusters are used.
	Pacing Pacing

	mu       sync.Mutex // guards the fields below, and all clusters
	now      time.Time
	clusters []*Cluster
	links    map[[2]wire.ClusterID]Link
	chance   *rand.Rand
}

// NewWorld returns a world without clusters.
func NewWorld(now time.Time) *World {
	return &World{now: now, links: map[[2]wire.ClusterID]Link{}, chance: rand.New(rand.NewPCG(1, 2))}
}

// Add adds a cluster with the operator installed. host is the last byte of its addresses.
func (w *World) Add(id wire.ClusterID, host byte) *Cluster {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := newCluster(w, id, host)
	w.clusters = append(w.clusters, c)
	return c
}

// Now returns the time of the world's clock, for [engine.Options].
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Advance moves the clock, but no controller works.
func (w *World) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Tick moves the clock by TickLength, and lets the controllers of all clusters make one
// step. It reports whether something was changed.
func (w *World) Tick() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tick(w.now.Add(TickLength))
}

// TickTo is Tick with a given time. The clock does not go back.
func (w *World) TickTo(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Before(w.now) {
		now = w.now
	}
	return w.tick(now)
}

// settleTicks is far more than any change needs.
const settleTicks = 200

// Settle ticks until the controllers have no work left. Writing an unchanged report again
// does not count as work. Settle panics if the work does not end.
func (w *World) Settle() {
	for range settleTicks {
		if !w.Tick() {
			return
		}
	}
	panic(fmt.Sprintf("simulated: the clusters do not settle in %d ticks", settleTicks))
}

func (w *World) tick(now time.Time) bool {
	w.now = now
	changed := false
	for _, c := range w.clusters {
		if c.work() {
			changed = true
			c.notify()
		}
	}
	return changed
}

// peer returns the cluster that another cluster knows by an ID; nil if there is none. In a
// world of two clusters, each is the other's peer, whatever the ID is.
func (w *World) peer(of *Cluster, id wire.ClusterID) *Cluster {
	if i := slices.IndexFunc(w.clusters, func(c *Cluster) bool { return c != of && c.identity.ID == id }); i >= 0 {
		return w.clusters[i]
	}
	if len(w.clusters) == 2 {
		return w.other(of)
	}
	return nil
}

// other returns the first of the other clusters. Liqo's lending is simulated only between
// two clusters.
func (w *World) other(of *Cluster) *Cluster {
	return w.clusters[slices.IndexFunc(w.clusters, func(c *Cluster) bool { return c != of })]
}
