package check

import (
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// kubeProxy judges the agents' reports about kube-proxy. Without kube-proxy, a node sends packets to a
// Service to the pods that it knew last. They reach the gateway until its pod is replaced.
func (in diagnosis) kubeProxy(side flows.Side) Result {
	c := in.cluster(side)
	var silent, unknown []string
	for _, node := range c.Agents {
		switch is := c.AgentStatus[node].KubeProxy; {
		case is == wire.KubeProxyUnknown, !attended(&c, node):
			unknown = append(unknown, node)
		case is == wire.KubeProxySilent:
			silent = append(silent, node)
		}
	}
	switch {
	case !c.Can().ReportNodes:
		return result(Inconclusive, noAgents)
	case len(c.Agents) == 0:
		return result(Inconclusive, noReports)
	case len(silent) > 0:
		state := Warn
		if in.entersThrough(side, silent) {
			state = Fail
		}
		return result(state, fmt.Sprintf("kube-proxy does not answer any more on %s: packets to Services still go to earlier pods, and new Services do not work", flows.Some(silent)),
			command.Hintf("see why kube-proxy does not run: %s", c.KubectlIn(metav1.NamespaceSystem, "get", "pods", "-l", "k8s-app=kube-proxy", "-o", "wide")),
			command.Hintf("if another program does its work now, restart the agents: %s", c.KubectlIn(c.Namespace, "rollout", "restart", "daemonset/"+wire.FabricName)))
	case len(unknown) == len(c.Agents):
		return result(Inconclusive, "no agent that runs has had an answer on port 10256: another program may do the work of kube-proxy")
	case len(unknown) > 0:
		return result(Inconclusive, fmt.Sprintf("not known of %d of %s: %s", len(unknown), count(len(c.Agents), "node", "nodes"), flows.Some(unknown)))
	}
	return pass("answers on " + count(len(c.Agents), "node", "nodes"))
}

// entersThrough reports whether the packets of a client without an answer come to side by the Service of
// its gateway, through one of the nodes: the dialled node, or any of them behind a load balancer or a
// router.
func (in diagnosis) entersThrough(side flows.Side, nodes []string) bool {
	server, ok := flows.ServerSide(in.readings)
	if !ok || server != side || in.answered(server) && in.answered(server.Other()) || in.peers[side.Other()].Client == nil {
		return false
	}
	if _, relayed := in.relay(); relayed {
		return false
	}
	dialled, _ := in.dialled()
	a, err := netip.ParseAddr(dialled)
	of := slices.IndexFunc(in.cluster(side).Nodes, func(n flows.NodeFacts) bool {
		return err == nil && (slices.Contains(n.Internal, a) || slices.Contains(n.External, a))
	})
	return of < 0 || slices.Contains(nodes, in.cluster(side).Nodes[of].Name)
}
