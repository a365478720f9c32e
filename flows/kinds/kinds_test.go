package kinds

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

func TestEachKindHasOneRow(t *testing.T) {
	if len(byName) != len(table) {
		t.Errorf("%d rows have %d names", len(table), len(byName))
	}
}

// API servers serve Liqo's kinds as their definitions say.
func TestLiqosKindsAreAsTheirDefinitionsSay(t *testing.T) {
	all, err := render.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, o := range all {
		d := o.(*apiextensionsv1.CustomResourceDefinition)
		k, ok := Named(d.Spec.Names.Kind)
		if !ok {
			continue
		}
		found++
		if k.Group != d.Spec.Group || k.Resource() != d.Spec.Names.Plural || k.Root != (d.Spec.Scope == apiextensionsv1.ClusterScoped) {
			t.Errorf("got %s.%s, in no namespace: %t; want %s, %s", k.Resource(), k.Group, k.Root, d.Name, d.Spec.Scope)
		}
	}
	if found == 0 {
		t.Error("no definition is of a kind in the table: the test is void")
	}
}
