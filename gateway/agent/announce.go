package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// announcer writes the report about this node into the node's InternalNode. Gateways read there which pods
// and addresses the node has. The operator reads there to which networks the node has routes, so that it
// remaps no peer into one of them.
type announcer struct {
	options FabricOptions
	cache   client.Reader // for the cluster's Networks and InternalFabrics, this Node, and its pods
	client  client.Client // without a cache
	given   *givenRanges  // the node's pod ranges that objects of the pod network name
	look    func() ([]netip.Prefix, []netip.Addr, error)
	mtuTo   func(netip.Addr) int              // the MTU of the route to an address; 0 if unknown
	refused func() (map[string]uint64, error) // counts the refused packets of each gateway's peer; a nil map if nothing counts them
	resolv  string                            // the file with the DNS servers that the node asks
	woken   chan struct{}

	mu        sync.Mutex
	unreached []string       // the gateways that do not answer this node, sorted
	asked     bool           // unreached is known
	also      []netip.Prefix // the ranges in AnnotationAlso to which this node has routes
	standing  wire.NodeStatus
	proxy     wire.KubeProxy

	next    gateway.Announcer
	looked  time.Time         // when the kernel was last read
	counts  map[string]uint64 // refused packets at that time, by gateway
	report  wire.NodeReport   // the report to write
	written wire.NodeReport   // the report that was written last
	wrote   time.Time         // when that report was written

	listed   []string  // the gateways in the UnreachedConfigMap
	listedAt time.Time // when they were written; zero: not yet by this process
}

// rewriteAfter is the interval at which an unchanged report is written again, in case it was deleted. Otherwise
// the API server stores nothing new.
const rewriteAfter = 10 * time.Minute

func newAnnouncer(o FabricOptions, cache client.Reader, c client.Client, refused func() (map[string]uint64, error)) *announcer {
	a := &announcer{options: o, cache: cache, client: c, refused: refused, woken: make(chan struct{}, 1), look: lookAround, mtuTo: o.mtuTo, resolv: "/etc/resolv.conf"}
	a.standing.Kernel = wire.KernelInUse // a former agent may have left objects in the kernel
	a.given = newGivenRanges(o.NodeName, a.wake)
	return a
}

// lookAround reads from the kernel the networks to which the machine has routes, and its addresses.
func lookAround() (networks []netip.Prefix, addresses []netip.Addr, err error) {
	if networks, err = linux.Networks(); err != nil {
		return nil, nil, err
	}
	addresses, err = linux.Addresses()
	return networks, addresses, err
}

// ofOwnNode selects the objects for an agent's cache: the agent's Node, and the pods on that node. It
// drops the fields that the agent does not read.
func ofOwnNode(name string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Node{}: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, name), Transform: func(o any) (any, error) {
			if n, ok := o.(*corev1.Node); ok {
				slim := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion}}
				slim.Annotations = map[string]string{ovnSubnets: n.Annotations[ovnSubnets]}
				slim.Spec.PodCIDRs = n.Spec.PodCIDRs
				return slim, nil
			}
			return o, nil
		}},
		&corev1.Pod{}: {Field: fields.OneTermEqualSelector("spec.nodeName", name), Transform: func(o any) (any, error) {
			if p, ok := o.(*corev1.Pod); ok {
				slim := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}}
				slim.Spec.HostNetwork = p.Spec.HostNetwork
				slim.Status.Phase, slim.Status.PodIPs = p.Status.Phase, p.Status.PodIPs
				return slim, nil
			}
			return o, nil
		}},
	}
}

// setup adds the announcer to the manager. It also starts the watches that wake the announcer when
// its objects change.
func (a *announcer) setup(ctx context.Context, mgr ctrl.Manager, config *rest.Config) error {
	for _, kind := range []client.Object{&corev1.Pod{}, &corev1.Node{}} {
		informer, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch the node and its pods: %w", err)
		}
		if _, err := informer.AddEventHandler(onChange(func(any) { a.wake() })); err != nil {
			return fmt.Errorf("watch the node and its pods: %w", err)
		}
	}
	a.given.follow = func(ctx context.Context, k rangesKind) (bool, error) { return followKind(ctx, mgr, config, k, a.given) }
	return mgr.Add(runnable(a.run))
}

