// Package demo has the clusters of the demonstration in memory, and the links between them, which
// keys can break. The program shows only what it observes.
package demo

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

const (
	// memory is how long the clusters are already connected when the program begins. The charts
	// of a full screen cover this time.
	memory = 20 * time.Minute
	// step is the interval of the gateways' reports.
	step = 10 * time.Second
	// TickLength is the time between two events on the clusters.
	TickLength = 500 * time.Millisecond
	// restart is the time in which Kubernetes starts another pod of a gateway if the node has to
	// pull the image.
	restart = 25 * time.Second
)

// World has all clusters of the demonstration. It implements [session.Backend] and
// [session.Demo].
type World struct {
	*simulated.World
	began time.Time

	mu       sync.Mutex
	clusters []*simulated.Cluster
	spare    []wire.ClusterID // clusters that can be added
	broken   map[broken]simulated.Link
}

// broken is a fault that a key has caused on the link between two clusters.
type broken struct {
	trick session.Trick
	ends  [2]wire.ClusterID
}

type place struct {
	id   wire.ClusterID
	pods networkingv1beta1.CIDR
}

type route struct {
	a, b wire.ClusterID
	simulated.Link
	service corev1.ServiceType
}

const ms = time.Millisecond

var (
	places = []place{{"rome", "10.244.0.0/16"}, {"milan", "10.244.0.0/16"}, {"paris", "10.42.0.0/16"}, {"oslo", "10.128.0.0/16"}, {"edge-07", "10.42.0.0/16"}}
	routes = []route{
		{"rome", "milan", simulated.Link{RoundTrip: 7 * ms, Jitter: 3 * ms, Traffic: [2]float64{3.1e6, 0.9e6}}, corev1.ServiceTypeNodePort},
		{"rome", "paris", simulated.Link{RoundTrip: 22 * ms, Jitter: 9 * ms, Traffic: [2]float64{410e3, 1.7e6}}, corev1.ServiceTypeLoadBalancer},
		{"milan", "paris", simulated.Link{RoundTrip: 18 * ms, Jitter: 5 * ms, Traffic: [2]float64{120e3, 64e3}}, corev1.ServiceTypeNodePort},
		{"rome", "oslo", simulated.Link{RoundTrip: 41 * ms, Jitter: 14 * ms}, corev1.ServiceTypeNodePort},
		{"paris", "edge-07", simulated.Link{RoundTrip: 63 * ms, Jitter: 40 * ms, Traffic: [2]float64{38e3, 9e3}}, corev1.ServiceTypeNodePort},
		{"oslo", "edge-07", simulated.Link{RoundTrip: 70 * ms, Closed: true}, corev1.ServiceTypeNodePort},
	}
	// history lists the past faults of links, by the time before the program begins.
	history = []struct {
		before time.Duration
		a, b   wire.ClusterID
		change func(*simulated.Link)
	}{
		{14 * time.Minute, "rome", "paris", func(l *simulated.Link) { l.Closed = true }},
		{13 * time.Minute, "rome", "paris", func(l *simulated.Link) { l.Closed = false }},
		{6 * time.Minute, "milan", "paris", func(l *simulated.Link) { l.RoundTrip, l.Jitter, l.Loss = 95*ms, 60*ms, 0.12 }},
		{3 * time.Minute, "paris", "edge-07", func(l *simulated.Link) { l.Firewalled = "edge-07" }},
	}
)

// New returns a world whose clusters have been connected for some time. [World.Live] must be read
// once, before anything else.
func New(now time.Time) *World {
	w := &World{World: simulated.NewWorld(now.Add(-memory)), began: now, spare: []wire.ClusterID{"turin", "kyoto", "quito"}, broken: map[broken]simulated.Link{}}
	w.Pacing = simulated.Manual
	for _, p := range places {
		serve(w.add(p), p)
	}
	w.add(place{id: "staging"}).Bare()
	return w
}

func (w *World) add(p place) *simulated.Cluster {
	host := byte(10 * (len(w.clusters) + 1))
	c := w.Add(p.id, host)
	c.Be(func(f *flows.ClusterFacts) {
		f.Context.Name, f.Version, f.Operator.Version = string(p.id), "v1.36.1", "v1.0.0"
		if p.pods != "" {
			f.Networks.Pod = []networkingv1beta1.CIDR{p.pods}
		}
		f.ServiceCIDRs = []networkingv1beta1.CIDR{"10.96.0.0/12"}
		f.NodePorts, f.LoadBalancers.Answered = flows.PortRange{From: 30000, To: 32767}, 1
		for i := range 3 {
			f.Nodes = append(f.Nodes, flows.NodeFacts{
				Name: fmt.Sprintf("%s-%d", p.id, i+1), Ready: true, Provider: "demo",
				Internal: []netip.Addr{netip.AddrFrom4([4]byte{172, 18, 0, host + byte(i)})}, External: []netip.Addr{netip.AddrFrom4([4]byte{203, 0, 113, host + byte(i)})},
			})
		}
	})
	w.clusters = append(w.clusters, c)
	return c
}

