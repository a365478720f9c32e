package provider

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/gateway/operator/signing"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// A certificate of a former authority is useless when that authority is gone, however long it is valid.
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
	c := lendingtest.Cluster(t)
	s := &signer{client: c, reader: c}
	file, change := lendingtest.AuthorityFile(t)
	s.authority = signing.Authority{Config: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file}}}
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
		all.Items[0].Status.Certificate = lendingtest.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}}, key, request.PublicKey, now, x509.Certificate{Subject: request.Subject})
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
	// Clients have another authority than the server.
	clients := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"}, Data: map[string]string{"client-ca-file": "second\n"}}
	if err := c.Create(t.Context(), clients); err != nil {
		t.Fatal(err)
	}
	s.authority.Clients = c
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
