package operator

import (
	"errors"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

func given(addresses ...networkingv1beta1.IP) []ipamv1alpha1.IP {
	var list []ipamv1alpha1.IP
	for _, a := range addresses {
		list = append(list, ipamv1alpha1.IP{Status: ipamv1alpha1.IPStatus{IP: a}})
	}
	return list
}

func TestHostsGetTheLowestFreeExternalAddress(t *testing.T) {
	for name, c := range map[string]struct {
		external []networkingv1beta1.CIDR
		given    []ipamv1alpha1.IP
		want     string
		err      error
	}{
		"the first one stands for nodes":          {[]networkingv1beta1.CIDR{"10.70.0.0/16"}, nil, "10.70.0.1", nil},
		"those given are passed over":             {[]networkingv1beta1.CIDR{"10.70.0.0/16"}, given("10.70.0.1", "10.70.0.3", ""), "10.70.0.2", nil},
		"a full range is followed by the next":    {[]networkingv1beta1.CIDR{"10.70.0.0/30", "10.71.0.0/16"}, given("10.70.0.1", "10.70.0.2"), "10.71.0.1", nil},
		"all ranges are full":                     {[]networkingv1beta1.CIDR{"10.70.0.0/30"}, given("10.70.0.1", "10.70.0.2"), "invalid IP", errNoAddress},
		"a range of one address has none to give": {[]networkingv1beta1.CIDR{"10.70.0.0/32"}, nil, "invalid IP", errNoAddress},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := freeAddress(c.external, c.given)
			if got.String() != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %s, %v, want %s, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestIPsThatCanNotBeServedAreRefused(t *testing.T) {
	for name, spec := range map[string]ipamv1alpha1.IPSpec{
		"not an address": {IP: "example.org"},
		"IPv6":           {IP: "2001:db8::1"},
		"loopback":       {IP: "127.0.0.1"},
		"multicast":      {IP: "224.0.0.1"},
		"a network":      {IP: "192.0.2.1", NetworkRef: &corev1.ObjectReference{Name: "n"}},
		"a Service":      {IP: "192.0.2.1", ServiceTemplate: &ipamv1alpha1.ServiceTemplate{}},
	} {
		if err := checkIP(&ipamv1alpha1.IP{Spec: spec}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if err := checkIP(&ipamv1alpha1.IP{Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}}); err != nil {
		t.Errorf("a host: %v", err)
	}
}
