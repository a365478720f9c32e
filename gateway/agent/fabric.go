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
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/discovery"
	"github.com/liqo-tui/liqo-tui/internal/discovery/mdns"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// FabricOptions are the options of a node agent.
type FabricOptions struct {
	Namespace string // the namespace with the cluster's Networks
	NodeIP    netip.Addr
	NodeName  string
	// Health is the address at which the agent serves its health check by HTTP; "" to serve none.
	Health string
	// Token returns an error if the API server refuses the pod's token. It is nil if the caller
	// can't find that out.
	Token func() error
	// Announced is the description of the cluster that the node announces on its LAN; nil to
	// announce nothing.
	Announced *discovery.Cluster
	Log       *slog.Logger
}

// RunFabric keeps this node's routes to all gateways in the kernel until ctx ends. Afterwards, the
// routes stay in the kernel, so that packets still reach the gateways while the agent is replaced.
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
	f := &fabric{options: o, client: mgr.GetClient(), kernel: kernel, holds: wire.KernelInUse}
	if err := oneRequest(mgr, "fabric", f, []client.Object{&networkingv1beta1.InternalFabric{}, &ipamv1alpha1.Network{}}); err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return err
	}
	announces := newAnnouncer(o, mgr.GetClient(), direct, f.refused)
	f.leads, f.stands = announces.leads, announces.stands
	if err := errors.Join(mgr.Add(runnable(f.repair)), announces.setup(ctx, mgr, config), mgr.Add(runnable(newPaths(f, announces).run)), mgr.Add(runnable(newKubeProxy(announces).run)), mgr.Add(serveInspect(f))); err != nil {
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

// addressInterval is the interval at which the agent checks the node's address.
const addressInterval = 10 * time.Second

// keepAddress returns an error if no device has the node's address any more, for example after a
// new DHCP lease. It returns nil when ctx ends.
//
// Kubernetes does not restart a pod in its host's network after such a change. So gateways would
// send to the old address, and the agent could set no route. After the error, the kubelet starts
// the agent again, with the node's present address. The address has to be missing in two checks in
// a row, because one check alone can fall between two steps of a change.
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
			o.Log.Warn("can't check the node's address", "error", err)
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

// why returns the text for err, the reason that the agent could not bring the node to the wanted state; "" if
// err is nil. If no device has the node's address any more, the text says this, because the kernel's error is
// only "invalid argument".
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
	leads   func([]netip.Prefix)  // called with the ranges to confirm, when the node has routes to them
	stands  func(wire.NodeStatus) // called with the node's status after each attempt

	mu       sync.Mutex // allows one Reconcile at a time
	wanted   gateway.KernelState
	followed map[string]gateway.Gateway // by gateway name: the gateway with the last settings that the node could use
	unfit    map[string]string          // by gateway name, if its settings can't be used: a text with the node's present behaviour and the reason
	reached  []gateway.Gateway          // the gateways to which the wanted state has routes
	applied  bool                       // the last attempt brought the kernel to the wanted state
	holds    wire.KernelState
	compared time.Time // the time of the last comparison of the whole kernel with the wanted state

	failed atomic.Pointer[string] // why the last attempt failed; "" if it did not fail; nil before the first attempt
}

// health answers the health check. The pod is not ready if the routes to other clusters do not
// work on its node, so kubectl shows these nodes.
func (f *fabric) health(w http.ResponseWriter, _ *http.Request) {
	var refused error
	if f.options.Token != nil {
		refused = f.options.Token()
	}
	switch why := f.failed.Load(); {
	case refused != nil: // the agent sees no more changes of objects, and can't write a report about it
		http.Error(w, refused.Error(), http.StatusServiceUnavailable)
	case why == nil:
		http.Error(w, "nothing was set up yet", http.StatusServiceUnavailable)
	case *why != "":
		http.Error(w, *why, http.StatusServiceUnavailable)
	}
}

// Reconcile reads the objects, computes the wanted state, and brings the node to that state.
func (f *fabric) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reconcile(ctx, time.Since(f.compared) >= resync)
}

// reconcile brings the node to the wanted state. If whole is true, it compares the whole kernel with
// the wanted state. Otherwise it applies only the changes of the wanted state since the last
// attempt. So a change of one peer is cheap, even if there are a thousand peers.
func (f *fabric) reconcile(ctx context.Context, whole bool) (_ ctrl.Result, err error) {
	defer func() {
		why := f.options.why(err, linux.HasAddress)
		f.failed.Store(&why)
		f.stands(standing(why, f.unfit, f.holds))
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
		f.holds = wire.KernelClean
		return ctrl.Result{}, nil
	}
	f.holds = wire.KernelInUse
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
	tunnel.LogChanges(f.options.Log, damage, changes)
	f.wanted, f.applied = state, err == nil
	if err == nil {
		f.leads(toConfirm(in.Gateways))
	}
	f.reached = slices.DeleteFunc(in.Gateways, func(g gateway.Gateway) bool { return g.Gone })
	return ctrl.Result{RequeueAfter: resync}, err
}

