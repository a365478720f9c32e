package flows

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// AskHistory asks what the pods of a gateway have recorded in the last day.
type AskHistory struct {
	Side    Side
	Gateway types.NamespacedName
}

// On implements [Question].
func (q AskHistory) On() Side { return q.Side }

// Terms implements [Question].
func (q AskHistory) Terms() Terms { return Terms{Within: historyPatience} }

// historyPatience is the longest time to wait for an object of 16 KiB.
const historyPatience = 10 * time.Second

func (q AskHistory) slot(f *Facts) slot { return q.in(f) }

func (q AskHistory) in(f *Facts) *Answer[history.Record] { return &f.Sides[q.Side].History }

// AskHistory returns the question about this end's gateway; nil if there is no gateway.
func (p End) AskHistory(side Side) []Question {
	if p.GatewayName() == "" {
		return nil
	}
	return []Question{AskHistory{side, types.NamespacedName{Namespace: p.Tenant.Namespace, Name: p.GatewayName()}}}
}

// NoHistory is the error for a gateway without the ConfigMap, as Liqo's gateways and ours of former releases. That
// says nothing about interruptions.
func NoHistory(gateway types.NamespacedName) error {
	return fmt.Errorf("this gateway records nothing: it has no ConfigMap %s, as gateways of Liqo and of earlier releases", wire.HistoryConfigMapName(gateway.Name))
}

// ReadHistory reads the last day from a gateway's ConfigMap. The parameter now is by this machine's clock, and ahead is
// the cluster's [ClusterFacts.ClockAhead]. The result has times of this machine's clock.
func ReadHistory(o *corev1.ConfigMap, now time.Time, ahead time.Duration) (history.Record, error) {
	r, err := history.Parse(o.Data[wire.HistoryKey])
	if err != nil {
		return r, fmt.Errorf("ConfigMap %s/%s: %w", o.Namespace, o.Name, err)
	}
	r.Keep(now.Add(ahead))
	for i := range r.Cells {
		r.Cells[i].Start = r.Cells[i].Start.Add(-ahead)
	}
	return r, nil
}
