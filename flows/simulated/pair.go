// Package simulated has clusters in memory. They are for the demonstration, and for
// tests of the programs that use package flows.
//
//	p := simulated.NewPair()
//	p.B.Behave(func(b *simulated.Behaviour) { b.LoadBalancerPending = true })
//	err := engine.Run(ctx, plan, p.A, p.B, emit, engine.Options{Now: p.Now})
//
// The clusters have a state; tests don't tell them which calls to expect. Apply is a
// server-side apply with field ownership, and objects are deleted after their owners. A
// simulated operator works on each cluster, one step per [World.Tick]. Keys, endpoints,
// pods, remapped addresses and Connections appear one after another, so a run passes
// through all the states in between. Gateways ping each other over a [Link], and report
// the results. [Behaviour] and [World.Join] cause failures. [Cluster.Log] returns the
// writes.
//
// Everything is deterministic, even if several goroutines use the clusters: only ticks
// move the clock, and UIDs, keys and losses are made from counters.
package simulated

import (
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Pair is a world of two clusters.
type Pair struct {
	*World
	// A is rome, B is milan. Both have our operator, and both have the same address
	// ranges.
	A, B *Cluster
}

// NewPair makes two clusters, rome and milan, with the operator installed and without a
// connection. Both have the range 10.244.0.0/16 of pods and the external range
// 10.70.0.0/16, so that these ranges have to be remapped.
func NewPair() *Pair {
	p := &Pair{World: NewWorld(Epoch())}
	p.A = p.Add("rome", 10)
	p.B = p.Add("milan", 20)
	p.B.side = flows.B
	return p
}

// Log returns the writes to both clusters, A's first.
func (p *Pair) Log() []flows.Change { return append(p.A.Log(), p.B.Log()...) }

// Forget empties both logs.
func (p *Pair) Forget() {
	p.A.Forget()
	p.B.Forget()
}

// Side returns the cluster of a side.
func (p *Pair) Side(s flows.Side) *Cluster {
	if s == flows.B {
		return p.B
	}
	return p.A
}

// liqoctlManager is the field manager of the objects that ConnectByLiqoctl makes.
const liqoctlManager = "liqoctl"

// ConnectByLiqoctl makes a connection as another tool would. When it returns, the
// clusters are connected, and the server on the given side has a NodePort. The names,
// labels and field managers are not ours.
func (p *Pair) ConnectByLiqoctl(server flows.Side) {
	for _, c := range []*Cluster{p.A, p.B} {
		tenant := c.liqoctlTenant()
		ns := render.TenantNamespace(tenant)
		delete(ns.Labels, wire.LabelManagedBy)
		conf := render.Configuration(tenant, p.other(c).Facts().Networks)
		c.PutAs(liqoctlManager, ns, renamed(conf, "conf-"+conf.Name))
	}
	s, c := p.Side(server), p.Side(server.Other())
	gs := render.GatewayServer(render.ServerParams{
		Tenant: s.liqoctlTenant(), Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: wire.DefaultNamespace},
		ServiceType: "NodePort", Port: wire.DefaultPort, MTU: wire.DefaultMTU,
	})
	s.PutAs(liqoctlManager, renamed(gs, "server-"+gs.Name))
	p.Settle()
	endpoint := s.Facts().Servers[0].Status.Endpoint
	gc := render.GatewayClient(render.ClientParams{
		Tenant: c.liqoctlTenant(), Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: wire.DefaultNamespace},
		Addresses: endpoint.Addresses, Port: uint16(endpoint.Port), MTU: wire.DefaultMTU,
	})
	c.PutAs(liqoctlManager, renamed(gc, "client-"+gc.Name))
	p.Settle()
	for _, cl := range []*Cluster{s, c} {
		other := p.other(cl)
		theirs := other.Facts().End(cl.Facts().ID).Key
		key := render.PublicKey(cl.liqoctlTenant(), *theirs, cl.gateway())
		cl.PutAs(liqoctlManager, renamed(key, "key-"+key.Name))
	}
	p.Settle()
}

// renamed changes the name of o, and removes the label that marks it as ours.
func renamed[O wire.Object](o O, name string) O {
	o.SetName(name)
	labels := o.GetLabels()
	delete(labels, wire.LabelManagedBy)
	o.SetLabels(labels)
	return o
}

// liqoctlTenant returns a namespace that differs from our program's default.
func (c *Cluster) liqoctlTenant() render.Tenant {
	t := c.Tenant()
	t.Namespace += "-by-liqoctl"
	return t
}

// gateway returns the cluster's only gateway, with its kind set.
func (c *Cluster) gateway() wire.Object {
	for _, o := range c.Objects() {
		switch o.(type) {
		case *networkingv1beta1.GatewayServer, *networkingv1beta1.GatewayClient:
			return o
		}
	}
	return nil
}
