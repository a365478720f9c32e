package consumer

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// After a restart, only the slices of the compared namespace are read from the API server. The slices of other
// providers come from the cache.
func TestARestartListsOwnSlicesByNamespace(t *testing.T) {
	const providers = 30
	var live, known []client.Object
	for i := range providers {
		s := lendingtest.SliceOf(t, fmt.Sprint("provider-", i), fmt.Sprint(i), "")
		s.Labels = map[string]string{peering.LabelReplication: "true"}
		live, known = append(live, s), append(known, s.DeepCopy())
		if i == 0 {
			known = nil // the cache does not have this namespace's slice yet
		}
	}
	reader, lists := lendingtest.Counting(t, live...)
	cached, _ := lendingtest.Counting(t, known...)
	r := &copier{client: cached, reader: reader}
	for i := range providers {
		namespace := fmt.Sprint("liqo-tenant-provider-", i)
		all, err := r.slices(t.Context(), namespace)
		if err != nil || len(all) == 0 || all[0].Namespace != namespace || i == 0 && len(all) != providers || i > 0 && len(all) != providers-1 {
			t.Fatalf("namespace %s: %v, %d slices", namespace, err, len(all))
		}
	}
	if *lists != 0 {
		t.Errorf("all of a kind were listed %d times, want never", *lists)
	}
}
