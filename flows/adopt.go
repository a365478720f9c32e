package flows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Adopt completes the parameters with the settings of existing gateways. A setting keeps its value
// until an admin gives another value, so a command with fewer flags than the first one changes
// nothing. exists reports whether there is any gateway.
func Adopt(p Params, f Facts) (_ Params, exists bool) {
	for _, side := range serversByAge(f) {
		p, exists = adoptServer(p, side, f.End(side).Server), true
	}
	for _, side := range []Side{A, B} {
		if c := f.End(side).Client; Live(c) {
			p, exists = adoptClient(p, side, f, exists), true
		}
		if g := f.End(side).gateway(); Live(g) {
			allow, _ := wire.AllowOf(g) // an unreadable value counts as none; the gateway reports it
			keep(p.Given, allowField(side), &p.Allow[side], allow)
		}
	}
	return p, exists
}

func allowField(side Side) Fields {
	if side == B {
		return FieldRemoteAllow
	}
	return FieldAllow
}

// serversByAge lists the sides that have a server, the newest last. While the server moves from one
// side to the other, both sides have a server, and the newer one stays.
func serversByAge(f Facts) []Side {
	local, remote := f.End(A), f.End(B)
	a, b := local.Server, remote.Server
	switch {
	case Live(a) && Live(b) && local.Reading().Created.After(remote.Reading().Created):
		return []Side{B, A}
	case Live(a) && Live(b):
		return []Side{A, B}
	case Live(a):
		return []Side{A}
	case Live(b):
		return []Side{B}
	}
	return nil
}

// keep sets a field that the admin has not given.
func keep[T any](given, field Fields, target *T, value T) {
	if !given.Has(field) {
		*target = value
	}
}

func adoptServer(p Params, side Side, server *networkingv1beta1.GatewayServer) Params {
	s := server.Spec
	keep(p.Given, FieldServer, &p.Server, side)
	keep(p.Given, FieldServiceType, &p.ServiceType, s.Endpoint.ServiceType)
	keep(p.Given, FieldPort, &p.Port, uint16(s.Endpoint.Port))
	keep(p.Given, FieldMTU, &p.MTU, s.MTU)
	if p.Given&(FieldClientAddress|FieldClientPort) == 0 {
		keep(p.Given, FieldRelay, &p.Relay, wire.RelayOf(server))
	}
	if p.Server != side {
		return p // the other settings depend on the cluster that hosts the server
	}
	// A node port is kept only for a service of type NodePort, and an address only for a
	// LoadBalancer. Another program may have set a node port for a load balancer.
	if n := s.Endpoint.NodePort; n != nil && p.ServiceType == corev1.ServiceTypeNodePort && p.ServiceType == s.Endpoint.ServiceType {
		keep(p.Given, FieldNodePort, &p.NodePort, uint16(*n))
	}
	if ip := s.Endpoint.LoadBalancerIP; ip != nil && p.ServiceType == corev1.ServiceTypeLoadBalancer && p.ServiceType == s.Endpoint.ServiceType {
		keep(p.Given, FieldLoadBalancerIP, &p.LoadBalancerIP, *ip)
	}
	keep(p.Given, FieldServerTemplate, &p.ServerTemplate, render.TemplateOf(s.ServerTemplateRef, networkingv1beta1.WgGatewayServerTemplateKind))
	return p
}

func adoptClient(p Params, side Side, f Facts, serverExists bool) Params {
	end := f.End(side)
	spec := end.Client.Spec
	if !serverExists {
		// The server's object is gone, but the client shows which side had it.
		keep(p.Given, FieldServer, &p.Server, side.Other())
		keep(p.Given, FieldMTU, &p.MTU, spec.MTU)
	}
	if p.Server == side {
		return p
	}
	keep(p.Given, FieldClientTemplate, &p.ClientTemplate, render.TemplateOf(spec.ClientTemplateRef, networkingv1beta1.WgGatewayClientTemplateKind))
	return adoptEndpoint(p, end, f.End(side.Other()), f.At)
}

// adoptEndpoint keeps the client's address and port if they differ from the server's own, and the
// connection works: an admin has chosen them. If the connection does not work, they may be outdated.
func adoptEndpoint(p Params, client, server End, now time.Time) Params {
	if server.Server == nil || server.Server.Status.Endpoint == nil || wire.RelayOf(server.Server) != "" || !settled(client, server, now) {
		return p
	}
	dialled, own := client.Client.Spec.Endpoint, server.Server.Status.Endpoint
	foreign := func(address string) bool { return !slices.Contains(own.Addresses, address) }
	if len(dialled.Addresses) == 1 && len(own.Addresses) != 1 || slices.ContainsFunc(dialled.Addresses, foreign) {
		keep(p.Given, FieldClientAddress, &p.ClientAddress, strings.Join(dialled.Addresses, ","))
	}
	if dialled.Port != own.Port {
		keep(p.Given, FieldClientPort, &p.ClientPort, uint16(dialled.Port))
	}
	return p
}

// Live reports whether o exists and is not being deleted.
func Live(o wire.Object) bool { return Exists(o) && o.GetDeletionTimestamp() == nil }

// patience is how long a gateway may still report Connected although its peer no longer answers: it
// gives up after five pings, and reports within ten seconds.
const patience = 20 * time.Second

// settled reports whether the client reports a working endpoint, and has had the time to notice that
// it does not work.
func settled(client, server End, now time.Time) bool {
	r := client.Reading()
	if state, _ := r.State(now); !state.Works() || !client.current(r, client.Client) {
		return false
	}
	return r.At.IsZero() || server.Server.Generation <= 1 || r.At.Sub(server.specChanged(server.Server)) > patience
}

// kept returns sentences about the settings that stay although the admin did not ask for their
// values.
func kept(wanted, adopted Params, f Facts) []string {
	var out []string
	for _, s := range worded(Settings(), string(f.Sides[A].ID), string(f.Sides[B].ID)) {
		if s.Noun != "" && s.Write(wanted) != s.Write(adopted) {
			out = append(out, "the "+s.Noun+" stays "+s.Value(adopted))
		}
	}
	return out
}

// others returns the settings that stay although the admin removed them. Another manager owns the
// field as well, so an apply without the field does not remove it.
func (c Connection) others() []string {
	s := c.Ends[c.Params.Server].Server
	if s == nil || s.Spec.Endpoint.ServiceType != c.Params.ServiceType {
		return nil
	}
	var out []string
	edit := c.Facts.Sides[c.Params.Server].KubectlIn(s.Namespace, "edit", "gatewayserver", s.Name)
	stays := func(what string, is any, takeBack func(*networkingv1beta1.Endpoint)) {
		without := s.DeepCopy()
		takeBack(&without.Spec.Endpoint)
		if apply.Contains(wire.FieldManager, s, without) {
			out = append(out, fmt.Sprintf("%s stays %v, because another program has set it; to remove it: %s", what, is, edit))
		}
	}
	if n := s.Spec.Endpoint.NodePort; n != nil && c.Params.NodePort == 0 && c.Params.ServiceType == corev1.ServiceTypeNodePort {
		stays("the node port", *n, func(e *networkingv1beta1.Endpoint) { e.NodePort = nil })
	}
	if ip := s.Spec.Endpoint.LoadBalancerIP; ip != nil && c.Params.LoadBalancerIP == "" && c.Params.ServiceType == corev1.ServiceTypeLoadBalancer {
		stays("the load balancer's address", *ip, func(e *networkingv1beta1.Endpoint) { e.LoadBalancerIP = nil })
	}
	return out
}
