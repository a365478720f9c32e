package agent

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// world contains all objects that a gateway reads. Tests damage them.
type world struct {
	server *networkingv1beta1.GatewayServer
	conf   *networkingv1beta1.Configuration
	keys   []*networkingv1beta1.PublicKey
	secret *corev1.Secret
}

func tenantMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name, Labels: map[string]string{wire.LabelRemoteCluster: "rome"}}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	public := key.PublicKey()
	cidrs := networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	seen := networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.60.0.0/16"}, External: []networkingv1beta1.CIDR{"10.71.0.0/16"}}
	w := &world{
		server: &networkingv1beta1.GatewayServer{ObjectMeta: tenantMeta("rome")},
		conf:   &networkingv1beta1.Configuration{ObjectMeta: tenantMeta("rome")},
		keys:   []*networkingv1beta1.PublicKey{{ObjectMeta: tenantMeta("rome"), Spec: networkingv1beta1.PublicKeySpec{PublicKey: public[:]}}},
		secret: &corev1.Secret{ObjectMeta: tenantMeta(wire.GatewayObjectName("rome")), Data: map[string][]byte{wire.SecretPrivateKey: key[:]}},
	}
	w.server.Spec.MTU, w.server.Spec.Endpoint.Port = 1340, 51840
	w.conf.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: cidrs}
	w.conf.Spec.Remote.CIDR = cidrs
	w.conf.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: seen}
	return w
}

// agent returns a gateway's agent with the present objects of the world.
func (w *world) agent(t *testing.T, log *bytes.Buffer) *gatewayAgent {
	t.Helper()
	g := render.Gateway{Tenant: render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}, Name: "rome", Type: networkingv1beta1.ConnectionTypeServer, Owner: w.server}
	hosts, err := g.HostsConfigMap(nil)
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{w.server, hosts}
	if w.conf != nil {
		objects = append(objects, w.conf)
	}
	if w.secret != nil {
		objects = append(objects, w.secret)
	}
	for _, k := range w.keys {
		objects = append(objects, k)
	}
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	g.Owner = nil
	return &gatewayAgent{
		options: TunnelOptions{Gateway: g, Role: gateway.Server, PodIP: netip.MustParseAddr("10.244.1.5"), NodeIP: netip.MustParseAddr("192.0.2.1"), Log: slog.New(slog.NewTextHandler(log, nil))},
		client:  fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		nodes:   &nodes{read: func() bool { return true }},
		key:     gateway.PrivateKey{0: 8, 1: 77, 31: 64}, // as read at the start
	}
}

// readIn returns the inputs that the agent reads. It skips the test on a machine without a default route,
// such as some sandboxes, because it can't be a gateway.
func readIn(t *testing.T, w *world, log *bytes.Buffer) (gateway.Peer, setup, error) {
	t.Helper()
	wanted, s, err := w.agent(t, log).read(t.Context())
	if errors.Is(err, unix.ENETUNREACH) {
		t.Skip("needs a default route: ", err)
	}
	if err != nil {
		return gateway.Peer{}, s, err
	}
	return wanted.Inputs.Peers[0], s, nil
}

func TestInputsAreRead(t *testing.T) {
	w := newWorld(t)
	peer, s, err := readIn(t, w, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(peer.PublicKey[:], w.keys[0].Spec.PublicKey) || !bytes.Equal(peer.PrivateKey[:], w.secret.Data[wire.SecretPrivateKey]) ||
		peer.ListenPort != 51840 || peer.MTU != 1340 || peer.Remapped.Pod[0].String() != "10.60.0.0/16" || !s.hasKey {
		t.Errorf("got %+v, %+v", peer, s)
	}
}

// The node lists its IPv6 address first, and Kubernetes gives this address to its pods.
func TestNodesIPv4AddressIsFound(t *testing.T) {
	g := newWorld(t).agent(t, &bytes.Buffer{})
	g.options.NodeIP, g.options.NodeName = netip.MustParseAddr("fd00::11"), "node-a"
	g.nodes.known = map[string]gateway.Node{"node-a": {Name: "node-a", IP: netip.MustParseAddr("192.0.2.1")}}
	wanted, _, err := g.read(t.Context())
	if errors.Is(err, unix.ENETUNREACH) {
		t.Skip("needs a default route: ", err)
	}
	if err != nil || wanted.Inputs.NodeIP != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("got %s, %v, want 192.0.2.1", wanted.Inputs.NodeIP, err)
	}
}

