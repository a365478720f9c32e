package provider

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/signing"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// signingTime is the longest time to wait for Kubernetes to sign. It usually takes 30 to 190 ms.
const signingTime = 30 * time.Second

// signer lets Kubernetes sign the certificates of consumers.
type signer struct {
	client    client.Client
	reader    client.Reader // not cached
	authority signing.Authority
}

// ownerIn queues the owner of a signing request. The annotation names the owner.
func ownerIn(annotation string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		namespace, name, ok := strings.Cut(o.GetAnnotations()[annotation], "/")
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
	})
}

// stored returns the Secret with the earlier certificate; nil if there is none.
func (r *signer) stored(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	switch err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read certificate %s/%s: %w", namespace, name, err)
	}
	return s, nil
}

// holds reports whether the Secret has a certificate for the same owner, key and signing request.
func holds(s *corev1.Secret, of peering.Certified) bool {
	if s == nil || !bytes.Equal(s.Data[peering.KeyPublicKey], of.PublicKey) || !bytes.Equal(s.Data[peering.KeyCSR], of.CSR) {
		return false
	}
	owner := metav1.GetControllerOf(s)
	return owner != nil && owner.UID == of.Owner.GetUID()
}

// certificate returns the certificate of an accepted consumer; nil while there is none. It requests a new one
// at the beginning of the last third of the certificate's life, or when the cluster has another certificate
// authority. again is the time until the next call. 0 means that an event causes the next call.
func (r *signer) certificate(ctx context.Context, of peering.Certified, stored *corev1.Secret, now time.Time) (certificate []byte, again time.Duration, err error) {
	mark, err := r.authority.Mark(ctx)
	if err != nil {
		return nil, 0, err
	}
	var last []byte
	if holds(stored, of) {
		last = stored.Data[peering.KeyCertificate]
		if c, err := peering.Certificate(last); err == nil {
			certificate, again = last, peering.RenewAt(c.NotBefore, c.NotAfter).Sub(now)
			if again > 0 && stored.Annotations[peering.AnnotationAuthority] == mark {
				return certificate, again, nil
			}
		}
	}
	// The name of a request depends on owner, key, authority and period. So the request of an earlier attempt
	// is found again, and each certificate has its own request.
	sum := sha256.Sum256(bytes.Join([][]byte{[]byte(of.Owner.GetUID()), of.CSR, last, []byte(mark)}, []byte{0}))
	request, err := r.request(ctx, of, fmt.Sprintf("liqo-tui-%s-%x", of.Consumer, sum[:8]))
	if err != nil {
		return certificate, 0, err
	}
	if why := signing.Refused(request); why != "" {
		if err := control.Delete(ctx, r.client, request); err != nil {
			return certificate, 0, err
		}
		return certificate, signing.RefusedAgain, errors.New(why)
	}
	if len(request.Status.Certificate) == 0 {
		waits := now.Sub(request.CreationTimestamp.Time)
		if waits > signingTime {
			return certificate, signing.RefusedAgain, fmt.Errorf("nothing on this cluster has signed request %s for %s: does its control plane sign for %s?", request.Name, waits.Truncate(time.Second), request.Spec.SignerName)
		}
		return certificate, signingTime - waits + time.Second, nil
	}
	// A signer may have signed a certificate that differs from the request.
	c, err := peering.Certificate(request.Status.Certificate)
	if err != nil {
		return certificate, signing.RefusedAgain, fmt.Errorf("the signed certificate can't be read: %w", err)
	}
	if s := c.Subject; !of.Certifies(request.Status.Certificate) || s.CommonName != of.User || len(s.Organization) != 1 || s.Organization[0] != of.Group {
		return certificate, signing.RefusedAgain, fmt.Errorf("the signed certificate is for %s, not for the requested name", c.Subject)
	}
	keep := of.Secret(request.Status.Certificate)
	metav1.SetMetaDataAnnotation(&keep.ObjectMeta, peering.AnnotationAuthority, mark)
	if _, err := control.Apply(ctx, r.client, keep); err != nil {
		return certificate, 0, err
	}
	return request.Status.Certificate, max(peering.RenewAt(c.NotBefore, c.NotAfter).Sub(now), time.Minute), control.Delete(ctx, r.client, request)
}

// request creates a CertificateSigningRequest and approves it. A request of the same name with other contents
// is not ours, and is deleted.
func (r *signer) request(ctx context.Context, of peering.Certified, name string) (*certificatesv1.CertificateSigningRequest, error) {
	want := of.SigningRequest(name)
	live := &certificatesv1.CertificateSigningRequest{}
	err := r.reader.Get(ctx, client.ObjectKey{Name: name}, live)
	if err == nil && !asks(live, want) {
		if err := control.Delete(ctx, r.client, live); err != nil {
			return nil, err
		}
		err = apierrors.NewNotFound(certificatesv1.Resource("certificatesigningrequests"), name)
	}
	if apierrors.IsNotFound(err) {
		live, err = want, r.client.Create(ctx, want, client.FieldOwner(control.Manager))
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the certificate of %s: %w", apply.Name(of.Owner), err)
	}
	if len(live.Status.Conditions) > 0 {
		return live, nil
	}
	live.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "TenantAccepted",
		Message: fmt.Sprintf("the Tenant of %s has signed its nonce", of.Key()), LastUpdateTime: metav1.Now(),
	}}
	if err := r.client.SubResource("approval").Update(ctx, live, client.FieldOwner(control.Manager)); err != nil {
		return nil, fmt.Errorf("approve request %s: %w", name, err)
	}
	return live, nil
}

// asks reports whether the requests live and want ask for the same certificate.
func asks(live, want *certificatesv1.CertificateSigningRequest) bool {
	a, b := live.Spec, want.Spec
	if len(a.Usages) != len(b.Usages) || !bytes.Equal(a.Request, b.Request) || a.SignerName != b.SignerName || a.ExpirationSeconds == nil || *a.ExpirationSeconds != *b.ExpirationSeconds {
		return false
	}
	for i := range a.Usages {
		if a.Usages[i] != b.Usages[i] {
			return false
		}
	}
	return live.Annotations[peering.AnnotationTenant] == want.Annotations[peering.AnnotationTenant] && live.Annotations[peering.AnnotationSlice] == want.Annotations[peering.AnnotationSlice]
}

// forget removes the signing requests and the certificate of an owner that is gone. Kubernetes' garbage
// collector would remove them, too, but it discovers new kinds only every 30 s.
func (r *signer) forget(ctx context.Context, mark, kind string, owner client.ObjectKey, secret string) error {
	var errs []error
	var requests certificatesv1.CertificateSigningRequestList
	errs = append(errs, r.client.List(ctx, &requests))
	for i := range requests.Items {
		if o := &requests.Items[i]; o.Annotations[mark] == owner.String() {
			errs = append(errs, control.Delete(ctx, r.client, o))
		}
	}
	switch err := r.client.Get(ctx, client.ObjectKey{Name: owner.Namespace}, &corev1.Namespace{}); {
	case apierrors.IsNotFound(err): // the namespace has no label of a peer, so the operator may not read Secrets there
	case err != nil:
		errs = append(errs, err)
	default:
		s, err := r.stored(ctx, owner.Namespace, secret)
		errs = append(errs, err)
		if s != nil && isLeftBy(s, kind, owner.Name) {
			errs = append(errs, control.Delete(ctx, r.client, s))
		}
	}
	return errors.Join(errs...)
}

func isLeftBy(o client.Object, kind, name string) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.Kind == kind && owner.Name == name
}
