package byhand

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Gateway selects a gateway by its name and namespace.
type Gateway struct {
	Role      flows.Role
	Name      string
	Namespace string // "": any namespace that has such a gateway
}

// Told returns the object that describes cluster A to its peers: its own
// Configuration, or the PublicKey of a gateway. The plan of [Kind.Known]
// must be finished first.
func (k Kind) Told(g Gateway, f flows.ClusterFacts) wire.Object {
	if k == Configuration {
		own := render.Configuration(render.Tenant{Namespace: peerNamespace(cmp.Or(g.Namespace, f.ContextNamespace), f.ID), Remote: f.ID}, f.Networks)
		if uid := f.Identity(); uid != "" {
			metav1.SetMetaDataAnnotation(&own.ObjectMeta, wire.AnnotationPeerUID, uid)
		}
		return own
	}
	end, _ := g.find(f)
	return render.PublicKey(render.Tenant{Namespace: peerNamespace(end.Tenant.Namespace, f.ID), Remote: f.ID}, *end.Key, nil)
}

// peerNamespace returns the namespace on the peer for an object in this cluster's
// namespace. Both namespaces have the same name, except for the tenant namespaces:
// each cluster names its own after the other cluster. peerNamespace returns "" for
// the default namespace.
func peerNamespace(namespace string, own wire.ClusterID) string {
	switch {
	case namespace == metav1.NamespaceDefault:
		return ""
	case strings.HasPrefix(namespace, wire.TenantNamespaceName("")):
		return wire.TenantNamespaceName(own)
	}
	return namespace
}

// Known waits until the content of [Kind.Told] is known. It changes nothing.
func (k Kind) Known(g Gateway, f flows.Facts) flows.Plan {
	plan := flows.Plan{A: f.Sides[flows.A].Name(), Steps: flows.NoAnswer(f, flows.A)}
	if s := flows.FirstObstacle(flows.A, f.Sides[flows.A]); len(plan.Steps) == 0 && s != nil {
		plan.Steps = []flows.Step{*s}
	}
	if len(plan.Steps) > 0 || k == Configuration {
		return plan
	}
	end, refused := g.find(f.Sides[flows.A])
	if refused != nil {
		plan.Steps = []flows.Step{*refused}
		return plan
	}
	c := flows.Connection{Facts: f, Ends: [2]flows.End{end}}
	plan.Steps = c.ExplainWaits([]flows.Step{c.OwnKey(flows.A)})
	return plan
}

func (g Gateway) find(f flows.ClusterFacts) (end flows.End, refused *flows.Step) {
	kind := map[flows.Role]Kind{flows.RoleServer: GatewayServer, flows.RoleClient: GatewayClient}[g.Role]
	var found, others []wire.Object
	for _, o := range objects(f) {
		switch {
		case !Kind(flows.RefTo(o).Kind).gateway():
		case Kind(flows.RefTo(o).Kind) != kind || o.GetName() != g.Name || g.Namespace != "" && o.GetNamespace() != g.Namespace:
			others = append(others, o)
		default:
			found = append(found, o)
		}
	}
	switch {
	case len(found) == 0:
		first := create(GatewayServer, g.Name, "CLUSTER_ID")
		if kind == GatewayClient {
			first = create(GatewayClient, g.Name, "CLUSTER_ID").Flag("--addresses", "ADDRESS").Flag("--port", "PORT")
		}
		where, hint := "", command.Hintf("create it: %s", first.On(f.Flags()))
		if g.Namespace != "" {
			where = " in namespace " + g.Namespace
		}
		if len(others) > 0 {
			hint = command.Hintf("use one of the gateways that exist, %s, or %s", listed(others), hint)
		}
		return end, refuse(flows.FailedPreflight, fmt.Sprintf("%s has no %s %s%s", f.ID, kind, g.Name, where), hint)
	case len(found) > 1:
		return end, refuse(flows.FailedPreflight, fmt.Sprintf("%s has several: %s", f.ID, listed(found)), command.Text("choose one with --namespace"))
	}
	return peerOf(found[0], f), nil
}

func listed(all []wire.Object) string {
	text := make([]string, len(all))
	for i, o := range all {
		text[i] = apply.Name(o)
	}
	return strings.Join(text, ", ")
}

// peerOf returns this cluster's end of the connection that has the gateway o.
func peerOf(o wire.Object, f flows.ClusterFacts) flows.End {
	end := flows.End{Tenant: render.Tenant{Namespace: o.GetNamespace(), Remote: wire.ClusterID(o.GetLabels()[wire.LabelRemoteCluster])}}
	switch o := o.(type) {
	case *networkingv1beta1.GatewayServer:
		end.Server = o
	case *networkingv1beta1.GatewayClient:
		end.Client = o
	}
	if key, ok := f.Keys[o.GetNamespace()+"/"+o.GetName()]; ok {
		end.Key = &key
	}
	return end
}
