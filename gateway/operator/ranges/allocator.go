// Package ranges finds the address ranges of this cluster, decides under which ranges the cluster sees its
// peers, and moves a peer from one range to another.
package ranges

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// fieldManager is the operator's field manager.
const fieldManager = wire.OperatorName

// Allocator gives Networks their ranges, which are stored in the statuses of the Networks. Allocator also
// remembers them, because the cache is late, and a list of all Networks for each new one took 4 s with 200
// peers.
type Allocator struct {
	reader       client.Reader // not cached
	surroundings *Surroundings
	pools        []netip.Prefix

	mu    sync.Mutex
	taken map[types.NamespacedName]netip.Prefix // nil before the first use
}

// NewAllocator returns an allocator of ranges from pools; the default are the pools of package ipam. The
// reader is not cached.
func NewAllocator(reader client.Reader, around *Surroundings, pools []netip.Prefix) *Allocator {
	if len(pools) == 0 {
		pools = ipam.DefaultPools()
	}
	return &Allocator{reader: reader, surroundings: around, pools: pools}
}

// Assign chooses a range for n, which must exist: its earlier range, or a range that overlaps neither left
// nor any address that the cluster has or needs. The caller records the range in n's status. The error may
// wrap an error of package ipam.
func (a *Allocator) Assign(ctx context.Context, n *ipamv1alpha1.Network, left ...netip.Prefix) (networkingv1beta1.CIDR, error) {
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
		return networkingv1beta1.CIDR(had.String()), nil // the former record failed, or the Network was deleted and made again
	}
	reserved, err := a.reserved(ctx)
	if err != nil {
		return "", err
	}
	for _, p := range left {
		reserved = append(reserved, ipam.Reservation{Prefix: p, Reason: "the range that is to be left"})
	}
	got, why, err := ipam.Allocate(reserved, ipam.Request{
		Want: want, Peer: n.Labels[wire.LabelRemoteCluster], Kind: n.Labels[wire.LabelCIDRType],
		Remap: n.Annotations[render.AnnotationCarriedRanges] != "",
	}, a.pools)
	if err != nil {
		return "", err
	}
	if why != "" {
		ctrl.LoggerFrom(ctx).Info("a range is seen under another one", "network", key, "range", want, "as", got, "because", why)
	}
	a.taken[key] = got
	return networkingv1beta1.CIDR(got.String()), nil
}

// reserved returns all ranges that are in use. The caller holds the lock.
func (a *Allocator) reserved(ctx context.Context) ([]ipam.Reservation, error) {
	reserved, err := a.surroundings.Reserved(ctx)
	if err != nil {
		return nil, err
	}
	for of, p := range a.taken {
		reserved = append(reserved, ipam.Reservation{Prefix: p, Reason: "Network " + of.String()})
	}
	return reserved, nil
}

// Fix records that n has the range in its spec, even if others have it, too. The error satisfies errors.Is
// for [ipam.ErrInvalid] if the range can't be parsed. Any other error is temporary.
func (a *Allocator) Fix(ctx context.Context, n *ipamv1alpha1.Network) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(ctx); err != nil {
		return err
	}
	p, err := netip.ParsePrefix(string(n.Spec.CIDR))
	if err != nil {
		return fmt.Errorf("range of Network %s/%s: %w: %w", n.Namespace, n.Name, ipam.ErrInvalid, err)
	}
	a.taken[client.ObjectKeyFromObject(n)] = p
	return nil
}

// Release forgets the range of a Network if the Network does not exist.
func (a *Allocator) Release(ctx context.Context, key types.NamespacedName) error {
	a.mu.Lock() // also during the request, because a Network of this name may be made meanwhile, and get a range
	defer a.mu.Unlock()
	err := a.reader.Get(ctx, key, &ipamv1alpha1.Network{})
	if apierrors.IsNotFound(err) {
		delete(a.taken, key)
		return nil
	}
	return err
}

func (a *Allocator) load(ctx context.Context) error {
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

// Record writes a Network's range into its status.
func Record(ctx context.Context, c client.Client, n *ipamv1alpha1.Network, cidr networkingv1beta1.CIDR) error {
	before := n.DeepCopy()
	n.Status.CIDR = cidr
	if err := c.Status().Patch(ctx, n, client.MergeFrom(before), client.FieldOwner(fieldManager)); err != nil {
		return fmt.Errorf("record %s as CIDR of Network %s/%s: %w", cidr, n.Namespace, n.Name, err)
	}
	return nil
}
