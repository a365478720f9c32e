package lending_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/render"
)

// In testRoles, an admin with the roles of rbac --peering peers the clusters. The admin can't read the
// Secrets of other namespaces.
func (w *pair) testRoles(t *testing.T) {
	plan := func(f flows.Facts) flows.Plan {
		return peer.Plan(peer.Params{Slice: "false", ProxyURL: w.proxy}, nil, [2]string{}, f)
	}
	f, err := engine.Observe(t.Context(), w.rome.cluster(), w.milan.cluster(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	first := plan(f)
	var ada [2]*kube.Cluster
	for i, p := range []*plane{w.rome, w.milan} {
		side, other := flows.Side(i), []*plane{w.milan, w.rome}[i].id
		needs := slices.Concat(rights.ToObserve("liqo"), peer.ToObserve([2]string{}, f, side), rights.Needed(first, side))
		roles := rights.Roles("ada", needs)
		space := render.TenantNamespace(render.Tenant{Namespace: wire.TenantNamespaceName(other), Remote: other})
		for _, o := range append([]wire.Object{space}, roles...) {
			p.create(o)
			defer p.runDelete(t, o) // at the end, on both clusters
		}
		config, err := p.authority.AddUser(envtest.User{Name: "ada"}, p.config)
		if err != nil {
			t.Fatal(err)
		}
		ada[side] = p.clusterBy(config)
		p.hidesSecrets(t, config)
	}
	if changed, _ := runOn(t, flows.Planner(plan), ada[flows.A], ada[flows.B]); !changed {
		t.Error("the first run changed nothing")
	}
	if changed, _ := runOn(t, flows.Planner(plan), ada[flows.A], ada[flows.B]); changed {
		t.Error("the second run changed something")
	}
	w.run(t, peer.Removal{RemoveOptions: peer.RemoveOptions{}})
}

// hidesSecrets tests that this access can list only the Secrets of the one peer.
func (p *plane) hidesSecrets(t *testing.T, config *rest.Config) {
	t.Helper()
	ada, err := client.New(rest.CopyConfig(config), client.Options{Scheme: p.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []client.InNamespace{"", "liqo", "kube-system"} {
		if err := ada.List(t.Context(), &corev1.SecretList{}, in); !apierrors.IsForbidden(err) {
			t.Errorf("the Secrets of namespace %q on %s: got %v, want them forbidden", in, p.id, err)
		}
	}
}
