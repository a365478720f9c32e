package peering_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// The names in a condition are read as they were written.
func TestLeftoversAreReadAsWritten(t *testing.T) {
	var all []peering.Leftover
	for i := range 53 {
		all = append(all, peering.Leftover{Kind: "Secret", Namespace: "demo-rome", Name: fmt.Sprint("s", i), UID: types.UID(fmt.Sprint("u", i))})
		got, more, ok := peering.Leftovers(peering.LeftoversText(all))
		if diff := cmp.Diff(all[:min(i+1, 50)], got); diff != "" || more != max(0, i-49) || !ok {
			t.Fatalf("%d: %d more, %t, (-want +got):\n%s", i, more, ok, diff)
		}
	}
	for _, text := range []string{"", "milan has nothing", "a b c", "Secret demo/x 1\nmore"} {
		if all, _, ok := peering.Leftovers(text); ok || all != nil {
			t.Errorf("%q: read as %v", text, all)
		}
	}
}