// If the wanted MTU is larger than any network allows, the gateways begin with the default MTU, and find the
// MTU.
func TestLargestMTUIsNotSentUnproven(t *testing.T) {
	for mtu, unproven := range map[int]int{wire.MaxMTU: wire.DefaultMTU, 1420: 0} {
		w := newWorld(t)
		w.server.Spec.MTU = mtu
		if peer, _, err := readIn(t, w, &bytes.Buffer{}); err != nil || peer.MTU != mtu || peer.UnprovenMTU != unproven {
			t.Errorf("MTU %d: got %d and %d, %v, want %d", mtu, peer.MTU, peer.UnprovenMTU, err, unproven)
		}
	}
}

// While a peer is renumbered, its Configuration names both ranges.
func TestAlsoRangesOfAPeerAreRead(t *testing.T) {
	w := newWorld(t)
	w.conf.Annotations = map[string]string{wire.AnnotationAlso: "10.60.0.0/16=10.244.0.0/16,240.5.0.0/16=10.244.0.0/16"}
	peer, _, err := readIn(t, w, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	was, is, next := netip.MustParsePrefix("10.60.0.0/16"), netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("240.5.0.0/16")
	if want := []gateway.Alias{{Seen: was, Real: is}, {Seen: next, Real: is}}; !slices.Equal(peer.Also, want) {
		t.Errorf("got %v, want %v", peer.Also, want)
	}
}

func TestBadInputIsNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(*world)
		says   string
	}{
		{"a public key of the wrong length", func(w *world) { w.keys[0].Spec.PublicKey = []byte("short") }, "PublicKey rome"},
		{"two keys of one peer", func(w *world) {
			second := w.keys[0].DeepCopy()
			second.Name = "other"
			w.keys = append(w.keys, second)
		}, "PublicKeys other and rome are both labelled as the key of rome"},
		{"a next key that is none", func(w *world) {
			w.keys[0].Annotations = map[string]string{wire.AnnotationNextPublicKey: "nonsense"}
		}, wire.AnnotationNextPublicKey},
		{"no Configuration", func(w *world) { w.conf = nil }, "waiting for a Configuration"},
		{"another range that is none", func(w *world) {
			w.conf.Annotations = map[string]string{wire.AnnotationAlso: "240.5.0.0/16=pods"}
		}, wire.AnnotationAlso},
		{"a CIDR that is none", func(w *world) { w.conf.Status.Remote.CIDR.Pod[0] = "10.60.0.0/33" }, "pod CIDRs of the peer as seen from here"},
	} {
		w := newWorld(t)
		c.damage(w)
		if _, _, err := readIn(t, w, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want it to say %q", c.name, err, c.says)
		}
	}
}

