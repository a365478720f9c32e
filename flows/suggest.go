package flows

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// SuggestServer returns the side that should host the gateway server. This is the side that hosts
// it now, if there is one; otherwise, the side that the other side can reach. The reason completes
// the sentence "… because …".
func SuggestServer(f Facts) (Side, string) {
	for _, side := range []Side{B, A} {
		if s := f.End(side).Server; Live(s) {
			return side, fmt.Sprintf("%s hosts it already", f.Sides[side].Name())
		}
	}
	if f.Reach != nil {
		for _, server := range []Side{B, A} {
			there, back := f.Reach.Ways[server.Other()], f.Reach.Ways[server]
			if there.Open() && !back.Open() {
				return server, fmt.Sprintf("pods of %s have reached it by UDP", f.Sides[server.Other()].inShort())
			}
		}
	}
	a, b := reachable(f.Sides[A]), reachable(f.Sides[B])
	nameA, nameB := f.Sides[A].inShort(), f.Sides[B].inShort()
	switch {
	case a.rank > b.rank:
		return A, a.why(nameA) + ", and " + b.why(nameB)
	case b.rank > a.rank:
		return B, b.why(nameB) + ", and " + a.why(nameA)
	case a.says == b.says:
		return B, "either would do: " + a.why("both clusters")
	}
	return B, "either would do: " + a.why(nameA) + ", and " + b.why(nameB)
}

// reach describes how likely it is that a cluster can be reached from outside.
type reach struct {
	rank int
	says string // a clause about the cluster, with %s for its name
}

func (r reach) why(name string) string { return strings.Replace(r.says, "%s", name, 1) }

// rankPrivate is the rank of clusters that, as far as we know, can't be dialled from another
// network.
const rankPrivate = 1

func reachable(c ClusterFacts) reach {
	external, public := false, false
	for _, n := range c.Nodes {
		external = external || len(n.External) > 0
		for _, a := range append(n.Internal, n.External...) {
			public = public || ipam.Public(a)
		}
	}
	switch {
	case c.LoadBalancers.Answered > 0:
		return reach{4, "load balancers of %s get addresses"}
	case public:
		return reach{3, "nodes of %s have public addresses"}
	case external:
		return reach{2, "nodes of %s have external addresses"}
	case len(c.Nodes) == 0:
		return reach{rankPrivate, "the nodes' addresses of %s are not known"}
	}
	return reach{rankPrivate, "nodes of %s have private addresses only"}
}

// inShort returns the cluster's name in sentences: its ID, or else its context. A suggestion does
// not need the context's file.
func (c ClusterFacts) inShort() string {
	return cmp.Or(string(c.ID), ContextRef{Name: c.Context.Name}.String())
}

// BehindNAT reports whether no address of the cluster seems to be reachable from another network.
// It is false if the nodes are unknown.
func (c ClusterFacts) BehindNAT() bool {
	return len(c.Nodes) > 0 && reachable(c).rank <= rankPrivate && c.LoadBalancers.Answered == 0
}

// BothBehindNAT reports whether, by its addresses, neither cluster can be dialled. It is false if
// nodes of both clusters are in one network, because they reach each other.
func (f Facts) BothBehindNAT() bool {
	return f.Sides[A].BehindNAT() && f.Sides[B].BehindNAT() && !f.Sides[A].Neighbours(f.Sides[B])
}

// Neighbours reports whether nodes of the two clusters have addresses in one /24. Addresses don't
// show the size of a network; /24 is a cautious guess.
func (c ClusterFacts) Neighbours(other ClusterFacts) bool {
	known := other.networks()
	for network := range c.networks() {
		if known[network] {
			return true
		}
	}
	return false
}

func (c ClusterFacts) networks() map[netip.Prefix]bool {
	all := map[netip.Prefix]bool{}
	for _, n := range c.Nodes {
		for _, a := range n.Internal {
			if p, err := a.Prefix(24); err == nil && a.Is4() {
				all[p] = true
			}
		}
	}
	return all
}

// overIPv6 returns a failed step if our gateways can't dial a client address.
func (p Params) overIPv6(f Facts) *Step {
	client := f.Sides[p.Server.Other()]
	for host := range strings.SplitSeq(p.ClientAddress, ",") {
		if a, err := netip.ParseAddr(host); err == nil && !a.Unmap().Is4() && !client.Can().DialIPv6 {
			return new(Refuse(p.Server.Other(), CodeUsage, "settings", FailedUsage,
				fmt.Sprintf("--client-address %s: the gateway of %s can't dial it, since tunnels over IPv6 are not supported yet", host, client.Name()),
				command.Text("give an IPv4 address, or a name that has one")))
		}
	}
	return nil
}