// onChange calls do after each addition, update and deletion of an object.
func onChange(do func(any)) toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{AddFunc: do, UpdateFunc: func(_, o any) { do(o) }, DeleteFunc: do}
}

// leads notes the ranges for which this node now has a route to the gateway.
func (a *announcer) leads(ranges []netip.Prefix) {
	a.mu.Lock()
	changed := !slices.Equal(a.also, ranges)
	a.also = ranges
	a.mu.Unlock()
	if changed {
		a.wake()
	}
}

// stands notes the node's status for the next report.
func (a *announcer) stands(s wire.NodeStatus) {
	a.mu.Lock()
	changed := statusDiffers(a.standing, s)
	a.standing = s
	a.mu.Unlock()
	if changed {
		a.wake()
	}
}

// statusDiffers reports whether two statuses differ. It ignores differences in texts.
func statusDiffers(a, b wire.NodeStatus) bool {
	return a.Level != b.Level || a.KubeProxy != b.KubeProxy || a.Kernel != b.Kernel || (a.Problem == "") != (b.Problem == "") || !sameNames(a.Unfit, b.Unfit)
}

// sameRanges reports whether two comparisons of pods with ranges have the same result.
func sameRanges(a, b *wire.PodRanges) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Inside == b.Inside && slices.Equal(a.Outside, b.Outside))
}

// compare finds the ranges and the pods of this node that are outside of the cluster's pod ranges. It
// returns nil if the cluster's pod ranges are not known yet.
func (a *announcer) compare(ctx context.Context, ranges []gateway.Range, pods []netip.Addr) (*wire.PodRanges, error) {
	var list ipamv1alpha1.NetworkList
	err := a.cache.List(ctx, &list, client.InNamespace(a.options.Namespace), client.MatchingLabels{wire.LabelNetworkType: wire.NetworkPodCIDR})
	if err != nil {
		return nil, fmt.Errorf("list Networks: %w", err)
	}
	var cluster []netip.Prefix
	for i := range list.Items {
		if p, err := netip.ParsePrefix(string(list.Items[i].Status.CIDR)); err == nil {
			cluster = append(cluster, p)
		}
	}
	if len(cluster) == 0 {
		return nil, nil //nolint:nilnil // nil is the result for unknown ranges
	}
	var r wire.PodRanges
	r.Inside, r.Outside = a.next.Compare(cluster, ranges, pods)
	r.Outside = r.Outside[:min(len(r.Outside), wire.NodeStatusMax)]
	return &r, nil
}

func (a *announcer) wake() {
	select {
	case a.woken <- struct{}{}:
	default:
	}
}

// run writes the report after each change, until ctx ends. It tries again after a failure, and
// returns no error, so that the agent goes on.
func (a *announcer) run(ctx context.Context) error {
	a.given.find(ctx, a.options.Log)
	failures := 0
	for {
		wait, err := a.announce(ctx, time.Now())
		err = errors.Join(err, a.list(ctx, time.Now()))
		if err == nil {
			failures = 0
		} else if ctx.Err() == nil {
			a.options.Log.Warn("write the report about this node", "error", err)
			wait = min(resync, time.Second<<failures)
			failures = min(failures+1, 5)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.woken:
		case <-time.After(wait):
		}
	}
}

