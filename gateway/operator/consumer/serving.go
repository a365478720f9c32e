package consumer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/signing"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

const (
	// servingTime is the longest time to wait for Kubernetes to sign the serving certificate of a virtual
	// kubelet.
	servingTime = 3 * time.Second
	servingLook = 200 * time.Millisecond // the interval at which the request is read; signing usually takes 30 to 190 ms
)

// serving is a requested certificate. Until it is signed, its key is only here.
type serving struct {
	request *certificatesv1.CertificateSigningRequest
	key     *ecdsa.PrivateKey
	ip      string
	since   time.Time
}

// serving keeps a certificate of the virtual kubelet valid for the address at which it listens. Without this
// certificate, the virtual kubelet makes one itself, which API servers reject if they verify kubelets. again
// is the time until the next call.
func (r *virtualNodes) serving(ctx context.Context, p peering.NodeProgram, ip string, now time.Time) (again time.Duration, err error) {
	asked := r.asked[p.UID]
	if asked != nil && asked.ip != ip {
		if err := r.unasked(ctx, p.UID, asked.request.Name); err != nil {
			return 0, err
		}
		asked = nil
	}
	if ip == "" {
		return 0, nil
	}
	stored := &corev1.Secret{}
	if err := r.read(ctx, client.ObjectKey{Namespace: p.Namespace, Name: peering.ServingName(p.Name)}, stored); err != nil {
		return 0, err
	}
	mark, err := r.authority.Mark(ctx)
	if err != nil {
		return 0, err
	}
	if c, err := peering.Certificate(stored.Data[corev1.TLSCertKey]); err == nil && metav1.IsControlledBy(stored, p.VirtualNode) && c.VerifyHostname(ip) == nil && stored.Annotations[peering.AnnotationAuthority] == mark {
		if again := peering.RenewAt(c.NotBefore, c.NotAfter).Sub(now); again > 0 {
			return again, nil
		}
	}
	if until := r.unsigned[p.UID]; until.After(now) {
		return until.Sub(now), nil
	}
	if asked == nil {
		asked, err = r.ask(ctx, p, ip, now)
		if err != nil {
			return 0, err
		}
		r.asked[p.UID] = asked
		return servingLook, nil
	}
	certificate, err := r.signed(ctx, asked, now)
	unsigned, is := errors.AsType[*unsignedError](err)
	switch {
	case err == nil && len(certificate) == 0: // the next look comes after the time that has passed since the request
		return max(servingLook, now.Sub(asked.since)), nil
	case err != nil && !is:
		return 0, err
	}
	if err := r.unasked(ctx, p.UID, asked.request.Name); err != nil {
		return 0, err
	}
	if is {
		r.recorder.Eventf(p.VirtualNode, nil, corev1.EventTypeWarning, "NoServingCertificate", "Sign",
			"%s: kubectl logs and exec work for pods on it only where API servers don't check certificates of kubelets", unsigned)
		r.unsigned[p.UID] = now.Add(signing.RefusedAgain)
		return signing.RefusedAgain, nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(asked.key)
	if err != nil {
		return 0, err
	}
	keep := p.ServingSecret(certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	metav1.SetMetaDataAnnotation(&keep.ObjectMeta, peering.AnnotationAuthority, mark)
	if _, err := control.Apply(ctx, r.client, keep); err != nil {
		return 0, err
	}
	return time.Minute, nil
}

// unsignedError means that nothing on this cluster signs the request.
type unsignedError struct{ why string }

func (e *unsignedError) Error() string { return e.why }

// ask creates a signing request and approves it. It replaces an earlier request of the same name: the process
// that made it has ended, and the key is lost.
func (r *virtualNodes) ask(ctx context.Context, p peering.NodeProgram, ip string, now time.Time) (*serving, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := peering.ServingRequest(p.Name)
	template.IPAddresses = []net.IP{net.ParseIP(ip)}
	csr, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("make a request for the certificate of Node %s: %w", p.Name, err)
	}
	want := p.SigningRequest(csr)
	if err := r.unasked(ctx, p.UID, want.Name); err != nil {
		return nil, err
	}
	if err := r.client.Create(ctx, want, client.FieldOwner(control.Manager)); err != nil {
		return nil, fmt.Errorf("ask for certificate %s: %w", want.Name, err)
	}
	want.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "VirtualNode", Message: "the operator has requested it for a virtual kubelet",
		LastUpdateTime: metav1.Now(),
	}}
	if err := r.client.SubResource("approval").Update(ctx, want, client.FieldOwner(control.Manager)); err != nil {
		return nil, fmt.Errorf("approve request %s: %w", want.Name, err)
	}
	return &serving{want, key, ip, now}, nil
}

// signed returns the certificate; nil while there is none.
func (r *virtualNodes) signed(ctx context.Context, asked *serving, now time.Time) ([]byte, error) {
	live := &certificatesv1.CertificateSigningRequest{}
	switch err := r.client.Get(ctx, client.ObjectKeyFromObject(asked.request), live); {
	case apierrors.IsNotFound(err) || err == nil && live.UID != asked.request.UID:
		return nil, &unsignedError{fmt.Sprintf("somebody has removed request %s", asked.request.Name)}
	case err != nil:
		return nil, fmt.Errorf("read request %s: %w", asked.request.Name, err)
	case signing.Refused(live) != "":
		return nil, &unsignedError{signing.Refused(live)}
	case len(live.Status.Certificate) == 0 && now.Sub(asked.since) >= servingTime:
		return nil, &unsignedError{fmt.Sprintf("nothing on this cluster signs for %s within %s", live.Spec.SignerName, servingTime)}
	}
	return live.Status.Certificate, nil
}

// unasked deletes a signing request of a VirtualNode that is not needed any more.
func (r *virtualNodes) unasked(ctx context.Context, of types.UID, name string) error {
	live := &certificatesv1.CertificateSigningRequest{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, live); err == nil {
		err = control.Delete(ctx, r.client, live)
		if err != nil {
			return err
		}
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read request %s: %w", name, err)
	}
	delete(r.asked, of)
	return nil
}

// unaskedFor deletes the signing request of a virtual node that is being removed.
func (r *virtualNodes) unaskedFor(ctx context.Context, v *offloadingv1beta1.VirtualNode) error {
	if v.UID == "" {
		return nil
	}
	delete(r.unsigned, v.UID)
	return r.unasked(ctx, v.UID, peering.ServingRequestName(v))
}
