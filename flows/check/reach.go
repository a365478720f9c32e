package check

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
)

// reachability judges whether the client will be able to dial the server, as
// far as the kinds of addresses tell.
func (in preflight) reachability(flows.Side) Result {
	p := in.adopted
	server, client := in.cluster(p.Server), in.cluster(p.Server.Other())
	here := server.Peer(client.ID).Reading()
	if here.Role == flows.RoleServer && here.Answered(in.facts.At) {
		return pass("the gateways reach each other now")
	}
	if p.ClientAddress != "" {
		return result(Inconclusive, fmt.Sprintf("%s will dial %s, which nobody has tried yet", client.ID, p.ClientAddress),
			rule(client, p.ClientAddress, portText(p)))
	}
	switch p.ServiceType {
	case corev1.ServiceTypeNodePort:
		return nodePortReach(p, server, client)
	case corev1.ServiceTypeLoadBalancer:
		return loadBalancerReach(server)
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName:
	}
	return result(Warn, fmt.Sprintf("a ClusterIP of %s is reached from inside %s only", server.ID, server.ID),
		"give the address at which "+string(client.ID)+" reaches it with --client-address, or choose NodePort or LoadBalancer")
}

func portText(p flows.Params) string {
	switch {
	case p.ClientPort != 0:
		return fmt.Sprint(p.ClientPort)
	case p.ServiceType != corev1.ServiceTypeNodePort:
		return fmt.Sprint(p.Port)
	case p.NodePort != 0:
		return fmt.Sprint(p.NodePort)
	}
	return "chosen by Kubernetes"
}

func nodePortReach(p flows.Params, server, client flows.ClusterFacts) Result {
	external, internal := nodeAddresses(server)
	switch {
	case len(external)+len(internal) == 0:
		return result(Inconclusive, fmt.Sprintf("the addresses of %s's nodes are not known", server.ID),
			"if the nodes' own addresses don't lead there, give one that does with --client-address")
	case len(external) > 0:
		return result(Inconclusive, fmt.Sprintf("%s's nodes have external addresses; the port can be tried only once it is open", server.ID),
			rule(client, addresses(external), portText(p)))
	}
	public := slices.ContainsFunc(internal, func(a netip.Addr) bool { return !a.IsPrivate() })
	_, theirs := nodeAddresses(client)
	switch {
	case public:
		return result(Inconclusive, fmt.Sprintf("%s's nodes have public addresses; the port can be tried only once it is open", server.ID),
			rule(client, addresses(internal), portText(p)))
	case neighbours(internal, theirs):
		return pass(fmt.Sprintf("both clusters' nodes are in the same network, by their addresses (%s)", internal[0]))
	}
	r := result(Warn, fmt.Sprintf("%s's nodes have private addresses only (%s): %s reaches them only if there is a route, such as a VPN",
		server.ID, addresses(internal), client.ID),
		"let the other side host the server, if its nodes can be reached: --server-location",
		"or choose --server-service-type LoadBalancer",
		"or give an address that leads there with --client-address",
		rule(client, addresses(internal), portText(p)))
	r.Evidence = []string{fmt.Sprintf("nodes of %s: %s", client.ID, addresses(theirs))}
	return r
}

// neighbours reports whether two lists of addresses have members in one /24:
// the narrowest guess at "the same network" that addresses alone allow.
func neighbours(a, b []netip.Addr) bool {
	for _, x := range a {
		p, err := x.Prefix(24)
		if err == nil && slices.ContainsFunc(b, p.Contains) {
			return true
		}
	}
	return false
}

func nodeAddresses(c flows.ClusterFacts) (external, internal []netip.Addr) {
	for _, n := range c.Nodes {
		external = append(external, n.External...)
		internal = append(internal, n.Internal...)
	}
	v4 := func(a netip.Addr) bool { return !a.Is4() }
	return slices.DeleteFunc(external, v4), slices.DeleteFunc(internal, v4)
}

func loadBalancerReach(server flows.ClusterFacts) Result {
	lb := server.LoadBalancers
	switch {
	case lb.Answered > 0:
		return pass(fmt.Sprintf("%s has %s with an address", server.ID, count(lb.Answered, "load balancer", "load balancers")))
	case lb.Pending > 0:
		r := result(Warn, fmt.Sprintf("no load balancer of %s has ever got an address, and %d wait for one", server.ID, lb.Pending),
			"choose --server-service-type NodePort", "or install something that gives addresses, such as MetalLB")
		return r
	}
	_, reason := flows.SuggestServiceType(server)
	return result(Inconclusive, "whether load balancers get addresses here is not known: "+reason, "if the endpoint stays pending: --server-service-type NodePort")
}

// rule is the firewall rule to ask for, ready to paste.
func rule(client flows.ClusterFacts, address, port string) string {
	from, nat := "from the nodes of "+string(client.ID), ""
	if external, internal := nodeAddresses(client); len(external) > 0 {
		from = addresses(external)
	} else if len(internal) > 0 {
		from, nat = addresses(internal), fmt.Sprintf(" (behind NAT: %s's public address)", client.ID)
	}
	return fmt.Sprintf("firewall: allow UDP %s → %s port %s and replies%s", from, address, port, nat)
}
