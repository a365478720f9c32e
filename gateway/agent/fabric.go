package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/render"
)

// FabricOptions of a node's agent.
type FabricOptions struct {
	Namespace string // with the cluster's Networks
	NodeIP    netip.Addr
	Log       *slog.Logger
}

// RunFabric keeps this node's way to every gateway until ctx ends. It leaves
// the kernel as it is then: traffic flows on while the agent is replaced.
func RunFabric(ctx context.Context, config *rest.Config, o FabricOptions) error {
	mgr, err := newManager(config, cache.Options{ByObject: map[client.Object]cache.ByObject{
		&ipamv1alpha1.Network{}: {Namespaces: map[string]cache.Config{o.Namespace: {}}},
	}})
	if err != nil {
		return err
	}
	kernel, err := linux.New(linux.Options{Logger: o.Log})
	if err != nil {
		return err
	}
	f := &fabric{options: o, client: mgr.GetClient(), kernel: kernel}
	if err := oneRequest(mgr, "fabric", f, &networkingv1beta1.InternalFabric{}, &ipamv1alpha1.Network{}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

type fabric struct {
	options FabricOptions
	client  client.Client
	kernel  *linux.Kernel
}

// Reconcile reads, computes, and brings the node there.
func (f *fabric) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	in, err := f.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(in.Gateways) == 0 {
		if err := f.kernel.Remove(); err != nil {
			return ctrl.Result{}, fmt.Errorf("clean up the node: %w", err)
		}
		return ctrl.Result{}, nil
	}
	state, err := gateway.ComputeNode(in)
	if err != nil {
		return ctrl.Result{}, err
	}
	changes, err := f.kernel.Sync(state)
	for _, c := range changes {
		f.options.Log.Info("corrected", "change", c)
	}
	return ctrl.Result{RequeueAfter: resync}, err
}

func (f *fabric) read(ctx context.Context) (gateway.NodeInputs, error) {
	in := gateway.NodeInputs{NodeIP: f.options.NodeIP}
	var err error
	if in.UnderlayMTU, err = linux.UnderlayMTU(); err != nil {
		return in, err
	}
	var networks ipamv1alpha1.NetworkList
	if err := f.client.List(ctx, &networks, client.InNamespace(f.options.Namespace), client.MatchingLabels{render.LabelNetworkType: render.NetworkPodCIDR}); err != nil {
		return in, fmt.Errorf("list Networks: %w", err)
	}
	var own []networkingv1beta1.CIDR
	for _, n := range networks.Items {
		own = append(own, n.Spec.CIDR)
	}
	if in.PodCIDRs, err = prefixes("pod CIDR of this cluster", own); err != nil {
		return in, err
	}
	var fabrics networkingv1beta1.InternalFabricList
	if err := f.client.List(ctx, &fabrics); err != nil {
		return in, fmt.Errorf("list InternalFabrics: %w", err)
	}
	for _, item := range fabrics.Items {
		if item.DeletionTimestamp != nil {
			continue
		}
		g, err := gatewayOf(&item)
		if err != nil {
			// One broken object must not cut the other peers off.
			f.options.Log.Error("skip an InternalFabric", "namespace", item.Namespace, "name", item.Name, "error", err)
			continue
		}
		in.Gateways = append(in.Gateways, g)
	}
	slices.SortFunc(in.Gateways, func(a, b gateway.Gateway) int { return cmp.Compare(a.Name, b.Name) })
	return in, nil
}

func gatewayOf(f *networkingv1beta1.InternalFabric) (gateway.Gateway, error) {
	ip, err := netip.ParseAddr(string(f.Spec.GatewayIP))
	if err != nil {
		return gateway.Gateway{}, fmt.Errorf("gateway IP: %w", err)
	}
	remote, err := prefixes("remote CIDRs", f.Spec.RemoteCIDRs)
	if err != nil {
		return gateway.Gateway{}, err
	}
	return gateway.Gateway{Name: f.Namespace + "/" + f.Name, PodIP: ip, RemoteCIDRs: remote, MTU: f.Spec.MTU}, nil
}
