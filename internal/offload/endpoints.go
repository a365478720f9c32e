package offload

import (
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Endpoints returns the EndpointSlice for a consumer's ShadowEndpointSlice. It contains pods on the consumer
// that belong to a mapped Service, with their addresses as seen from here. It leaves out addresses outside of
// the consumer's ranges, because they could be those of the API server or of another consumer. While no
// packets pass, no endpoint is ready.
func Endpoints(s *offloadingv1beta1.ShadowEndpointSlice, consumer wire.ClusterID, ranges network.Ranges, passes bool) *discoveryv1.EndpointSlice {
	t := &s.Spec.Template
	out := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: EndpointsName(s.Name),
			Labels: map[string]string{
				discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName], discoveryv1.LabelManagedBy: wire.OperatorName,
				peering.LabelMapped: "true", peering.LabelPodOrigin: string(consumer),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "ShadowEndpointSlice", Name: s.Name, UID: s.UID, Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: t.Ports, Endpoints: []discoveryv1.Endpoint{},
	}
	for i := range t.Endpoints {
		e := &t.Endpoints[i]
		var addresses []string
		for _, a := range e.Addresses {
			if seen, ok := ranges.Seen(a); ok {
				addresses = append(addresses, seen)
			}
		}
		if len(addresses) == 0 {
			continue
		}
		conditions := e.Conditions
		if !passes {
			conditions.Ready, conditions.Serving = new(false), new(false)
		}
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{Addresses: addresses, Conditions: conditions, Hostname: e.Hostname})
	}
	return out
}

// EndpointsName returns the name of the EndpointSlice of a ShadowEndpointSlice. It differs from the
// names of Kubernetes' own EndpointSlices, which begin with the Service's name.
func EndpointsName(shadow string) string { return "home-" + shadow }
