package virtualnode

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"github.com/liqo-tui/liqo-tui/gateway/virtualnode/decide"
)

// A refusal of the provider is kept while the refused object is wanted.
func TestRefusalsGoWithWhatWasRefused(t *testing.T) {
	s := &space{name: "demo", here: &side{cache: &informertest.FakeInformers{}}, said: map[thing]refusal{}}
	for _, kind := range []schema.GroupVersionKind{configMaps, secrets, services} {
		s.said[thing{kind, "gone"}] = refusal{message: "milan does not take it"}
	}
	wanted, err := (&mirror{}).wanted(t.Context(), s, decide.View{})
	if err != nil || len(wanted) > 0 {
		t.Fatalf("got %v, %v", wanted, err)
	}
	if len(s.said) > 0 {
		t.Errorf("left: %v", s.said)
	}
}
