package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// podTraffic passes if packets of pods were seen to pass. Answered pings of the gateways do not
// prove that.
func (in diagnosis) podTraffic(flows.Side) Result {
	state, how := view.FromPodToPod(in.ends(), nil, in.facts.At)
	if state == view.Connected {
		return pass(how)
	}
	return result(Inconclusive, "the gateways reach each other; pods have not been tested ("+how+")", command.Hintf("send packets from pod to pod: %s", in.facts.Ours("network", "verify")))
}

// nodePaths judges the reports of node agents. An agent sends packets to the gateways at
// intervals. If the gateway does not answer, the packets of the node's pods to the peer are
// lost, because the node's routes lead them to the gateway.
func (in diagnosis) nodePaths(side flows.Side) Result {
	c, r := in.cluster(side), in.readings[side]
	switch {
	case r.Role == "":
		return in.noGateway(side)
	case r.Unreached != "":
		out := result(Fail, fmt.Sprintf("the gateway does not answer over UDP port %d on %s: pods there can't reach %s", flows.FabricPort, r.Unreached, in.cluster(side.Other()).ID),
			command.Hintf("firewall: allow UDP port %d between all nodes of %s, and between nodes and pods, both ways", flows.FabricPort, c.ID),
			command.Hintf("see the node agent: %s", c.KubectlIn(c.Namespace, "logs", "daemonset/"+wire.FabricName)))
		for _, node := range in.peers[side].Unreached[:min(maxWarnings, len(in.peers[side].Unreached))] {
			out.Evidence = append(out.Evidence, "no answer: node "+node)
		}
		return out
	case r.NodeProblem != "":
		out := result(Fail, r.NodeProblem, command.Hintf("see the node agent: %s", c.KubectlIn(c.Namespace, "logs", "daemonset/"+wire.FabricName)))
		for _, problem := range in.peers[side].NodeProblems[:min(maxWarnings, len(in.peers[side].NodeProblems))] {
			out.Evidence = append(out.Evidence, "node "+problem)
		}
		return out
	case !c.Can().ReportNodes:
		return result(Inconclusive, noAgents)
	case len(c.Agents) == 0:
		return result(Inconclusive, noReports)
	case len(c.Unattended) > 0:
		return result(Warn, fmt.Sprintf("no agent is ready on %d of %s (%s): these nodes keep their rules and routes, even if a peer changes or is removed", len(c.Unattended), count(len(c.Agents), "node", "nodes"), flows.Some(c.Unattended)),
			command.Hintf("see why: %s", c.KubectlIn(c.Namespace, "describe", "pods", "-l", wire.LabelAppName+"="+wire.FabricName)),
			command.Hintf("if the API server refuses the agents' token: %s", c.KubectlIn(c.Namespace, "rollout", "restart", "daemonset/"+wire.FabricName)))
	case c.AttendanceUnknown:
		return result(Inconclusive, "not known whether the node agents still run: pods in "+c.Namespace+" may not be read",
			in.facts.SeePods())
	}
	return pass(count(len(c.Agents), "node agent finds", "node agents find") + " that the gateway answers")
}

// Reasons that nothing is known from node agents.
const (
	noAgents  = "Liqo has no node agents that report this"
	noReports = "no node agent has reported yet, or InternalNodes may not be read"
)

// attended reports whether the agent of the node is known to run. Otherwise its report may be old.
func attended(c *flows.ClusterFacts, node string) bool {
	return !c.AttendanceUnknown && !slices.Contains(c.Unattended, node)
}

// closedLevel is the lowest [wire.NodeStatus.Level] of an agent whose rules keep the packets of
// peers from the node's own addresses.
const closedLevel = 1

