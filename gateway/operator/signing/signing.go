// Package signing reads a cluster's certificate authorities, and the reasons of refused certificate requests.
package signing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Authority is the certificate authority (CA) by which clients verify this cluster's API server. Kubernetes
// keeps its file in the operator's pod up to date.
type Authority struct {
	Config *rest.Config
	// Clients reads the CAs by which the API server verifies client certificates; nil if these don't matter.
	Clients client.Reader
}

// PEM returns the certificates of the authority.
func (a Authority) PEM() ([]byte, error) {
	if len(a.Config.CAData) > 0 || a.Config.CAFile == "" {
		return slices.Clone(a.Config.CAData), nil
	}
	ca, err := os.ReadFile(a.Config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the API server's certificate authority: %w", err)
	}
	return ca, nil
}

// Mark identifies the CAs: it differs after a change. Certificates are signed again after a change of the
// CAs, because a cluster that replaces its CA also replaces its signing key. The CA for clients may differ
// from the API server's CA, and may be replaced independently.
func (a Authority) Mark(ctx context.Context) (string, error) {
	ca, err := a.PEM()
	if err != nil || a.Clients == nil {
		return markOf(ca), err
	}
	m := &corev1.ConfigMap{}
	err = a.Clients.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}, m)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read the certificate authorities of clients: %w", err)
	}
	if others := m.Data["client-ca-file"]; !bytes.Contains(ca, bytes.TrimSpace([]byte(others))) {
		ca = append(ca, others...)
	}
	return markOf(ca), nil
}

func markOf(ca []byte) string { return fmt.Sprintf("%x", sha256.Sum256(ca))[:16] }

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Every is the interval at which [Authority.Mark] is called again. Kubernetes takes a minute or two to write
// another CA into the pod.
const Every = 10 * time.Second

// News queues all requests when the CAs change.
func (a Authority) News(every time.Duration, all func(context.Context) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		was, err := a.Mark(ctx)
		if err != nil {
			return err
		}
		go func() {
			for tick := time.Tick(every); ; {
				select {
				case <-ctx.Done():
					return
				case <-tick:
				}
				is, err := a.Mark(ctx)
				if err != nil {
					ctrl.LoggerFrom(ctx).Error(err, "read the certificate authorities")
					continue
				}
				if is != was {
					was = is
					for _, one := range all(ctx) {
						q.Add(one)
					}
				}
			}
		}()
		return nil
	})
}

// RefusedAgain is the time until a certificate is requested again after a refusal.
const RefusedAgain = 5 * time.Minute

// Refused returns the reason of a refused request; "" if it was not refused.
func Refused(r *certificatesv1.CertificateSigningRequest) string {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return fmt.Sprintf("request %s for its certificate was refused: %s %s", r.Name, c.Reason, c.Message)
		}
	}
	return ""
}
