package tenancy

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
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/kube/operator/own"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// servingTime is how long Kubernetes may take to sign what the program of a virtual node
// shows to API servers: the one worker waits for it.
const servingTime = 3 * time.Second

// serving keeps the certificate of a virtual node's program for the address at which it
// listens. Without one the program shows its own, which API servers take that don't check.
// again is when to look again.
func (r *virtualNodes) serving(ctx context.Context, p peering.NodeProgram, ip string, now time.Time) (again time.Duration, err error) {
	if ip == "" {
		return 0, nil
	}
	stored := &corev1.Secret{}
	if err := r.read(ctx, client.ObjectKey{Namespace: p.Namespace, Name: peering.ServingName(p.Name)}, stored); err != nil {
		return 0, err
	}
	if c, err := peering.Certificate(stored.Data[corev1.TLSCertKey]); err == nil && metav1.IsControlledBy(stored, p.VirtualNode) && c.VerifyHostname(ip) == nil {
		if again := peering.RenewAt(c.NotBefore, c.NotAfter).Sub(now); again > 0 {
			return again, nil
		}
	}
	if until := r.unsigned[p.UID]; until.After(now) {
		return until.Sub(now), nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return 0, err
	}
	template := peering.ServingRequest(p.Name)
	template.IPAddresses = []net.IP{net.ParseIP(ip)}
	csr, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return 0, fmt.Errorf("make a request for the certificate of Node %s: %w", p.Name, err)
	}
	certificate, err := r.signed(ctx, p.SigningRequest(csr))
	if unsigned, is := errors.AsType[*unsignedError](err); is {
		r.recorder.Eventf(p.VirtualNode, nil, corev1.EventTypeWarning, "NoServingCertificate", "Sign",
			"%s: kubectl logs and exec work for pods on it only where API servers don't check certificates of kubelets", unsigned)
		r.unsigned[p.UID] = now.Add(refusedAgain)
		return refusedAgain, nil
	}
	delete(r.unsigned, p.UID)
	if err != nil {
		return 0, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return 0, err
	}
	if _, err := own.Apply(ctx, r.client, p.ServingSecret(certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))); err != nil {
		return 0, err
	}
	return time.Minute, nil
}

// unsignedError says that nobody on this cluster signs.
type unsignedError struct{ why string }

func (e *unsignedError) Error() string { return e.why }

// signed asks for a certificate, approves that, and waits for it. A request of its name was
// left by a process that has ended, and with it its key.
func (r *virtualNodes) signed(ctx context.Context, want *certificatesv1.CertificateSigningRequest) (certificate []byte, err error) {
	if err := r.unasked(ctx, want.Name); err != nil {
		return nil, err
	}
	if err := r.client.Create(ctx, want, client.FieldOwner(own.Manager)); err != nil {
		return nil, fmt.Errorf("ask for certificate %s: %w", want.Name, err)
	}
	defer func() { err = errors.Join(err, own.Delete(ctx, r.client, want)) }()
	want.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "VirtualNode", Message: "the operator has asked for it, for the program of a virtual node",
		LastUpdateTime: metav1.Now(),
	}}
	if err := r.client.SubResource("approval").Update(ctx, want, client.FieldOwner(own.Manager)); err != nil {
		return nil, fmt.Errorf("approve request %s: %w", want.Name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, servingTime, true, func(ctx context.Context) (bool, error) {
		if err := r.client.Get(ctx, client.ObjectKeyFromObject(want), want); err != nil {
			return false, err
		}
		return len(want.Status.Certificate) > 0 || refused(want) != "", nil
	})
	switch why := refused(want); {
	case why != "":
		return nil, &unsignedError{why}
	case wait.Interrupted(err) && ctx.Err() == nil:
		return nil, &unsignedError{fmt.Sprintf("nothing on this cluster signs for %s within %s", want.Spec.SignerName, servingTime)}
	case err != nil:
		return nil, fmt.Errorf("wait for certificate %s: %w", want.Name, err)
	}
	return want.Status.Certificate, nil
}

// unasked removes a request that was left.
func (r *virtualNodes) unasked(ctx context.Context, name string) error {
	live := &certificatesv1.CertificateSigningRequest{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read request %s: %w", name, err)
	}
	return own.Delete(ctx, r.client, live)
}

// unaskedFor is that of a virtual node which goes.
func (r *virtualNodes) unaskedFor(ctx context.Context, v *offloadingv1beta1.VirtualNode) error {
	if v.UID == "" {
		return nil
	}
	return r.unasked(ctx, peering.ServingRequestName(v))
}