// Live returns the observations that the program would have made so far. After them, time passes
// until ctx ends. The clusters are connected by the program's own plans.
func (w *World) Live(ctx context.Context) iter.Seq[session.Observation] {
	return func(yield func(session.Observation) bool) {
		for _, r := range routes {
			w.Join(r.a, r.b, func(l *simulated.Link) { *l = r.Link })
		}
		for w.connect(context.WithoutCancel(ctx)) {
			w.Tick()
		}
		events := history
		for now := w.Now(); now.Before(w.began); now = now.Add(step) {
			for ; len(events) > 0 && !now.Before(w.began.Add(-events[0].before)); events = events[1:] {
				w.Join(events[0].a, events[0].b, events[0].change)
			}
			w.TickTo(now)
			for _, c := range w.clusters {
				f := c.Facts()
				if !yield(session.Observation{At: now, Ref: f.Context, Facts: f}) {
					return
				}
			}
		}
		go w.run(ctx)
	}
}

// connect applies all ready steps of all plans, and reports whether steps are left.
func (w *World) connect(ctx context.Context) (more bool) {
	for _, r := range routes {
		p := flows.Defaults()
		p.ServiceType, p.Given = r.service, flows.AllFields
		a, b := w.cluster(string(r.a)), w.cluster(string(r.b))
		plan := flows.PlanConnect(p, flows.Facts{Sides: [2]flows.ClusterFacts{a.Facts(), b.Facts()}, At: w.Now()})
		for _, s := range plan.Steps {
			c := []*simulated.Cluster{a, b}[s.Side]
			if s.Status != flows.Ready {
				more = more || s.Status != flows.Done && s.Action.Changes()
				continue
			}
			more = true
			if _, err := c.Apply(ctx, s.Objects); err != nil {
				panic(fmt.Sprintf("demo: %v", err)) // writes are never refused
			}
		}
	}
	return more
}

func (w *World) run(ctx context.Context) {
	ticker := time.NewTicker(TickLength)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			w.TickTo(now)
		}
	}
}

// Contexts implements [session.Backend].
func (w *World) Contexts(added []string) (contexts []session.Context, problems []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clusters {
		f := c.Facts()
		contexts = append(contexts, session.Context{Ref: f.Context, File: "demo", Server: f.Server, User: simulated.User})
	}
	for _, file := range added {
		problems = append(problems, fmt.Errorf("kubeconfig %s: a demonstration reads no files", file))
	}
	return contexts, problems
}

// Open implements [session.Backend].
func (w *World) Open(ref flows.ContextRef) (engine.Cluster, error) {
	if c := w.cluster(ref.Name); c != nil {
		return simulated.Equipped{Cluster: c}, nil
	}
	return nil, fmt.Errorf("no context %s", ref)
}

func (w *World) cluster(name string) *simulated.Cluster {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.clusters, func(c *simulated.Cluster) bool { return c.Facts().Context.Name == name })
	if i < 0 {
		return nil
	}
	return w.clusters[i]
}

// Play implements [session.Demo].
func (w *World) Play(trick session.Trick, pair [2]flows.ContextRef) string {
	if trick == session.AddCluster {
		return w.addSpare()
	}
	a, b := w.cluster(pair[flows.A].Name), w.cluster(pair[flows.B].Name)
	if a == nil || b == nil {
		return "Select a connection, or two clusters, first."
	}
	ends := [2]wire.ClusterID{a.Facts().ID, b.Facts().ID}
	for i, id := range ends {
		if id == "" {
			return fmt.Sprintf("%s is not installed yet: nothing leads there.", pair[i].Name)
		}
	}
	if trick == session.KillGateway {
		if !b.KillGateway(ends[0], restart) {
			return fmt.Sprintf("%s has no gateway for %s.", ends[1], ends[0])
		}
		return fmt.Sprintf("The gateway of %s was killed. Its next pod starts in %s.", ends[1], restart)
	}
	slices.Sort(ends[:])
	w.mu.Lock()
	defer w.mu.Unlock()
	key := broken{trick, ends}
	before, again := w.broken[key]
	w.Join(ends[0], ends[1], func(l *simulated.Link) {
		if !again {
			w.broken[key] = *l
		}
		switch trick {
		case session.CutUDP:
			again = l.Closed || l.Firewalled != ""
			l.Closed, l.Firewalled = !again, ""
		case session.SlowLink:
			if again {
				l.RoundTrip, l.Jitter, l.Loss = before.RoundTrip, before.Jitter, before.Loss
			} else {
				l.RoundTrip, l.Jitter, l.Loss = 8*l.RoundTrip+100*ms, 80*ms, 0.15
			}
		case session.KillGateway, session.AddCluster: // these keys are not about links
		}
	})
	if again {
		delete(w.broken, key)
	}
	what := map[bool]map[session.Trick]string{
		false: {session.CutUDP: "UDP between %s and %s is cut.", session.SlowLink: "The link between %s and %s is slow, and loses packets."},
		true:  {session.CutUDP: "UDP between %s and %s passes again.", session.SlowLink: "The link between %s and %s is as it was."},
	}[again][trick]
	return fmt.Sprintf(what, ends[0], ends[1])
}

func (w *World) addSpare() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.spare) == 0 {
		return "There are no more clusters to add."
	}
	id := w.spare[0]
	w.spare = w.spare[1:]
	w.add(place{id: id}).Bare()
	return fmt.Sprintf("%s is a new cluster, on which nothing is installed. A new connection (n) offers it.", id)
}
