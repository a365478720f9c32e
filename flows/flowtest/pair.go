// Package flowtest is a pair of clusters in memory, for tests of whatever
// drives package flows: the plans themselves, the terminal program, the command.
//
//	p := flowtest.NewPair()
//	p.B.Behave(func(b *flowtest.Behaviour) { b.LoadBalancerPending = true })
//	err := engine.Run(t.Context(), plan, p.A, p.B, emit, engine.Options{Now: p.Now})
//
// The clusters hold state; they expect no calls. Apply is a server-side apply
// with field ownership, objects have owners and are collected with them, and a
// simulated operator works on both clusters one stage per [Pair.Tick]: keys,
// endpoints, pods, remapped addresses and Connections appear one after another,
// so that a run passes through the states that lie between. What goes wrong is
// said with [Behaviour]. What was written is in [Cluster.Log].
//
// Everything is deterministic, also when both clusters are used from several
// goroutines: time is a fake clock that only ticks move, and UIDs and keys are
// made from counters.
package flowtest

import (
	"fmt"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// TickLength is how far a tick moves the clock.
const TickLength = time.Second

// Epoch is the time at which every pair starts.
func Epoch() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// Pacing says what makes time pass.
type Pacing uint8

const (
	// PerObserve lets one tick pass between two observations of the same
	// cluster, and Changed has a value after each of them. So a run needs no
	// real time, and reaches its deadline after as many rounds as it has
	// seconds. It is not for programs that observe whenever Changed has a value
	// and never end: those would spin.
	PerObserve Pacing = iota
	// Manual leaves it to Tick and Settle. Changed has a value after a tick or a
	// write that changed something on that cluster.
	Manual
)

// Pair is two clusters that can reach each other. Its methods, and those of
// its clusters, may be called from several goroutines.
type Pair struct {
	// A is rome, B is milan. Both have our operator, and the same address ranges.
	A, B *Cluster
	// Pacing is to be set before the clusters are used.
	Pacing Pacing

	mu  sync.Mutex // guards everything below, and both clusters
	now time.Time
}

// NewPair makes two clusters, rome and milan, with the operator installed and
// nothing between them. Their pods' range 10.244.0.0/16 and their external
// range 10.70.0.0/16 are the same, so that remapping has something to do.
func NewPair() *Pair {
	p := &Pair{now: Epoch()}
	p.A = newCluster(p, flows.A, "rome", 10)
	p.B = newCluster(p, flows.B, "milan", 20)
	return p
}

// Now is the pair's clock, for [engine.Options].
func (p *Pair) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// Advance moves the clock without letting anybody work.
func (p *Pair) Advance(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

// Tick moves the clock by TickLength and lets the controllers of both clusters
// do one stage of their work. It reports whether that changed anything.
func (p *Pair) Tick() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tick()
}

// settleTicks is far more than any chain of stages is long.
const settleTicks = 200

// Settle ticks until the controllers have nothing left to do. Reports that are
// only renewed do not count as work. It panics if there is no end to it.
func (p *Pair) Settle() {
	for range settleTicks {
		if !p.Tick() {
			return
		}
	}
	panic(fmt.Sprintf("flowtest: the pair does not settle in %d ticks", settleTicks))
}

func (p *Pair) tick() bool {
	p.now = p.now.Add(TickLength)
	changed := false
	for _, c := range []*Cluster{p.A, p.B} {
		if c.work() {
			changed = true
			c.notify()
		}
	}
	return changed
}

// Log is what was written to both clusters, A's first.
func (p *Pair) Log() []flows.Change { return append(p.A.Log(), p.B.Log()...) }

// Forget empties both logs.
func (p *Pair) Forget() {
	p.A.Forget()
	p.B.Forget()
}

func (p *Pair) other(c *Cluster) *Cluster {
	if c == p.A {
		return p.B
	}
	return p.A
}

// Side is the cluster of a side.
func (p *Pair) Side(s flows.Side) *Cluster {
	if s == flows.B {
		return p.B
	}
	return p.A
}

// liqoctlManager is the field manager of what ConnectByLiqoctl makes.
const liqoctlManager = "liqoctl"

// ConnectByLiqoctl makes what another tool would have made: the clusters are
// connected when it returns, the server is a NodePort on the given side,
// and neither the names nor the labels nor the field managers are ours.
func (p *Pair) ConnectByLiqoctl(server flows.Side) {
	for _, c := range []*Cluster{p.A, p.B} {
		tenant := c.liqoctlTenant()
		ns := render.TenantNamespace(tenant)
		delete(ns.Labels, render.LabelManagedBy)
		conf := render.Configuration(tenant, p.other(c).Facts().Networks)
		c.PutAs(liqoctlManager, ns, renamed(conf, "conf-"+conf.Name))
	}
	s, c := p.Side(server), p.Side(server.Other())
	gs := render.GatewayServer(render.ServerParams{
		Tenant: s.liqoctlTenant(), Template: render.TemplateRef{Name: render.ServerTemplate, Namespace: render.DefaultNamespace},
		ServiceType: "NodePort", Port: render.DefaultPort, MTU: render.DefaultMTU,
	})
	s.PutAs(liqoctlManager, renamed(gs, "server-"+gs.Name))
	p.Settle()
	endpoint := s.Facts().Servers[0].Status.Endpoint
	gc := render.GatewayClient(render.ClientParams{
		Tenant: c.liqoctlTenant(), Template: render.TemplateRef{Name: render.ClientTemplate, Namespace: render.DefaultNamespace},
		Addresses: endpoint.Addresses, Port: uint16(endpoint.Port), MTU: render.DefaultMTU,
	})
	c.PutAs(liqoctlManager, renamed(gc, "client-"+gc.Name))
	p.Settle()
	for _, cl := range []*Cluster{s, c} {
		other := p.other(cl)
		theirs := other.Facts().Peer(cl.Facts().ID).Key
		key := render.PublicKey(cl.liqoctlTenant(), *theirs, cl.gateway())
		cl.PutAs(liqoctlManager, renamed(key, "key-"+key.Name))
	}
	p.Settle()
}

// renamed gives o another name, and takes the label off that says it is ours.
func renamed[O render.Object](o O, name string) O {
	o.SetName(name)
	labels := o.GetLabels()
	delete(labels, render.LabelManagedBy)
	o.SetLabels(labels)
	return o
}

// liqoctlTenant has a namespace of another name than ours would have.
func (c *Cluster) liqoctlTenant() render.Tenant {
	t := c.Tenant()
	t.Namespace += "-by-liqoctl"
	return t
}

// gateway is the cluster's only gateway, with its kind set.
func (c *Cluster) gateway() render.Object {
	for _, o := range c.Objects() {
		switch o.(type) {
		case *networkingv1beta1.GatewayServer, *networkingv1beta1.GatewayClient:
			return o
		}
	}
	return nil
}
