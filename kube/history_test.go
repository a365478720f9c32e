package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/clock"
)

// A history that could not be read has a reason and no value, so no reader takes it for a day without interruptions.
func TestAHistoryThatCouldNotBeReadIsUnknown(t *testing.T) {
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	day := history.Record{Cells: []history.Cell{{Start: time.Now().UTC().Truncate(history.Step).Add(-time.Hour), Up: 4 * time.Minute, Down: time.Minute}}}
	written, err := day.Text(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const name = "gw-milan-history"
	for what, c := range map[string]struct {
		data    map[string]string // nil: there is no ConfigMap
		refused error
		want    string // the reason that nothing is known; empty: something is
		sum     history.Cell
	}{
		"a gateway that records":       {map[string]string{wire.HistoryKey: written}, nil, "", history.Cell{Up: 4 * time.Minute, Down: time.Minute}},
		"a gateway that has not begun": {map[string]string{}, nil, "", history.Cell{}},
		"an earlier release":           {nil, nil, "this gateway records nothing: it has no ConfigMap " + name + ", as gateways of Liqo and of earlier releases", history.Cell{}},
		"no right": {
			nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, name, errors.New("no")),
			"this user may not read ConfigMap liqo-tenant-milan/" + name,
			history.Cell{},
		},
		"no answer": {nil, context.DeadlineExceeded, "https://rome:6443 (context rome) does not answer", history.Cell{}},
		"damaged":   {map[string]string{wire.HistoryKey: "x"}, nil, "ConfigMap liqo-tenant-milan/" + name + ": parse the recorded history: it does not have the form that gateways write", history.Cell{}},
	} {
		t.Run(what, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(scheme)
			if c.data != nil {
				b.WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: name}, Data: c.data})
			}
			cluster := &Cluster{server: "https://rome:6443", clock: &clock.Clock{}, options: Options{Context: flows.ContextRef{Name: "rome"}}, client: b.WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, next client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if c.refused != nil {
						return c.refused
					}
					return next.Get(ctx, key, o, opts...)
				},
			}).Build()}
			var f flows.Facts
			answers := engine.Answers{Now: time.Now}
			q := flows.AskHistory{Gateway: types.NamespacedName{Namespace: "liqo-tenant-milan", Name: "milan"}}
			if err := answers.Ask(t.Context(), &f, [2]engine.Cluster{cluster}, q); err != nil {
				t.Fatal(err)
			}
			a := f.Sides[flows.A].History
			reason := a.Unknown()
			if problem := f.Sides[flows.A].Problem; problem != nil {
				reason = problem.Message
			}
			if reason != c.want || (a.Value() == nil) != (c.want != "") {
				t.Fatalf("got %+v, unknown %q; want %q", a.Value(), reason, c.want)
			}
			if found := a.Value(); found != nil && found.Sum() != c.sum {
				t.Errorf("got %+v, want %+v", found.Sum(), c.sum)
			}
		})
	}
}