// The gateway follows a server's name to other addresses. While the name has no address, the gateway keeps
// the last one, because the tunnel may work.
func TestServerIsFollowedByItsName(t *testing.T) {
	w := newWorld(t)
	agent := w.agent(t, &bytes.Buffer{})
	agent.options.Role = gateway.Client
	object := &networkingv1beta1.GatewayClient{ObjectMeta: tenantMeta("rome")}
	object.Spec.Endpoint.Addresses, object.Spec.Endpoint.Port = []string{"gw.example"}, 31840
	object.Spec.MTU = 1340
	if err := agent.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		dns  names
		want string
		says string
	}{
		{"nothing yet", names{}, "invalid AddrPort", "no such host"},
		{"one address", names{"gw.example": {"192.0.2.1"}}, "192.0.2.1:31840", ""},
		{"gone", names{}, "192.0.2.1:31840", "no such host"},
		{"another one", names{"gw.example": {"192.0.2.2"}}, "192.0.2.2:31840", ""},
		{"two", names{"gw.example": {"192.0.2.9", "192.0.2.3"}}, "192.0.2.3:31840", ""},
	} {
		agent.names = c.dns
		var peer gateway.Peer
		var s setup
		if _, err := agent.readGateway(t.Context(), &peer, &s); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if peer.Endpoint.String() != c.want || !s.named {
			t.Errorf("%s: got %s, named %v; want %s", c.name, peer.Endpoint, s.named, c.want)
		}
		if (s.resolve != nil) != (c.says != "") || s.resolve != nil && !strings.Contains(s.resolve.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", c.name, s.resolve, c.says)
		}
		if s.inForce() != (c.says == "") {
			t.Errorf("%s: in force: %v", c.name, s.inForce())
		}
	}
}

// A server that nobody can dial dials a relay, at the port for its client.
func TestServerDialsItsRelay(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "invalid AddrPort",
		"192.0.2.7:4242":           "192.0.2.7:4243",
		"relay.example.org:4242":   "192.0.2.8:4243",
		"relay.example.org":        "missing port in address",
		"relay.example.org:65535":  "want a port from 1 to 65534",
		"nowhere.example.org:4242": "invalid AddrPort",
	} {
		w := newWorld(t)
		w.server.Annotations = map[string]string{wire.AnnotationRelay: text}
		agent := w.agent(t, &bytes.Buffer{})
		agent.names = names{"relay.example.org": {"192.0.2.8"}}
		var peer gateway.Peer
		var s setup
		endpoints, err := agent.readGateway(t.Context(), &peer, &s)
		if got := fmt.Sprint(peer.Endpoint, err); !strings.Contains(got, want) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
		if len(endpoints) > 0 != peer.Endpoint.IsValid() || s.named != strings.Contains(text, "org:4242") {
			t.Errorf("%q: got %v, named %t", text, endpoints, s.named)
		}
		if unknown := s.resolve != nil; unknown != strings.HasPrefix(text, "nowhere") {
			t.Errorf("%q: got %v", text, s.resolve)
		}
	}
}

// A gateway on an unfit machine does not end, and its Connection shows the reason.
func TestUnfitMachineIsReported(t *testing.T) {
	w := newWorld(t)
	agent := w.agent(t, &bytes.Buffer{})
	agent.unfit, agent.woken = fmt.Errorf("%w: kernel 4.19.0 is older than 5.10", linux.ErrMachine), make(chan struct{}, 1)
	if _, err := agent.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Errorf("got %v, want no retry: nothing that changes would help", err)
	}
	value, r := reportOf(time.Now(), gateway.Server, agent.setup, tunnel.Status{})
	if value == networkingv1beta1.Connected || r.Reason != wire.ReasonMisconfigured || !strings.Contains(r.Message, "kernel 4.19.0 is older than 5.10") {
		t.Errorf("got %s, %s: %q", value, r.Reason, r.Message)
	}
}

