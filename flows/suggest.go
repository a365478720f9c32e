package flows

import (
	"cmp"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

// SuggestServer is the side that should host the gateway server, with the
// reason as the end of the sentence "… because …": where the gateways are
// already, or else the one that the other can reach.
func SuggestServer(f Facts) (Side, string) {
	for _, side := range []Side{B, A} {
		if s := f.Side(side).Peer(f.Side(side.Other()).ID).Server; Live(s) {
			return side, fmt.Sprintf("%s hosts it already", f.Side(side).Name())
		}
	}
	if f.Reach != nil {
		for _, server := range []Side{B, A} {
			there, back := f.Reach.Ways[server.Other()], f.Reach.Ways[server]
			if there.Open() && !back.Open() {
				return server, fmt.Sprintf("pods of %s have reached it by UDP", f.Side(server.Other()).inShort())
			}
		}
	}
	a, b := reachable(f.Local), reachable(f.Remote)
	switch {
	case a.rank > b.rank:
		return A, fmt.Sprintf("%s, and %s", a.why, b.why)
	case b.rank > a.rank:
		return B, fmt.Sprintf("%s, and %s", b.why, a.why)
	}
	return B, fmt.Sprintf("it is the default (%s; %s)", a.why, b.why)
}

// reach is how likely a cluster is to be reached from outside.
type reach struct {
	rank int
	why  string
}

func reachable(c ClusterFacts) reach {
	name := c.inShort()
	external, public := false, false
	for _, n := range c.Nodes {
		external = external || len(n.External) > 0
		for _, a := range append(n.Internal, n.External...) {
			public = public || isPublic(a)
		}
	}
	switch {
	case c.LoadBalancers.Answered > 0:
		return reach{4, fmt.Sprintf("load balancers of %s get addresses", name)}
	case public:
		return reach{3, fmt.Sprintf("nodes of %s have public addresses", name)}
	case external:
		return reach{2, fmt.Sprintf("nodes of %s have external addresses", name)}
	case len(c.Nodes) == 0:
		return reach{1, fmt.Sprintf("the nodes' addresses of %s are not known", name)}
	}
	return reach{1, fmt.Sprintf("nodes of %s have private addresses only", name)}
}

// inShort is how a sentence calls a cluster. One that has no ID yet is its
// context; the file that it is in says nothing about what is suggested.
func (c ClusterFacts) inShort() string {
	return cmp.Or(string(c.ID), ContextRef{Name: c.Context.Name}.String())
}

func isPublic(a netip.Addr) bool { return a.IsGlobalUnicast() && !a.IsPrivate() && !isShared(a) }

// isShared reports whether a is of the range that carriers share behind their
// own NAT (RFC 6598).
func isShared(a netip.Addr) bool {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10).Contains(a)
}

// clouds are providers of nodes whose clusters usually come with load balancers.
var clouds = map[string]string{
	"aws": "AWS", "gce": "Google Cloud", "azure": "Azure", "digitalocean": "DigitalOcean", "linode": "Linode",
	"hcloud": "Hetzner Cloud", "openstack": "OpenStack", "ocid1": "Oracle Cloud", "ibm": "IBM Cloud", "exoscale": "Exoscale",
	"scaleway": "Scaleway", "vultr": "Vultr", "ovhcloud": "OVHcloud",
}

// SuggestServiceType is how the cluster should expose a gateway server, with
// the reason as the end of the sentence "… because …": by a load balancer where
// one answers, else by a node port.
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

// suggestMTU is a bound that no network reaches, where both gateways lower it to
// what their own network carries, and then to what they find to pass.
func suggestMTU(f Facts) (int, string) {
	for _, side := range []Side{A, B} {
		if c := f.Side(side); c.Software != Operator {
			return render.DefaultMTU, fmt.Sprintf("%s's gateway does not look for what passes", c.ID)
		}
	}
	return render.MaxMTU, "both gateways use what they find to pass, up to this"
}

// Suggest gives p the value of an Auto setting that facts make likely, with the
// reason as the end of the sentence "… because …".
func Suggest(s ConnectionSetting, p *Params, f Facts) (why string) {
	switch s.Sets {
	case FieldServer:
		p.Server, why = SuggestServer(f)
	case FieldServiceType:
		p.ServiceType, why = SuggestServiceType(f.Side(p.Server))
	case FieldMTU:
		p.MTU, why = suggestMTU(f)
	default: // facts say nothing of the others
	}
	return why
}
