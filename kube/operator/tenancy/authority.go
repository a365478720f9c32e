package tenancy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// authority is this cluster's certificate authority, by which its API server is known.
// Kubernetes keeps the file in the operator's pod up to date.
type authority struct{ config *rest.Config }

func (a authority) pem() ([]byte, error) {
	if len(a.config.CAData) > 0 || a.config.CAFile == "" {
		return a.config.CAData, nil
	}
	ca, err := os.ReadFile(a.config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the API server's certificate authority: %w", err)
	}
	return ca, nil
}

// mark tells it from others. What was signed under another one is signed anew: a cluster
// that replaces its authority replaces what signs for it, too.
func (a authority) mark() (string, error) {
	ca, err := a.pem()
	return fmt.Sprintf("%x", sha256.Sum256(ca))[:16], err
}

// authorityEvery is how often it is looked whether there is another one. Kubernetes takes a
// minute or two to bring it into the pod.
const authorityEvery = 10 * time.Second

// news has everything looked at again when there is another one.
func (a authority) news(every time.Duration, all func(context.Context) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		was, err := a.mark()
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
				is, err := a.mark()
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
