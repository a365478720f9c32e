package ranges

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// In TestAllocationsNeverOverlapAndAreStable, peers come and go, the operator restarts, and records of
// allocations get lost, in any order.
func TestAllocationsNeverOverlapAndAreStable(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newAllocations(t, ipam.DefaultPools()...)
			rnd := rand.New(rand.NewPCG(seed, 0))
			// The ranges are few, so that they are often equal, or parts of each other.
			ranges := []string{"10.244.0.0/16", "10.0.0.0/16", "10.0.0.0/12", "10.96.0.0/16", "10.70.0.0/16", "192.168.7.0/24", "172.16.0.0/14", "100.64.0.0/16", "10.1.128.0/17"}
			for step := range 150 {
				name := fmt.Sprintf("peer-%d", rnd.IntN(20))
				switch action := rnd.IntN(10); {
				case action < 6:
					m.give(name, ranges[rnd.IntN(len(ranges))], rnd.IntN(4) > 0)
				case action < 9:
					m.remove(name)
				default:
					m.restart()
				}
				m.check(step)
			}
		})
	}
}

// allocations is the test's knowledge of a cluster and its allocator.
type allocations struct {
	t         *testing.T
	cluster   client.Client
	allocator *Allocator
	pools     []netip.Prefix
	names     map[string]netip.Addr
	given     map[string]netip.Prefix
}

const ownPods, nodeIP = "10.244.0.0/16", "10.3.0.1"

func newAllocations(t *testing.T, pools ...netip.Prefix) *allocations {
	n := node("a", true, internal(nodeIP))
	m := &allocations{t: t, cluster: clusterWith(t, &n), pools: pools, given: map[string]netip.Prefix{}}
	m.restart()
	own := render.Network("liqo", "pod-cidr", wire.NetworkPodCIDR, ownPods, 0)
	m.must(m.cluster.Create(t.Context(), own))
	m.must(m.allocator.Fix(t.Context(), own))
	m.must(Record(t.Context(), m.cluster, own, own.Spec.CIDR))
	return m
}

func (m *allocations) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// restart forgets everything in memory. Allocations without a record may change, because nobody knows them.
func (m *allocations) restart() {
	m.allocator = &Allocator{
		reader: m.cluster, pools: m.pools,
		surroundings: NewSurroundings(m.cluster, m.cluster, &rest.Config{Host: "https://10.8.0.8:6443"}),
	}
	m.allocator.surroundings.lookUp = func(_ context.Context, _, name string) ([]netip.Addr, error) {
		if a, ok := m.names[name]; ok {
			return []netip.Addr{a}, nil
		}
		return nil, errors.New("no such host")
	}
	maps.DeleteFunc(m.given, func(name string, _ netip.Prefix) bool { return m.network(name).Status.CIDR == "" })
}

func (m *allocations) network(name string) *ipamv1alpha1.Network {
	m.t.Helper()
	n := &ipamv1alpha1.Network{}
	m.must(m.cluster.Get(m.t.Context(), types.NamespacedName{Namespace: "tenant", Name: name}, n))
	return n
}

// give requests the range of a peer, new or known. Its record may get lost.
func (m *allocations) give(name, want string, recorded bool) {
	m.t.Helper()
	had, known := m.given[name]
	n := &ipamv1alpha1.Network{}
	if err := m.cluster.Get(m.t.Context(), types.NamespacedName{Namespace: "tenant", Name: name}, n); err != nil {
		n = render.Network("tenant", name, "", want, 0)
		n.Labels[wire.LabelRemoteCluster] = name
		m.must(m.cluster.Create(m.t.Context(), n))
	}
	got, err := m.allocator.Assign(m.t.Context(), n)
	m.must(err)
	p := netip.MustParsePrefix(string(got))
	if known && p != had {
		m.t.Fatalf("%s had %s, and has %s now", name, had, p)
	}
	if asked := netip.MustParsePrefix(string(n.Spec.CIDR)); p.Bits() != asked.Bits() {
		m.t.Fatalf("%s asked for %s and got %s: host bits are lost", name, asked, p)
	}
	m.given[name] = p
	if recorded {
		m.must(Record(m.t.Context(), m.cluster, n, got))
	}
}

func (m *allocations) remove(name string) {
	m.t.Helper()
	key := types.NamespacedName{Namespace: "tenant", Name: name}
	m.must(client.IgnoreNotFound(m.cluster.Delete(m.t.Context(), &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})))
	m.must(m.allocator.Release(m.t.Context(), key))
	delete(m.given, name)
}

func (m *allocations) check(step int) {
	m.t.Helper()
	all := map[string]netip.Prefix{"our pods": netip.MustParsePrefix(ownPods), "a node": netip.MustParsePrefix(nodeIP + "/32")}
	for _, name := range slices.Sorted(maps.Keys(m.given)) {
		for other, p := range all {
			if p.Overlaps(m.given[name]) {
				m.t.Fatalf("step %d: %s has %s, which overlaps %s, %s", step, name, m.given[name], other, p)
			}
		}
		all[name] = m.given[name]
	}
}

func TestReleasedRangesAreGivenAgain(t *testing.T) {
	m := newAllocations(t, netip.MustParsePrefix("10.0.0.0/8"))
	// Of the four quarters of 10.0.0.0/8, the node is in the first, and the pods are in the last.
	m.give("first", "10.64.0.0/10", true)
	m.give("second", "10.64.0.0/10", true)
	third := render.Network("tenant", "third", "", "10.64.0.0/10", 0)
	m.must(m.cluster.Create(t.Context(), third))
	if got, err := m.allocator.Assign(t.Context(), third); !errors.Is(err, ipam.ErrExhausted) {
		t.Fatalf("got %s (%v), want no free range", got, err)
	}
	m.remove("first")
	if got, err := m.allocator.Assign(t.Context(), third); err != nil || got != "10.64.0.0/10" {
		t.Errorf("got %s (%v), want the range that was released", got, err)
	}
}