// Contradictory lists of CIDRs and unsupported addresses are refused before the kernel is changed.
func TestInputThatNoStateCanSatisfyIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(*networkingv1beta1.Configuration)
		want   error
	}{
		{"the peer's CIDRs overlap each other", func(conf *networkingv1beta1.Configuration) {
			conf.Spec.Remote.CIDR.External[0] = "10.244.0.0/16"
		}, gateway.ErrOverlap},
		{"the peer is seen under our own pods' addresses", func(conf *networkingv1beta1.Configuration) {
			conf.Status.Remote.CIDR.Pod[0] = "10.244.0.0/16"
		}, gateway.ErrOverlap},
		{"IPv6", func(conf *networkingv1beta1.Configuration) {
			conf.Spec.Remote.CIDR.Pod[0], conf.Status.Remote.CIDR.Pod[0] = "fd00::/64", "fd01::/64"
		}, gateway.ErrIPv6},
	} {
		w := newWorld(t)
		c.damage(w.conf)
		wanted, _, err := w.agent(t, &bytes.Buffer{}).read(t.Context())
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("needs a default route: ", err)
		}
		if err == nil {
			_, err = gateway.Compute(wanted.Inputs)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

// Without its Secret, the tunnel works with the key that it had.
func TestSecretThatIsGoneOrDamagedLeavesTheKey(t *testing.T) {
	for name, damage := range map[string]func(*world){
		"gone":    func(w *world) { w.secret = nil },
		"damaged": func(w *world) { w.secret.Data[wire.SecretPrivateKey] = []byte("half a key") },
		"empty":   func(w *world) { w.secret.Data = nil },
	} {
		w := newWorld(t)
		damage(w)
		var log bytes.Buffer
		peer, _, err := readIn(t, w, &log)
		if err != nil || peer.PrivateKey != (gateway.PrivateKey{0: 8, 1: 77, 31: 64}) {
			t.Errorf("%s: got %v, public key %s", name, err, peer.PrivateKey.Public())
		}
		if strings.Contains(log.String(), "half a key") {
			t.Errorf("%s: the Secret's content is in the log: %s", name, log.String())
		}
	}
}

// A peer that may reach nothing else still reaches the pods of a test while they run.
func TestWhatIsOpenToAPeerIsRead(t *testing.T) {
	pod := func(name, ip string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name, Labels: render.ProbeLabels("rome")}}
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		change(p)
		return p
	}
	pods := []*corev1.Pod{
		pod("of-the-test", "10.244.1.9", func(*corev1.Pod) {}),
		pod("ended", "10.244.1.10", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("of-the-host", "10.244.1.11", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		pod("elsewhere", "192.0.2.7", func(*corev1.Pod) {}),
		pod("of-another-peer", "10.244.1.12", func(p *corev1.Pod) { p.Labels = render.ProbeLabels("oslo") }),
		pod("of-somebody", "10.244.1.13", func(p *corev1.Pod) { p.Labels = nil }),
		pod("in-another-namespace", "10.244.1.14", func(p *corev1.Pod) { p.Namespace = "default" }),
	}
	at := netip.MustParseAddr("10.244.1.9")
	tested := []gateway.Endpoint{{Addr: at, Protocol: gateway.TCP, Port: render.ProbePort}, {Addr: at, Protocol: gateway.UDP, Port: render.ProbePort}}
	for asked, closed := range map[string]bool{"": false, "all": false, "exported": true, "none": true} {
		w := newWorld(t)
		if asked != "" {
			w.server.Annotations = map[string]string{wire.AnnotationAllow: asked}
		}
		g := w.agent(t, &bytes.Buffer{})
		for _, p := range pods {
			if err := g.client.Create(t.Context(), p.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		wanted, s, err := g.read(t.Context())
		if errors.Is(err, unix.ENETUNREACH) {
			t.Skip("needs a default route: ", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		var want []gateway.Endpoint
		if closed {
			want = tested
		}
		if p := wanted.Inputs.Peers[0]; p.Closed != closed || !slices.Equal(p.Open, want) || s.allow != cmp.Or(asked, "all") {
			t.Errorf("%q: got closed %t, open %v, reported %q", asked, p.Closed, p.Open, s.allow)
		}
	}
	w := newWorld(t)
	w.server.Annotations = map[string]string{wire.AnnotationAllow: "some"}
	if _, s, err := readIn(t, w, &bytes.Buffer{}); err == nil || s.allow != "" {
		t.Errorf("an unknown value: got %v, reported %q, want an error and no claim", err, s.allow)
	}
}
