package byhand

import (
	"fmt"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Explain returns the purpose of a command that makes an object of the kind.
func (k Kind) Explain() string {
	return map[Kind]string{
		Configuration: `Tell the cluster the address ranges of another one, and wait until it has
assigned its own addresses for them. On the other cluster, liqo-tui generate
configuration prints the same object, with its ranges.`,
		GatewayServer: `Create the end of a tunnel that is dialled, and wait until it has an address and
a key. The cluster needs the other one's Configuration first.`,
		GatewayClient: `Create the end of a tunnel that dials, and wait until it has a key. On the
server's cluster, liqo-tui info peer CLUSTER_ID --get network.gateway prints the
address and the port. The cluster needs the other one's Configuration first.`,
		PublicKey: `Tell this cluster's gateway the public key of the other cluster's gateway.
There, liqo-tui generate publickey prints the same object.`,
	}[k] + `

The same name again changes the object. What is not given stays as it is.`
}

// Example returns an example of such a command.
func (k Kind) Example() string {
	return map[Kind]string{
		Configuration: "configuration milan --remote-cluster-id milan \\\n    --pod-cidr 10.244.0.0/16 --external-cidr 10.70.0.0/16",
		GatewayServer: "gatewayserver server --remote-cluster-id rome \\\n    --service-type NodePort",
		GatewayClient: "gatewayclient client --remote-cluster-id milan \\\n    --addresses 192.0.2.21 --port 31840",
		PublicKey:     "publickey milan --remote-cluster-id milan \\\n    --public-key 'fcEgN8u4Vr8xmDPzQ9hO3t0SlLUZDNZAkPqaeoR5NCs='",
	}[k]
}

// Generated returns the command that prints the object for the other admin.
func (k Kind) Generated() string {
	if k == Configuration {
		return "configuration > configuration.yaml"
	}
	return "publickey --gateway-type server \\\n    --gateway-name server > publickey.yaml"
}

// Done returns the result as a sentence.
func (o Object) Done(f flows.ClusterFacts) string {
	p := f.End(o.Remote)
	switch {
	case o.Kind == Configuration && p.Configuration != nil && flows.CIDRsConfigured(p.Configuration):
		spec, status := p.Configuration.Spec.Remote.CIDR, p.Configuration.Status.Remote.CIDR
		return fmt.Sprintf("%s reaches %s's pods %s as %s.", f.ID, o.Remote, flows.Joined(spec.Pod), flows.Joined(status.Pod))
	case o.Kind == GatewayServer && p.Server != nil && p.Server.Status.Endpoint != nil:
		e := p.Server.Status.Endpoint
		return fmt.Sprintf("%s can be dialled at UDP %s port %d.", apply.Name(p.Server), strings.Join(e.Addresses, ", "), e.Port)
	case o.Kind == GatewayClient && p.Client != nil:
		e := p.Client.Spec.Endpoint
		return fmt.Sprintf("%s dials UDP %s port %d.", apply.Name(p.Client), strings.Join(e.Addresses, ", "), e.Port)
	case o.Kind == PublicKey:
		return fmt.Sprintf("%s's gateway knows the key of %s's.", f.ID, o.Remote)
	}
	return fmt.Sprintf("%s %s is applied.", o.Kind, o.Name)
}

// Next returns the next command on this cluster, and its purpose.
func (o Object) Next() (words []string, why string) {
	role := flows.RoleServer
	switch o.Kind {
	case Configuration:
		return []string{"create", "gatewayserver", "server", "--remote-cluster-id", string(o.Remote)}, "on the cluster that can be reached; the other one gets a gatewayclient"
	case PublicKey:
		return []string{"info", "peer", string(o.Remote)}, "says whether it is connected"
	case GatewayClient:
		role = flows.RoleClient
	case GatewayServer:
	}
	return []string{"generate", "publickey", "--gateway-type", string(role), "--gateway-name", o.Name}, fmt.Sprintf("prints its key, which the admin of %s has to apply", o.Remote)
}
