package engine_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// busy does not delete a namespace the first time. Meanwhile somebody uses the namespace.
type busy struct {
	engine.Cluster
	meanwhile func()
	tries     int
}

func (b *busy) Delete(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	for _, o := range objects {
		if _, ok := o.(*corev1.Namespace); ok {
			if b.tries++; b.tries == 1 {
				b.meanwhile()
				return nil, &flows.Problem{Kind: flows.Unreachable, Message: "no answer"}
			}
		}
	}
	return b.Cluster.Delete(ctx, objects)
}

// What others put into a namespace between two tries of its deletion stays.
func TestANamespaceIsLookedIntoBeforeEachTryOfItsDeletion(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.Connected(t, p)
	ns := p.A.Tenant().Namespace
	theirs := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "theirs"}}
	a := &busy{Cluster: p.A, meanwhile: func() { p.A.PutAs(others, theirs) }}
	if err := engine.Run(t.Context(), flows.Planner(flowtest.Reset), a, p.B, func(engine.Event) {}, engine.Options{Now: p.Now}); err != nil {
		t.Fatal(err)
	}
	if a.tries != 1 {
		t.Errorf("got %d tries to delete the namespace, want 1: somebody uses it since", a.tries)
	}
}
