package lending

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/consumer"
	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// A provider that refuses is not asked every second. When it grants, it is asked every 15 s.
func TestAProviderThatSaysNoIsAskedEverLater(t *testing.T) {
	var code atomic.Int32
	code.Store(http.StatusForbidden)
	url, ca := lendingtest.Refusing(t, &code)
	private, _, err := peering.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	there := "liqo-tenant-rome"
	i := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{wire.LabelRemoteCluster: "milan"}},
		Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.ControlPlaneIdentityType, Namespace: &there, AuthParams: authv1beta1.AuthParams{
			APIServer: url, CA: ca, SignedCRT: lendingtest.Sign(t, nil, key, key.Public(), time.Now(), x509.Certificate{Subject: pkix.Name{CommonName: "rome"}}),
		}},
		Status: authv1beta1.IdentityStatus{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "x"}},
	}
	c := lendingtest.Cluster(t, i, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}, Data: map[string][]byte{wire.SecretPrivateKey: private},
	})
	from, err := consumer.NewProviders(c, c, "liqo", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Forget(client.ObjectKeyFromObject(i))
	// If the key of the certificate is another one, the provider can't be asked.
	r := &peers{client: c, ask: from.Ask, role: render.PeeringConsumer}
	r.begin()
	look := func(want time.Duration) {
		t.Helper()
		got, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "milan"}})
		if err != nil || got.RequeueAfter != want {
			t.Errorf("again in %s, %v; want %s", got.RequeueAfter, err, want)
		}
	}
	for _, seconds := range []int{1, 2, 4, 8, 15, 15} {
		look(time.Duration(seconds) * time.Second)
	}
	block, _ := pem.Decode(private)
	own, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	i.Spec.AuthParams.SignedCRT = lendingtest.Sign(t, nil, own, lendingtest.PublicOf(t, own), time.Now(), x509.Certificate{Subject: pkix.Name{CommonName: "rome"}})
	if err := c.Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	look(15 * time.Second) // the provider refuses
	code.Store(http.StatusOK)
	look(15 * time.Second)
	code.Store(http.StatusForbidden)
	look(time.Second)
}
