package agent

import (
	"errors"
	"log/slog"
	"net/netip"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/render"
)

func TestANodeSaysItsNetworksOnceAndWhenTheyChange(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	pods := render.Network("liqo", "pod-cidr", render.NetworkPodCIDR, "10.244.0.0/16", 0)
	pods.Status.CIDR = pods.Spec.CIDR
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "of-a"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pods, node).Build()
	r := newReporter(FabricOptions{Namespace: "liqo", NodeIP: netip.MustParseAddr("192.0.2.1"), NodeName: "a", Log: slog.New(slog.DiscardHandler)}, c, c)
	var routes []netip.Prefix
	say := func(want string, all ...string) string {
		t.Helper()
		routes = nil
		for _, p := range all {
			routes = append(routes, netip.MustParsePrefix(p))
		}
		if err := r.report(t.Context()); err != nil {
			t.Fatal(err)
		}
		var said networkingv1beta1.InternalNode
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &said); err != nil {
			t.Fatal(err)
		}
		if got := said.Annotations[render.AnnotationNetworks]; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		if len(said.OwnerReferences) != 1 || said.OwnerReferences[0].UID != "of-a" {
			t.Errorf("owned by %v: it does not go with its node", said.OwnerReferences)
		}
		return said.ResourceVersion
	}
	r.routes = func() ([]netip.Prefix, error) { return routes, nil }
	first := say("10.0.0.0/24", "0.0.0.0/0", "10.0.0.0/24", "10.244.3.0/24")
	if again := say("10.0.0.0/24", "10.0.0.0/24", "10.244.4.0/24"); again != first {
		t.Error("it was written again, although nothing has changed")
	}
	say("10.0.0.0/24,172.20.0.0/14", "10.0.0.0/24", "172.20.0.0/14")
	r.routes = func() ([]netip.Prefix, error) { return nil, errors.New("busy") }
	if err := r.report(t.Context()); err == nil {
		t.Error("no error, although the routes are not known")
	}
}
