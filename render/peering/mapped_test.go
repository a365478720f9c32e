package peering_test

import (
	"net/netip"
	"slices"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

func mapped() *corev1.Namespace {
	return peering.MappedNamespace(&offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "milan"}}, "rome", "demo", "demo-rome")
}

// A label proves nothing, because a user who may label a namespace must not cause its deletion.
func TestWhichNamespacesAreTwins(t *testing.T) {
	if !peering.IsMapped(mapped()) {
		t.Error("it is none")
	}
	for what, change := range map[string]func(*corev1.Namespace){
		"without the label":        func(n *corev1.Namespace) { delete(n.Labels, "liqo-tui.dev/twin") },
		"that was there before":    func(n *corev1.Namespace) { delete(n.Annotations, "liqo-tui.dev/created") },
		"whose annotation is else": func(n *corev1.Namespace) { n.Name = "other" },
		"of no map":                func(n *corev1.Namespace) { delete(n.Annotations, "liqo.io/managed-by-namespace-map") },
	} {
		ns := mapped()
		if change(ns); peering.IsMapped(ns) {
			t.Errorf("one %s is a twin", what)
		}
	}
}

// The provider's own addresses are not outside of the cluster, in any range.
func TestWhatATwinReaches(t *testing.T) {
	conf := &networkingv1beta1.Configuration{Status: networkingv1beta1.ConfigurationStatus{Remote: &networkingv1beta1.ClusterConfig{
		CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"253.18.0.0/16"}, External: []networkingv1beta1.CIDR{"253.19.0.0/16"}},
	}}}
	own := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("203.0.113.7/32"), netip.MustParsePrefix("fd00::/8")}
	p := peering.MappedPolicy(mapped(), conf, own)
	if len(p.Spec.PolicyTypes) != 2 || len(p.Spec.PodSelector.MatchLabels) != 0 {
		t.Errorf("it is not about all pods, both ways: %+v", p.Spec)
	}
	for way, peers := range map[string]int{"in": len(p.Spec.Ingress[0].From), "out": len(p.Spec.Egress[0].To)} {
		if peers != 3 {
			t.Errorf("%s: %d peers", way, peers)
		}
	}
	if of := p.Spec.Ingress[0].From[0].NamespaceSelector.MatchLabels; of["liqo.io/remote-cluster-id"] != "rome" || of["liqo-tui.dev/twin"] != "true" {
		t.Errorf("others' namespaces get in: %v", of)
	}
	if cidr := p.Spec.Ingress[0].From[1].IPBlock.CIDR; cidr != "253.18.0.0/16" {
		t.Errorf("pods of home come from %s", cidr)
	}
	outside := p.Spec.Egress[2].To[0].IPBlock
	for _, out := range []string{"10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16", "203.0.113.7/32"} {
		if outside.CIDR != "0.0.0.0/0" || !slices.Contains(outside.Except, out) {
			t.Errorf("%s is outside: %v", out, outside)
		}
	}
	if slices.Contains(outside.Except, "10.244.0.0/16") || slices.Contains(outside.Except, "fd00::/8") {
		t.Errorf("said twice, or of another family: %v", outside.Except)
	}
	if p := peering.MappedPolicy(mapped(), nil, nil); len(p.Spec.Ingress[0].From) != 1 {
		t.Errorf("without a connection: %+v", p.Spec.Ingress)
	}
}
