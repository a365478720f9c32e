package check

import (
	"fmt"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// leftover is an object of an earlier connection, with advice.
type leftover struct {
	object, why string
	fix         command.Hint
}

func (in preflight) leftovers(side flows.Side) Result {
	me, other := in.cluster(side), in.cluster(side.Other())
	found := leftoversOf(me, other.ID)
	if len(found) == 0 {
		if me.PeersHidden {
			return result(Inconclusive, "none where this user may look; other namespaces may not be read", command.Text("ask the admin of "+string(me.ID)+" to run the same check"))
		}
		return pass("none")
	}
	r := result(Warn, count(len(found), "object is", "objects are")+" left of an old peering")
	for _, l := range found {
		r.Evidence = append(r.Evidence, l.object+": "+l.why)
		r.Fix = append(r.Fix, l.fix)
	}
	return r
}

func leftoversOf(c flows.ClusterFacts, peer wire.ClusterID) []leftover {
	var out []leftover
	for i := range c.Namespaces {
		ns := &c.Namespaces[i]
		if l, ok := staleNamespace(c, ns, peer); ok {
			out = append(out, l)
		}
	}
	p := c.End(peer)
	gateways := map[string]bool{}
	for _, g := range []struct {
		kind   string
		object wire.Object
		exists bool
	}{
		{"GatewayServer", p.Server, p.Server != nil},
		{"GatewayClient", p.Client, p.Client != nil},
		{"Configuration", p.Configuration, p.Configuration != nil},
	} {
		if !g.exists {
			continue
		}
		gateways[string(g.object.GetUID())] = true
		if l, ok := stuck(g.kind, g.object); ok {
			out = append(out, l)
		}
	}
	if p.Connection != nil && ownerless(p.Connection, gateways) {
		out = append(out, ownerlessLeftover(c, "Connection", p.Connection))
	}
	if p.PublicKey != nil && ownerless(p.PublicKey, gateways) {
		out = append(out, ownerlessLeftover(c, "PublicKey", p.PublicKey))
	}
	return append(out, elsewhere(c, p)...)
}

// staleNamespace reports a namespace with the peer's name that belongs to another
// peer, or a namespace of the peer that is being deleted.
func staleNamespace(on flows.ClusterFacts, ns *corev1.Namespace, peer wire.ClusterID) (leftover, bool) {
	owner := wire.ClusterID(ns.Labels[wire.LabelRemoteCluster])
	named := ns.Name == wire.TenantNamespaceName(peer)
	switch {
	case named && owner != "" && owner != peer:
		return leftover{
			"Namespace " + ns.Name, fmt.Sprintf("its label says that it is for cluster %s", owner),
			command.Hintf("delete it, or choose another with --namespace: %s", on.Kubectl("delete", "namespace", ns.Name)),
		}, true
	case (named || owner == peer) && ns.DeletionTimestamp != nil:
		why := strings.TrimSuffix("it is being deleted; "+wire.Stays(ns), "; ")
		return leftover{"Namespace " + ns.Name, why, command.Hintf("wait until it is gone, or see what holds it: %s", on.See(flows.RefTo(ns)))}, true
	}
	return leftover{}, false
}

func stuck(kind string, o metav1.Object) (leftover, bool) {
	if o.GetDeletionTimestamp() == nil {
		return leftover{}, false
	}
	name := fmt.Sprintf("%s %s/%s", kind, o.GetNamespace(), o.GetName())
	if len(o.GetFinalizers()) == 0 {
		return leftover{name, "it is being deleted", command.Text("wait until it is gone")}, true
	}
	return leftover{
		name, "its deletion waits for " + strings.Join(o.GetFinalizers(), ", "),
		command.Text("start the program that set the finalizer; remove the finalizer by hand only if that program is gone for good"),
	}, true
}

// ownerless reports whether o has owner references, but none of these owners
// exists.
func ownerless(o metav1.Object, there map[string]bool) bool {
	for _, r := range o.GetOwnerReferences() {
		if there[string(r.UID)] {
			return false
		}
	}
	return len(o.GetOwnerReferences()) > 0
}

func ownerlessLeftover(c flows.ClusterFacts, kind string, o metav1.Object) leftover {
	return leftover{
		fmt.Sprintf("%s %s/%s", kind, o.GetNamespace(), o.GetName()), "its gateway is gone",
		command.Hintf("Kubernetes deletes it within a minute; if not: %s", deletion(c, kind, o)),
	}
}

func deletion(c flows.ClusterFacts, kind string, o metav1.Object) command.Command {
	return c.KubectlIn(o.GetNamespace(), "delete", strings.ToLower(kind), o.GetName())
}

// elsewhere returns objects about the peer outside of the connection's namespace. A
// second tunnel to the peer is no leftover if its Connection is Connected.
func elsewhere(c flows.ClusterFacts, p flows.End) []leftover {
	used := map[string]bool{p.Tenant.Namespace: true}
	if p.Configuration != nil {
		used[p.Configuration.Namespace] = true
	}
	for i := range c.Connections {
		if o := &c.Connections[i]; o.Labels[wire.LabelRemoteCluster] == string(p.Tenant.Remote) && o.Status.Value == networkingv1beta1.Connected {
			used[o.Namespace] = true
		}
	}
	var out []leftover
	add := func(kind string, o metav1.Object) {
		if !used[o.GetNamespace()] && o.GetLabels()[wire.LabelRemoteCluster] == string(p.Tenant.Remote) {
			out = append(out, leftover{
				fmt.Sprintf("%s %s/%s", kind, o.GetNamespace(), o.GetName()), "it is not in the peering's namespace " + p.Tenant.Namespace,
				command.Hintf("delete it: %s", deletion(c, kind, o)),
			})
		}
	}
	for i := range c.Configurations {
		add("Configuration", &c.Configurations[i])
	}
	for i := range c.Servers {
		add("GatewayServer", &c.Servers[i])
	}
	for i := range c.Clients {
		add("GatewayClient", &c.Clients[i])
	}
	return out
}
