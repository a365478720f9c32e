package offload_test

import (
	"net/netip"
	"testing"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/offload/network"
)

// A consumer's Service must lead only to the consumer's own endpoints.
func TestEndpointsLeadToTheConsumerAlone(t *testing.T) {
	ranges := network.Ranges{{Own: netip.MustParsePrefix("10.244.0.0/16"), Seen: netip.MustParsePrefix("253.18.0.0/16")}}
	s := &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web-x", UID: "u", Labels: map[string]string{
		discoveryv1.LabelServiceName: "web", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io", "liqo.io/remote-cluster-id": "turin",
	}}}
	for _, a := range []string{"10.244.0.7", "169.254.169.254", "127.0.0.1", "10.96.0.1", "192.0.2.1", "253.18.0.9", "fd00::1", "example.com", ""} {
		s.Spec.Template.Endpoints = append(s.Spec.Template.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a}, NodeName: new("node-a"), Conditions: discoveryv1.EndpointConditions{Ready: new(true), Terminating: new(false)},
		})
	}
	got := offload.Endpoints(s, "rome", ranges, true)
	if len(got.Endpoints) != 1 || got.Endpoints[0].Addresses[0] != "253.18.0.7" || !*got.Endpoints[0].Conditions.Ready || got.Endpoints[0].NodeName != nil {
		t.Errorf("it leads to %+v", got.Endpoints)
	}
	if got.Labels[discoveryv1.LabelServiceName] != "web" || got.Labels[discoveryv1.LabelManagedBy] != "liqo-tui-operator" || got.Labels["liqo.io/remote-cluster-id"] != "" ||
		got.OwnerReferences[0].UID != "u" || got.Namespace != "demo-rome" {
		t.Errorf("it is %+v", got.ObjectMeta)
	}
	got = offload.Endpoints(s, "rome", ranges, false)
	if c := got.Endpoints[0].Conditions; *c.Ready || *c.Serving || *c.Terminating || !*s.Spec.Template.Endpoints[0].Conditions.Ready {
		t.Errorf("while no packets pass: %+v", c)
	}
	if got := offload.Endpoints(s, "rome", nil, true); len(got.Endpoints) > 0 {
		t.Errorf("without ranges: %+v", got.Endpoints)
	}
}
