package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/internal/discovery"
	"github.com/liqo-tui/liqo-tui/internal/discovery/mdns"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// FabricOptions of a node's agent.
type FabricOptions struct {
	Namespace string // with the cluster's Networks
	NodeIP    netip.Addr
	NodeName  string
	// Health is the HTTP address of the health check; "" if there is none.
	Health string
	// Token returns an error if the API server refuses the pod's token. A nil function: not
	// known.
	Token func() error
	// Announced is the description of the cluster that the node announces on its LAN; nil to
	// announce nothing.
	Announced *discovery.Cluster
	Log       *slog.Logger
}

// RunFabric keeps this node's routes to every gateway until ctx ends. Then it leaves
// the kernel as it is: traffic flows on while the agent is replaced.
func RunFabric(ctx context.Context, config *rest.Config, o FabricOptions) error {
	kept := ofOwnNode(o.NodeName)
	kept[&ipamv1alpha1.Network{}] = cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {}}}
	mgr, err := newManager(config, "0", cache.Options{ByObject: kept})
	if err != nil {
		return err
	}
	kernel, err := linux.New(linux.Options{Logger: o.Log})
	if err != nil {
		return err
	}
	f := &fabric{options: o, client: mgr.GetClient(), kernel: kernel}
	if err := oneRequest(mgr, "fabric", f, nil, &networkingv1beta1.InternalFabric{}, &ipamv1alpha1.Network{}); err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return err
	}
	announces := newAnnouncer(o, mgr.GetClient(), direct, f.refused)
	f.leads, f.stands = announces.leads, announces.stands
	if err := errors.Join(mgr.Add(runnable(f.repair)), announces.setup(ctx, mgr, config), mgr.Add(runnable(newPaths(f, announces).run)), mgr.Add(serveInspect(f))); err != nil {
		return err
	}
	if err := mgr.Add(runnable(func(ctx context.Context) error { return o.keepAddress(ctx, addressInterval, linux.HasAddress) })); err != nil {
		return err
	}
	if o.Announced != nil {
		if err := mgr.Add(runnable(func(ctx context.Context) error {
			mdns.Announce(ctx, o.Log, o.NodeIP, *o.Announced)
			return nil
		})); err != nil {
			return err
		}
	}
	if o.Health != "" {
		if err := mgr.Add(serve("tcp", o.Health, http.HandlerFunc(f.health))); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}

const addressInterval = 10 * time.Second

// keepAddress ends with an error if no device has the node's address any more, for example
// after a new DHCP lease. Kubernetes does not restart a pod in its host's network then:
// gateways would send to the former address, and no route could be set. After the error,
// the kubelet starts the agent again, with the node's present address. A single look can
// fall between two steps of a change, so it does not count.
func (o FabricOptions) keepAddress(ctx context.Context, every time.Duration, has func(netip.Addr) (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	missed := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		ok, err := has(o.NodeIP)
		switch {
		case err != nil:
			o.Log.Warn("look for the node's address", "error", err)
		case ok:
			missed = 0
		default:
			missed++
		}
		if missed == 2 {
			return fmt.Errorf("no device has the node's address %s any more: the agent ends; the kubelet starts it again with the node's present address", o.NodeIP)
		}
	}
}

// why returns the reason for which the node is not as wanted; "" if it is. If the node's
// address is gone, no route can be set, and the kernel only says "invalid argument".
func (o FabricOptions) why(err error, has func(netip.Addr) (bool, error)) string {
	if err == nil {
		return ""
	}
	if there, unknown := has(o.NodeIP); unknown == nil && !there {
		return fmt.Sprintf("no device has the node's address %s any more: %v", o.NodeIP, err)
	}
	return err.Error()
}

type fabric struct {
	options FabricOptions
	client  client.Client
	kernel  *linux.Kernel
	leads   func([]netip.Prefix)  // gets the asked ranges once the node has routes to them
	stands  func(wire.NodeStatus) // gets the node's status

	mu       sync.Mutex // one Reconcile at a time
	wanted   gateway.KernelState
	followed map[string]gateway.Gateway // by name, with the last settings that the node could use
	unfit    map[string]string          // by name, gateways whose settings can't be used: what is done instead, and why
	reached  []gateway.Gateway          // the gateways that wanted has routes to
	applied  bool                       // the kernel was brought to wanted
	compared time.Time                  // when the whole kernel was last compared with wanted

	failed atomic.Pointer[string] // why the node is not as wanted; "" if it is; nil before the first try
}

// health is the health check by which Kubernetes shows the nodes that have no working
// routes to other clusters.
func (f *fabric) health(w http.ResponseWriter, _ *http.Request) {
	var refused error
	if f.options.Token != nil {
		refused = f.options.Token()
	}
	switch why := f.failed.Load(); {
	case refused != nil: // the agent gets no more changes, and can't write that into its report
		http.Error(w, refused.Error(), http.StatusServiceUnavailable)
	case why == nil:
		http.Error(w, "nothing was set up yet", http.StatusServiceUnavailable)
	case *why != "":
		http.Error(w, *why, http.StatusServiceUnavailable)
	}
}

