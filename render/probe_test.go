package render_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

// Settings of pods have an affinity of their own, which excludes virtual nodes.
func TestAProbeAvoidsTheGatewaysNodeOrRunsOnItsOwn(t *testing.T) {
	pod := render.Probe(render.ProbeParams{Name: "p"}).Spec.Template.Spec
	if anti := pod.Affinity.PodAntiAffinity; anti == nil || len(anti.PreferredDuringSchedulingIgnoredDuringExecution) != 1 || len(pod.Tolerations) != 0 {
		t.Errorf("on any node: got %+v, tolerations %v, want it to avoid gateways", pod.Affinity, pod.Tolerations)
	}
	pod = render.Probe(render.ProbeParams{Name: "p", Node: "rome-2"}).Spec.Template.Spec
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchFields) != 1 || !slices.Equal(term.MatchFields[0].Values, []string{"rome-2"}) || len(term.MatchExpressions) == 0 {
			t.Errorf("on rome-2: got term %+v", term)
		}
	}
	if !slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool { return t.Operator == corev1.TolerationOpExists && t.Key == "" }) {
		t.Errorf("on rome-2: got tolerations %v, want all taints", pod.Tolerations)
	}
}
