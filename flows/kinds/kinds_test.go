package kinds

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"

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

// Of pods without a node, those count that ask for a virtual one, with the scheduler's reason.
func TestPodsThatAskForAVirtualNodeAreKept(t *testing.T) {
	in := func(key string, values ...string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
		}}}}}
	}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"a plain one":         {corev1.PodSpec{}, ""},
		"another label":       {corev1.PodSpec{NodeSelector: map[string]string{"kubernetes.io/arch": "amd64"}}, ""},
		"the type":            {corev1.PodSpec{NodeSelector: map[string]string{"kubernetes.io/arch": "amd64", "liqo.io/type": "virtual-node"}}, "liqo.io/type=virtual-node"},
		"a name":              {corev1.PodSpec{NodeSelector: map[string]string{"kubernetes.io/hostname": "milan"}}, "kubernetes.io/hostname=milan"},
		"the type, affinity":  {corev1.PodSpec{Affinity: in("liqo.io/type", "virtual-node")}, "liqo.io/type=virtual-node"},
		"one of two":          {corev1.PodSpec{Affinity: in("kubernetes.io/hostname", "milan", "rome-1")}, ""},
		"a weak wish":         {corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}, ""},
		"one with a node":     {corev1.PodSpec{NodeName: "milan", NodeSelector: map[string]string{"liqo.io/type": "virtual-node"}}, ""},
		"affinity to a label": {corev1.PodSpec{Affinity: in("kubernetes.io/arch", "amd64")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{Spec: c.spec}
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}}
			got, is := keepUnplaced(p).(*corev1.Pod)
			if is != (c.want != "") {
				t.Fatalf("kept %v", got)
			}
			if is && (labels.FormatLabels(got.Spec.NodeSelector) != c.want || got.Status.Reason != "Unschedulable" || got.Status.Message != "0/3 nodes") {
				t.Errorf("kept %v, %v", got.Spec.NodeSelector, got.Status)
			}
		})
	}
}