// Undecided returns the fields that are chosen by facts, because the admin gave no value: the
// service type and the MTU. Facts also choose the server's side, if the admin gave no field except
// the MTU, and only the local cluster can be dialled.
func (p Params) Undecided(f Facts) (open Fields) {
	open |= FieldMTU &^ p.Given
	if p.Given&(FieldServiceType|FieldNodePort|FieldLoadBalancerIP) == 0 {
		open |= FieldServiceType
	}
	if p.Given&^FieldMTU == 0 && f.Sides[B].BehindNAT() && reachable(f.Sides[A]).rank > rankPrivate && !f.Sides[A].Neighbours(f.Sides[B]) {
		open |= FieldServer
	}
	return open
}

// clouds are cloud providers, by the scheme of provider IDs. Their clusters usually have load
// balancers.
var clouds = map[string]string{
	"aws": "AWS", "gce": "Google Cloud", "azure": "Azure", "digitalocean": "DigitalOcean", "linode": "Linode",
	"hcloud": "Hetzner Cloud", "openstack": "OpenStack", "ocid1": "Oracle Cloud", "ibm": "IBM Cloud", "exoscale": "Exoscale",
	"scaleway": "Scaleway", "vultr": "Vultr", "ovhcloud": "OVHcloud",
}

// SuggestServiceType returns the Service type for a gateway server: a load balancer if load
// balancers get addresses, else a node port. The reason completes the sentence "… because …".
func SuggestServiceType(c ClusterFacts) (corev1.ServiceType, string) {
	name := c.inShort()
	switch {
	case c.LoadBalancers.Answered > 0:
		return corev1.ServiceTypeLoadBalancer, fmt.Sprintf("load balancers of %s get addresses", name)
	case c.LoadBalancers.Pending > 0:
		return corev1.ServiceTypeNodePort, fmt.Sprintf("load balancers of %s wait for addresses (%d)", name, c.LoadBalancers.Pending)
	}
	for _, n := range c.Nodes {
		if cloud, ok := clouds[n.Provider]; ok {
			return corev1.ServiceTypeLoadBalancer, fmt.Sprintf("nodes of %s are of %s", name, cloud)
		}
	}
	return corev1.ServiceTypeNodePort, fmt.Sprintf("nothing on %s is known to give addresses to load balancers", name)
}

// FindsMTU reports whether the cluster's gateway finds out which packet size passes. Our gateways
// do, so it is also true if a plan will install them.
func (c ClusterFacts) FindsMTU() bool { return c.Can().FindMTU || c.Installable() }

// suggestMTU returns an upper bound above the MTU of all networks, if both gateways find out which
// size passes; else Liqo's default.
func suggestMTU(f Facts) (int, string) {
	for _, side := range []Side{A, B} {
		if c := f.Sides[side]; !c.FindsMTU() {
			return wire.DefaultMTU, fmt.Sprintf("%s's gateway does not measure which size passes", c.inShort())
		}
	}
	return wire.MaxMTU, "both gateways use the largest size that passes, up to this"
}

// Suggest sets an Auto setting in p to the value that facts suggest. The reason completes the
// sentence "… because …".
func Suggest(s ConnectionSetting, p *Params, f Facts) (why string) {
	switch s.Sets {
	case FieldServer:
		p.Server, why = SuggestServer(f)
	case FieldServiceType:
		if p.ServiceType, why = SuggestServiceType(f.Sides[p.Server]); p.Relay != "" {
			p.ServiceType, why = corev1.ServiceTypeClusterIP, "both gateways dial the relay, and nobody dials the server"
		}
	case FieldMTU:
		p.MTU, why = suggestMTU(f)
	default: // facts suggest no value for other settings
	}
	return why
}

// Decision is a setting that facts have decided. The reason completes the sentence "… because …".
type Decision struct {
	Setting ConnectionSetting
	Why     string
}

// Decide sets the open fields to the values that facts suggest. An existing connection keeps its settings.
func (p Params) Decide(open Fields, f Facts) (Params, []Decision) {
	if _, exists := Adopt(p, f); exists {
		return p, nil
	}
	var decisions []Decision
	for _, s := range Settings() {
		if s.Auto && open.Has(s.Sets) {
			decisions = append(decisions, Decision{s, Suggest(s, &p, f)})
		}
	}
	p.Given |= open
	return p, decisions
}
