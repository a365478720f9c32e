package tenancy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/remote"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// authorityFile is this cluster's authority, and changes it.
func authorityFile(t *testing.T) (a authority, change func(string)) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.crt")
	change = func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("first")
	return authority{config: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: name}}}, change
}

// A certificate that was signed under another authority is good for nothing once that is
// gone, however long it is to live.
func TestAnotherAuthorityIsAnotherCertificate(t *testing.T) {
	private, public, err := peering.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := peering.NewRequest(private, "rome", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tenant := &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome", UID: "u"},
		Spec:       authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: public, CSR: asked.CSR},
	}
	of := peering.OfTenant(tenant)
	c := clusterWith(t)
	s := &signer{client: c, reader: c}
	var change func(string)
	s.authority, change = authorityFile(t)
	now := time.Now()
	look := func() ([]byte, time.Duration) {
		t.Helper()
		stored, err := s.stored(t.Context(), tenant.Namespace, peering.CertificateName)
		if err != nil {
			t.Fatal(err)
		}
		certificate, again, err := s.certificate(t.Context(), of, stored, now)
		if err != nil {
			t.Fatal(err)
		}
		return certificate, again
	}
	sign := func() {
		t.Helper()
		var all certificatesv1.CertificateSigningRequestList
		if err := c.List(t.Context(), &all); err != nil || len(all.Items) != 1 {
			t.Fatalf("%d requests, %v", len(all.Items), err)
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(all.Items[0].Spec.Request)
		request, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all.Items[0].Status.Certificate = signed(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}}, key, request.PublicKey, now, x509.Certificate{Subject: request.Subject})
		if err := c.Status().Update(t.Context(), &all.Items[0]); err != nil {
			t.Fatal(err)
		}
	}
	if certificate, _ := look(); certificate != nil {
		t.Fatal("there is a certificate that nobody has signed")
	}
	sign()
	first, again := look()
	if first == nil || again < 19*24*time.Hour {
		t.Fatalf("%d bytes, again in %s", len(first), again)
	}
	if same, _ := look(); !bytes.Equal(same, first) {
		t.Fatal("it was signed anew without a reason")
	}
	change("second")
	if kept, _ := look(); !bytes.Equal(kept, first) {
		t.Error("while it is signed anew, there is none")
	}
	sign()
	second, again := look()
	if bytes.Equal(second, first) || again < 19*24*time.Hour {
		t.Errorf("under another authority it is the same, again in %s", again)
	}
	if same, _ := look(); !bytes.Equal(same, second) {
		t.Error("it is signed again and again")
	}
	// Clients are known by another authority than the server.
	clients := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"}, Data: map[string]string{"client-ca-file": "second\n"}}
	if err := c.Create(t.Context(), clients); err != nil {
		t.Fatal(err)
	}
	s.authority.clients = c
	if same, _ := look(); !bytes.Equal(same, second) {
		t.Error("the server's is that of clients, and it was signed anew")
	}
	clients.Data["client-ca-file"] = "third"
	if err := c.Update(t.Context(), clients); err != nil {
		t.Fatal(err)
	}
	if kept, _ := look(); !bytes.Equal(kept, second) {
		t.Error("while it is signed anew for another authority of clients, there is none")
	}
	sign()
	third, _ := look()
	if bytes.Equal(third, second) {
		t.Error("under another authority of clients it is the same")
	}
	if same, _ := look(); !bytes.Equal(same, third) {
		t.Error("it is signed again and again")
	}
}

