package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// TunnelOptions are the options of a gateway's pod.
type TunnelOptions struct {
	Gateway render.Gateway // the field Owner is empty
	Role    gateway.Role
	KeysDir string // the folder with the file privateKey, which contains 32 raw bytes
	PodIP   netip.Addr
	NodeIP  netip.Addr // an address of the node on which the pod runs
	// NodeName is the name of that node. If NodeIP is an IPv6 address, the gateway reads the node's
	// IPv4 address from the report of this node.
	NodeName string
	Log      *slog.Logger
	// MetricsAddress is the address at which metrics are served, such as ":8082"; "0" to serve none.
	MetricsAddress string
	// Pod is the pod's name. Shared is set if the gateway has several pods. The pod with the Lease
	// then holds the tunnel, and the others stand by.
	Pod    string
	Shared bool
	// Services is this cluster's ID, if the gateways exchange Services; "" otherwise.
	Services wire.ClusterID
}

// RunTunnel keeps one end of a tunnel working until ctx ends. If the machine can't be a gateway,
// RunTunnel goes on without a tunnel, and writes the reason into the Connection.
func RunTunnel(ctx context.Context, config *rest.Config, o TunnelOptions) error {
	key, err := readKey(o.KeysDir)
	if err != nil {
		return err
	}
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // the default is 5 requests a second for each kind; exports.Writer has a limit of its own
	mgr, err := newManager(config, o.MetricsAddress, cache.Options{
		DefaultNamespaces: map[string]cache.Config{o.Gateway.Tenant.Namespace: {}},
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}:                 named(wire.HostsConfigMapName(o.Gateway.Name)),
			&corev1.Secret{}:                    named(wire.GatewayObjectName(o.Gateway.Name)),
			&corev1.Pod{}:                       {Label: labels.SelectorFromSet(render.ProbeLabels(o.Gateway.Tenant.Remote))},
			&coordinationv1.Lease{}:             named(wire.GatewayObjectName(o.Gateway.Name)),
			&networkingv1beta1.InternalFabric{}: named(o.Gateway.Name),
		},
	})
	if err != nil {
		return err
	}
	g := &gatewayAgent{options: o, key: key, client: mgr.GetClient(), reader: mgr.GetAPIReader(), names: net.DefaultResolver, woken: make(chan struct{}, 1), events: mgr.GetEventRecorder(wire.GatewayReporter)}
	var before *succession
	if !o.Shared {
		if before, err = g.preceded(ctx, config, mgr); err != nil {
			return err
		}
	}
	standby := o.Shared || before != nil
	g.standby.Store(standby)
	if err := g.remember(ctx); err != nil {
		return err
	}
	kernel, err := linux.New(linux.Options{Logger: o.Log})
	g.counters, g.closedLately = kernel.Counters, kernel.ClosedLately
	m := newTunnelMetrics(string(o.Gateway.Tenant.Remote), g.statusWithSetup, kernel.Counters)
	if err == nil {
		err = linux.CheckMachine()
	}
	if err != nil {
		g.unfit = err
		o.Log.Error("this machine can't be a gateway", "error", err)
	} else {
		recorder := new(ping.Recorder)
		g.tunnel = tunnel.New(tunnel.Config{
			Role: o.Role, PeerID: string(o.Gateway.Tenant.Remote), Log: o.Log, Kernel: kernel, Changed: g.wake, Pinged: m.pinged,
			Standby: standby, Recorder: recorder,
		})
		h := &historian{
			key:    client.ObjectKey{Namespace: o.Gateway.Tenant.Namespace, Name: wire.HistoryConfigMapName(o.Gateway.Name)},
			client: g.client, reader: g.reader, log: o.Log, standby: g.standby.Load, take: recorder.Take,
		}
		trim := runnable(func(ctx context.Context) error {
			return trimMemory(ctx, func() uint64 { p := g.tunnel.Status(time.Now()).Peer; return p.Received + p.Sent })
		})
		if err := errors.Join(mgr.Add(trim), mgr.Add(runnable(h.run)), mgr.Add(runnable(g.tunnel.Run)), mgr.Add(runnable(g.lookUp)), mgr.Add(serveInspect(g.tunnel))); err != nil {
			return err
		}
	}
	if err := metrics.Registry.Register(m); err != nil {
		return err
	}
	watched := []client.Object{&networkingv1beta1.Configuration{}, &networkingv1beta1.PublicKey{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Pod{}, g.kind()}
	if g.nodes, err = newNodes(ctx, mgr, config); err != nil {
		return err
	}
	sources := []source.Source{g.nodes}
	if o.Services != "" && g.tunnel != nil {
		if g.services, err = newExchange(ctx, mgr, config, g); err != nil {
			return err
		}
		sources = append(sources, g.services)
	}
	if err := oneRequest(mgr, tunnelController, g, watched, sources...); err != nil {
		return err
	}
	switch {
	case o.Shared:
		err = g.compete(mgr)
	case before != nil:
		err = g.succeed(mgr, before)
	}
	if err != nil {
		return err
	}
	if err := mgr.Add(runnable(g.report)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// status returns the tunnel's status. If the machine can't be a gateway, there is no tunnel, and the
// status contains only the reason.
func (g *gatewayAgent) status(now time.Time) tunnel.Status {
	if g.tunnel == nil {
		return tunnel.Status{Problem: g.unfit, Standby: g.standby.Load()}
	}
	return g.tunnel.Status(now)
}

// statusWithSetup returns the same as status, but if the tunnel could not be set up, the problem is that
// error.
func (g *gatewayAgent) statusWithSetup(now time.Time) tunnel.Status {
	s := g.status(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Problem = cmp.Or(g.setup.problem, s.Problem)
	return s
}

// tunnelController is the name of the controller that sets up the tunnel, and the name in its only
// request.
const tunnelController = "tunnel"

// runnable makes a function a Runnable of a manager.
type runnable func(context.Context) error

func (r runnable) Start(ctx context.Context) error { return r(ctx) }

// gatewayAgent sets up a tunnel as objects in the API server describe it, and writes reports about
// the tunnel into the Connection.
type gatewayAgent struct {
	options TunnelOptions
	client  client.Client
	reader  client.Reader // without a cache
	names   resolver
	nodes   *nodes
	tunnel  *tunnel.Tunnel // nil on a machine that can't be a gateway
	// counters reads the counters of the firewall.
	counters func() (map[string]linux.Counter, error)
	// closedLately reads the endpoints at which packets of the peer were dropped lately.
	closedLately func() ([]gateway.Endpoint, error)
	unfit        error // the reason that the machine can't be a gateway; nil if it can
	events       recorder.EventRecorder
	woken        chan struct{} // wakes the loop of report
	holds        atomic.Bool   // this pod holds the tunnel; used if the gateway has several pods
	standby      atomic.Bool   // another pod holds the tunnel, and reports
	services     *exchange     // nil if the gateways do not exchange Services

	reading   sync.Mutex         // allows one Reconcile at a time
	key       gateway.PrivateKey // the last key that was read
	endpoints []netip.AddrPort   // the last addresses to dial that were found

	mu    sync.Mutex
	setup setup
	past  past
}

// past is the last report of the process that held the tunnel before this one.
type past struct {
	report wire.Report
	value  networkingv1beta1.ConnectionStatusValue
	seen   netip.AddrPort // the source of the peer's last packet
	term   int            // the number of reads of past
}

// setup describes how far the tunnel is set up, for the report.
type setup struct {
	problem    error               // the reason that the tunnel could not be set up; nil if it could
	nodes      error               // the reason that the gateway does not know which node has which pods
	unfit      []gateway.UnfitNode // nodes whose reports can't be used
	resolve    error               // the reason that a name of the server has no address
	outdated   bool                // no name of the server has an address, so the gateway dials the last known addresses
	named      bool                // the server is given by a name, not only by addresses
	hasKey     bool                // the peer's public key is known
	endpoint   string
	port       uint16         // the server's port
	generation int64          // the generation of the GatewayServer or GatewayClient
	since      time.Time      // when the settings of this generation came into force
	allow      string         // where the peer's pods may open connections, see wire.Allow; "" before it was read
	also       []netip.Prefix // further ranges of the peer while its ranges change
}

// inForce reports whether the tunnel works with the settings of this generation. If not, the peer may
// still answer, because the tunnel works with earlier settings.
func (s setup) inForce() bool { return s.problem == nil && !s.outdated }

// follow sets s.since, and reports whether s has come into force after the setup last. An answer of
// the peer from before s.since says nothing about s.
func (s *setup) follow(last setup, now time.Time) (changed bool) {
	changed = s.generation != last.generation || s.inForce() && !last.inForce()
	s.since = last.since
	if changed {
		s.since = now
	}
	return changed
}

func (g *gatewayAgent) kind() client.Object {
	if g.options.Role == gateway.Server {
		return &networkingv1beta1.GatewayServer{}
	}
	return &networkingv1beta1.GatewayClient{}
}

func readKey(dir string) (gateway.PrivateKey, error) {
	raw, err := os.ReadFile(filepath.Join(dir, wire.SecretPrivateKey))
	if err != nil {
		return gateway.PrivateKey{}, fmt.Errorf("read the gateway's key: %w", err)
	}
	key, err := wgtypes.NewKey(raw)
	if err != nil {
		// This error is safe to log: it contains the length of the key, not the key.
		return gateway.PrivateKey{}, fmt.Errorf("read the gateway's key: %w", err)
	}
	return gateway.PrivateKey(key), nil
}

// remember reads the last report, which an earlier process has written. The report contains the
// peer's last address, so this process does not have to wait until the peer dials.
func (g *gatewayAgent) remember(ctx context.Context) error {
	var conn networkingv1beta1.Connection
	key := client.ObjectKey{Namespace: g.options.Gateway.Tenant.Namespace, Name: wire.GatewayObjectName(g.options.Gateway.Name)}
	if err := g.reader.Get(ctx, key, &conn); err != nil {
		return fmt.Errorf("read the Connection: %w", err)
	}
	report, ok, err := wire.ParseReport(conn.Annotations)
	if err != nil {
		g.options.Log.Warn("ignore the last report", "error", err)
		return nil
	}
	if !ok {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.past.report, g.past.value, g.past.term = report, conn.Status.Value, g.past.term+1
	// The client's last packet may have come from an IPv6 address. Gateways don't dial such
	// addresses, so the client has to dial again.
	if seen, err := netip.ParseAddrPort(report.Endpoint); err == nil && seen.Addr().Unmap().Is4() {
		g.past.seen = netip.AddrPortFrom(seen.Addr().Unmap(), seen.Port())
	}
	return nil
}

// Reconcile reads the objects, and sets up the tunnel as they describe it.
func (g *gatewayAgent) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	g.reading.Lock()
	defer g.reading.Unlock()
	w, s, err := g.read(ctx)
	switch {
	case g.unfit != nil:
		err = g.unfit
	case err == nil:
		for _, a := range w.Inputs.Peers[0].Also {
			s.also = append(s.also, a.Seen)
		}
		err = g.tunnel.Set(w)
		if g.services != nil {
			g.services.set(ctx, w.Inputs.Local.Pod, w.Inputs.Peers[0].Real.Pod)
		}
	}
	s.problem = err
	g.mu.Lock()
	changed := s.follow(g.setup, time.Now())
	g.setup = s
	g.mu.Unlock()
	if changed && g.tunnel != nil {
		g.tunnel.Ask()
	}
	g.wake()
	if g.unfit != nil {
		return ctrl.Result{}, nil // another attempt would fail, too
	}
	return ctrl.Result{}, err
}

func (g *gatewayAgent) wake() {
	select {
	case g.woken <- struct{}{}:
	default:
	}
}

const (
	// lookUpInterval is the interval at which a server's name is looked up again. While the server
	// does not answer, its address may have changed, so the interval is lookUpUnanswered.
	lookUpInterval   = 30 * time.Second
	lookUpUnanswered = time.Second
)

// lookUp looks up the server's name at intervals, and dials its new addresses, until ctx ends.
func (g *gatewayAgent) lookUp(ctx context.Context) error {
	timer := time.NewTimer(tunnel.UntilBeat(lookUpUnanswered))
	defer timer.Stop()
	var last time.Time
	var redials uint64
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return nil
		case now = <-timer.C:
			timer.Reset(tunnel.UntilBeat(lookUpUnanswered))
		}
		g.mu.Lock()
		named := g.setup.named
		g.mu.Unlock()
		dialled := g.tunnel.Status(now).Redials
		if !named || dialled == redials && now.Sub(last) < lookUpInterval {
			continue
		}
		last, redials = now, dialled
		_, _ = g.Reconcile(ctx, ctrl.Request{}) // the report contains an error
	}
}
