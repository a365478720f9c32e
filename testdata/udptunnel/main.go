//go:build linux

// Command udptunnel is a gateway that is not ours, for tests. It implements the kinds in
// examples/networking/another-kind/udp.yaml. One pod is the gateway of one UDPServer or
// UDPClient. Its tunnel is a TUN device. Packets travel unencrypted in UDP: every host
// that reaches the port can read and add packets.
//
// Only the tunnel is its own. Package gateway computes what the gateway has in common
// with the cluster's nodes, and how addresses are translated.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const (
	device = "udp-tunnel"
	// often is the interval of reads from the API, and of pings.
	often = 500 * time.Millisecond
	// silence is the time without an answer after which the peer counts as gone.
	silence = 3 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("ends", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	scheme, err := wire.Scheme()
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	kernel, err := linux.New(linux.Options{})
	if err != nil {
		return err
	}
	g := &tunnelGateway{api: api, kernel: kernel}
	for said := ""; ; {
		err := g.look(ctx)
		if text := fmt.Sprint(err); text != said {
			said = text
			slog.Info("looked", "problem", text)
		}
		select {
		case <-ctx.Done():
			return kernel.Remove()
		case <-time.After(often):
		}
	}
}

type tunnelGateway struct {
	api    client.Client
	kernel *linux.Kernel
	tunnel *tunnel // nil until the tunnel's parameters are known
	of     types.UID
}

// look applies the state in the API to the gateway, and reports the gateway's state
// there.
func (g *tunnelGateway) look(ctx context.Context) error {
	o, role, err := g.mine(ctx)
	if err != nil {
		return err
	}
	in, err := g.inputs(ctx, o, role)
	if err != nil {
		return err
	}
	if g.tunnel == nil {
		g.of = o.GetUID()
		if g.tunnel, err = open(in.Peers[0]); err != nil {
			return err
		}
	}
	if g.of != o.GetUID() {
		return errors.New("another gateway: this pod ends") // the Deployment starts the next pod
	}
	g.tunnel.dial(in.Peers[0].Endpoint)
	state, err := gateway.Compute(in)
	if err != nil {
		return err
	}
	if _, err := g.kernel.Sync(byOwnDevice(state)); err != nil {
		return err
	}
	return g.report(ctx, o, role, in)
}

// mine returns the only gateway.
func (g *tunnelGateway) mine(ctx context.Context) (*unstructured.Unstructured, gateway.Role, error) {
	for kind, role := range map[string]gateway.Role{"UDPServer": gateway.Server, "UDPClient": gateway.Client} {
		var list unstructured.UnstructuredList
		list.SetAPIVersion("tunnels.example/v1")
		list.SetKind(kind + "List")
		if err := g.api.List(ctx, &list); err != nil {
			return nil, 0, err
		}
		if len(list.Items) > 0 {
			return &list.Items[0], role, nil
		}
	}
	if g.tunnel != nil {
		os.Exit(0) // its state in the kernel ends with the pod
	}
	return nil, 0, errors.New("there is no UDPServer or UDPClient")
}

func (g *tunnelGateway) inputs(ctx context.Context, o *unstructured.Unstructured, role gateway.Role) (in gateway.Inputs, err error) {
	if in.PodIP, err = netip.ParseAddr(os.Getenv("POD_IP")); err != nil {
		return in, err
	}
	if in.NodeIP, err = netip.ParseAddr(os.Getenv("NODE_IP")); err != nil {
		return in, err
	}
	if in.UnderlayMTU, err = linux.MTUTo(in.NodeIP); err != nil {
		return in, err
	}
	port, _, _ := unstructured.NestedInt64(o.Object, "spec", "port")
	mtu, _, _ := unstructured.NestedInt64(o.Object, "spec", "mtu")
	// The key is not used, but must be valid.
	p := gateway.Peer{ClusterID: o.GetLabels()["tunnels.example/peer"], Role: role, MTU: int(mtu), PrivateKey: gateway.PrivateKey{1}}
	if role == gateway.Server {
		p.ListenPort = uint16(port)
	} else {
		address, _, _ := unstructured.NestedString(o.Object, "spec", "address")
		ip, err := netip.ParseAddr(address)
		if err != nil {
			return in, err
		}
		p.Endpoint = netip.AddrPortFrom(ip, uint16(port))
	}
	var confs networkingv1beta1.ConfigurationList
	if err := g.api.List(ctx, &confs, client.InNamespace(o.GetNamespace()), client.MatchingLabels{wire.LabelRemoteCluster: p.ClusterID}); err != nil {
		return in, err
	}
	if len(confs.Items) != 1 || confs.Items[0].Spec.Local == nil || confs.Items[0].Status.Remote == nil {
		return in, fmt.Errorf("%d Configurations of %s, or one that is not complete", len(confs.Items), p.ClusterID)
	}
	c := confs.Items[0]
	in.Local, p.Real, p.Remapped = cidrs(c.Spec.Local.CIDR), cidrs(c.Spec.Remote.CIDR), cidrs(c.Status.Remote.CIDR)
	in.Peers = []gateway.Peer{p}
	var nodes networkingv1beta1.InternalNodeList
	if err := g.api.List(ctx, &nodes); err != nil {
		return in, err
	}
	for i := range nodes.Items {
		r, err := wire.ParseNode(&nodes.Items[i])
		if err != nil {
			return in, err
		}
		in.Nodes = append(in.Nodes, gateway.Node{Name: nodes.Items[i].Name, IP: r.IP, Addresses: r.Addresses, Pods: r.Pods, MTU: r.MTU})
	}
	return in, nil
}

