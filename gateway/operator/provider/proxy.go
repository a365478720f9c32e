package provider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// A consumer may have no direct route to the provider's API server. Then it sends its requests through the
// tunnel to an HTTP proxy in the provider's operator. The proxy connects only to the API server. The TLS
// connection is between the consumer and the API server.

const (
	// proxyConnections limits the open connections, and proxyOfOne the connections of one address. A new
	// connection beyond a limit ends an older one of an address with many connections. Each connection
	// carries many requests.
	proxyConnections = 512
	proxyOfOne       = 32
	proxyTimeout     = 10 * time.Second // for the request to arrive, and for the API server to accept the connection
	// proxyIdle is the time without a byte after which a connection is closed. Kubernetes' clients test every
	// 30 s whether the other end still answers.
	proxyIdle = 5 * time.Minute
)

type proxy struct {
	apiServer string // host:port
	address   string // the address at which the proxy listens
}

// crowd is a listener with a limited number of connections. It accepts every new connection, because old ones
// may be unused, or may have broken unnoticed. To make room, it closes the connection with the longest idle
// time among the addresses with the most connections.
type crowd struct {
	net.Listener

	mu   sync.Mutex
	open map[*member]struct{}
}

type member struct {
	net.Conn

	in   *crowd
	from netip.Addr
	last atomic.Int64 // when the last byte has passed, in ns
}

func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	m := &member{Conn: conn, in: c}
	if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		m.from = at.Addr().Unmap()
	}
	m.last.Store(time.Now().UnixNano())
	if out := c.enter(m); out != nil {
		_ = out.Close()
	}
	return m, nil
}

// enter counts a new connection. out is the connection that has to be closed instead; nil if there is room.
func (c *crowd) enter(m *member) (out *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := map[netip.Addr]int{m.from: 1}
	for o := range c.open {
		count[o.from]++
	}
	most := 0
	for _, n := range count {
		most = max(most, n)
	}
	goes := func(*member) bool { return false }
	switch {
	case count[m.from] > proxyOfOne:
		goes = func(o *member) bool { return o.from == m.from }
	case len(c.open) >= proxyConnections:
		goes = func(o *member) bool { return count[o.from] == most }
	}
	for o := range c.open {
		if goes(o) && (out == nil || o.last.Load() < out.last.Load()) {
			out = o
		}
	}
	if c.open == nil {
		c.open = map[*member]struct{}{}
	}
	c.open[m] = struct{}{}
	delete(c.open, out)
	return out
}

func (m *member) moved(n int) {
	if n > 0 {
		m.last.Store(time.Now().UnixNano())
	}
}

func (m *member) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.moved(n)
	return n, err
}

func (m *member) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	m.moved(n)
	return n, err
}

func (m *member) Close() error {
	m.in.mu.Lock()
	delete(m.in.open, m)
	m.in.mu.Unlock()
	return m.Conn.Close()
}

// newProxy returns a proxy to the API server of config.
func newProxy(config *rest.Config, address string) (*proxy, error) {
	u, err := url.Parse(config.Host)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the API server's address %q: want a URL", config.Host)
	}
	p := &proxy{apiServer: u.Host, address: address}
	if u.Port() == "" {
		p.apiServer = net.JoinHostPort(u.Hostname(), "443")
	}
	return p, nil
}

func (p *proxy) Start(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.address)
	if err != nil {
		return fmt.Errorf("listen for peers of this cluster's API server: %w", err)
	}
	return p.serve(ctx, l)
}

func (p *proxy) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: p, ReadHeaderTimeout: proxyTimeout, IdleTimeout: proxyTimeout, MaxHeaderBytes: 4096, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(&crowd{Listener: l}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP connects a peer to the API server. It ignores the host in the request, because there is only one
// API server.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "this is a proxy to the API server: want CONNECT", http.StatusMethodNotAllowed)
		return
	}
	server, err := (&net.Dialer{Timeout: proxyTimeout}).DialContext(r.Context(), "tcp", p.apiServer)
	if err != nil {
		http.Error(w, "the API server does not answer", http.StatusBadGateway)
		return
	}
	defer server.Close()
	peer, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "want HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return
	}
	defer peer.Close()
	if _, err := io.WriteString(peer, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	join(r.Context(), peer, buffered.Reader, server, proxyIdle)
}

// join copies bytes both ways until one end closes, no byte has passed for the time idle, or ctx ends. Bytes
// that were already read from the peer come first.
func join(ctx context.Context, peer net.Conn, sent *bufio.Reader, server net.Conn, idle time.Duration) {
	done := make(chan struct{}, 2) //nolint:mnd // ways
	moved := make(chan struct{}, 1)
	pass := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, told{from, moved})
		done <- struct{}{}
	}
	go pass(server, sent)
	go pass(peer, server)
	for {
		select {
		case <-moved:
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-time.After(idle):
			return
		}
	}
}

// told is a reader that sends on moved after each read.
type told struct {
	io.Reader

	moved chan<- struct{}
}

func (t told) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	select {
	case t.moved <- struct{}{}:
	default:
	}
	return n, err
}

// proxyRoute publishes the proxy's address to peers: an IP resource with the address of the proxy's Service,
// as Liqo does. Gateways send its packets to the leading pod of the operator.
type proxyRoute struct {
	client client.Client
	reader client.Reader // not cached, because the cache contains only the Services of gateways
	home   string
}

func (r *proxyRoute) setup(mgr ctrl.Manager) error {
	key := client.ObjectKey{Namespace: r.home, Name: peering.ProxyIPName}
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return client.ObjectKeyFromObject(o) == key })
	first := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{NamespacedName: key})
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).Named("proxy").WithOptions(control.Workers(1)).For(&ipamv1alpha1.IP{}, builder.WithPredicates(ours)).WatchesRawSource(first).Complete(r)
}

// Reconcile creates the IP. An IP can't be changed: if the Service gets another address, the IP is deleted
// and created again.
func (r *proxyRoute) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var s corev1.Service
	if err := r.reader.Get(ctx, client.ObjectKey{Namespace: r.home, Name: wire.ProxyName}, &s); err != nil {
		return ctrl.Result{RequeueAfter: control.LastRetry}, client.IgnoreNotFound(err) // the Service is not watched
	}
	address := wire.ServiceIPv4(&s)
	if address == "" || s.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	want := &ipamv1alpha1.IP{
		TypeMeta:   metav1.TypeMeta{APIVersion: ipamv1alpha1.SchemeGroupVersion.String(), Kind: ipamv1alpha1.IPKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: peering.ProxyIPName, Labels: map[string]string{wire.LabelManagedBy: control.Manager}},
		Spec:       ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(address)},
	}
	want.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: s.Name, UID: s.UID, Controller: new(true)}}
	var live ipamv1alpha1.IP
	err := r.client.Get(ctx, client.ObjectKeyFromObject(want), &live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("read IP %s: %w", want.Name, err)
	case err == nil && !peering.IsProxy(&live):
		return ctrl.Result{}, nil // an admin has made it, for another proxy
	case err == nil && live.Spec.IP != want.Spec.IP:
		return ctrl.Result{}, control.Delete(ctx, r.client, &live) // the end of the deletion causes an event
	}
	_, err = control.Apply(ctx, r.client, want)
	return ctrl.Result{}, err
}
