package virtualnode

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// kept is a cache with the objects of an API server, and without informers.
type kept struct {
	cache.Cache

	api client.WithWatch
}

func (k kept) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return k.api.Get(ctx, key, o, options...)
}

func (k kept) List(ctx context.Context, l client.ObjectList, options ...client.ListOption) error {
	return k.api.List(ctx, l, options...)
}

func (kept) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errors.New("has none")
}

func newTold(t *testing.T, ready bool) *virtualNode {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(networkingv1beta1.AddToScheme(scheme), offloadingv1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	v := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Annotations: map[string]string{peering.AnnotationNamespaces: "demo"}}}
	v.Spec.ClusterID, v.Spec.ResourceQuota.Hard = "milan", granted
	if ready { // as an earlier process has written
		v.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{{Type: offloadingv1beta1.NodeConditionType, Status: offloadingv1beta1.RunningConditionStatusType}}
	}
	return &virtualNode{
		Options: Options{Namespace: v.Namespace, Name: v.Name, Patience: 40 * time.Second, Log: slog.New(slog.DiscardHandler)},
		cache:   kept{api: fake.NewClientBuilder().WithScheme(scheme).WithObjects(v).Build()}, woken: make(chan struct{}, 1),
		answer: errNotAsked, silent: time.Now(), began: time.Now(),
	}
}

func (n *virtualNode) knows(t *testing.T) known {
	t.Helper()
	k, there, err := n.know(t.Context(), time.Now())
	if err != nil || !there {
		t.Fatalf("there %t: %v", there, err)
	}
	return k
}

// If a provider does not answer, the node stays ready for a time. If it refuses, the node is not ready.
func TestASilentProviderIsNoRefusal(t *testing.T) {
	silent := peering.NoAnswer("https://192.0.2.1", errors.New("refused"))
	away := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "kubeconfig")
	type step struct {
		after  time.Duration
		answer error // errNotAsked: no request was sent
		want   string
	}
	for name, c := range map[string]struct {
		ready bool
		steps []step
	}{
		"it was ready before this process": {true, []step{{0, errNotAsked, reasonSilent}, {39 * time.Second, errNotAsked, reasonSilent}, {2 * time.Second, errNotAsked, reasonUnreachable}}},
		"it never was":                     {false, []step{{0, errNotAsked, reasonUnreachable}, {0, silent, reasonUnreachable}}},
		"silent for long":                  {true, []step{{0, nil, reasonAnswers}, {time.Hour, silent, reasonSilent}, {30 * time.Second, silent, reasonSilent}, {11 * time.Second, silent, reasonUnreachable}}},
		"silent twice":                     {true, []step{{0, nil, reasonAnswers}, {time.Hour, silent, reasonSilent}, {30 * time.Second, nil, reasonAnswers}, {time.Second, silent, reasonSilent}, {30 * time.Second, silent, reasonSilent}}},
		"its kubeconfig is made again":     {true, []step{{0, nil, reasonAnswers}, {time.Hour, away, reasonSilent}, {41 * time.Second, away, reasonUnreachable}}},
		"it refuses":                       {true, []step{{0, nil, reasonAnswers}, {time.Hour, errors.New("unauthorized"), reasonUnreachable}}},
		"it refuses after a silence":       {true, []step{{0, nil, reasonAnswers}, {time.Hour, silent, reasonSilent}, {time.Second, errors.New("unauthorized"), reasonUnreachable}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newTold(t, c.ready)
				for i, s := range c.steps {
					time.Sleep(s.after)
					if !errors.Is(s.answer, errNotAsked) {
						n.say(s.answer, nil)
					}
					if got := n.knows(t).ready(); got.Reason != s.want {
						t.Errorf("step %d: got %s: %s, want %s", i, got.Reason, got.Message, s.want)
					}
				}
			})
		})
	}
}

// A deleted NamespaceMap is created again soon. A process that starts before that can't know whether pods run
// in its namespaces.
func TestAProcessThatStartsWithoutAMapWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTold(t, true)
		if k := n.knows(t); !k.unsaid["demo"] {
			t.Error("at its start: a namespace without a map is taken for one that is not offloaded")
		}
		time.Sleep(41 * time.Second)
		if k := n.knows(t); k.unsaid["demo"] {
			t.Error("later: it still waits for a map")
		}
		n.began, n.mapped = time.Now(), map[string]string{}
		if k := n.knows(t); k.unsaid["demo"] {
			t.Error("there was a map, and it did not have the namespace: it waits")
		}
	})
}

// Decisions about pods depend on whether the provider's answer for their namespace is known. Pods are queued
// again when this changes.
func TestPodsAreJudgedByWhatIsUnsaid(t *testing.T) {
	m := newMirror(Options{Name: "milan", Log: slog.New(slog.DiscardHandler)}, nil, nil)
	m.spaces["demo"] = &space{name: "demo", here: &side{cache: kept{}}}
	m.known = known{mapped: map[string]string{"demo": ""}}
	for _, unsaid := range []bool{true, false} {
		m.follow(t.Context(), known{mapped: map[string]string{"demo": ""}, unsaid: map[string]bool{"demo": unsaid}})
		m.group.Wait()
		if m.queue.Len() != 1 {
			t.Fatalf("unsaid %t: %d keys are queued, want the namespace's", unsaid, m.queue.Len())
		}
		key, _ := m.queue.Get()
		m.queue.Done(key)
		if _, v := m.view("demo"); v.Unsaid != unsaid {
			t.Errorf("unsaid %t: pods are judged by %t", unsaid, v.Unsaid)
		}
	}
	m.queue.ShutDown()
}
