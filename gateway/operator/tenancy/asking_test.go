package tenancy

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// clusterWith is a cluster with objects, on which nobody acts.
func clusterWith(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, certificatesv1.AddToScheme, authv1beta1.AddToScheme, corev1beta1.AddToScheme, offloadingv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&corev1beta1.ForeignCluster{}, &certificatesv1.CertificateSigningRequest{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			o.SetCreationTimestamp(metav1.Now()) // as an API server does
			return c.Create(ctx, o, options...)
		}}).Build()
}

// refusing is an API server that says no to everything while it is on, and else nothing
// that one of Kubernetes would.
func refusing(t *testing.T, code *atomic.Int32) (url string, ca []byte) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if code.Load() == http.StatusOK {
			_, _ = io.WriteString(w, `{"kind":"RenewList","apiVersion":"authentication.liqo.io/v1beta1","items":[]}`)
			return
		}
		w.WriteHeader(int(code.Load()))
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// signed is a certificate by an authority, for a key.
func signed(t *testing.T, authority *x509.Certificate, with any, public any, from time.Time, template x509.Certificate) []byte {
	t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), from, from.Add(30*24*time.Hour)
	if authority == nil {
		authority = &template
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, authority, public, with)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// A provider that says no is not asked every second, and once it says yes, every 15 s.
func TestAProviderThatSaysNoIsAskedEverLater(t *testing.T) {
	var code atomic.Int32
	code.Store(http.StatusForbidden)
	url, ca := refusing(t, &code)
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
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{render.LabelRemoteCluster: "milan"}},
		Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Type: authv1beta1.ControlPlaneIdentityType, Namespace: &there, AuthParams: authv1beta1.AuthParams{
			APIServer: url, CA: ca, SignedCRT: signed(t, nil, key, key.Public(), time.Now(), x509.Certificate{Subject: pkix.Name{CommonName: "rome"}}),
		}},
		Status: authv1beta1.IdentityStatus{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "x"}},
	}
	c := clusterWith(t, i, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}, Data: map[string][]byte{render.SecretPrivateKey: private},
	})
	providers, err := newProviders(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer providers.Forget(client.ObjectKeyFromObject(i))
	// The certificate's key is another one: then the provider can't be asked at all.
	r := &peers{client: c, reader: c, keys: &keys{client: c, home: "liqo", providers: providers}, role: render.PeeringConsumer, home: "liqo"}
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
	i.Spec.AuthParams.SignedCRT = signed(t, nil, own, public(t, own), time.Now(), x509.Certificate{Subject: pkix.Name{CommonName: "rome"}})
	if err := c.Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	look(15 * time.Second) // it says no
	code.Store(http.StatusOK)
	look(15 * time.Second)
	code.Store(http.StatusForbidden)
	look(time.Second)
}

// public is the public part of a key.
func public(t *testing.T, private any) any {
	t.Helper()
	k, is := private.(crypto.Signer)
	if !is {
		t.Fatalf("a key of type %T", private)
	}
	return k.Public()
}

// The worker of virtual nodes waits for no signature, and gives up where nobody signs.
func TestNoWorkerWaitsForASignature(t *testing.T) {
	c := clusterWith(t)
	recorder := events.NewFakeRecorder(10)
	r := &virtualNodes{client: c, recorder: recorder, unsigned: map[types.UID]time.Time{}, asked: map[types.UID]*serving{}, authority: authority{config: &rest.Config{}}}
	v := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", UID: "v"}}
	p := peering.NodeProgram{VirtualNode: v, Consumer: "rome"}
	now := time.Now()
	look := func(ip string, after, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		began := time.Now()
		again, err := r.serving(t.Context(), p, ip, now)
		if err != nil || again != want {
			t.Errorf("again in %s, %v; want %s", again, err, want)
		}
		if took := time.Since(began); took > servingTime/2 {
			t.Errorf("it took %s", took)
		}
	}
	requests := func() []certificatesv1.CertificateSigningRequest {
		var all certificatesv1.CertificateSigningRequestList
		if err := c.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		return all.Items
	}
	look("10.244.0.11", 0, servingLook)
	look("10.244.0.11", servingLook, servingLook)
	look("10.244.0.11", 800*time.Millisecond, time.Second)
	if all := requests(); len(all) != 1 {
		t.Fatalf("%d requests", len(all))
	}
	look("10.244.0.11", 2*time.Second, refusedAgain)
	if all := requests(); len(all) > 0 {
		t.Errorf("left: %v", all)
	}
	if len(recorder.Events) != 1 {
		t.Errorf("%d events", len(recorder.Events))
	}
	look("10.244.0.11", refusedAgain, servingLook)
	look("10.244.0.12", time.Second, servingLook) // the program is elsewhere by now
	all := requests()
	if len(all) != 1 {
		t.Fatalf("%d requests", len(all))
	}
	block, _ := pem.Decode(all[0].Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || len(request.IPAddresses) != 1 || !request.IPAddresses[0].Equal(net.ParseIP("10.244.0.12")) {
		t.Fatalf("asked for %v, %v", request.IPAddresses, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	all[0].Status.Certificate = signed(t, &x509.Certificate{Subject: pkix.Name{CommonName: "kubelets"}}, key, request.PublicKey, now, x509.Certificate{Subject: request.Subject, IPAddresses: request.IPAddresses})
	if err := c.Status().Update(t.Context(), &all[0]); err != nil {
		t.Fatal(err)
	}
	look("10.244.0.12", servingLook, time.Minute)
	s := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: v.Namespace, Name: peering.ServingName(v.Name)}, s); err != nil || len(s.Data[corev1.TLSPrivateKeyKey]) == 0 {
		t.Errorf("it is not kept: %v", err)
	}
	if all := requests(); len(all)+len(r.asked) > 0 {
		t.Errorf("left: %v, %v", all, r.asked)
	}
}