// announce writes the report if it is time to do so. It returns the time until it has to be called
// again.
func (a *announcer) announce(ctx context.Context, now time.Time) (time.Duration, error) {
	if now.Sub(a.looked) >= resync {
		if err := a.lookAround(ctx); err != nil {
			return 0, err
		}
		a.looked = now
	}
	var node corev1.Node
	if err := a.cache.Get(ctx, client.ObjectKey{Name: a.options.NodeName}, &node); err != nil {
		return 0, fmt.Errorf("read Node %s: %w", a.options.NodeName, err)
	}
	pods, err := a.pods(ctx)
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	a.report.Also = a.also
	a.report.Status = a.standing
	a.report.Status.KubeProxy = a.proxy
	a.mu.Unlock()
	var more bool
	a.report.Status.Refused, more = first(a.counts, wire.NodeStatusMax)
	a.report.Status.More = a.report.Status.More || more
	ranges := append(rangesOf(&node), a.given.list()...)
	if a.report.Status.Pods, err = a.compare(ctx, ranges, pods); err != nil {
		return 0, err
	}
	also := now.Sub(a.wrote) >= rewriteAfter || a.report.MTU != a.written.MTU || !slices.Equal(a.report.Also, a.written.Also) ||
		!slices.Equal(a.report.Networks, a.written.Networks) || !slices.Equal(a.report.Addresses, a.written.Addresses) ||
		!slices.Equal(a.report.Nameservers, a.written.Nameservers) || statusDiffers(a.report.Status, a.written.Status) ||
		!sameNames(a.report.Status.Refused, a.written.Status.Refused) || !sameRanges(a.report.Status.Pods, a.written.Status.Pods)
	say, due, wait := a.next.Next(now, ranges, pods, also)
	if !due {
		if left := resync - now.Sub(a.looked); wait == 0 || wait > left {
			wait = left
		}
		return wait, nil
	}
	report := a.report
	report.IP, report.Pods = a.options.NodeIP, say
	if err := a.apply(ctx, wire.InternalNode(&node, report)); err != nil {
		return 0, fmt.Errorf("apply InternalNode %s: %w", node.Name, err)
	}
	a.next.Said(say)
	a.written, a.wrote = report, now
	if slices.ContainsFunc(say, netip.Prefix.IsSingleIP) {
		a.given.find(ctx, a.options.Log) // the pod network may have been installed after the start of this agent
	}
	return resync - now.Sub(a.looked), nil
}

func (a *announcer) apply(ctx context.Context, o wire.Object) error {
	u, err := apply.Wanted(o)
	if err != nil {
		return err
	}
	return a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(wire.FabricName), client.ForceOwnership)
}

