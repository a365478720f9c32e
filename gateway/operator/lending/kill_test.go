package lending_test

import (
	"fmt"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// The limits for the number of an operator's writes for one handshake, its resources and a virtual node. They
// include the consumer's writes to the provider.
const (
	fewestWrites = 6
	mostWrites   = 31
)

// TestCrashesDuringAHandshake ends both operators after each of their writes, until a virtual node is ready.
// Other processes continue, and the result is the same as without crashes.
func TestCrashesDuringAHandshake(t *testing.T) {
	t.Parallel() // because it mostly waits
	requireAPI(t)
	rome, milan := newPlane(t, "rome", render.PeeringConsumer), newPlane(t, "milan", render.PeeringProvider)
	w := &pair{t: t, rome: rome, milan: milan, proxy: proxy(t), params: peer.Params{CPU: "2", Memory: "2Gi"}, node: true}
	rome.runPrograms()
	milan.node("node-a", "8", "16Gi")
	first := sample.Seed(t)
	for n := range uint64(sample.Of(1, mostWrites)) {
		writes := int64((first+n*5)%mostWrites) + 1 // 5 and 31 have no common divisor, so all numbers occur
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			w.forget(t)
			rome.stop()
			milan.stop()
			rome.runOperatorThatEnds(render.PeeringConsumer, writes)
			milan.runOperatorThatEnds(render.PeeringProvider, writes)
			before := milan.crashes.Load()
			w.peer(t)
			if writes <= fewestWrites && milan.crashes.Load() == before {
				t.Error("the provider's operator has not crashed")
			}
			if err := w.mayRead(t); err != nil {
				t.Error(err)
			}
			if changed, _ := w.peer(t); changed {
				t.Error("the second run changed something")
			}
			until(t, milan, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.NonceName}}, "used", func(s *corev1.Secret) bool {
				return s.Annotations[peering.AnnotationUsed] != ""
			})
		})
	}
}

// forget removes the objects of a handshake, except the namespaces.
func (w *pair) forget(t *testing.T) {
	t.Helper()
	none := func(p *plane, o client.Object) {
		t.Helper()
		if err := p.Delete(t.Context(), o); err == nil {
			untilGone(t, p, o)
		}
	}
	none(w.rome, slice("liqo-tenant-milan", "milan"))
	none(w.milan, slice("liqo-tenant-rome", "milan")) // a crashed operator may have left it there
	w.nodeGone(t)
	none(w.rome, identity())
	none(w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: peering.SignedNonceName}})
	none(w.milan, tenantIn(w.milan))
	none(w.milan, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.NonceName}})
	untilGone(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: peering.KubeconfigName("controlplane-milan")}})
	untilGone(t, w.milan, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.CertificateName}})
	untilGone(t, w.milan, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: wire.ConsumerAccessName}})
	untilGone(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: peering.KubeconfigName("resourceslice-milan")}})
	untilGone(t, w.milan, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.SliceCertificateName("milan")}})
	untilGone(t, w.milan, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: wire.ConsumerAccessName}})
	untilGone(t, w.rome, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}})
	var requests certificatesv1.CertificateSigningRequestList
	var renews authv1beta1.RenewList
	if err := w.milan.List(t.Context(), &requests); err != nil || len(requests.Items) > 0 {
		t.Errorf("requests are left: %d (%v)", len(requests.Items), err)
	}
	if err := w.milan.List(t.Context(), &renews); err != nil || len(renews.Items) > 0 {
		t.Errorf("Renews are left: %d (%v)", len(renews.Items), err)
	}
}
