package render_test

import (
	"slices"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestPodsThatShareATunnelAreNotAllActive(t *testing.T) {
	templates, err := render.GatewayTemplates("liqo", "registry.example/gateway:1", 2, render.PodSettings{})
	if err != nil {
		t.Fatal(err)
	}
	d, s := fill(t, templates[0].(*networkingv1beta1.WgGatewayServerTemplate).Spec.Template.Object, values(nil))
	if d.Spec.Replicas == nil || *d.Spec.Replicas != 2 {
		t.Fatalf("got %v replicas, want 2", d.Spec.Replicas)
	}
	render.ShareTunnel(d)
	render.ShareTunnel(d) // the operator calls this at each reconciliation
	pod := d.Spec.Template
	if _, ok := pod.Labels[wire.LabelActive]; ok || s.Spec.Selector[wire.LabelActive] != "true" {
		t.Errorf("pods are labelled %v and the Service selects %v: want none until one holds the tunnel", pod.Labels, s.Spec.Selector)
	}
	for key, value := range d.Spec.Selector.MatchLabels {
		if pod.Labels[key] != value {
			t.Errorf("the Deployment selects %s=%s, the pods have %q", key, value, pod.Labels[key])
		}
	}
	args := pod.Spec.Containers[0].Args
	if n := len(slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a != "--leader-election" })); n != 1 {
		t.Errorf("got arguments %v, want --leader-election once", args)
	}
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("got strategy %s: all pods would be replaced at once", d.Spec.Strategy.Type)
	}
	if d.Spec.MinReadySeconds == 0 {
		t.Error("the pod that holds the tunnel would be replaced before the other one can take over")
	}
	if spread := pod.Spec.TopologySpreadConstraints; len(spread) != 1 || spread[0].TopologyKey != corev1.LabelHostname || spread[0].LabelSelector == nil ||
		!slices.Equal(spread[0].MatchLabelKeys, []string{appsv1.DefaultDeploymentUniqueLabelKey}) {
		t.Errorf("got %+v, want the pods on different nodes", spread)
	}
}

func TestAnAdminsAffinityStays(t *testing.T) {
	d := &appsv1.Deployment{}
	d.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	render.ShareTunnel(d)
	if n := len(d.Spec.Template.Spec.TopologySpreadConstraints); n != 0 {
		t.Errorf("got %d constraints beside the template's affinity, want none", n)
	}
}

// A user who may patch each pod of a namespace can run programs as each of them.
func TestLeaderMayPatchItsGatewaysPodsOnly(t *testing.T) {
	g := render.Gateway{Tenant: render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}, Name: "milan", Owner: &networkingv1beta1.GatewayClient{}}
	for _, pods := range [][]string{nil, {"gw-milan-a", "gw-milan-b"}} {
		patches := slices.DeleteFunc(g.LeaderRules(pods), func(r rbacv1.PolicyRule) bool {
			return !slices.Contains(r.Resources, "pods") || !slices.Contains(r.Verbs, "patch")
		})
		switch {
		case pods == nil && len(patches) > 0:
			t.Errorf("without pods: got %+v, which are all pods", patches)
		case pods != nil && (len(patches) != 1 || !slices.Equal(patches[0].ResourceNames, pods)):
			t.Errorf("got %+v, want %v only", patches, pods)
		}
	}
	for _, r := range g.LeaderRules([]string{"gw-milan-a"}) {
		for _, verb := range r.Verbs {
			if write := verb != "get" && verb != "list" && verb != "watch"; write && len(r.ResourceNames) == 0 {
				t.Errorf("%v of all %v", r.Verbs, r.Resources)
			}
		}
	}
}