// nodesClosed judges whether the nodes and the gateway refuse packets that the peer sends to the
// nodes or to the gateway itself. A node refuses nothing if it has no agent or an older agent.
func (in diagnosis) nodesClosed(side flows.Side) Result {
	c, r, other := in.cluster(side), in.readings[side], in.cluster(side.Other()).ID
	var bare, older []string
	for _, n := range c.Nodes {
		switch {
		case n.Virtual():
		case !slices.Contains(c.Agents, n.Name):
			bare = append(bare, n.Name)
		case c.AgentStatus[n.Name].Level < closedLevel:
			older = append(older, n.Name)
		}
	}
	refused, counted := in.refusedByNodes(side)
	rest := ""
	if !counted {
		rest = "; some nodes don't report what they refuse"
	}
	switch {
	case !c.Can().ReportNodes:
		return result(Inconclusive, "Liqo's gateways and nodes don't report this")
	case r.Role == "":
		return in.noGateway(side)
	case len(c.Nodes) == 0 || c.AgentsUnknown:
		return result(Inconclusive, "not known: nodes or InternalNodes may not be read")
	case len(bare) > 0:
		return result(Warn, fmt.Sprintf("no agent refuses packets from %s on %d of %s: %s", other, len(bare), count(len(c.Nodes), "node", "nodes"), flows.Some(bare)),
			command.Hintf("see why the DaemonSet has no pod on these nodes: %s", c.KubectlIn(c.Namespace, "describe", "daemonset/"+wire.FabricName)))
	case len(older) > 0:
		return result(Warn, fmt.Sprintf("the agent does not report that it refuses packets from %s on %d of %s, and may be older than this program: %s", other, len(older), count(len(c.Nodes), "node", "nodes"), flows.Some(older)),
			command.Hintf("bring the agents to this version: %s", c.Ours("install")),
			command.Hintf("see the node agent: %s", c.KubectlIn(c.Namespace, "logs", "daemonset/"+wire.FabricName)))
	case !r.CountsRefused:
		return result(Inconclusive, "the gateway does not report what it refuses: it may be older than this program")
	case r.Refused+refused > 0:
		return pass(fmt.Sprintf("%s from %s to nodes or to the gateway itself refused", count(int(r.Refused+refused), "packet", "packets"), other) + rest)
	case !counted:
		return pass("the gateway has refused no packet of " + string(other) + rest)
	}
	return pass("gateway and nodes have refused no packet of " + string(other))
}

// allowed judges by the gateway's report whether the peer's pods can open the connections that the admin
// has allowed, and no others. The result names dropped packets.
func (in diagnosis) allowed(side flows.Side) Result {
	c, r, other := in.cluster(side), in.readings[side], in.cluster(side.Other()).ID
	gateway := in.peers[side].Gateway()
	if r.Role == "" || gateway == nil {
		return in.noGateway(side)
	}
	asked, err := wire.AllowOf(gateway)
	lends := in.lent[side].consumer != nil || in.lent[side].provider != nil
	open := in.facts.Ours("network", "connect").Flag("--"+map[flows.Side]string{flows.A: "allow", flows.B: "remote-allow"}[side], "all")
	dropped := fmt.Sprintf("%s of %s dropped", count(int(r.Closed), "packet", "packets"), other)
	switch {
	case err != nil:
		return result(Fail, fmt.Sprintf("the gateway does not know what to allow: %v", err), command.Hintf("say it again: %s", open))
	case !r.Enforces(asked) && r.Stale(in.facts.At):
		return result(Inconclusive, "the gateway's last report is too old to say what it allows")
	case !r.Enforces(asked) && r.Allow != "":
		return result(Warn, fmt.Sprintf("pods of %s are allowed: %s. The gateway still allows: %s", other, asked, r.Allow))
	case !r.Enforces(asked):
		return result(Fail, fmt.Sprintf("pods of %s are to be allowed: %s. The gateway does not report a limit", other, asked),
			command.Hintf("a gateway of an earlier release can't: %s", c.Ours("install")))
	case r.Closes() && lends:
		return result(Fail, fmt.Sprintf("the two clusters lend, and pods of %s are allowed: %s. Pods that one cluster runs for the other don't reach the others", other, asked),
			command.Hintf("open it: %s", open))
	case r.Closes() && r.ClosedTo != "":
		return result(Warn, fmt.Sprintf("%s, lately to %s: pods of %s are allowed: %s", dropped, r.ClosedTo, other, asked), command.Hintf("if they should come in: %s", open))
	case r.Closes() && r.Closed > 0:
		return pass(fmt.Sprintf("%s, none lately: pods of %s are allowed: %s", dropped, other, asked))
	case r.Closes():
		return pass(fmt.Sprintf("pods of %s are allowed: %s. The gateway has dropped nothing", other, asked))
	}
	return pass(fmt.Sprintf("pods of %s may open connections to all pods", other))
}

// refusedByNodes counts the peer's packets that nodes have refused. counted is false if
// the number of a node is perhaps missing. Then the node's agent is older and does not count, does
// not run, or its report is full and lacks the peer's gateway.
func (in diagnosis) refusedByNodes(side flows.Side) (packets uint64, counted bool) {
	c := in.cluster(side)
	counted = !c.AttendanceUnknown
	gateway := in.peers[side].Tenant.Namespace + "/" + in.peers[side].GatewayName()
	for _, node := range c.Agents {
		status := c.AgentStatus[node]
		n, named := status.Refused[gateway]
		packets += n
		counted = counted && status.Refused != nil && (named || !status.More) && !slices.Contains(c.Unattended, node)
	}
	return packets, counted
}

