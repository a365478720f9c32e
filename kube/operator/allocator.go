package operator

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/ipam"
)

// allocator gives Networks their ranges. What it gave is kept in the Networks'
// status; here it is remembered too, because the cache is late, and listing
// every Network for each new one took 4 s for 200 peers.
type allocator struct {
	cache  client.Reader // for Nodes
	reader client.Reader // not cached

	mu    sync.Mutex
	taken map[types.NamespacedName]netip.Prefix // nil before the first use
}

// assign chooses a range for n, which must exist: the one that it was given
// before, or one that overlaps nothing in the cluster. The caller records it in
// n's status. The error may satisfy errors.Is for ipam's.
func (a *allocator) assign(ctx context.Context, n *ipamv1alpha1.Network) (networkingv1beta1.CIDR, error) {
	want, err := netip.ParsePrefix(string(n.Spec.CIDR))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ipam.ErrInvalid, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(ctx); err != nil {
		return "", err
	}
	key := client.ObjectKeyFromObject(n)
	if had, ok := a.taken[key]; ok && had.Bits() == want.Bits() {
		return networkingv1beta1.CIDR(had.String()), nil // recording it failed, or the Network was deleted and made again
	}
	nodes, err := nodeAddresses(ctx, a.cache)
	if err != nil {
		return "", err
	}
	got, err := ipam.Allocate(append(nodes, slices.Collect(maps.Values(a.taken))...), want, ipam.DefaultPools())
	if err != nil {
		return "", err
	}
	a.taken[key] = got
	return networkingv1beta1.CIDR(got.String()), nil
}

// fix records that n has the range that it asks for, whatever else has it.
func (a *allocator) fix(ctx context.Context, n *ipamv1alpha1.Network) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(ctx); err != nil {
		return err
	}
	p, err := netip.ParsePrefix(string(n.Spec.CIDR))
	if err != nil {
		return fmt.Errorf("range of Network %s/%s: %w", n.Namespace, n.Name, err)
	}
	a.taken[client.ObjectKeyFromObject(n)] = p
	return nil
}

// release forgets the range of a Network, if there is none of this name.
func (a *allocator) release(ctx context.Context, key types.NamespacedName) error {
	a.mu.Lock() // also while asking: nobody may make it again and be given a range meanwhile
	defer a.mu.Unlock()
	err := a.reader.Get(ctx, key, &ipamv1alpha1.Network{})
	if apierrors.IsNotFound(err) {
		delete(a.taken, key)
		return nil
	}
	return err
}

func (a *allocator) load(ctx context.Context) error {
	if a.taken != nil {
		return nil
	}
	var list ipamv1alpha1.NetworkList
	if err := a.reader.List(ctx, &list); err != nil {
		return fmt.Errorf("list Networks: %w", err)
	}
	taken := make(map[types.NamespacedName]netip.Prefix, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		if n.Status.CIDR == "" {
			continue
		}
		p, err := netip.ParsePrefix(string(n.Status.CIDR))
		if err != nil {
			return fmt.Errorf("status of Network %s/%s: %w", n.Namespace, n.Name, err)
		}
		taken[client.ObjectKeyFromObject(n)] = p
	}
	a.taken = taken
	return nil
}

// nodeAddresses are kept free, so that no node becomes unreachable.
func nodeAddresses(ctx context.Context, cache client.Reader) ([]netip.Prefix, error) {
	var nodes corev1.NodeList
	if err := cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	var addresses []netip.Prefix
	for _, node := range nodes.Items {
		for _, a := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() {
				addresses = append(addresses, netip.PrefixFrom(ip, ip.BitLen()))
			}
		}
	}
	return addresses, nil
}