// Serving certificates of virtual nodes follow it, too.
func TestAnotherAuthorityIsAnotherServingCertificate(t *testing.T) {
	c := clusterWith(t)
	r := &virtualNodes{client: c, unsigned: map[types.UID]time.Time{}, asked: map[types.UID]*serving{}}
	var change func(string)
	r.authority, change = authorityFile(t)
	p := peering.NodeProgram{Consumer: "rome", VirtualNode: &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", UID: "v"}}}
	const ip = "10.244.0.11"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	mark, err := r.authority.mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keep := p.ServingSecret(signed(t, nil, key, key.Public(), now, x509.Certificate{IPAddresses: []net.IP{net.ParseIP(ip)}}), nil)
	metav1.SetMetaDataAnnotation(&keep.ObjectMeta, peering.AnnotationAuthority, mark)
	if err := c.Create(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	if again, err := r.serving(t.Context(), p, ip, now); err != nil || again < 19*24*time.Hour {
		t.Errorf("again in %s, %v", again, err)
	}
	change("second")
	if again, err := r.serving(t.Context(), p, ip, now); err != nil || again != servingLook || len(r.asked) != 1 {
		t.Errorf("under another authority: again in %s, %v", again, err)
	}
}

func TestAnotherAuthorityIsNews(t *testing.T) {
	a, change := authorityFile(t)
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	want := reconcile.Request{NamespacedName: types.NamespacedName{Name: "rome"}}
	var told atomic.Int32
	if err := a.news(time.Millisecond, func(context.Context) []reconcile.Request {
		told.Add(1)
		return []reconcile.Request{want}
	}).Start(ctx, q); err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, q.ShutDown)
	for n, text := range []string{"second", "third"} {
		change(text)
		if got, ended := q.Get(); ended || got != want {
			t.Fatalf("after the %s: %v, %t", text, got, ended)
		}
		q.Done(want)
		if got := told.Load(); got < int32(n+1) {
			t.Errorf("told %d times", got)
		}
	}
}

// Until a provider's API server shows a certificate of its new authority, the old one counts.
func TestBothAuthoritiesCountUntilTheNewOneIsUsed(t *testing.T) {
	var code atomic.Int32
	code.Store(http.StatusForbidden)
	url, uses := refusing(t, &code)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	next := signed(t, nil, key, key.Public(), time.Now(), x509.Certificate{Subject: pkix.Name{CommonName: "next"}, IsCA: true, BasicConstraintsValid: true})
	both := append(append([]byte{}, next...), append([]byte("\n"), uses...)...)
	for name, c := range map[string]struct{ has, says, want []byte }{
		"the same":               {uses, uses, uses},
		"it will be another one": {uses, next, both},
		"both, and the old one":  {both, uses, uses},
		"it says both":           {uses, both, both},
		"nonsense":               {uses, []byte("x"), uses},
	} {
		if got := authorityOf(t.Context(), remote.Access{Server: url, CA: c.has}, c.says); !bytes.Equal(got, c.want) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// A slice tells that its provider has another authority.
func TestASliceTellsOfAnotherAuthority(t *testing.T) {
	now := time.Now()
	by := func(authority string, from time.Time) []byte {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return signed(t, &x509.Certificate{Subject: pkix.Name{CommonName: authority}}, key, key.Public(), from, x509.Certificate{Subject: pkix.Name{CommonName: "rome"}})
	}
	c, err := peering.Certificate(by("clients", now))
	if err != nil {
		t.Fatal(err)
	}
	i := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}, Spec: authv1beta1.IdentitySpec{ClusterID: "milan", AuthParams: authv1beta1.AuthParams{CA: []byte("a\n")}}}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: "milan", Labels: map[string]string{peering.LabelReplication: "true", peering.LabelDestination: "milan"}}}
	for name, of := range map[string]struct {
		says authv1beta1.AuthParams
		want bool
	}{
		"nothing":                     {authv1beta1.AuthParams{}, false},
		"the same":                    {authv1beta1.AuthParams{CA: []byte("a"), SignedCRT: by("clients", now.Add(time.Hour))}, false},
		"the same, with a line's end": {authv1beta1.AuthParams{CA: []byte("a\n")}, false},
		"another one":                 {authv1beta1.AuthParams{CA: []byte("b")}, true},
		"another one of clients":      {authv1beta1.AuthParams{CA: []byte("a"), SignedCRT: by("others", now.Add(time.Hour))}, true},
		"a former one of clients":     {authv1beta1.AuthParams{CA: []byte("a"), SignedCRT: by("others", now.Add(-time.Hour))}, false},
	} {
		slice.Status.AuthParams = &of.says
		r := &peers{client: clusterWith(t, slice)}
		if got, err := r.another(t.Context(), i, c); err != nil || got != of.want {
			t.Errorf("it says %s: %t, %v", name, got, err)
		}
	}
}
