package check

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// reachability judges whether the client will be able to dial the server. It uses the
// results of test pods if there are any, otherwise the kinds of addresses.
func (in preflight) reachability(flows.Side) Result {
	p := in.adopted
	server, client := in.cluster(p.Server), in.cluster(p.Server.Other())
	here := server.End(client.ID).Reading()
	if here.Role == flows.RoleServer && here.Answered(in.facts.At) {
		return pass("the gateways reach each other now")
	}
	if relay, err := wire.ParseRelay(p.Relay); err == nil {
		return result(Inconclusive, fmt.Sprintf("both gateways will dial the relay at %s, which nobody has tried yet", p.Relay), relayFixes(relay)...)
	}
	guess := in.guessReach(p, server, client)
	if in.facts.Reach == nil {
		return guess
	}
	way := in.facts.Reach.Ways[p.Server.Other()]
	if !way.Tried() {
		guess.Evidence = append(guess.Evidence, "not tried: "+way.Unknown)
		return guess
	}
	return in.triedReach(p, way)
}

// triedReach judges by the packets that test pods sent.
func (in preflight) triedReach(p flows.Params, way trial.Way) (r Result) {
	server, client := in.cluster(p.Server), in.cluster(p.Server.Other())
	back := in.facts.Reach.Ways[p.Server]
	var address, port string
	if silent := way.Silent(); len(silent) > 0 {
		address, port, _ = net.SplitHostPort(silent[0])
	}
	switch {
	case !way.Open():
		r = result(Fail, in.closedText(p, way), command.Texts(in.closedFixes(p, back, address, port)...)...)
	case len(way.Silent()) > 0:
		r = result(Warn, fmt.Sprintf("some addresses of %s don't answer pods of %s; the client dials one of them", server.Name(), client.Name()), command.Text(rule(client, address, port)))
	default:
		r = pass(fmt.Sprintf("a pod of %s has reached one of %s, and was answered", client.Name(), server.Name()))
	}
	r.Evidence = way.Text()
	if back.Unknown != "" {
		r.Evidence = append(r.Evidence, "the other way round was not tried: "+back.Unknown)
	} else {
		for _, line := range back.Text() {
			r.Evidence = append(r.Evidence, "the other way round: "+line)
		}
	}
	return r
}

// closedText describes the direction in which packets of a trial got lost.
func (in preflight) closedText(p flows.Params, way trial.Way) string {
	server, client := in.cluster(p.Server).Name(), in.cluster(p.Server.Other()).Name()
	dialled := strings.Join(way.Silent(), ", ")
	switch problem := way.Dials[0].Problem; {
	case problem != "":
		return fmt.Sprintf("a pod of %s can't send to UDP %s: %s", client, dialled, problem)
	case in.facts.BothBehindNAT() && in.facts.Reach.Ways[p.Server].Closed() && way.Arrived == 0:
		return bothBehindNAT(in.cluster(p.Server), in.cluster(p.Server.Other()))
	case way.Arrived > 0:
		return fmt.Sprintf("packets of %s arrive at %s (UDP %s), and the answers get lost on the way back", client, server, dialled)
	}
	return fmt.Sprintf("nothing that a pod of %s sends to UDP %s arrives at %s", client, dialled, server)
}

// closedFixes returns the advice if the way is closed. A firewall's rule can't contain a
// port that Kubernetes will choose.
func (in preflight) closedFixes(p flows.Params, back trial.Way, address, port string) []string {
	var fixes []string
	if in.facts.BothBehindNAT() && back.Closed() {
		fixes = outOfNAT(in.cluster(p.Server))
	}
	if back.Open() {
		fixes = append(fixes, fmt.Sprintf("let %s host the server (pods of %s have reached it): --server-location %s",
			in.cluster(p.Server.Other()).Name(), in.cluster(p.Server).Name(), [...]string{"Local", "Remote"}[p.Server.Other()]))
	}
	if p.ServiceType == corev1.ServiceTypeNodePort && p.NodePort == 0 && p.ClientPort == 0 {
		port = "N"
		fixes = append(fixes, "fix the port, --node-port N, and open it:")
	}
	return append(fixes, rule(in.cluster(p.Server.Other()), address, port), "or give an address that leads there with --client-address")
}

func (in preflight) guessReach(p flows.Params, server, client flows.ClusterFacts) Result {
	if p.ClientAddress != "" {
		return result(Inconclusive, fmt.Sprintf("%s will dial %s, which nobody has tried yet", client.ID, p.ClientAddress),
			command.Text(rule(client, p.ClientAddress, portText(p))))
	}
	switch p.ServiceType {
	case corev1.ServiceTypeNodePort:
		return nodePortReach(p, server, client)
	case corev1.ServiceTypeLoadBalancer:
		return loadBalancerReach(server)
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName:
	}
	return result(Warn, fmt.Sprintf("a ClusterIP of %s is reached from inside %s only", server.ID, server.ID),
		command.Text("give the address at which "+string(client.ID)+" reaches it with --client-address, or choose NodePort or LoadBalancer"))
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
			command.Text("if the nodes' own addresses don't lead there, give one that does with --client-address"))
	case len(external) > 0:
		return result(Inconclusive, fmt.Sprintf("%s's nodes have external addresses; the port can be tried only once it is open", server.ID),
			command.Text(rule(client, addresses(external), portText(p))))
	}
	public := slices.ContainsFunc(internal, ipam.Public)
	_, theirs := nodeAddresses(client)
	switch {
	case public:
		return result(Inconclusive, fmt.Sprintf("%s's nodes have public addresses; the port can be tried only once it is open", server.ID),
			command.Text(rule(client, addresses(internal), portText(p))))
	case server.Neighbours(client):
		return result(Inconclusive, fmt.Sprintf("by their addresses (%s), both clusters' nodes are in the same network; no packet has tried it", internal[0]),
			command.Text(rule(client, addresses(internal), portText(p))))
	}
	text := fmt.Sprintf("%s's nodes have private addresses only (%s): %s reaches them only if there is a route, such as a VPN", server.ID, addresses(internal), client.ID)
	fixes := []string{
		"let the other side host the server, if its nodes can be reached: --server-location",
		"or choose --server-service-type LoadBalancer",
		"or give an address that leads there with --client-address",
	}
	if client.BehindNAT() {
		text, fixes = bothBehindNAT(server, client)+", unless there is a route between them, such as a VPN", outOfNAT(server)
	}
	r := result(Warn, text, command.Texts(append(fixes, rule(client, addresses(internal), portText(p)))...)...)
	r.Evidence = []string{fmt.Sprintf("nodes of %s: %s", client.ID, addresses(theirs))}
	return r
}

