package peering_test

import (
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// An untrusted provider may report another API server, which would then get the offloaded objects.
func TestTheAccessAloneSaysWhereAProviderIs(t *testing.T) {
	plane := &authv1beta1.Identity{Spec: authv1beta1.IdentitySpec{ClusterID: "milan", AuthParams: authv1beta1.AuthParams{
		APIServer: "https://192.0.2.1:6443", CA: []byte("milan's"), SignedCRT: []byte("of the control plane"),
	}}}
	s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	s.Spec.ProviderClusterID = new(corev1beta1.ClusterID("milan"))
	s.Status.AuthParams = &authv1beta1.AuthParams{
		APIServer: "https://198.51.100.66:6443", CA: []byte("another's"), ProxyURL: new("http://198.51.100.66:8118"), SignedCRT: []byte("of the slice"),
	}
	got := peering.SliceIdentity(s, plane).Spec.AuthParams
	if string(got.SignedCRT) != "of the slice" {
		t.Errorf("its certificate is %q", got.SignedCRT)
	}
	if got.APIServer != plane.Spec.AuthParams.APIServer || string(got.CA) != "milan's" || got.ProxyURL != nil {
		t.Errorf("the certificate goes to %s by proxy %v, whose authority is %q", got.APIServer, got.ProxyURL, got.CA)
	}
}
