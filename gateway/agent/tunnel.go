package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/probe"
	"github.com/liqo-tui/liqo-tui/render"
)

// TunnelOptions of a gateway's pod.
type TunnelOptions struct {
	Gateway render.Gateway // without its Owner
	Role    gateway.Role
	KeysDir string // with the file privateKey: 32 raw bytes
	PodIP   netip.Addr
	Log     *slog.Logger
}

// RunTunnel keeps one end of a tunnel until ctx ends.
func RunTunnel(ctx context.Context, config *rest.Config, o TunnelOptions) error {
	if err := linux.CheckMachine(); err != nil {
		return err
	}
	key, err := readKey(o.KeysDir)
	if err != nil {
		return err
	}
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	mgr, err := newManager(config, cache.Options{
		DefaultNamespaces: map[string]cache.Config{o.Gateway.Tenant.Namespace: {}},
		ByObject:          map[client.Object]cache.ByObject{&corev1.ConfigMap{}: named(render.NodesConfigMapName(o.Gateway.Name))},
	})
	if err != nil {
		return err
	}
	kernel, err := linux.New(linux.Options{Logger: o.Log})
	if err != nil {
		return err
	}
	t := &tunnel{options: o, key: key, client: mgr.GetClient(), kernel: kernel, woken: make(chan struct{}, 1), up: make(chan struct{})}
	watched := []client.Object{&networkingv1beta1.Configuration{}, &networkingv1beta1.PublicKey{}, &corev1.ConfigMap{}, t.kind()}
	if err := oneRequest(mgr, "tunnel", t, watched...); err != nil {
		return err
	}
	if err := errors.Join(mgr.Add(runnable(t.ping)), mgr.Add(runnable(t.dial)), mgr.Add(runnable(t.report))); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

type runnable func(context.Context) error

func (r runnable) Start(ctx context.Context) error { return r(ctx) }

type tunnel struct {
	options TunnelOptions
	key     gateway.PrivateKey
	client  client.Client
	kernel  *linux.Kernel

	up     chan struct{} // closed when the tunnel's interface exists
	upOnce sync.Once
	woken  chan struct{} // the report may have something new to say

	mu    sync.Mutex
	setup setup
	pings probe.Status
}

// setup is how far the tunnel has been set up, for the report.
type setup struct {
	problem  error // why it isn't
	resolve  error // why the server's name has no address
	hasKey   bool  // the peer's public key is known
	endpoint string
	port     uint16 // where the server listens
	mtu      int
}

func (t *tunnel) kind() client.Object {
	if t.options.Role == gateway.Server {
		return &networkingv1beta1.GatewayServer{}
	}
	return &networkingv1beta1.GatewayClient{}
}

func readKey(dir string) (gateway.PrivateKey, error) {
	raw, err := os.ReadFile(filepath.Join(dir, render.SecretPrivateKey))
	if err != nil {
		return gateway.PrivateKey{}, fmt.Errorf("read the gateway's key: %w", err)
	}
	key, err := wgtypes.NewKey(raw)
	if err != nil {
		// The error of NewKey speaks of the length only.
		return gateway.PrivateKey{}, fmt.Errorf("read the gateway's key: %w", err)
	}
	return gateway.PrivateKey(key), nil
}

// Reconcile reads, computes, and brings the pod's network namespace there.
func (t *tunnel) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	in, s, err := t.read(ctx)
	if err == nil {
		err = t.sync(in)
	}
	s.problem = err
	t.mu.Lock()
	t.setup = s
	t.mu.Unlock()
	t.wake()
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: resync}, nil
}

func (t *tunnel) sync(in gateway.Inputs) error {
	state, err := gateway.Compute(in)
	if err != nil {
		return err
	}
	changes, err := t.kernel.Sync(state)
	for _, c := range changes {
		t.options.Log.Info("corrected", "change", c)
	}
	if err == nil {
		t.upOnce.Do(func() { close(t.up) })
	}
	return err
}

func (t *tunnel) wake() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// A client repeats its first handshake sooner than WireGuard, which waits 5 s
// after one that nobody answered (REKEY_TIMEOUT): it is often up before the
// server's pod. Repeating forgets the one before, so the waits grow, lest an
// answer from far away is always too late.
const (
	firstRedial = 250 * time.Millisecond
	lastRedial  = 4 * time.Second
)

// dial repeats the client's handshake until the first one is answered.
func (t *tunnel) dial(ctx context.Context) error {
	if t.options.Role != gateway.Client {
		return nil
	}
	timer := time.NewTimer(firstRedial)
	defer timer.Stop()
	for wait := firstRedial; ; timer.Reset(wait) {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		stats, err := t.kernel.Peer(gateway.TunnelName(0))
		switch {
		case err != nil || !stats.Endpoint.IsValid():
			continue // not set up yet
		case !stats.Handshake.IsZero():
			return nil
		}
		if err := t.kernel.Redial(gateway.TunnelName(0)); err != nil {
			t.options.Log.Error("repeat the handshake", "error", err)
		}
		wait = min(wait*2, lastRedial)
	}
}

// ping measures the tunnel from the moment it exists.
func (t *tunnel) ping(ctx context.Context) error {
	select {
	case <-t.up:
	case <-ctx.Done():
		return nil
	}
	return probe.Run(ctx, probe.Config{
		ListenAddr: netip.AddrPortFrom(gateway.TunnelAddr(t.options.Role, 0).Addr(), gateway.PingPort),
		PeerAddr:   netip.AddrPortFrom(gateway.PeerTunnelAddr(t.options.Role, 0).Addr(), gateway.PingPort),
		ClusterID:  string(t.options.Gateway.Tenant.Remote),
		OnChange: func(s probe.Status) {
			t.mu.Lock()
			changed := t.pings.Value != s.Value || t.pings.Latency == 0 && s.Latency > 0
			t.pings = s
			t.mu.Unlock()
			if changed {
				t.wake()
			}
		},
	})
}