// Reconcile reads the objects, computes the wanted state, and brings the node to it.
func (f *fabric) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reconcile(ctx, time.Since(f.compared) >= resync)
}

// reconcile compares the whole kernel with the wanted state, or applies only what has
// changed in the wanted state: with a thousand peers, a change of one is cheap.
func (f *fabric) reconcile(ctx context.Context, whole bool) (_ ctrl.Result, err error) {
	defer func() {
		why := f.options.why(err, linux.HasAddress)
		f.failed.Store(&why)
		f.stands(standing(why, f.unfit))
	}()
	in, err := f.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(in.Gateways)+len(in.Closed) == 0 {
		f.wanted, f.applied = gateway.KernelState{}, false
		f.leads(nil)
		if err := f.kernel.Remove(); err != nil {
			return ctrl.Result{}, fmt.Errorf("clean up the node: %w", err)
		}
		return ctrl.Result{}, nil
	}
	state, err := gateway.ComputeNode(in)
	if err != nil {
		return ctrl.Result{}, err
	}
	damage := f.applied && state.Equal(f.wanted)
	var changes []string
	if whole {
		f.compared = time.Now()
		changes, err = f.kernel.Sync(state)
	} else {
		changes, err = f.kernel.Update(state)
	}
	for _, c := range changes {
		if damage {
			f.options.Log.Warn("repaired what somebody changed", "change", c)
		} else {
			f.options.Log.Info("set up", "change", c)
		}
	}
	f.wanted, f.applied = state, err == nil
	if err == nil {
		f.leads(asked(in.Gateways))
	}
	f.reached = slices.DeleteFunc(in.Gateways, func(g gateway.Gateway) bool { return g.Gone })
	return ctrl.Result{RequeueAfter: resync}, err
}

// standing is the node's status for its report: as wanted if why is "", else with that
// problem.
func standing(why string, unfit map[string]string) wire.NodeStatus {
	s := wire.NodeStatus{Problem: short(why)}
	if why == "" {
		s.Level = wire.NodeLevel
	}
	s.Unfit, s.More = first(unfit, wire.NodeStatusMax)
	return s
}

