package operator

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// TestTwoHundredPeersAtOnce applies 200 peers' Configurations at once. Then it kills the operator while more
// are applied. Ranges that were given stay the same.
func TestTwoHundredPeersAtOnce(t *testing.T) {
	w := newWorld(t)
	operator := w.start()
	defer func() { _ = operator.kill(false) }()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: wire.OperatorName}}
	until(w, deployment, "working", says(wire.OperatorWorking, ""))
	const peers, more = 200, 20
	w.tenants(peers + more)
	start := time.Now()
	w.configure(0, peers)
	applied := time.Since(start)
	before := w.untilRemapped(peers)
	took := time.Since(start)
	t.Logf("%d Configurations applied in %s, all remapped %s after the first", peers, applied.Round(time.Millisecond), took.Round(time.Millisecond))
	if took > patience { // the goal is 5 s on an idle machine
		t.Errorf("it took %s", took)
	}
	w.configure(peers, peers+more)
	_ = operator.kill(true)
	operator = w.start()
	after := w.untilRemapped(peers + more)
	for peer, cidrs := range before {
		if fmt.Sprint(after[peer]) != fmt.Sprint(cidrs) {
			t.Errorf("%s had %v, and has %v after a restart", peer, cidrs, after[peer])
		}
	}
	taken := map[netip.Prefix]string{
		netip.MustParsePrefix("10.244.0.0/16"): "our pods", netip.MustParsePrefix("10.96.0.0/16"): "our Services", netip.MustParsePrefix("10.70.0.0/16"): "our external range",
	}
	for peer, cidrs := range after {
		for _, p := range cidrs {
			for other, whose := range taken {
				if p.Overlaps(other) {
					t.Fatalf("%s has %s, which overlaps %s, %s", peer, p, whose, other)
				}
			}
			taken[p] = peer
		}
	}
}

// remotePeer returns the ranges of a peer: equal to ours, inside of ours, or larger.
func remotePeer(i int) render.Networks {
	pods := [][]networkingv1beta1.CIDR{
		{"10.244.0.0/20"}, {"10.244.128.0/20"}, {"10.244.0.0/19", "10.123.0.0/20"}, {"10.96.0.0/20"}, {"100.64.0.0/20"},
	}
	return render.Networks{Pod: pods[i%len(pods)], External: []networkingv1beta1.CIDR{"10.70.0.0/20"}}
}

func nthPeer(i int) render.Tenant {
	id := wire.ClusterID(fmt.Sprintf("peer-%03d", i))
	return render.Tenant{Namespace: wire.TenantNamespaceName(id), Remote: id}
}

func (w *world) tenants(n int) {
	w.t.Helper()
	w.atOnce(0, n, func(i int) error { return w.Create(w.t.Context(), render.TenantNamespace(nthPeer(i))) })
}

func (w *world) configure(from, to int) {
	w.t.Helper()
	w.atOnce(from, to, func(i int) error { return w.Create(w.t.Context(), render.Configuration(nthPeer(i), remotePeer(i))) })
}

func (w *world) atOnce(from, to int, do func(int) error) {
	w.t.Helper()
	var g errgroup.Group
	g.SetLimit(10)
	for i := from; i < to; i++ {
		g.Go(func() error { return do(i) })
	}
	if err := g.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

// untilRemapped waits for n peers, and returns the ranges of each.
func (w *world) untilRemapped(n int) map[string][]netip.Prefix {
	w.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		var list networkingv1beta1.ConfigurationList
		if err := w.List(w.t.Context(), &list, client.HasLabels{wire.LabelRemoteCluster}); err != nil {
			w.t.Fatal(err)
		}
		got := map[string][]netip.Prefix{}
		for i := range list.Items {
			c := &list.Items[i]
			if !flows.CIDRsConfigured(c) {
				continue
			}
			for _, cidr := range append(c.Status.Remote.CIDR.Pod, c.Status.Remote.CIDR.External...) {
				got[c.Name] = append(got[c.Name], netip.MustParsePrefix(string(cidr)))
			}
		}
		if len(got) == n {
			return got
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d peers are remapped", len(got), n)
		}
		time.Sleep(100 * time.Millisecond) // because each list takes the API server 20 ms
	}
}