// list writes which gateways do not answer this node. As long as all gateways answer, it makes no object, and
// only empties the list of an earlier agent.
func (a *announcer) list(ctx context.Context, now time.Time) error {
	a.mu.Lock()
	gateways, known := a.unreached, a.asked
	a.mu.Unlock()
	same := slices.Equal(gateways, a.listed) && !a.listedAt.IsZero()
	if !known || same && (len(gateways) == 0 || now.Sub(a.listedAt) < rewriteAfter) {
		return nil
	}
	var node corev1.Node
	if err := a.cache.Get(ctx, client.ObjectKey{Name: a.options.NodeName}, &node); err != nil {
		return fmt.Errorf("read Node %s: %w", a.options.NodeName, err)
	}
	m := wire.UnreachedConfigMap(a.options.Namespace, &node, gateways)
	var err error
	if len(gateways) == 0 {
		var empty []byte
		if empty, err = json.Marshal(map[string]any{"data": m.Data}); err == nil {
			err = client.IgnoreNotFound(a.client.Patch(ctx, m, client.RawPatch(types.MergePatchType, empty), client.FieldOwner(wire.FabricName)))
		}
	} else {
		err = a.apply(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	a.listed, a.listedAt = gateways, now
	return nil
}

// lookAround updates the parts of the report that are read from the kernel.
func (a *announcer) lookAround(ctx context.Context) error {
	routes, addresses, err := a.look()
	if err != nil {
		return err
	}
	var list ipamv1alpha1.NetworkList
	if err := a.cache.List(ctx, &list, client.InNamespace(a.options.Namespace)); err != nil {
		return fmt.Errorf("list Networks: %w", err)
	}
	var own []netip.Prefix
	for i := range list.Items {
		if p, err := netip.ParsePrefix(string(list.Items[i].Status.CIDR)); err == nil {
			own = append(own, p)
		}
	}
	a.report.Networks, a.report.Addresses = ipam.Around(routes, own), addresses
	if a.report.Nameservers, err = nameservers(a.resolv); err != nil {
		return err
	}
	if a.report.MTU, err = a.mtu(ctx); err != nil {
		return err
	}
	if a.counts, err = a.refused(); err != nil {
		return fmt.Errorf("count the refused packets of peers: %w", err)
	}
	return nil
}

// sameNames reports whether two maps have the same keys, and both or neither are nil. If the keys
// (gateways) are the same, only numbers or texts have changed, and the next regular report contains
// them. A new gateway is reported at once, and also that nothing counts any more (nil).
func sameNames[V any](a, b map[string]V) bool {
	return (a == nil) == (b == nil) && maps.EqualFunc(a, b, func(V, V) bool { return true })
}

// first returns up to few entries, those whose names sort first; nil if all is nil. more means that there are
// others. The choice does not change as long as the names are the same.
func first[V any](all map[string]V, few int) (kept map[string]V, more bool) {
	if all == nil {
		return nil, false
	}
	kept = map[string]V{}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i == few {
			return kept, true
		}
		kept[name] = all[name]
	}
	return kept, false
}

// nameservers returns the IPv4 DNS servers in a file in the format of resolv.conf(5). The agent's pod
// uses the host's network, so the kubelet gives it the file of the node. Loopback addresses are left
// out, because a node always reaches itself.
func nameservers(file string) ([]netip.Addr, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the node's DNS servers: %w", err)
	}
	var out []netip.Addr
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil && a.Is4() && !a.IsLoopback() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, nil
}

// mtu returns the smallest MTU of the node's routes to gateways' pods, in bytes; 0 if there is none.
func (a *announcer) mtu(ctx context.Context) (narrowest int, err error) {
	var list networkingv1beta1.InternalFabricList
	if err := a.cache.List(ctx, &list); err != nil {
		return 0, fmt.Errorf("list InternalFabrics: %w", err)
	}
	for i := range list.Items {
		g, err := gatewayOf(&list.Items[i])
		if err != nil || g.Gone || list.Items[i].DeletionTimestamp != nil {
			continue
		}
		if mtu := a.mtuTo(g.PodIP); mtu > 0 && (narrowest == 0 || mtu < narrowest) {
			narrowest = mtu
		}
	}
	return narrowest, nil
}

// pods returns the addresses of the node's pods. It leaves out pods in the host's network, and pods
// that have ended, because another pod may have their addresses now.
func (a *announcer) pods(ctx context.Context) ([]netip.Addr, error) {
	var list corev1.PodList
	if err := a.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the node's pods: %w", err)
	}
	var out []netip.Addr
	for i := range list.Items {
		p := &list.Items[i]
		if p.Spec.HostNetwork || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			if addr, err := netip.ParseAddr(ip.IP); err == nil {
				out = append(out, addr)
			}
		}
	}
	return out, nil
}

// ovnSubnets is the annotation in which OVN-Kubernetes lists a node's pod ranges. It contains a JSON
// object with one range, or a list of ranges, for each network.
const ovnSubnets = "k8s.ovn.org/node-subnets"

func rangesOf(n *corev1.Node) []gateway.Range {
	var out []gateway.Range
	for _, text := range n.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, gateway.Range{Prefix: p})
		}
	}
	var subnets struct {
		Default any `json:"default"`
	}
	if json.Unmarshal([]byte(n.Annotations[ovnSubnets]), &subnets) != nil {
		return out
	}
	list, ok := subnets.Default.([]any)
	if !ok {
		list = []any{subnets.Default}
	}
	for _, item := range list {
		text, _ := item.(string)
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, gateway.Range{Prefix: p, Given: true})
		}
	}
	return out
}
