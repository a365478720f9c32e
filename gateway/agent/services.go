package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/exports"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// exchange serves this cluster's exported Services to the peer's gateway, and reads the Services that the peer
// exports, as long as this pod holds the tunnel.
type exchange struct {
	g     *gatewayAgent
	cache client.Reader
	store *exports.Store

	mu      sync.Mutex
	synced  bool
	pods    []netip.Prefix // of this cluster; nil while they are not known
	peers   []netip.Prefix // the peer's own pod ranges
	turn    int            // counts the changes of the ranges
	exports map[types.NamespacedName]servedSlice
	request func()          // queues a request of the tunnel's controller; nil before the controller starts
	server  *exports.Server // nil while nothing is served
	client  *exports.Client // nil while nothing is read
	problem error           // the reason that nothing is served
	before  exports.Status  // the last status of the previous client
}

// servedSlice holds the facts about one served slice.
type servedSlice struct {
	open    []gateway.Endpoint // the endpoints to open if the peer may connect only to exported Services
	outside int                // the number of endpoints that are not served, because they are no pods of this cluster
}

// newExchange watches the exports of this cluster. It uses a separate cache, so that a gateway without
// the right to read them works, too.
func newExchange(ctx context.Context, mgr ctrl.Manager, config *rest.Config, g *gatewayAgent) (*exchange, error) {
	own := labels.SelectorFromSet(labels.Set{mcsv1beta1.LabelSourceCluster: string(g.options.Services), discoveryv1.LabelManagedBy: wire.ManagedBy})
	c, err := cache.New(config, cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: {Label: own}},
	})
	if err != nil {
		return nil, err
	}
	x := &exchange{g: g, cache: c, store: exports.NewStore(time.Now()), exports: map[types.NamespacedName]servedSlice{}}
	informer, err := c.GetInformer(ctx, &discoveryv1.EndpointSlice{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch this cluster's exports: %w", err)
	}
	handler := onChange(func(o any) {
		if s, ok := o.(*discoveryv1.EndpointSlice); ok {
			x.changed(s)
		}
	})
	handler.DeleteFunc = func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if s, ok := o.(*discoveryv1.EndpointSlice); ok {
			x.gone(client.ObjectKeyFromObject(s))
		}
	}
	registered, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, fmt.Errorf("watch this cluster's exports: %w", err)
	}
	filled := runnable(func(ctx context.Context) error {
		if toolscache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.synced = true
			x.fill(ctx)
		}
		return nil
	})
	return x, errors.Join(mgr.Add(runnable(c.Start)), mgr.Add(filled), mgr.Add(runnable(x.run)))
}

// set sets the pod ranges of both clusters.
func (x *exchange) set(ctx context.Context, pods, peers []netip.Prefix) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if slices.Equal(pods, x.pods) && slices.Equal(peers, x.peers) {
		return
	}
	x.pods, x.peers = pods, peers
	x.turn++
	x.fill(ctx)
}

// fill replaces the slices in the store by those in the cache. The caller holds x.mu.
func (x *exchange) fill(ctx context.Context) {
	if !x.synced || len(x.pods) == 0 {
		return
	}
	var all discoveryv1.EndpointSliceList
	if err := x.cache.List(ctx, &all); err != nil {
		x.g.options.Log.Error("read this cluster's exports", "error", err)
		return
	}
	clear(x.exports)
	var served []*discoveryv1.EndpointSlice
	for i := range all.Items {
		if s := x.served(&all.Items[i]); s != nil {
			served = append(served, s)
		}
	}
	if err := x.store.Replace(served); err != nil {
		x.g.options.Log.Error("serve this cluster's exports", "error", err)
	}
	x.ask()
}

// Start makes the exchange a source of requests for the tunnel's controller.
func (x *exchange) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.request = func() { queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: tunnelController}}) }
	return nil
}