func cidrs(c networkingv1beta1.ClusterConfigCIDR) (out gateway.CIDRs) {
	for _, p := range c.Pod {
		out.Pod = append(out.Pod, netip.MustParsePrefix(string(p)))
	}
	for _, p := range c.External {
		out.External = append(out.External, netip.MustParsePrefix(string(p)))
	}
	return out
}

// byOwnDevice returns the state for a gateway whose tunnel is no WireGuard device.
func byOwnDevice(s gateway.KernelState) gateway.KernelState {
	own := func(name *string) {
		if *name == gateway.TunnelDevice {
			*name = device
		}
	}
	s.Tunnels = nil
	for i := range s.Settings {
		own(&s.Settings[i].Device)
	}
	for i := range s.Rules {
		own(&s.Rules[i].Input)
	}
	for i := range s.Routes {
		own(&s.Routes[i].Device)
	}
	for _, set := range s.Firewall.Sets {
		for i := range set.Elements {
			own(&set.Elements[i].Interface)
		}
	}
	return s
}

func (g *tunnelGateway) report(ctx context.Context, o *unstructured.Unstructured, role gateway.Role, in gateway.Inputs) error {
	status := map[string]any{"internalEndpoint": map[string]any{"ip": in.PodIP.String(), "node": os.Getenv("NODE_NAME")}}
	if role == gateway.Server {
		port, err := strconv.ParseInt(os.Getenv("NODE_PORT"), 10, 64)
		if err != nil {
			return err
		}
		status["endpoint"] = map[string]any{"addresses": []any{in.NodeIP.String()}, "port": port, "protocol": string(corev1.ProtocolUDP)}
	}
	before := o.DeepCopy()
	o.Object["status"] = status
	if err := g.api.Patch(ctx, o, client.MergeFrom(before)); err != nil {
		return err
	}
	var c networkingv1beta1.Connection
	if err := g.api.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: wire.GatewayObjectName(o.GetName())}, &c); err != nil {
		return err
	}
	old := c.DeepCopy()
	c.Status.Value = networkingv1beta1.Connecting
	if g.tunnel.answered() {
		c.Status.Value = networkingv1beta1.Connected
	}
	return g.api.Status().Patch(ctx, &c, client.MergeFrom(old))
}

// tunnel is a TUN device, and the socket for its packets. A datagram of one byte is a
// ping, or the answer to a ping. A packet is longer.
type tunnel struct {
	tun    *os.File
	socket *net.UDPConn

	mu    sync.Mutex
	peer  netip.AddrPort // zero: not known yet
	heard time.Time
}

const ping, pong = 1, 2

func open(p gateway.Peer) (*tunnel, error) {
	const node = "/dev/net/tun"
	if err := os.MkdirAll("/dev/net", 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(10, 200))); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make %s: %w", node, err)
	}
	fd, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", node, err)
	}
	request, err := unix.NewIfreq(device)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, fmt.Errorf("make device %s: %w", device, err)
	}
	link, err := netlink.LinkByName(device)
	if err != nil {
		return nil, err
	}
	address := gateway.TunnelAddr(p.Role, p.Index)
	err = errors.Join(
		netlink.LinkSetMTU(link, p.MTU),
		netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), 32)}}),
		netlink.LinkSetUp(link),
	)
	if err != nil {
		return nil, err
	}
	t := &tunnel{tun: os.NewFile(uintptr(fd), node)}
	if t.socket, err = net.ListenUDP("udp4", &net.UDPAddr{Port: int(p.ListenPort)}); err != nil {
		return nil, err
	}
	go t.out()
	go t.in()
	go func() {
		for range time.Tick(often) {
			t.send([]byte{ping})
		}
	}()
	return t, nil
}

// dial sets the peer's address on a client. A server sends to the address of the last
// datagram.
func (t *tunnel) dial(to netip.AddrPort) {
	if !to.IsValid() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peer = to
}

func (t *tunnel) answered() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.heard) < silence
}

func (t *tunnel) send(packet []byte) {
	t.mu.Lock()
	to := t.peer
	t.mu.Unlock()
	if to.IsValid() {
		_, _ = t.socket.WriteToUDPAddrPort(packet, to) // lost packets are normal
	}
}

func (t *tunnel) out() {
	packet := make([]byte, 1<<16)
	for {
		n, err := t.tun.Read(packet)
		if err != nil {
			slog.Error("read the device", "error", err)
			os.Exit(1)
		}
		t.send(packet[:n])
	}
}

func (t *tunnel) in() {
	packet := make([]byte, 1<<16)
	for {
		n, from, err := t.socket.ReadFromUDPAddrPort(packet)
		if err != nil {
			slog.Error("read the socket", "error", err)
			os.Exit(1)
		}
		t.mu.Lock()
		t.peer = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if slices.Equal(packet[:n], []byte{pong}) {
			t.heard = time.Now()
		}
		t.mu.Unlock()
		switch {
		case n > 1:
			_, _ = t.tun.Write(packet[:n]) // a packet that the kernel refuses is lost
		case slices.Equal(packet[:n], []byte{ping}):
			t.send([]byte{pong})
		}
	}
}
