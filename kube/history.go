package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// history reads what the pods of a gateway have recorded.
func (c *Cluster) history(ctx context.Context, gateway types.NamespacedName) (history.Record, error) {
	var o corev1.ConfigMap
	name := wire.HistoryConfigMapName(gateway.Name)
	err := c.client.Get(ctx, types.NamespacedName{Namespace: gateway.Namespace, Name: name}, &o)
	switch {
	case err == nil:
		return flows.ReadHistory(&o, time.Now(), c.clock.Difference())
	case apierrors.IsNotFound(err):
		return history.Record{}, flows.NoHistory(gateway)
	case apierrors.IsForbidden(err):
		return history.Record{}, fmt.Errorf("this user may not read ConfigMap %s/%s", gateway.Namespace, name)
	}
	return history.Record{}, fmt.Errorf("read ConfigMap %s: %w", name, c.problem("read ConfigMap "+name, err))
}