// ask queues a request of the tunnel's controller, because other endpoints may have to be open. The caller
// holds x.mu.
func (x *exchange) ask() {
	if x.request != nil {
		x.request()
	}
}

// open returns the endpoints of this cluster's pods that are exported to the peer.
func (x *exchange) open() (all []gateway.Endpoint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.exports {
		all = append(all, e.open...)
	}
	slices.SortFunc(all, func(a, b gateway.Endpoint) int {
		return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	return slices.Compact(all)
}

// served returns the part of a slice that the peer may read.
func (x *exchange) served(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	rules := exports.Rules{Cluster: x.g.options.Services, Peer: x.g.options.Gateway.Tenant.Remote, Pods: x.pods}
	out, outside := rules.Served(s)
	if out == nil {
		delete(x.exports, client.ObjectKeyFromObject(s))
		return nil
	}
	x.exports[client.ObjectKeyFromObject(s)] = servedSlice{endpointsOf(out), outside}
	return out
}

// endpointsOf returns the addresses and ports of a slice. It includes endpoints that are not ready: a peer's
// client finds out itself whether they answer, and packets of an ending pod's connections still pass.
func endpointsOf(s *discoveryv1.EndpointSlice) (all []gateway.Endpoint) {
	protocols := map[corev1.Protocol]gateway.Protocol{corev1.ProtocolTCP: gateway.TCP, corev1.ProtocolUDP: gateway.UDP, corev1.ProtocolSCTP: gateway.SCTP}
	for _, e := range s.Endpoints {
		for _, text := range e.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			for _, p := range s.Ports {
				protocol, known := protocols[cmp.Or(valueOf(p.Protocol), corev1.ProtocolTCP)]
				if number := valueOf(p.Port); known && number > 0 && number < 1<<16 {
					all = append(all, gateway.Endpoint{Addr: a, Protocol: protocol, Port: uint16(number)})
				}
			}
		}
	}
	return all
}

// valueOf returns the value at a pointer; the zero value if it is nil.
func valueOf[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}

func (x *exchange) changed(s *discoveryv1.EndpointSlice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.synced || len(x.pods) == 0 {
		return
	}
	var err error
	if out := x.served(s); out != nil {
		err = x.store.Put(out)
	} else {
		err = x.store.Drop(client.ObjectKeyFromObject(s))
	}
	if err != nil {
		x.g.options.Log.Error("serve this cluster's exports", "error", err)
	}
	x.ask()
}

func (x *exchange) gone(key types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.exports, key)
	x.ask()
	if err := x.store.Drop(key); err != nil {
		x.g.options.Log.Error("serve this cluster's exports", "error", err)
	}
}

// present returns turn, the number of the present ranges; 0 if this pod must not exchange Services now.
func (x *exchange) present() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.g.standby.Load() || len(x.pods) == 0 {
		return 0
	}
	return x.turn
}

// run exchanges Services while this pod holds the tunnel, until ctx ends. New ranges begin a new
// exchange, which judges all slices of the peer again.
func (x *exchange) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var turn int
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(tunnel.UntilBeat(lookInterval))
		}
		now := x.present()
		if now == turn {
			continue
		}
		stop()
		turn, stop = now, func() {}
		if now > 0 {
			stop = x.begin(ctx)
		}
	}
}

// begin starts both halves of the exchange.
func (x *exchange) begin(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var w errgroup.Group
	w.Go(func() error { return x.serve(ctx) })
	w.Go(func() error { return x.read(ctx) })
	return func() {
		cancel()
		_ = w.Wait()
	}
}

