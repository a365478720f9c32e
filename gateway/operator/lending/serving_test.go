package lending_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"net"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// csr requests the certificate of a node's kubelet.
func (w *pair) csr(t *testing.T, node string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := peering.ServingRequest(node)
	template.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// testAddress moves the pod of the node's program from one address to another.
func (w *pair) testAddress(t *testing.T) {
	d := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	if err := w.rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "vk-milan"}, d); err != nil {
		t.Fatal(err)
	}
	at := func(name, ip string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "liqo-tenant-milan", Name: name, Labels: map[string]string{peering.LabelVirtualNode: "milan", peering.LabelKubelet: peering.KubeletComponent},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID, Controller: new(true)}},
			},
			Spec: corev1.PodSpec{ServiceAccountName: "liqo-tui-node-milan", NodeName: "nowhere", Containers: []corev1.Container{{Name: "node", Image: "x"}}},
		}
		change(p)
		w.rome.create(p)
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}}
		if err := w.rome.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	serves := func(ip string) {
		t.Helper()
		until(t, w.rome, member(), "at "+ip, func(n *corev1.Node) bool {
			return slices.Equal(n.Status.Addresses, []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}) && n.Status.DaemonEndpoints.KubeletEndpoint.Port == 10250
		})
		until(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "liqo-tui-node-milan-serving"}}, "a certificate for "+ip, func(s *corev1.Secret) bool {
			c, err := peering.Certificate(s.Data[corev1.TLSCertKey])
			return err == nil && c.VerifyHostname(ip) == nil && c.Subject.CommonName == "system:node:milan" && slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth})
		})
	}
	first := at("vk-milan-1", "10.244.0.11", func(*corev1.Pod) {})
	serves("10.244.0.11")
	other := at("vk-milan-2", "192.0.2.9", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" }) // a pod of another account
	w.rome.runDeletePod(t, first)
	until(t, w.rome, member(), "nowhere", func(n *corev1.Node) bool {
		return len(n.Status.Addresses) == 0 && n.Status.DaemonEndpoints.KubeletEndpoint.Port == 0
	})
	second := at("vk-milan-3", "10.244.0.12", func(*corev1.Pod) {})
	serves("10.244.0.12")
	w.rome.runDeletePod(t, other)
	w.rome.runDeletePod(t, second)
	var left certificatesv1.CertificateSigningRequestList
	if err := w.rome.List(t.Context(), &left); err != nil || len(left.Items) > 0 {
		t.Errorf("left are the requests %v (%v)", left.Items, err)
	}
}

func (p *plane) runDeletePod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := p.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	untilGone(t, p, pod)
}
