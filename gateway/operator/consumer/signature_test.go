package consumer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/gateway/operator/signing"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// The worker of virtual nodes does not wait for a signature, and gives up if no signer signs.
func TestNoWorkerWaitsForASignature(t *testing.T) {
	c := lendingtest.Cluster(t)
	recorder := events.NewFakeRecorder(10)
	r := &virtualNodes{client: c, recorder: recorder, unsigned: map[types.UID]time.Time{}, asked: map[types.UID]*serving{}, authority: signing.Authority{Config: &rest.Config{}}}
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
	look("10.244.0.11", 2*time.Second, signing.RefusedAgain)
	if all := requests(); len(all) > 0 {
		t.Errorf("left: %v", all)
	}
	if len(recorder.Events) != 1 {
		t.Errorf("%d events", len(recorder.Events))
	}
	look("10.244.0.11", signing.RefusedAgain, servingLook)
	look("10.244.0.12", time.Second, servingLook) // the virtual kubelet has another address now
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
	all[0].Status.Certificate = lendingtest.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "kubelets"}}, key, request.PublicKey, now, x509.Certificate{Subject: request.Subject, IPAddresses: request.IPAddresses})
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

// Serving certificates of virtual nodes also change with the authority.
func TestAnotherAuthorityIsAnotherServingCertificate(t *testing.T) {
	c := lendingtest.Cluster(t)
	r := &virtualNodes{client: c, unsigned: map[types.UID]time.Time{}, asked: map[types.UID]*serving{}}
	file, change := lendingtest.AuthorityFile(t)
	r.authority = signing.Authority{Config: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file}}}
	p := peering.NodeProgram{Consumer: "rome", VirtualNode: &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", UID: "v"}}}
	const ip = "10.244.0.11"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	mark, err := r.authority.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keep := p.ServingSecret(lendingtest.Sign(t, nil, key, key.Public(), now, x509.Certificate{IPAddresses: []net.IP{net.ParseIP(ip)}}), nil)
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