// maxGroups is the largest number of groups of pods in the evidence of a result.
const maxGroups = 10

// isolated names the policies that block all packets to the gateway's pod, or all packets to the server
// that it dials. It also returns the changes that help. text is "" if there are no such policies, or if
// policies were not read. It is also "" if the peer and the nodes reach the gateway, because then the pod
// network does not enforce these policies.
func (in diagnosis) isolated(side flows.Side, pod string) (text string, fix []command.Hint) {
	f, namespace := in.cluster(side).Policies.Value(), in.peers[side].Tenant.Namespace
	if f == nil || in.answered(side) && in.readings[side].Unreached == "" {
		return "", nil
	}
	kinds := func(g policy.Group) (of string, cilium bool) {
		if len(g.Policies) == 0 {
			return "ciliumnetworkpolicies,ciliumclusterwidenetworkpolicies", true
		}
		return "networkpolicies", false
	}
	said := func(d policy.Direction, g policy.Group, peer netip.Prefix, text string, rule func(cilium bool) command.Hint) (reason string, fix []command.Hint) {
		of, cilium := kinds(g)
		or := "" // additional rules don't help against a policy that denies
		if !f.Refuses(d, g, peer) {
			fix, or = append(fix, rule(cilium)), "or "
		}
		fix = append(fix, command.Hintf(or+"let the policy select other pods; to see it: %s", in.kubectl(side, "get", of, "-o", "yaml")))
		return fmt.Sprintf(text, f.Names(g), pod), fix
	}
	ours := func(groups []policy.Group) int {
		return slices.IndexFunc(groups, func(g policy.Group) bool { return g.Namespace == namespace })
	}
	everybody := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if groups := f.Groups(policy.Ingress, everybody, policy.No); ours(groups) >= 0 {
		return said(policy.Ingress, groups[ours(groups)], everybody, "%s isolates %s: neither the other gateway nor the nodes reach it", func(cilium bool) command.Hint {
			if cilium {
				return command.Hintf(`add to its spec.ingress: - toPorts: [{ports: [{port: "%d", protocol: UDP}, {port: "%d", protocol: UDP}]}]; if it also isolates egress, add to its spec.egress: - toEntities: [all]`, wire.DefaultPort, flows.FabricPort)
			}
			return command.Hintf("add to its spec.ingress: - ports: [{protocol: UDP, port: %d}, {protocol: UDP, port: %d}]; if it also isolates egress, add to its spec.egress: - {}", wire.DefaultPort, flows.FabricPort)
		})
	}
	client := in.peers[side].Client
	if client == nil {
		return "", nil
	}
	address, _ := first(client.Spec.Endpoint)
	server, err := netip.ParseAddr(address)
	if err != nil {
		return "", nil
	}
	dialled := netip.PrefixFrom(server, server.BitLen())
	if groups := f.Groups(policy.Egress, dialled, policy.No); ours(groups) >= 0 {
		return said(policy.Egress, groups[ours(groups)], dialled, "%s lets nothing out of %s to the other gateway", func(cilium bool) command.Hint {
			if cilium {
				return command.Text("add to its spec.egress: - toEntities: [all]")
			}
			return command.Text("add to its spec.egress: - {}")
		})
	}
	return "", nil
}

