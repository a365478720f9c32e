package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func gatewayPod(name string, created int64, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-rome", Name: name, CreationTimestamp: metav1.Unix(created, 0), Finalizers: []string{"kept.until/asked"},
			Labels: map[string]string{wire.LabelGatewayName: "gw", wire.LabelComponent: "gateway"},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func successionOf(t *testing.T, me string, more interceptor.Funcs, pods ...client.Object) *succession {
	t.Helper()
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	g := &gatewayAgent{options: TunnelOptions{Pod: me}}
	g.options.Gateway.Name, g.options.Gateway.Tenant.Namespace = "gw", "liqo-tenant-rome"
	return &succession{api: fake.NewClientBuilder().WithScheme(scheme).WithObjects(pods...).WithInterceptorFuncs(more).Build(), me: me, of: g.pods()}
}

func TestAPodWaitsForTheOneBeforeIt(t *testing.T) {
	old, next := gatewayPod("old", 1, corev1.ConditionTrue), gatewayPod("next", 2, corev1.ConditionTrue)
	ending := gatewayPod("old", 1, corev1.ConditionTrue)
	ending.DeletionTimestamp = new(metav1.Unix(3, 0))
	other := gatewayPod("other", 1, corev1.ConditionTrue)
	other.Labels[wire.LabelGatewayName] = "of-another-peer"
	for name, c := range map[string]struct {
		me   string
		pods []client.Object
		want string
	}{
		"alone":                         {"next", []client.Object{next}, ""},
		"while it is replaced":          {"next", []client.Object{old, next}, "old"},
		"the old one does not wait":     {"old", []client.Object{old, next}, ""},
		"the old one ends":              {"next", []client.Object{ending, next}, ""},
		"the old one does not run":      {"next", []client.Object{gatewayPod("old", 1, corev1.ConditionFalse), next}, ""},
		"before this one is ready":      {"next", []client.Object{old, gatewayPod("next", 2, corev1.ConditionFalse)}, "old"},
		"of the same second":            {"b", []client.Object{gatewayPod("a", 1, corev1.ConditionTrue), gatewayPod("b", 1, corev1.ConditionTrue)}, "a"},
		"of the same second, the first": {"a", []client.Object{gatewayPod("a", 1, corev1.ConditionTrue), gatewayPod("b", 1, corev1.ConditionTrue)}, ""},
		"another gateway":               {"next", []client.Object{other, next}, ""},
		"on the node's network, where the name is the node's": {"node-1", []client.Object{old, next}, ""},
	} {
		got, err := successionOf(t, c.me, interceptor.Funcs{}, c.pods...).waitsFor(t.Context())
		if err != nil || got != c.want {
			t.Errorf("%s: got %q (%v), want %q", name, got, err, c.want)
		}
	}
}

// The new pod takes over the tunnel while the old pod's container restarts, and then keeps the tunnel.
func TestWhoHasTakenTheTunnelOverKeepsIt(t *testing.T) {
	old, next := gatewayPod("old", 1, corev1.ConditionFalse), gatewayPod("next", 2, corev1.ConditionTrue)
	s := successionOf(t, "old", interceptor.Funcs{}, old, next)
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
		old.Status.Conditions[0].Status = ready
		if err := s.api.Update(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		if got, err := s.waitsFor(t.Context()); err != nil || got != "next" {
			t.Errorf("ready: %s: got %q (%v), want to wait for the other one", ready, got, err)
		}
	}
	if err := s.api.Delete(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if got, err := s.waitsFor(t.Context()); err != nil || got != "" {
		t.Errorf("once that ends: got %q (%v)", got, err)
	}
}

// The next pod takes over the tunnel when the earlier pod is being deleted, and not before. An unavailable
// API server is no reason to take it over.
func TestATunnelIsTakenOverWhenThePodBeforeEnds(t *testing.T) {
	for name, blind := range map[string]bool{"told by a watch": false, "without a watch": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				away := true
				old := gatewayPod("old", 1, corev1.ConditionTrue)
				s := successionOf(t, "next", interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						if away {
							return errAway
						}
						return c.List(ctx, list, opts...)
					},
					Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
						if blind || away {
							return nil, errAway
						}
						return c.Watch(ctx, list, opts...)
					},
				}, old, gatewayPod("next", 2, corev1.ConditionTrue))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var took time.Time
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					s.wait(ctx)
					took = time.Now()
				}()
				time.Sleep(5 * time.Second)
				away = false
				time.Sleep(5*time.Second + 300*time.Millisecond)
				synctest.Wait()
				select {
				case <-ended:
					t.Fatal("it has the tunnel while the old pod holds it")
				default:
				}
				deleted := time.Now()
				if err := s.api.Delete(ctx, old); err != nil { // its finalizer keeps it there, ending
					t.Fatal(err)
				}
				<-ended
				longest := time.Duration(0)
				if blind {
					longest = lookAgain
				}
				if waited := took.Sub(deleted); waited > longest {
					t.Errorf("it took over after %s, want %s at most", waited, longest)
				}
			})
		})
	}
}
