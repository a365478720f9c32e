package operator

import (
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A user who creates a gateway and a label gets no right by this, because the ranges of the gateway's peer
// have to be known in its namespace.
func TestAGatewayWithoutAConfigurationSeesNoNodes(t *testing.T) {
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	at := func(namespace, name, peer string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{wire.LabelRemoteCluster: peer}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&networkingv1beta1.Configuration{ObjectMeta: at("a", "milan", "milan")},
		&networkingv1beta1.GatewayServer{ObjectMeta: at("a", "of-milan", "milan")},
		&networkingv1beta1.GatewayClient{ObjectMeta: at("a", "of-turin", "turin")},
		&networkingv1beta1.GatewayClient{ObjectMeta: at("b", "of-milan", "milan")},
		&networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "of-nobody"}},
	).Build()
	if _, err := (&access{client: c}).Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	b := &rbacv1.ClusterRoleBinding{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: wire.GatewayAccessName}, b); err != nil {
		t.Fatal(err)
	}
	if len(b.Subjects) != 1 || b.Subjects[0].Namespace != "a" || b.Subjects[0].Name != "of-milan" {
		t.Errorf("got %+v", b.Subjects)
	}
}
