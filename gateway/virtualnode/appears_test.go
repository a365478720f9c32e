package virtualnode

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// arriving is a complete cache to which objects are added after a list of pods.
type arriving struct {
	kept

	listed func()
}

func (a arriving) List(ctx context.Context, l client.ObjectList, options ...client.ListOption) error {
	err := a.kept.List(ctx, l, options...)
	if _, is := l.(*corev1.PodList); is && a.listed != nil {
		a.listed()
	}
	return err
}

func (arriving) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return complete{}, nil
}

type complete struct{ cache.Informer }

func (complete) HasSynced() bool                          { return true }
func (complete) HasSyncedChecker() toolscache.DoneChecker { return nil }

// An object that is restored while its namespace is compared keeps its copy on the provider.
func TestACopyStaysIfItsObjectAppearsMeanwhile(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), offloadingv1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	m := &mirror{Options: Options{Name: "milan", Consumer: "rome", Provider: "milan", Log: slog.New(slog.DiscardHandler)}}
	named := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: m.manager(), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
		}}}
	}
	for _, c := range []struct {
		name          string
		copied, other client.Object // the object on the provider, and its object here
	}{
		{"Service", &corev1.Service{ObjectMeta: named("lent-rome")}, &corev1.Service{ObjectMeta: named("lent")}},
		{"ConfigMap", &corev1.ConfigMap{ObjectMeta: named("lent-rome")}, &corev1.ConfigMap{ObjectMeta: named("lent")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			here := fake.NewClientBuilder().WithScheme(scheme).Build()
			there := fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.copied).WithReturnManagedFields().Build()
			appear := func() {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lent", Name: "web"}}
				pod.Spec.Containers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}}}}}
				if err := errors.Join(client.IgnoreAlreadyExists(here.Create(t.Context(), c.other)), client.IgnoreAlreadyExists(here.Create(t.Context(), pod))); err != nil {
					t.Error(err)
				}
				c.other.SetResourceVersion("")
			}
			m.spaces = map[string]*space{"lent": {
				name: "lent", mapped: "lent-rome", direct: there, said: map[thing]refusal{},
				here:  &side{cache: arriving{kept{api: here}, appear}},
				there: &side{cache: arriving{kept{api: there}, nil}},
			}}
			if err := m.reflect(t.Context(), "lent"); err != nil {
				t.Error(err)
			}
			if err := there.Get(t.Context(), client.ObjectKeyFromObject(c.copied), c.copied); err != nil {
				t.Error(err)
			}
		})
	}
}