// A range with an address that the cluster needs would disconnect the cluster, because its nodes would send
// packets for this address to a gateway.
func TestNoRangeOfAPeerCutsTheClusterOff(t *testing.T) {
	ten := netip.MustParsePrefix("10.0.0.0/8")
	m := newAllocations(t, ten)
	m.names = map[string]netip.Addr{"gateway.milan.example": netip.MustParseAddr("10.7.0.7")}
	needed := map[string]string{
		nodeIP: "a node", "10.3.0.254": "the router of a node", "10.8.0.8": "the API server of the operator's kubeconfig",
		"10.7.0.7": "a peer's endpoint, by name",
	}
	need := func(address, what string) string {
		needed[address] = what
		return address
	}
	meta := metav1.ObjectMeta{Namespace: "tenant", Name: "milan"}
	need("10.20.0.1", "a router of a LAN")
	elsewhere := node("b", true, internal("192.168.1.5"), corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: need("10.11.0.1", "a node's external address")})
	dns := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns", Labels: map[string]string{"k8s-app": "kube-dns"}},
		Spec:       corev1.ServiceSpec{ClusterIPs: []string{need("10.12.0.10", "cluster DNS")}},
	}
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.ServiceSpec{ExternalIPs: []string{need("10.13.0.1", "an external IP")}, ClusterIPs: []string{"None"}},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
			Ingress: []corev1.LoadBalancerIngress{{IP: need("10.14.0.1", "a load balancer")}, {Hostname: "lb.example"}},
		}},
	}
	gone := node("gone", true)
	for _, o := range []client.Object{
		&elsewhere, dns, web,
		wire.InternalNode(&elsewhere, wire.NodeReport{IP: netip.MustParseAddr("192.168.1.5"), Networks: []netip.Prefix{
			netip.MustParsePrefix("10.20.0.0/17"), netip.MustParsePrefix("0.0.0.0/1"),
		}, Nameservers: []netip.Addr{netip.MustParseAddr(need("10.22.0.2", "a DNS server of a node"))}}),
		wire.InternalNode(&gone, wire.NodeReport{IP: netip.MustParseAddr("192.168.1.6"), Networks: []netip.Prefix{netip.MustParsePrefix("10.21.0.0/16")}}),
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{need("10.0.0.1", "an API server")}}},
		},
		&networkingv1beta1.GatewayClient{ObjectMeta: meta, Spec: networkingv1beta1.GatewayClientSpec{
			Endpoint: networkingv1beta1.EndpointStatus{Addresses: []string{need("10.1.0.2", "a peer's endpoint"), "gateway.milan.example", "gone.example"}},
		}},
		&networkingv1beta1.GatewayServer{ObjectMeta: meta, Status: networkingv1beta1.GatewayServerStatus{
			Endpoint: &networkingv1beta1.EndpointStatus{Addresses: []string{need("10.2.0.2", "an endpoint of ours")}},
		}},
	} {
		m.must(m.cluster.Create(t.Context(), o))
	}
	// All ranges are requested until none is left, some by name.
	var err error
	for i := 0; err == nil; i++ {
		n := render.Network("tenant", fmt.Sprint("peer-", i), "", fmt.Sprintf("10.%d.0.0/16", i%256), 0)
		m.must(m.cluster.Create(t.Context(), n))
		var got networkingv1beta1.CIDR
		if got, err = m.allocator.Assign(t.Context(), n); err == nil {
			m.given[n.Name] = netip.MustParsePrefix(string(got))
		}
	}
	if !errors.Is(err, ipam.ErrExhausted) {
		t.Fatal(err)
	}
	for address, what := range needed {
		for _, p := range m.given {
			if p.Contains(netip.MustParseAddr(address)) {
				t.Errorf("a peer was given %s, which holds %s, %s", p, address, what)
			}
		}
	}
	// The ranges above are not free (two of them are neighbours), nor is the range of the pods.
	if want := 256 - len(needed) + 1 - 1; len(m.given) != want {
		t.Errorf("%d peers were given a range, want %d: nothing else is taken", len(m.given), want)
	}
}

func TestAPeerThatOverlapsIsSeenWhereNobodyIs(t *testing.T) {
	m := newAllocations(t, ipam.DefaultPools()...)
	m.give("milan", ownPods, true)
	if p := m.given["milan"]; !ipam.Contains(netip.MustParsePrefix("240.0.0.0/4"), p) {
		t.Errorf("milan's pods were given %s, where there may be a LAN or a VPC", p)
	}
	m.give("turin", "10.55.0.0/16", true)
	if p := m.given["turin"]; p.String() != "10.55.0.0/16" {
		t.Errorf("turin's pods were given %s, want them as they are: nothing overlaps them", p)
	}
	milan := m.given["milan"]
	m.remove("milan")
	m.give("rimini", ownPods, true)
	m.give("milan", ownPods, true)
	if p := m.given["milan"]; p != milan {
		t.Errorf("milan's pods were given %s, and %s when it was connected again", milan, p)
	}
}

func clusterWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&ipamv1alpha1.Network{}).Build()
}

func node(name string, isReady bool, addresses ...corev1.NodeAddress) corev1.Node {
	status := corev1.ConditionFalse
	if isReady {
		status = corev1.ConditionTrue
	}
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Addresses: addresses, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}},
	}}
}

func internal(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
}