// short limits a text that gateways read from each node: an error can name thousands of routes.
func short(text string) string {
	const most = 200
	text = strings.ReplaceAll(text, "\n", "; ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// asked returns the ranges for which the node has to confirm that it has routes.
func asked(all []gateway.Gateway) []netip.Prefix {
	var out []netip.Prefix
	for _, g := range all {
		out = append(out, g.Also...)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}

// repairPause is the pause between two repairs, so that a fight with another program
// costs little.
const repairPause = 200 * time.Millisecond

// repair restores the node's state when somebody has changed what is ours.
func (f *fabric) repair(ctx context.Context) error {
	signals, err := linux.Watch(ctx)
	if err != nil {
		return err
	}
	for range signals {
		f.mu.Lock()
		// An error is the same as the next Reconcile's, which the controller
		// repeats and logs.
		_, _ = f.reconcile(ctx, true)
		f.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(repairPause):
		}
	}
	return nil
}

// States returns the wanted state of the node and the one found.
func (f *fabric) States() (wanted, found gateway.KernelState, err error) {
	f.mu.Lock()
	wanted = f.wanted
	f.mu.Unlock()
	found, err = f.kernel.Found(wanted)
	return wanted, found, err
}

func (f *fabric) read(ctx context.Context) (gateway.NodeInputs, error) {
	in := gateway.NodeInputs{NodeIP: f.options.NodeIP}
	var err error
	var networks ipamv1alpha1.NetworkList
	if err := f.client.List(ctx, &networks, client.InNamespace(f.options.Namespace), client.MatchingLabels{wire.LabelNetworkType: wire.NetworkPodCIDR}); err != nil {
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
	var unfit []gateway.UnfitGateway
	// If two InternalFabrics have the same address, as after a node's restart, the one
	// that was written last is right.
	slices.SortStableFunc(fabrics.Items, func(a, b networkingv1beta1.InternalFabric) int { return written(&b).Compare(written(&a)) })
	for _, item := range fabrics.Items {
		if item.DeletionTimestamp != nil {
			continue
		}
		g, err := gatewayOf(&item)
		if err != nil {
			unfit = append(unfit, gateway.UnfitGateway{Gateway: g, Err: err})
			continue
		}
		if !g.Gone {
			choose(&g, in.NodeIP, f.options.mtuTo)
		}
		in.UnderlayMTU = max(in.UnderlayMTU, g.UnderlayMTU)
		in.Gateways = append(in.Gateways, g)
	}
	in.UnderlayMTU = cmp.Or(in.UnderlayMTU, ethernet)
	in = f.follow(in, unfit)
	slices.SortFunc(in.Gateways, func(a, b gateway.Gateway) int { return cmp.Compare(a.Name, b.Name) })
	return in, nil
}

// ethernet is the MTU, in bytes, while no route to a gateway's pod is known.
const ethernet = 1500

// choose takes the better of a node's two routes to a gateway's pod. If the route to the pod
// has a smaller MTU than the route to the pod's node, it leads through an overlay.
func choose(g *gateway.Gateway, node netip.Addr, mtuTo func(netip.Addr) int) {
	g.UnderlayMTU = mtuTo(g.PodIP)
	if !g.HostIP.IsValid() || g.HostIP == node || mtuTo(g.HostIP) <= g.UnderlayMTU {
		g.HostIP = netip.Addr{}
	}
}

// mtuTo is the longest packet to a pod, in bytes; 0 if there is no route to the pod yet.
func (o FabricOptions) mtuTo(pod netip.Addr) int {
	mtu, err := linux.MTUTo(pod)
	if err != nil {
		o.Log.Debug("no way to a gateway's pod", "error", err)
		return 0
	}
	return mtu
}

// follow replaces settings that no node can use by the gateway's last usable ones: the
// gateway itself goes on with them, too. If a gateway never had any, packets to its peer
// are dropped.
func (f *fabric) follow(in gateway.NodeInputs, unfit []gateway.UnfitGateway) gateway.NodeInputs {
	in, more := in.Fitting()
	unfit = append(unfit, more...)
	for _, u := range unfit {
		f.options.Log.Error("can't follow an InternalFabric", "name", u.Name, "error", u.Err)
		if last, ok := f.followed[u.Name]; ok {
			in.Gateways = append(in.Gateways, last)
		}
		in.Closed = append(in.Closed, u.RemoteCIDRs...)
	}
	if len(unfit) > 0 {
		in, _ = in.Fitting() // another gateway may have taken its place
	}
	f.followed = make(map[string]gateway.Gateway, len(in.Gateways))
	for _, g := range in.Gateways {
		f.followed[g.Name] = g
	}
	f.unfit = map[string]string{}
	for _, u := range unfit {
		does := "does not lead to the peer: "
		if _, ok := f.followed[u.Name]; ok {
			does = "goes on as before the last change: "
		}
		f.unfit[u.Name] = short(does + u.Err.Error())
	}
	return in
}

// refused returns the number of peers' packets that the node has refused, by gateway; nil if
// nothing counts them.
func (f *fabric) refused() (map[string]uint64, error) {
	counted, err := f.kernel.Refused()
	if err != nil || counted == nil {
		return nil, err
	}
	f.mu.Lock()
	followed := f.followed // replaced, never changed
	f.mu.Unlock()
	return byGateway(counted, followed), nil
}

// byGateway adds up the packets of each gateway's ranges. counted is by the ranges' first
// addresses.
func byGateway(counted map[netip.Addr]uint64, all map[string]gateway.Gateway) map[string]uint64 {
	out := map[string]uint64{}
	for first, packets := range counted {
		if packets == 0 {
			continue
		}
		for name, g := range all {
			if slices.ContainsFunc(g.RemoteCIDRs, func(c netip.Prefix) bool { return c.Contains(first) }) {
				out[name] += packets
			}
		}
	}
	return out
}

// written returns the time of an object's last change, according to its metadata.
func written(f *networkingv1beta1.InternalFabric) time.Time {
	at := f.CreationTimestamp.Time
	for _, m := range f.ManagedFields {
		if m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// addressesIn are the IPv4 addresses in an annotation.
func addressesIn(f *networkingv1beta1.InternalFabric, annotation string) []netip.Addr {
	var found []netip.Addr
	for text := range strings.SplitSeq(f.Annotations[annotation], ",") {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
			found = append(found, ip)
		}
	}
	return found
}

func gatewayOf(f *networkingv1beta1.InternalFabric) (gateway.Gateway, error) {
	g := gateway.Gateway{Name: f.Namespace + "/" + f.Name, MTU: f.Spec.MTU}
	var err error
	// First: if another setting can't be used, packets to these ranges are dropped.
	if g.RemoteCIDRs, err = prefixes("remote CIDRs", f.Spec.RemoteCIDRs); err != nil {
		return g, err
	}
	if g.PodIP, err = netip.ParseAddr(string(f.Spec.GatewayIP)); err != nil {
		return g, fmt.Errorf("gateway IP: %w", err)
	}
	g.Gone = f.Annotations[wire.AnnotationGone] == string(f.Spec.GatewayIP)
	if pod, host, _ := strings.Cut(f.Annotations[wire.AnnotationHost], "@"); pod == string(f.Spec.GatewayIP) {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			g.HostIP = ip
		}
	}
	g.NodeIPs, g.Hosts = addressesIn(f, wire.AnnotationNodeIPs), addressesIn(f, wire.AnnotationHosts)
	g.Also, err = wire.Also(f)
	return g, err
}