// serve listens as soon as the tunnel's device has its address, until ctx ends.
func (x *exchange) serve(ctx context.Context) error {
	server := &exports.Server{Store: x.store, Peer: gateway.PeerTunnelAddr(x.g.options.Role, 0).Addr(), Log: x.g.options.Log}
	own := netip.AddrPortFrom(gateway.TunnelAddr(x.g.options.Role, 0).Addr(), gateway.ExportsPort)
	note := func(s *exports.Server, err error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.server, x.problem = s, err
	}
	defer note(nil, nil)
	for ctx.Err() == nil {
		l, err := exports.Listen(ctx, own)
		if err == nil {
			note(server, nil)
			err = server.Serve(ctx, l)
		}
		note(nil, err)
		select {
		case <-ctx.Done():
		case <-time.After(tunnel.UntilBeat(lookInterval)):
		}
	}
	return nil
}

// read reads the peer's exports, until ctx ends.
func (x *exchange) read(ctx context.Context) error {
	o := x.g.options
	x.mu.Lock()
	from := services.Peer{ID: o.Gateway.Tenant.Remote, Ranges: x.peers, Own: []string{o.Gateway.Tenant.Namespace, wire.DefaultNamespace}}
	x.mu.Unlock()
	owner, err := x.owner(ctx)
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.before.Problem = err
		return err
	}
	transport := exports.Transport(gateway.TunnelAddr(o.Role, 0).Addr())
	defer transport.CloseIdleConnections()
	c := &exports.Client{
		URL:  "http://" + netip.AddrPortFrom(gateway.PeerTunnelAddr(o.Role, 0).Addr(), gateway.ExportsPort).String() + exports.Path,
		HTTP: transport, Log: o.Log, Changed: x.g.wake,
		Check: func(s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, []string) {
			return services.Admit(s, from)
		},
		Sink: &exports.Writer{Client: x.g.client, Reader: x.g.reader, Namespace: o.Gateway.Tenant.Namespace, Peer: o.Gateway.Tenant.Remote, Owner: owner},
	}
	x.mu.Lock()
	x.client = c
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.before, x.client = c.Status(), nil
	}()
	return c.Run(ctx)
}

// owner returns the Configuration of the peer. It owns the copies, because it stays when the gateway is
// replaced, and is deleted with the connection.
func (x *exchange) owner(ctx context.Context) (metav1.OwnerReference, error) {
	var list networkingv1beta1.ConfigurationList
	err := x.g.client.List(ctx, &list, x.g.ofPeer()...)
	if err == nil && len(list.Items) == 0 {
		err = errNoConfiguration
	}
	if err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("read the peer's Services: %w", err)
	}
	c := &list.Items[0]
	return metav1.OwnerReference{
		APIVersion: networkingv1beta1.GroupVersion.String(), Kind: networkingv1beta1.ConfigurationKind, Name: c.Name, UID: c.UID,
	}, nil
}

// report returns the report about served and read slices.
func (x *exchange) report() *wire.ServicesReport {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := &wire.ServicesReport{Served: x.store.Len()}
	for _, e := range x.exports {
		r.Outside += e.outside
	}
	switch {
	case x.problem != nil:
		r.ServeProblem = x.problem.Error()
	case !x.synced:
		r.ServeProblem = fmt.Sprintf("this cluster's exports are not read: ClusterRoleBinding %s grants the right", wire.GatewayAccessName)
	case x.server != nil:
		r.Watched = x.server.Watched()
	}
	s := x.before
	if x.client != nil {
		s = x.client.Status()
	}
	r.Received = s.Slices
	for _, refused := range s.Refused {
		r.Refused = append(r.Refused, wire.RefusedExports(refused))
	}
	if !s.Complete.IsZero() {
		r.Complete = new(s.Complete)
	}
	if !s.Heard.IsZero() {
		r.Heard = new(s.Heard)
	}
	if s.Problem != nil {
		r.Problem = s.Problem.Error()
	}
	return r
}

// servicesNews reports whether a report about Services has to be written at once. Changed numbers wait,
// because peers can change them at any rate.
func servicesNews(now, last *wire.ServicesReport) bool {
	if now == nil || last == nil {
		return now != last
	}
	return now.Problem != last.Problem || now.ServeProblem != last.ServeProblem || (now.Complete == nil) != (last.Complete == nil)
}
