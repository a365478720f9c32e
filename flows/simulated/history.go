package simulated

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// keepHistory keeps what the gateway's present pod has recorded.
func (g *gateway) keepHistory() {
	if g.recorder != nil {
		g.recorded.Add(g.recorder.Take())
	}
}

// history returns what the pods of a gateway have recorded. Liqo's gateways record nothing.
func (c *Cluster) history(name types.NamespacedName) (history.Record, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for _, r := range c.store.sorted() {
		g := c.gateways[r.object.GetUID()]
		if g == nil || r.object.GetNamespace() != name.Namespace || r.object.GetName() != name.Name || c.identity.Software != flows.Operator {
			continue
		}
		g.keepHistory()
		text, err := g.recorded.Text(c.clock())
		if err != nil {
			return history.Record{}, err
		}
		return flows.ReadHistory(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: wire.HistoryConfigMapName(name.Name)}, Data: map[string]string{wire.HistoryKey: text},
		}, c.world.now, c.clock().Sub(c.world.now))
	}
	return history.Record{}, flows.NoHistory(name)
}