// standing returns the node's status for its report. why is the node's problem; "" if there is none.
func standing(why string, unfit map[string]string, holds wire.KernelState) wire.NodeStatus {
	s := wire.NodeStatus{Problem: short(why), Kernel: holds}
	if why == "" {
		s.Level = wire.NodeLevel
	}
	s.Unfit, s.More = first(unfit, wire.NodeStatusMax)
	return s
}

// short cuts a text to 200 bytes, and puts it on one line. An error can name thousands of routes,
// and each gateway reads the texts of all nodes.
func short(text string) string {
	const most = 200
	text = strings.ReplaceAll(text, "\n", "; ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// toConfirm returns the ranges for which the node has to confirm that it has routes.
func toConfirm(all []gateway.Gateway) []netip.Prefix {
	var out []netip.Prefix
	for _, g := range all {
		out = append(out, g.Also...)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}

// repairPause is the pause between two repairs. It limits the CPU time if another program makes the
// same change again and again.
const repairPause = 200 * time.Millisecond

// repair restores the node's wanted state after another program has changed our part of the kernel's
// state.
func (f *fabric) repair(ctx context.Context) error {
	signals, err := linux.Watch(ctx)
	if err != nil {
		return err
	}
	for range signals {
		f.mu.Lock()
		// An error is not logged here: the next Reconcile gets the same error, and the
		// controller logs it and tries again.
		_, _ = f.reconcile(ctx, true)
		f.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(repairPause):
		}
	}
	return nil
}

// States returns the wanted state of the node, and the state that the kernel has.
func (f *fabric) States() (wanted, found gateway.KernelState, err error) {
	f.mu.Lock()
	wanted = f.wanted
	f.mu.Unlock()
	found, err = f.kernel.Found(wanted)
	return wanted, found, err
}

// read returns the inputs for the wanted state: the cluster's pod ranges, and the gateways.
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
	// Two InternalFabrics can have the same gateway IP, for example after a node's restart. The
	// InternalFabric that was written last is right then, so it comes first.
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

// ethernet is the assumed MTU, in bytes, as long as the node has no route to a gateway's pod.
const ethernet = 1500

// choose decides between the node's two routes to a gateway: to the gateway's pod, or to the pod's node. It
// keeps g.HostIP if the route to the pod's node has the larger MTU, because the other route then leads
// through an overlay network. Otherwise it clears g.HostIP. node is the node's own address.
func choose(g *gateway.Gateway, node netip.Addr, mtuTo func(netip.Addr) int) {
	g.UnderlayMTU = mtuTo(g.PodIP)
	if !g.HostIP.IsValid() || g.HostIP == node || mtuTo(g.HostIP) <= g.UnderlayMTU {
		g.HostIP = netip.Addr{}
	}
}

// mtuTo returns the MTU of the node's route to an address, in bytes; 0 if there is no route yet.
func (o FabricOptions) mtuTo(target netip.Addr) int {
	mtu, err := linux.MTUTo(target)
	if err != nil {
		o.Log.Debug("no route to a gateway's pod", "error", err)
		return 0
	}
	return mtu
}

// follow handles gateways whose settings can't be used: the gateways in unfit, and gateways of the inputs
// that conflict with others. It replaces their settings by their last usable settings, because the gateway
// itself also keeps these. If the node has seen no usable settings of a gateway, it drops packets to the
// gateway's peer.
func (f *fabric) follow(in gateway.NodeInputs, unfit []gateway.UnfitGateway) gateway.NodeInputs {
	in, more := in.Fitting()
	unfit = append(unfit, more...)
	for _, u := range unfit {
		f.options.Log.Error("can't use the settings of an InternalFabric", "name", u.Name, "error", u.Err)
		if last, ok := f.followed[u.Name]; ok {
			in.Gateways = append(in.Gateways, last)
		}
		in.Closed = append(in.Closed, u.RemoteCIDRs...)
	}
	if len(unfit) > 0 {
		in, _ = in.Fitting() // another gateway may use the address or the ranges of a replacement
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

// refused returns for each gateway the number of its peer's packets that the node has refused; nil
// if the kernel does not count them.
func (f *fabric) refused() (map[string]uint64, error) {
	counted, err := f.kernel.Refused()
	if err != nil || counted == nil {
		return nil, err
	}
	f.mu.Lock()
	followed := f.followed // safe to read later: a new map replaces this map, and nobody changes it
	f.mu.Unlock()
	return byGateway(counted, followed), nil
}

// byGateway returns the sum of the packets for the ranges of each gateway. The keys of counted are
// the first addresses of ranges.
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

func addressesIn(f *networkingv1beta1.InternalFabric, annotation string) []netip.Addr {
	var found []netip.Addr
	for text := range strings.SplitSeq(f.Annotations[annotation], ",") {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
			found = append(found, ip)
		}
	}
	return found
}

// gatewayOf returns the gateway that an InternalFabric describes. If it returns an error, the gateway
// has a name, and the remote ranges if these can be read.
func gatewayOf(f *networkingv1beta1.InternalFabric) (gateway.Gateway, error) {
	g := gateway.Gateway{Name: f.Namespace + "/" + f.Name, MTU: f.Spec.MTU}
	var err error
	// The ranges are read first: the node drops packets to them if another setting can't be used.
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
