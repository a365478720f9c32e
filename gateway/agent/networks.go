package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/ipam"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/render"
)

// reporter tells the operator which networks this node knows a way to, so that
// no peer is seen under one of them: LANs, a VPC, VPNs.
type reporter struct {
	options FabricOptions
	cache   client.Reader // for Networks
	client  client.Client // not cached
	routes  func() ([]netip.Prefix, error)

	told   bool // since this process began
	before []netip.Prefix
}

func newReporter(o FabricOptions, cache client.Reader, c client.Client) *reporter {
	return &reporter{options: o, cache: cache, client: c, routes: linux.Networks}
}

// run looks as often as the kernel is compared, and writes what has changed. The
// operator works without: a failure is tried again at the next look.
func (r *reporter) run(ctx context.Context) error {
	for {
		if err := r.report(ctx); err != nil && ctx.Err() == nil {
			r.options.Log.Warn("say which networks this node knows", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(resync):
		}
	}
}

func (r *reporter) report(ctx context.Context) error {
	routes, err := r.routes()
	if err != nil {
		return err
	}
	var list ipamv1alpha1.NetworkList
	if err := r.cache.List(ctx, &list, client.InNamespace(r.options.Namespace)); err != nil {
		return fmt.Errorf("list Networks: %w", err)
	}
	var own []netip.Prefix
	for i := range list.Items {
		if p, err := netip.ParsePrefix(string(list.Items[i].Status.CIDR)); err == nil {
			own = append(own, p)
		}
	}
	networks := ipam.Around(routes, own)
	if r.told && slices.Equal(networks, r.before) {
		return nil
	}
	var node corev1.Node
	if err := r.client.Get(ctx, client.ObjectKey{Name: r.options.NodeName}, &node); err != nil {
		return fmt.Errorf("read Node %s: %w", r.options.NodeName, err)
	}
	u, err := render.Wanted(render.InternalNode(&node, r.options.NodeIP, networks))
	if err != nil {
		return err
	}
	err = r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(render.FabricName), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply InternalNode %s: %w", node.Name, err)
	}
	r.told, r.before = true, networks
	return nil
}
