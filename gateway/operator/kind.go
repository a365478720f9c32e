package operator

import (
	"context"
	"net/netip"
	"slices"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// kind holds the differences between GatewayServer and GatewayClient.
type kind struct {
	name     string
	object   func() client.Object
	list     func() client.ObjectList
	template string // kind of its templates
	view     func(client.Object) view
}

// view is a gateway of either kind, with pointers into its status.
type view struct {
	object     client.Object
	role       networkingv1beta1.ConnectionType
	spec       any // for templates
	template   corev1.ObjectReference
	mtu        int
	secretName string // if an admin has made the Secret; "" otherwise

	secretRef, childRef **corev1.ObjectReference
	internal            **networkingv1beta1.InternalGatewayEndpoint
	endpoint            **networkingv1beta1.EndpointStatus // nil for a client
}

var serverKind = kind{
	name:     "gatewayserver",
	object:   func() client.Object { return &networkingv1beta1.GatewayServer{} },
	list:     func() client.ObjectList { return &networkingv1beta1.GatewayServerList{} },
	template: networkingv1beta1.WgGatewayServerTemplateKind,
	view: func(o client.Object) view {
		s := o.(*networkingv1beta1.GatewayServer)
		return view{
			object: s, role: networkingv1beta1.ConnectionTypeServer, spec: s.Spec, template: s.Spec.ServerTemplateRef,
			mtu: s.Spec.MTU, secretName: s.Spec.SecretRef.Name,
			secretRef: &s.Status.SecretRef, childRef: &s.Status.ServerRef, internal: &s.Status.InternalEndpoint, endpoint: &s.Status.Endpoint,
		}
	},
}

var clientKind = kind{
	name:     "gatewayclient",
	object:   func() client.Object { return &networkingv1beta1.GatewayClient{} },
	list:     func() client.ObjectList { return &networkingv1beta1.GatewayClientList{} },
	template: networkingv1beta1.WgGatewayClientTemplateKind,
	view: func(o client.Object) view {
		c := o.(*networkingv1beta1.GatewayClient)
		return view{
			object: c, role: networkingv1beta1.ConnectionTypeClient, spec: c.Spec, template: c.Spec.ClientTemplateRef,
			mtu: c.Spec.MTU, secretName: c.Spec.SecretRef.Name,
			secretRef: &c.Status.SecretRef, childRef: &c.Status.ClientRef, internal: &c.Status.InternalEndpoint,
		}
	},
}

// newTemplate returns an empty template of this kind. It is untyped, because Liqo's Go type embeds the
// template as an object with a kind, which templates don't have.
func (k kind) newTemplate() *unstructured.Unstructured {
	t := &unstructured.Unstructured{}
	t.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(k.template))
	return t
}

// watches adds watches of objects that a gateway depends on and does not own.
func (r *gateways) watches(b *builder.Builder, secrets <-chan event.GenericEvent) *builder.Builder {
	ownAddressesChanged := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		// A change of which node has a pod causes no reconciliation, because gateways read this themselves,
		// and it changes often.
		before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
		return before[wire.AnnotationAddresses] != after[wire.AnnotationAddresses] || (before[wire.AnnotationMTU] == "") != (after[wire.AnnotationMTU] == "")
	}}
	byOwner := handler.EnqueueRequestForOwner(r.client.Scheme(), r.client.RESTMapper(), r.kind.object())
	return b.
		WatchesRawSource(source.Channel(secrets, handler.EnqueueRequestForOwner(r.client.Scheme(), r.client.RESTMapper(), r.kind.object(), handler.OnlyControllerOwner()))).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.gatewaysBeside), builder.WithPredicates(tenantAccess())).
		Watches(&networkingv1beta1.PublicKey{}, byOwner, existence()).
		Watches(&networkingv1beta1.Connection{}, byOwner, existence()). // the gateway writes the status
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(gatewayOfPod)).
		Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(r.gatewaysOfPeer)).
		Watches(&corev1.Node{}, control.Soon(r.allGateways), builder.WithPredicates(nodeNews())).
		Watches(&networkingv1beta1.InternalNode{}, handler.EnqueueRequestsFromMapFunc(r.gatewaysOnNode), builder.WithPredicates(ownAddressesChanged)).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.allGateways)). // of the API servers
		Watches(&networkingv1beta1.GatewayClient{}, handler.EnqueueRequestsFromMapFunc(r.gatewaysOverEndpoint)).
		Watches(&ipamv1alpha1.IP{}, handler.EnqueueRequestsFromMapFunc(r.allGateways)).
		Watches(r.kind.newTemplate(), handler.EnqueueRequestsFromMapFunc(r.allGateways))
}

// nodeNews selects nodes whose addresses or readiness have changed. Heartbeats change the status of a node
// every few seconds.
func nodeNews() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return ok && ok2 && !sameNode(before, after)
	}}
}

// existence selects creations and deletions, and no updates.
func existence() builder.Predicates {
	return builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
}

func gatewayOfPod(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[wire.LabelGatewayName]
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}}}
}

func (r *gateways) gatewaysOnNode(ctx context.Context, o client.Object) []reconcile.Request {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == o.GetName() {
			out = append(out, gatewayOfPod(ctx, &pods.Items[i])...)
		}
	}
	return out
}

func (r *gateways) gatewaysBeside(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(o.GetNamespace()))
}

func (r *gateways) gatewaysOfPeer(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(o.GetNamespace()),
		client.MatchingLabels{wire.LabelRemoteCluster: o.GetLabels()[wire.LabelRemoteCluster]})
}

// gatewaysOverEndpoint returns the gateways whose peer is seen under a range that contains the endpoint in o,
// no matter to which peer o belongs.
func (r *gateways) gatewaysOverEndpoint(ctx context.Context, o client.Object) []reconcile.Request {
	g, ok := o.(*networkingv1beta1.GatewayClient)
	var list networkingv1beta1.ConfigurationList
	if !ok || r.client.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		conf := &list.Items[i]
		holds := func(c networkingv1beta1.CIDR) bool {
			p, err := netip.ParsePrefix(string(c))
			return err == nil && slices.ContainsFunc(g.Spec.Endpoint.Addresses, func(text string) bool {
				a, err := netip.ParseAddr(text)
				return err == nil && p.Contains(a)
			})
		}
		if s := conf.Status.Remote; s != nil && (slices.ContainsFunc(s.CIDR.Pod, holds) || slices.ContainsFunc(s.CIDR.External, holds)) {
			out = append(out, r.gatewaysOfPeer(ctx, conf)...)
		}
	}
	return out
}

func (r *gateways) allGateways(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx)
}

func (r *gateways) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	list := r.kind.list()
	if err := r.client.List(ctx, list, options...); err != nil {
		return nil
	}
	var out []reconcile.Request
	switch l := list.(type) {
	case *networkingv1beta1.GatewayServerList:
		for i := range l.Items {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&l.Items[i])})
		}
	case *networkingv1beta1.GatewayClientList:
		for i := range l.Items {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&l.Items[i])})
		}
	}
	return out
}
