package simulated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Equipped is a cluster with all the optional abilities of a real one. Most tests check the
// messages for a cluster without them.
type Equipped struct{ *Cluster }

var (
	_ engine.Prober = Equipped{}
	_ engine.Logger = Equipped{}
	_ engine.Finder = Equipped{}
)

// Ask implements [engine.Cluster]. The cluster has no NetworkPolicies.
func (c Equipped) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	if q, ok := q.(flows.AskPolicies); ok {
		return flows.Read(q, policy.Facts{}), ctx.Err()
	}
	return c.Cluster.Ask(ctx, q)
}

// Logs implements [engine.Logger].
func (c Equipped) Logs(ctx context.Context, pod flows.PodFacts, lines int) (string, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for _, g := range c.gateways {
		if g.pod != nil && g.pod.Name == pod.Name && g.pod.Namespace == pod.Namespace {
			return strings.Join(g.log[max(0, len(g.log)-lines):], "\n"), ctx.Err()
		}
	}
	return "", fmt.Errorf("pod %q not found", pod.Name)
}

// Find implements [engine.Finder]. Every cluster has a pod and a Service "web".
func (c Equipped) Find(ctx context.Context, t address.Target) (address.Found, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if t.Name != "web" {
		return address.Found{}, fmt.Errorf("get %s: not found", t)
	}
	f := address.Found{Ends: []address.End{{Name: "web", Ready: true}}}
	if pods := c.identity.Networks.Pod; len(pods) > 0 {
		if own, err := netip.ParsePrefix(string(pods[0])); err == nil {
			f.Ends[0].Address = own.Masked().Addr().Next().Next().String()
		}
	}
	if t.Kind == address.Service {
		f.ClusterIP = "10.96.0.80"
	}
	return f, ctx.Err()
}

// StartProbe implements [engine.Prober].
func (c Equipped) StartProbe(_ context.Context, r engine.ProbeRequest, progress func(string)) (engine.Probe, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if c.behaviour.NoPods != "" {
		return nil, errors.New(c.behaviour.NoPods)
	}
	c.ordinal++
	p := &probe{cluster: c.Cluster, peer: r.Tenant.Remote}
	p.pod = engine.ProbePod{Namespace: r.Tenant.Namespace, Name: render.ProbeName + "-" + r.Token[:8], Node: cmp.Or(r.Node, c.node())}
	if pods := c.identity.Networks.Pod; len(pods) > 0 {
		if own, err := netip.ParsePrefix(string(pods[0])); err == nil {
			b := own.Addr().As4()
			b[3] = byte(c.ordinal)
			p.pod.Address = netip.AddrFrom4(b)
		}
	}
	progress("pod " + p.pod.Name + " is running")
	return p, nil
}

// node returns the name of the node on which pods run.
func (c *Cluster) node() string {
	if len(c.identity.Nodes) > 0 {
		return c.identity.Nodes[0].Name
	}
	return "node-1"
}

// probe is a pod that measures the path to the other cluster's pod.
type probe struct {
	cluster *Cluster
	peer    wire.ClusterID
	pod     engine.ProbePod
}

// Pod implements [engine.Probe].
func (p *probe) Pod() engine.ProbePod { return p.pod }

// Measure implements [engine.Probe].
func (p *probe) Measure(ctx context.Context, t render.ProbeTarget) (render.ProbeResult, error) {
	c := p.cluster
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if t.Call != nil {
		return render.ProbeResult{Call: new(c.call(*t.Call))}, ctx.Err()
	}
	const packets = 40
	r := render.ProbeResult{Sent: packets}
	for _, record := range c.store.sorted() {
		g := c.gateways[record.object.GetUID()]
		if g == nil || remoteOf(record.object) != p.peer || g.pod == nil || !g.pod.Ready {
			continue
		}
		w := c.way(record.object, g)
		for range packets {
			if !w.open || w.Loss > 0 && c.world.chance.Float64() < w.Loss {
				continue
			}
			micros := w.roundTrip(c.world.chance.Float64).Microseconds()
			if r.Received == 0 || micros < r.MinMicros {
				r.MinMicros = micros
			}
			r.Received++
			r.MaxMicros = max(r.MaxMicros, micros)
			r.AvgMicros += (micros - r.AvgMicros) / int64(r.Received)
			r.LargestPacket = min(w.mtu, longest-60)
		}
	}
	return r, ctx.Err()
}

// Remove implements [engine.Probe].
func (p *probe) Remove(ctx context.Context) error { return ctx.Err() }
