package kube

import (
	"cmp"
	"fmt"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/render"
)

// TestStatedRangesWinOverDiscoveredOnes has field managers, but no validation;
// TestCluster asks a real API server.
func TestStatedRangesWinOverDiscoveredOnes(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	testOwnOperator(t, &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().Build()})
}

// TestAnotherExternalRange may take the place of the first as long as nobody was
// told, and no host has an address of it.
func TestAnotherExternalRange(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	external := func(cidr string) *ipamv1alpha1.Network {
		return render.Network("liqo", render.NetworkExternalCIDR, render.NetworkExternalCIDR, cidr, 1)
	}
	host := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "printer"}, Status: ipamv1alpha1.IPStatus{IP: "10.80.0.1"}}
	for want, there := range map[string][]client.Object{
		"": nil,
		"change Network liqo/external-cidr from 10.80.0.0/16 to 10.81.0.0/16: 1 peers were told the former":        {configuration("10.244.0.0/16")},
		"change Network liqo/external-cidr from 10.80.0.0/16 to 10.81.0.0/16: 1 IPs have an address of the former": {host},
	} {
		c := &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(append(there, external("10.80.0.0/16"))...).Build(), namespace: "liqo"}
		for _, cidr := range []string{"10.80.0.0/16", "10.81.0.0/16"} {
			_, err := c.replaceRanges(t.Context(), []render.Object{external(cidr)})
			if cidr == "10.80.0.0/16" && err != nil {
				t.Errorf("the same range: %v", err)
			}
			if cidr == "10.81.0.0/16" && fmt.Sprint(err) != cmp.Or(want, "<nil>") {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		n := external("")
		if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil || (n.Spec.CIDR == "10.81.0.0/16") != (want == "") {
			t.Errorf("%q: the range is %s (%v)", want, n.Spec.CIDR, err)
		}
	}
}
