// Package service plans an admin's changes of Services by name: export a Service, end the export, and allow
// imports from a peer. It also makes the view of a cluster from which package services explains a name.
package service

import (
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/internal/services"
)

// ViewOf returns the view that one side has of Services by name. The facts have the answers to
// [flows.AskServices], as far as there are any.
func ViewOf(f flows.Facts, side flows.Side) services.View {
	here, there := f.Sides[side], f.Sides[side.Other()]
	v := services.View{
		Self: here.Name(), Now: f.At, At: here.Services.At(), Found: *found(here),
		Own: own(here), Namespace: here.HasNamespace, Ours: here.Ours, Both: here.OursWith,
	}
	if there.ID != "" {
		both := flows.Facts{}
		both.Sides[flows.A], both.Sides[flows.B] = here, there
		v.Both = both.Ours
	}
	if here.Installation.Asked() {
		served, _ := install.NamesOf(side, here)
		v.Served = &served
	}
	peers := here.Peers()
	for _, id := range slices.Sorted(maps.Keys(peers)) {
		v.Peers = append(v.Peers, peerView(f, *peers[id], there))
	}
	return v
}

// found returns the objects that were read of a cluster. If nothing was read, all lists have the reason.
func found(c flows.ClusterFacts) *services.Found {
	if a := c.Services.Value(); a != nil {
		return a
	}
	why := c.Services.Unknown()
	if c.Problem != nil {
		why = c.Problem.Message
	}
	return new(services.Unread(why))
}

// own returns the namespaces of our programs.
func own(c flows.ClusterFacts) []string {
	out := []string{c.Namespace}
	for _, end := range c.Peers() {
		out = append(out, end.Tenant.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func peerView(f flows.Facts, end flows.End, there flows.ClusterFacts) services.PeerView {
	p := services.PeerView{
		ID: end.Tenant.Remote, Imports: end.ImportsFrom(), Report: end.ServicesReport(),
		Seen: func(text string) (string, bool) {
			real, err := netip.ParseAddr(text)
			if err != nil || end.Configuration == nil {
				return "", false
			}
			seen, err := address.SeenAs(end.Configuration, real)
			return seen.String(), err == nil
		},
	}
	r := end.Reading()
	state, why := r.State(f.At)
	p.Tunnel = services.Tunnel{State: string(state), Works: state.Works(), Old: state == flows.StateStale || state == flows.StateUnknown, RoundTrip: r.Latency, At: r.At}
	if why != "" && state != flows.StateConnected {
		p.Tunnel.State += ": " + why
	}
	switch {
	case there.ID != p.ID && there.Problem != nil && there.Context != flows.ContextRef{}:
		p.Unasked = "the other cluster was not read: " + there.Problem.Message
	case there.ID != p.ID:
		p.Unasked = "no kubeconfig of " + string(p.ID) + " was given"
	case there.Services.Value() == nil:
		p.Unasked = string(p.ID) + " was not read: " + there.Services.Unknown()
	default:
		p.Found, p.At, p.Theirs = there.Services.Value(), there.Services.At(), there.Ours
	}
	return p
}

// AsksNames returns the questions whether pods of a cluster can resolve the names of imports. The answers may
// lead to further questions.
func AsksNames(f flows.Facts, side flows.Side) []flows.Question {
	_, asks := install.NamesOf(side, f.Sides[side])
	return asks
}

// Asks returns the questions to the sides about one name, or about all names if name is zero.
func Asks(name types.NamespacedName, sides ...flows.Side) (out []flows.Question) {
	for _, s := range sides {
		out = append(out, flows.AskServices{Side: s, Name: name})
	}
	return out
}
