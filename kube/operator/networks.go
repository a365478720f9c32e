package operator

import (
	"context"
	"fmt"
	"net/netip"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/liqo-tui/liqo-tui/gateway/ipam"
	"github.com/liqo-tui/liqo-tui/render"
)

// networks decides the cluster's own address ranges: those of pods and services
// are what they are, the external one moves aside if it overlaps.
type networks struct {
	client    client.Client
	reader    client.Reader // not cached: an allocation must see the last one
	namespace string
}

func (r *networks) setup(mgr ctrl.Manager) error {
	own := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetNamespace() == r.namespace && o.GetLabels()[render.LabelNetworkType] != ""
	})
	return ctrl.NewControllerManagedBy(mgr).Named("network").
		For(&ipamv1alpha1.Network{}, builder.WithPredicates(own)).Complete(r)
}

// Reconcile writes a Network's status once; it stays for the Network's life.
func (r *networks) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var n ipamv1alpha1.Network
	if err := r.reader.Get(ctx, req.NamespacedName, &n); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if n.Status.CIDR != "" {
		return ctrl.Result{}, nil
	}
	cidr := n.Spec.CIDR
	if n.Labels[render.LabelNotRemapped] != "true" {
		taken, waiting, err := takenRanges(ctx, r.reader, r.namespace)
		if err != nil {
			return ctrl.Result{}, err
		}
		if waiting {
			return ctrl.Result{RequeueAfter: shortly}, nil
		}
		if cidr, err = allocate(cidr, taken); err != nil {
			return ctrl.Result{}, fmt.Errorf("allocate %s of Network %s: %w", n.Spec.CIDR, n.Name, err)
		}
	}
	return ctrl.Result{}, setNetworkCIDR(ctx, r.client, &n, cidr)
}

func setNetworkCIDR(ctx context.Context, c client.Client, n *ipamv1alpha1.Network, cidr networkingv1beta1.CIDR) error {
	n.Status.CIDR = cidr
	if err := c.Status().Update(ctx, n); err != nil {
		return fmt.Errorf("record %s as CIDR of Network %s/%s: %w", cidr, n.Namespace, n.Name, err)
	}
	return nil
}

func allocate(want networkingv1beta1.CIDR, taken []netip.Prefix) (networkingv1beta1.CIDR, error) {
	prefix, err := netip.ParsePrefix(string(want))
	if err != nil {
		return "", err
	}
	got, err := ipam.Allocate(taken, prefix, ipam.DefaultPools())
	if err != nil {
		return "", err
	}
	return networkingv1beta1.CIDR(got.String()), nil
}

// takenRanges is what a new range must not overlap: every range that was
// decided, and the nodes' addresses, so that no node becomes unreachable.
// waiting is set while this cluster's pod or service range is undecided.
func takenRanges(ctx context.Context, reader client.Reader, namespace string) (taken []netip.Prefix, waiting bool, err error) {
	var list ipamv1alpha1.NetworkList
	if err := reader.List(ctx, &list); err != nil {
		return nil, false, fmt.Errorf("list Networks: %w", err)
	}
	for _, n := range list.Items {
		if n.Status.CIDR == "" {
			waiting = waiting || n.Namespace == namespace && n.Labels[render.LabelNotRemapped] == "true"
			continue
		}
		prefix, err := netip.ParsePrefix(string(n.Status.CIDR))
		if err != nil {
			return nil, false, fmt.Errorf("status of Network %s/%s: %w", n.Namespace, n.Name, err)
		}
		taken = append(taken, prefix)
	}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return nil, false, fmt.Errorf("list Nodes: %w", err)
	}
	for _, node := range nodes.Items {
		for _, a := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() {
				taken = append(taken, netip.PrefixFrom(ip, 32))
			}
		}
	}
	return taken, waiting, nil
}
