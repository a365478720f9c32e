package agent

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Each node's agent watches the blocks of all nodes, so the cache has to be small.
func TestOfOtherNodesBlocksLittleIsKept(t *testing.T) {
	kinds := rangesKinds()
	block := func(node, state string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{
				"name": node + "-10-244-5-0-26", "resourceVersion": "7", "uid": "u",
				"annotations": map[string]any{"projectcalico.org/metadata": strings.Repeat("x", 1000)},
			},
			"spec": map[string]any{"node": node, "cidr": "10.244.5.0/26", "state": state},
		}}
		o.SetGroupVersionKind(kinds[0].GroupVersionKind)
		return o
	}
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		want   int
	}{
		"its own":                       {block("rome-1", "confirmed"), 1},
		"its own, not in use yet":       {block("rome-1", "pending"), 0},
		"another's, whatever its state": {block("rome-2", "confirmed"), 0},
	} {
		kept := kinds[0].kept(test.object, "rome-1").(*unstructured.Unstructured)
		if kept.GetName() != test.object.GetName() || kept.GetResourceVersion() != "7" || kept.GroupVersionKind() != kinds[0].GroupVersionKind {
			t.Errorf("%s: got %v, want what identifies it", name, kept)
		}
		if got := kinds[0].read(kept, "rome-1"); len(got) != test.want {
			t.Errorf("%s: got ranges %q, want %d", name, got, test.want)
		}
		if text, err := kept.MarshalJSON(); err != nil || test.want == 0 && len(text) > 200 {
			t.Errorf("%s: got %v, %s", name, err, text)
		}
	}
}
