package provider

import (
	"crypto/rand"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// The ID of a cluster becomes the user of its certificate. Before a namespace is offloaded, no binding names
// the user of a slice.
func TestAConsumerIsNotCalledAsTheUserOfAnothersSlice(t *testing.T) {
	user := peering.SliceUser("milan", "rome").User
	for id, refused := range map[wire.ClusterID]bool{wire.ClusterID(user): true, "turin": false} {
		private, _, err := peering.NewKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		request, err := peering.NewRequest(private, id, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		nonce, err := peering.NewNonce(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := peering.Sign(private, nonce, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{wire.LabelRemoteCluster: string(id)}
		newcomer := authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + string(id), Name: string(id), UID: "n"},
			Spec:       authv1beta1.TenantSpec{ClusterID: corev1beta1.ClusterID(id), PublicKey: request.PublicKey, CSR: request.CSR, Signature: signature},
		}
		rome := authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "r"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
		all := []authv1beta1.Tenant{rome, newcomer}
		slices := []authv1beta1.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{Namespace: rome.Namespace, Name: "milan"}}}
		in := &inputs{
			tenant: &newcomer, home: "provider", all: all, users: sliceUsers(all, slices, id),
			namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: newcomer.Namespace, Labels: labels}},
			nonces:    []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Data: map[string][]byte{peering.KeyNonce: nonce}}},
		}
		if _, why := in.refusal(); (why != nil) != refused || why != nil && !strings.Contains(why.Error(), "a slice of cluster rome has a user") {
			t.Errorf("%s: got %v, want refused: %t", id, why, refused)
		}
	}
}

// A refused Tenant must not remove the slice of another Tenant.
func TestARefusedTenantTakesNoSliceFromAnother(t *testing.T) {
	user := peering.SliceUser("milan", "rome").User
	named := authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: corev1beta1.ClusterID(user)}}
	refused, accepted, newer := named, named, named
	refused.Annotations = map[string]string{wire.AnnotationProblem: wire.ProblemRefused + "its ID"}
	accepted.Status.AuthParams = &authv1beta1.AuthParams{}
	newer.CreationTimestamp = metav1.Unix(200, 0)
	for name, tc := range map[string]struct {
		of    authv1beta1.Tenant
		taken bool
	}{"refused": {refused, false}, "accepted": {accepted, true}, "newer": {newer, false}, "not judged yet": {named, true}} {
		in := &sliceRequest{
			slice:    &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "milan", CreationTimestamp: metav1.Unix(100, 0)}},
			tenant:   &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "rome"}},
			admitted: true, all: []authv1beta1.Tenant{tc.of},
		}
		in.slice.Spec.ConsumerClusterID = new(corev1beta1.ClusterID("rome"))
		why := in.refusal(peering.OfSlice(in.slice, in.tenant))
		if taken := why != nil && strings.Contains(why.Error(), "would have the name of one of cluster "+user); taken != tc.taken {
			t.Errorf("%s: got %v", name, why)
		}
	}
}
