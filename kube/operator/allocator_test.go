package operator

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/ipam"
	"github.com/liqo-tui/liqo-tui/render"
)

// TestAllocationsNeverOverlapAndAreStable has peers come and go, the operator
// restart, and records of allocations get lost, in any order.
func TestAllocationsNeverOverlapAndAreStable(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := newAllocations(t)
			rnd := rand.New(rand.NewPCG(seed, 0))
			// Few ranges, so that they are often the same, or parts of one another.
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

// allocations is what the test knows of a cluster and its allocator.
type allocations struct {
	t         *testing.T
	cluster   client.Client
	allocator *allocator
	given     map[string]netip.Prefix
}

const ownPods, nodeIP = "10.244.0.0/16", "10.3.0.1"

func newAllocations(t *testing.T) *allocations {
	n := node("a", true, internal(nodeIP))
	m := &allocations{t: t, cluster: clusterWith(t, &n), given: map[string]netip.Prefix{}}
	m.restart()
	own := render.Network("liqo", "pod-cidr", render.NetworkPodCIDR, ownPods, 0)
	m.must(m.cluster.Create(t.Context(), own))
	m.must(m.allocator.fix(t.Context(), own))
	m.must(setNetworkCIDR(t.Context(), m.cluster, own, own.Spec.CIDR))
	return m
}

func (m *allocations) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// restart forgets what is only remembered. Allocations that were not recorded
// have been told to nobody, so they may change.
func (m *allocations) restart() {
	m.allocator = &allocator{cache: m.cluster, reader: m.cluster}
	maps.DeleteFunc(m.given, func(name string, _ netip.Prefix) bool { return m.network(name).Status.CIDR == "" })
}

func (m *allocations) network(name string) *ipamv1alpha1.Network {
	m.t.Helper()
	n := &ipamv1alpha1.Network{}
	m.must(m.cluster.Get(m.t.Context(), types.NamespacedName{Namespace: "tenant", Name: name}, n))
	return n
}

// give asks for the range of a peer, new or known. The record of it may get lost.
func (m *allocations) give(name, want string, recorded bool) {
	m.t.Helper()
	had, known := m.given[name]
	n := &ipamv1alpha1.Network{}
	if err := m.cluster.Get(m.t.Context(), types.NamespacedName{Namespace: "tenant", Name: name}, n); err != nil {
		n = render.Network("tenant", name, "", want, 0)
		m.must(m.cluster.Create(m.t.Context(), n))
	}
	got, err := m.allocator.assign(m.t.Context(), n)
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
		m.must(setNetworkCIDR(m.t.Context(), m.cluster, n, got))
	}
}

func (m *allocations) remove(name string) {
	m.t.Helper()
	key := types.NamespacedName{Namespace: "tenant", Name: name}
	m.must(client.IgnoreNotFound(m.cluster.Delete(m.t.Context(), &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})))
	m.must(m.allocator.release(m.t.Context(), key))
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
	m := newAllocations(t)
	// Of the four quarters of 10.0.0.0/8, the node is in the first, the pods in the last.
	m.give("first", "10.64.0.0/10", true)
	m.give("second", "10.64.0.0/10", true)
	third := render.Network("tenant", "third", "", "10.64.0.0/10", 0)
	m.must(m.cluster.Create(t.Context(), third))
	if got, err := m.allocator.assign(t.Context(), third); !errors.Is(err, ipam.ErrExhausted) {
		t.Fatalf("got %s (%v), want no free range", got, err)
	}
	m.remove("first")
	if got, err := m.allocator.assign(t.Context(), third); err != nil || got != "10.64.0.0/10" {
		t.Errorf("got %s (%v), want the range that was released", got, err)
	}
}
