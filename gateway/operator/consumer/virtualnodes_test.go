package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// After a restart, virtual nodes are read once, for any number of them. Only their programs have the rights
// to report on Nodes, also after a failed write.
func TestVirtualNodesAreListedOnce(t *testing.T) {
	const most = 40
	node := func(i int) client.ObjectKey {
		return client.ObjectKey{Namespace: fmt.Sprint("liqo-tenant-", i), Name: fmt.Sprintf("node-%02d", i)}
	}
	var objects []client.Object
	for i := range most {
		o := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: node(i).Namespace, Name: node(i).Name, Labels: map[string]string{wire.LabelManagedBy: wire.OperatorName}}}
		objects = append(objects, o)
	}
	listed, asked, fails := 0, 0, false
	c := interceptor.NewClient(lendingtest.Cluster(t, objects...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			listed++
			return c.List(ctx, l, options...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if asked++; fails {
				return errors.New("no answer")
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	r := &virtualNodes{client: c}
	for range 3 {
		for i := range most {
			if err := r.list(t.Context(), node(i), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	if listed != 1 || asked > 4 {
		t.Errorf("got %d lists of all, and %d questions for what they may", listed, asked)
	}
	have := func(want int) {
		t.Helper()
		b := &rbacv1.ClusterRoleBinding{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: wire.NodeAccessName}, b); err != nil || len(b.Subjects) != want {
			t.Errorf("%d programs have rights, %v, want %d", len(b.Subjects), err, want)
		}
	}
	have(most)
	// One virtual node is added, and one is removed.
	extra := client.ObjectKey{Namespace: "liqo-tenant-x", Name: "x"}
	if err := r.list(t.Context(), extra, true); err != nil {
		t.Fatal(err)
	}
	have(most + 1)
	fails = true
	if r.list(t.Context(), node(0), false) == nil {
		t.Error("the API server does not answer, and there is no error")
	}
	fails = false
	if err := r.list(t.Context(), extra, true); err != nil { // of another VirtualNode, which has not changed
		t.Fatal(err)
	}
	have(most)
	b := &rbacv1.ClusterRoleBinding{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: wire.NodeAccessName}, b); err != nil {
		t.Fatal(err)
	}
	if gone := peering.NodeAccount(node(0).Name); slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Name == gone }) {
		t.Errorf("%s has kept its rights", gone)
	}
	// Another program removes all of them, and this is seen a little later.
	if err := c.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	r.applied = time.Now().Add(-listedAgain)
	if err := r.list(t.Context(), extra, true); err != nil {
		t.Fatal(err)
	}
	have(most)
	if err := errors.Join(r.unlist(t.Context(), extra), r.unlist(t.Context(), client.ObjectKey{Namespace: "a", Name: "stranger"})); err != nil {
		t.Fatal(err)
	}
	have(most - 1)
}
