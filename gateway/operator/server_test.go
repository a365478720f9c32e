package operator

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/apitest"
)

// TestASharedServerIsAsNew makes objects of all sorts, in namespaces and cluster-wide, some of which are
// being deleted. Afterwards none of them exists.
func TestASharedServerIsAsNew(t *testing.T) {
	apitest.Require(t)
	var before []string
	t.Run("used", func(t *testing.T) {
		w := newWorld(t)
		before = w.names()
		if !slices.ContainsFunc(before, func(name string) bool { return strings.HasPrefix(name, "Deployment liqo/") }) {
			t.Fatalf("got no Deployment among %q", before)
		}
		w.node("node-a", "192.0.2.11")
		w.runOperator()
		w.peer("milan", "10.244.0.0/16")
		w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "of-a-test"}})
	})
	t.Run("used again", func(t *testing.T) {
		w := newWorld(t)
		if after := w.names(); !slices.Equal(after, before) {
			t.Errorf("got %q, want %q", after, before)
		}
	})
}

// names returns the names of all objects except the API server's own Lease.
func (w *world) names() []string {
	w.t.Helper()
	made, err := w.server.Made(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, o := range made {
		names = append(names, o.Kind+" "+o.Namespace+"/"+o.Name)
	}
	slices.Sort(names)
	return names
}
