package kube

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows/policy"
)

// testPolicies reads policies from an API server: the policies that can concern a pod, with the rights of
// several users.
func testPolicies(t *testing.T, env *envtest.Environment, admin *Cluster) {
	pod := func(name, app string, hostNetwork bool) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "c", Image: "example.org/c"}}},
		}
	}
	isolate := func(name string, selector metav1.LabelSelector, types ...networkingv1.PolicyType) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: networkingv1.NetworkPolicySpec{PodSelector: selector, PolicyTypes: types}}
	}
	sends := isolate("sends", metav1.LabelSelector{}, networkingv1.PolicyTypeEgress)
	sends.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "240.1.0.0/16"}}}}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"}}, // nobody makes it here
		pod("web-1", "web", false), pod("web-2", "web", false), pod("db", "db", false), pod("agent", "web", true),
		isolate("default-deny", metav1.LabelSelector{}),
		isolate("web", metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}),
		isolate("egress", metav1.LabelSelector{}, networkingv1.PolicyTypeEgress),
		sends,
	} {
		if err := admin.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	f, err := admin.Policies(t.Context())
	if err != nil || f.Unknown != "" {
		t.Fatalf("got %v, %q", err, f.Unknown)
	}
	want := []policy.Group{{Namespace: "shop", Policies: []string{"default-deny"}, Pods: 1}, {Namespace: "shop", Policies: []string{"default-deny", "web"}, Pods: 2}}
	if diff := cmp.Diff(want, f.Pods); diff != "" || len(f.Policies) != 4 {
		t.Errorf("%d policies, pods:\n%s", len(f.Policies), diff)
	}
	want = []policy.Group{{Namespace: "shop", Policies: []string{"egress", "sends"}, Pods: 3}}
	if diff := cmp.Diff(want, f.Senders); diff != "" {
		t.Errorf("pods that may not send:\n%s", diff)
	}
	if got := f.Outdated(netip.MustParsePrefix("240.1.0.0/16"), netip.MustParsePrefix("240.2.0.0/16")); !slices.Equal(got, []string{"shop/sends"}) {
		t.Errorf("got %q as what names addresses", got)
	}
	f, err = restricted(t, env, "blind", "create").Policies(t.Context())
	if err != nil || !strings.Contains(f.Unknown, "forbidden") {
		t.Errorf("who may not read them: got %v, %q", err, f.Unknown)
	}
}
