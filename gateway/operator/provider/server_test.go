package provider

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestConsumersAreToldWhereTheAPIServerIs(t *testing.T) {
	port := int32(6443)
	for want, slice := range map[string]discoveryv1.EndpointSlice{
		"":                          {},
		"https://192.0.2.7:6443":    {Ports: []discoveryv1.EndpointPort{{Port: &port}}, Endpoints: []discoveryv1.Endpoint{{}, {Addresses: []string{"192.0.2.7", "192.0.2.8"}}}},
		"https://192.0.2.9:443":     {Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.9"}}}},
		"https://[2001:db8::7]:443": {AddressType: discoveryv1.AddressTypeIPv6, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"2001:db8::7"}}}},
	} {
		if got := serverURL(&slice); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