// bothBehindNAT describes why neither cluster can dial the other one.
func bothBehindNAT(server, client flows.ClusterFacts) string {
	return fmt.Sprintf("%s and %s are both behind NAT: neither has an address that the other can dial", server.Name(), client.Name())
}

// outOfNAT returns the advice for two clusters that can't dial each other.
func outOfNAT(server flows.ClusterFacts) []string {
	return []string{
		fmt.Sprintf("forward a UDP port of the router in front of %s to one of its nodes: --node-port N, --client-address THE_ROUTER and --client-port", server.Name()),
		"or give one of them a load balancer with a public address: --server-service-type LoadBalancer",
		"or have both dial a relay, on a machine that both reach: --relay HOST:PORT",
		"or join their networks by a VPN; tunnels over IPv6 are not supported yet",
	}
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
		return result(Inconclusive, fmt.Sprintf("%s has %s with an address, so the server should get one; no packet has tried the way", server.ID, count(lb.Answered, "load balancer", "load balancers")))
	case lb.Pending > 0:
		r := result(Warn, fmt.Sprintf("no load balancer of %s has an address, and %d wait for one", server.ID, lb.Pending),
			command.Text("choose --server-service-type NodePort"), command.Text("or install something that gives addresses, such as MetalLB"))
		return r
	}
	_, reason := flows.SuggestServiceType(server)
	return result(Inconclusive, "whether load balancers get addresses here is not known: "+reason, command.Text("if the endpoint stays pending: --server-service-type NodePort"))
}

// rule returns the firewall rule to ask for, ready to paste. heard has the last source
// addresses of the client's packets. They are more certain than the addresses of the
// client's nodes.
func rule(client flows.ClusterFacts, address, port string, heard ...string) string {
	from, nat := "from the nodes of "+string(client.ID), ""
	switch external, internal := nodeAddresses(client); {
	case len(heard) > 0:
		from, nat = heard[0], fmt.Sprintf(" (%s was heard from there; its gateway may move to another node)", client.ID)
	case len(external) > 0:
		from = addresses(external)
	case len(internal) > 0:
		from, nat = addresses(internal), fmt.Sprintf(" (if %s is behind NAT, its public address instead)", client.ID)
	}
	return fmt.Sprintf("firewall: allow UDP %s → %s port %s and replies%s", from, address, port, nat)
}

// apiServer reports whether pods of a side reach the other cluster's API server.
func (in preflight) apiServer(from flows.Side) Result {
	if in.facts.Reach == nil {
		return pass("") // pointless removes this result
	}
	here, there, api := in.cluster(from).Name(), in.cluster(from.Other()).Name(), in.facts.Reach.Ways[from].API
	switch {
	case api.Unknown != "":
		return result(Inconclusive, "not tried: "+api.Unknown)
	case api.Problem != "":
		return result(Warn, fmt.Sprintf("pods of %s don't reach %s, the URL in your kubeconfig: %s", here, api.URL, api.Problem),
			command.Hintf("if you want network delegate or a peering of Liqo: open TCP from the nodes of %s to the API server of %s, at an address that leads there", here, there),
			command.Text("the connection of pods works without"))
	}
	return pass(fmt.Sprintf("a pod of %s was answered by %s", here, api.URL))
}

// ClosedWay returns a failed step if the way between the clusters was tried and is
// closed; else nil.
func ClosedWay(p flows.Params, f flows.Facts) *flows.Step {
	if f.Reach == nil {
		return nil
	}
	results := Preflight(p, f, [2]*rights.Review{})
	i := slices.IndexFunc(results, func(r Result) bool { return r.ID == Reachability && r.State == Fail })
	if i < 0 {
		return nil
	}
	return new(flows.Refuse(p.Server, Reachability, results[i].Title, flows.FailedPreflight, results[i].Summary, results[i].Fix...))
}

// UntriedWay returns the reason that a requested trial was not made, as a sentence; nil
// if it was made. The plan is not refused: a load balancer may need more time for an
// address than the trial lasts.
func UntriedWay(p flows.Params, f flows.Facts) []string {
	if f.Reach == nil || p.Relay != "" {
		return nil
	}
	way := f.Reach.Ways[p.Server.Other()]
	if way.Tried() {
		return nil
	}
	return []string{fmt.Sprintf("UDP from %s to %s was not tried: %s", f.Sides[p.Server.Other()].Name(), f.Sides[p.Server].Name(), way.Unknown)}
}