// policies finds NetworkPolicies and policies of Cilium that drop packets between local pods and the
// peer, in either direction. The admin may want these policies, so the result is a warning.
func (in diagnosis) policies(side flows.Side) Result {
	c, other := in.cluster(side), in.cluster(side.Other()).ID
	f := c.Policies.Value()
	switch why := c.PoliciesUnknown(); {
	case why != "":
		return result(Inconclusive, "policies can't be read: "+why)
	case f == nil:
		return in.notRead()
	}
	others := ""
	if len(f.Others) > 0 {
		others = "; policies of " + strings.Join(f.Others, ", ") + " are not read"
	}
	var from []netip.Prefix
	for _, cidr := range in.peers[side].Configuration.Status.Remote.CIDR.Pod {
		if p, err := netip.ParsePrefix(string(cidr)); err == nil {
			from = append(from, p)
		}
	}
	if f.CiliumMode == "never" {
		return pass("Cilium enforces no policy: enable-policy is never")
	}
	ours := func(g policy.Group) bool { return g.Namespace == in.peers[side].Tenant.Namespace } // gateways' pods are no applications
	groups := func(d policy.Direction, answer policy.Answer) ([]policy.Group, []netip.Prefix) {
		return across(from, func(p netip.Prefix) []policy.Group { return f.Groups(d, p, answer) }, ours)
	}
	inward, ranges := groups(policy.Ingress, policy.No)
	outward, targets := groups(policy.Egress, policy.No)
	unknown, _ := groups(policy.Ingress, policy.Unknown)
	more, _ := groups(policy.Egress, policy.Unknown)
	unknown = append(unknown, more...)
	if len(inward)+len(outward) == 0 {
		var r Result
		switch {
		case len(unknown) > 0:
			r = result(Inconclusive, "not known: "+f.Names(unknown[0])+" has rules that this program can't judge"+others)
		case f.CiliumMode == "always":
			r = result(Inconclusive, "not known: Cilium also refuses packets to pods without a policy (enable-policy is always)"+others)
		case f.CiliumMode == policy.HiddenMode:
			r = result(Inconclusive, "not known whether Cilium also refuses packets to pods without a policy: ConfigMap kube-system/cilium-config may not be read"+others)
		case len(f.Others) > 0:
			r = result(Inconclusive, fmt.Sprintf("no NetworkPolicy keeps %s's pods out, or local pods from %s", other, other)+others)
		default:
			return pass(fmt.Sprintf("no policy keeps %s's pods out, or local pods from %s", other, other))
		}
		r.Evidence = listed(f, unknown)
		return r
	}
	lets := func(d policy.Direction, groups []policy.Group, ranges []netip.Prefix, purpose, where string) command.Hint {
		switch {
		case len(groups) == 0:
			return command.Hint{}
		case f.Refuses(d, groups[0], ranges[0]):
			return command.Hintf("%s, narrow %sDeny: no rule allows what it refuses", purpose, where)
		}
		return command.Hintf("%s, add to %s: %s", purpose, where, policy.Rule(d, ranges, len(groups[0].Policies) == 0))
	}
	r := result(Warn, "")
	for _, d := range []struct {
		groups    []policy.Group
		lets, can string
		fix       command.Hint
	}{
		{inward, "in from %s's pods", "can't be reached", lets(policy.Ingress, inward, ranges, fmt.Sprintf("to let packets from %s in", other), "spec.ingress")},
		{outward, "out to %s's pods", "can't reach them", lets(policy.Egress, outward, targets, fmt.Sprintf("to let packets out to %s", other), "spec.egress")},
	} {
		if len(d.groups) == 0 {
			continue
		}
		pods := 0
		for _, g := range d.groups {
			pods += g.Pods
		}
		direction := fmt.Sprintf(d.lets, other)
		text := fmt.Sprintf("%s lets nothing %s", f.Names(d.groups[0]), direction)
		if len(d.groups) > 1 {
			text = fmt.Sprintf("policies let nothing %s, such as %s", direction, f.Names(d.groups[0]))
		}
		text += fmt.Sprintf(": %s %s", count(pods, "pod", "pods"), d.can)
		r.Summary, r.Fix = strings.TrimPrefix(r.Summary+"; "+text, "; "), append(r.Fix, d.fix)
	}
	r.Summary += others
	r.Evidence = listed(f, append(inward, outward...))
	return r
}

// across calls cut for each range, and returns the ranges for which cut found groups, and the groups of
// the last such range. It ignores groups for which without returns true.
func across(ranges []netip.Prefix, cut func(netip.Prefix) []policy.Group, without func(policy.Group) bool) (groups []policy.Group, from []netip.Prefix) {
	for _, p := range ranges {
		if found := slices.DeleteFunc(cut(p), without); len(found) > 0 {
			groups, from = found, append(from, p)
		}
	}
	return groups, from
}

// listed returns a line for each group of pods, with the policies that select the pods. After
// maxGroups lines, one more line counts the other groups.
func listed(f *policy.Facts, groups []policy.Group) []string {
	var lines []string
	for _, g := range groups {
		lines = append(lines, fmt.Sprintf("%s: %s in namespace %s", f.Names(g), count(g.Pods, "pod", "pods"), g.Namespace))
	}
	if len(lines) > maxGroups {
		return append(lines[:maxGroups], fmt.Sprintf("and %d more", len(lines)-maxGroups))
	}
	return lines
}
