package flows

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// GatewayMode is the way that OVN-Kubernetes sends the packets of a node's pods out of the cluster. It is "" if
// OVN-Kubernetes has written nothing about the node. Values besides the constants are unknown modes.
type GatewayMode string

// The known modes.
const (
	SharedGateway GatewayMode = "shared" // past the node's routes, and past ours
	LocalGateway  GatewayMode = "local"  // by the node's routes
)

// AnnotationGateway is OVN-Kubernetes' annotation of a Node with the mode. Its form is in OVN-Kubernetes'
// go-controller/pkg/util/node_annotations.go.
const AnnotationGateway = "k8s.ovn.org/l3-gateway-config"

// ParseGatewayMode reads the value of [AnnotationGateway]; "" if a node does not have it.
func ParseGatewayMode(text string) GatewayMode {
	if text == "" {
		return ""
	}
	var networks struct {
		Default struct {
			Mode string `json:"mode"`
		} `json:"default"`
	}
	if err := json.Unmarshal([]byte(text), &networks); err != nil {
		return "unreadable"
	}
	return cmp.Or(GatewayMode(networks.Default.Mode), "no mode")
}

// SharedGateways returns a failed step if pods' packets to peers would leave the cluster past our node agents,
// unencrypted. It returns nil if the nodes are unknown, and for Liqo's agents, of which nothing is known.
func (c ClusterFacts) SharedGateways(side Side) *Step {
	var shared []string
	for _, n := range c.Nodes {
		if n.Gateway == SharedGateway {
			shared = append(shared, n.Name)
		}
	}
	if len(shared) == 0 || !c.Can().UseOurAgents {
		return nil
	}
	const local = `{"spec":{"defaultNetwork":{"ovnKubernetesConfig":{"gatewayConfig":{"routingViaHost":true}}}}}`
	return new(Refuse(side, CodeGatewayMode, "OVN-Kubernetes' gateway", FailedPreflight,
		fmt.Sprintf("OVN-Kubernetes of %s has a shared gateway on %s: pods' packets to peers leave the cluster unencrypted, under the node's address", c.Name(), Some(shared)),
		command.Hintf("on OpenShift, lead all traffic that leaves the cluster through the nodes' routes: %s",
			c.Kubectl("patch", "networks.operator.openshift.io", "cluster", "--type=merge", "-p", local)),
		command.Text("elsewhere, start OVN-Kubernetes with the gateway mode local: global.gatewayMode of its Helm chart, or OVN_GATEWAY_MODE")))
}
