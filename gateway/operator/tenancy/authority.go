// Package signing tells which certificate authorities a cluster has, and why a request for a certificate
// was refused.
package tenancy

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

// authority is the certificate authority (CA) by which clients verify this cluster's API server. Kubernetes
// keeps its file in the operator's pod up to date.
type authority struct {
	config *rest.Config
	// clients reads the CAs by which the API server verifies client certificates; nil where they don't matter.
	clients client.Reader
}

func (a authority) pem() ([]byte, error) {
	if len(a.config.CAData) > 0 || a.config.CAFile == "" {
		return slices.Clone(a.config.CAData), nil
	}
	ca, err := os.ReadFile(a.config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the API server's certificate authority: %w", err)
	}
	return ca, nil
}

// mark identifies the CAs, so that a change shows. A certificate signed under other CAs is signed again: a
// cluster that replaces its CA replaces its signing key, too. The CA for clients may differ from the API
// server's, and may be replaced alone.
func (a authority) mark(ctx context.Context) (string, error) {
	ca, err := a.pem()
	if err != nil || a.clients == nil {
		return markOf(ca), err
	}
	m := &corev1.ConfigMap{}
	err = a.clients.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}, m)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read by which authorities clients are known: %w", err)
	}
	if others := m.Data["client-ca-file"]; !bytes.Contains(ca, bytes.TrimSpace([]byte(others))) {
		ca = append(ca, others...)
	}
	return markOf(ca), nil
}

func markOf(ca []byte) string { return fmt.Sprintf("%x", sha256.Sum256(ca))[:16] }

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// authorityEvery is how often mark is read again. Kubernetes takes a minute or two to bring another CA into
// the pod.
const authorityEvery = 10 * time.Second

// news queues everything when the CAs change.
func (a authority) news(every time.Duration, all func(context.Context) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		was, err := a.mark(ctx)
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
				is, err := a.mark(ctx)
				if err != nil {
					ctrl.LoggerFrom(ctx).Error(err, "tries again")
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

// refusedAgain is how soon a certificate is requested again after a refusal.
const refusedAgain = 5 * time.Minute

// refused says why a request was refused; "" if it was not.
func refused(r *certificatesv1.CertificateSigningRequest) string {
	for _, c := range r.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return fmt.Sprintf("request %s for its certificate was refused: %s %s", r.Name, c.Reason, c.Message)
		}
	}
	return ""
}
