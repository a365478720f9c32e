package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func TestConsumersTakeTurns(t *testing.T) {
	q := &fair[string]{of: func(item string) string { return item[:1] }, waiting: map[string][]string{}}
	for _, item := range []string{"a1", "a2", "a3", "b1", "c1", "b2"} {
		q.Push(item)
	}
	var got []string
	for range 2 {
		got = append(got, q.Pop())
	}
	q.Push("d1")
	q.Push("a4")
	for q.Len() > 0 {
		got = append(got, q.Pop())
	}
	if want := "a1 b1 c1 a2 b2 d1 a3 a4"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
	if len(q.waiting)+len(q.turns) > 0 {
		t.Errorf("left: %v, %v", q.waiting, q.turns)
	}
}

// lentTo returns a provider with two consumers. rome has one mapped namespace, and mallory has as many as
// allowed. Each ShadowPod that is read exists. Each write takes 1 ms.
func lentTo(t *testing.T, made func(*corev1.Pod), objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, authv1beta1.AddToScheme, offloadingv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	namespaces := map[string]*corev1.Namespace{}
	for id, count := range map[string]int{"rome": 1, "mallory": 100} {
		namespace := "liqo-tenant-" + id
		tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: id, UID: types.UID(id)}, Spec: authv1beta1.TenantSpec{ClusterID: corev1beta1.ClusterID(id)}}
		access := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: wire.ConsumerAccessName}}
		access.OwnerReferences = []metav1.OwnerReference{{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Tenant", Name: id, UID: tenant.UID, Controller: new(true)}}
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"}}
		slice.Status.AuthParams = &authv1beta1.AuthParams{}
		slice.Status.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("40")}
		objects = append(objects, tenant, access, slice)
		m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"}}
		for i := range count {
			ns := peering.MappedNamespace(m, wire.ClusterID(id), fmt.Sprint("ns-", i), fmt.Sprint("ns-", i, "-", id))
			namespaces[ns.Name] = ns
			objects = append(objects, ns)
		}
	}
	wait := func() { time.Sleep(time.Millisecond) } // the answer time of a fast API server
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			switch o := o.(type) {
			case *offloadingv1beta1.ShadowPod:
				o.Namespace, o.Name, o.UID = key.Namespace, key.Name, types.UID(key.String())
				o.Spec.Pod.Containers = []corev1.Container{{Name: "c", Image: "i"}}
				return nil
			case *corev1.Namespace: // answered at once, as by a cache
				namespaces[key.Name].DeepCopyInto(o)
				return nil
			}
			return c.Get(ctx, key, o, options...)
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			wait()
			made(o.(*corev1.Pod))
			return nil
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			wait()
			return nil
		},
	}).Build()
}

// However much one consumer requests, another consumer's pod is created at once.
func TestOneWhoAsksForMuchDelaysNobody(t *testing.T) {
	const (
		asked  = 100_000
		within = 50 * time.Millisecond
	)
	romes := make(chan string, 100)
	c := lentTo(t, func(p *corev1.Pod) {
		if strings.HasSuffix(p.Namespace, "-rome") {
			romes <- p.Name
		}
	})
	b := base{client: c, peers: c, reader: c, recorder: &events.FakeRecorder{}}
	r := &shadowPods{base: b, books: newLedger(b)}
	o := r.fairly(10)
	queue := o.NewQueue("", o.RateLimiter)
	for i := range asked {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: fmt.Sprint("ns-", i%100, "-mallory"), Name: fmt.Sprint("pod-", i)}})
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer queue.ShutDown()
	for range o.MaxConcurrentReconciles {
		workers.Go(func() {
			for {
				request, ended := queue.Get()
				if ended || ctx.Err() != nil {
					return
				}
				if _, err := r.Reconcile(ctx, request); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				queue.Done(request)
			}
		})
	}
	var took []time.Duration
	for i := range 21 {
		began := time.Now()
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns-0-rome", Name: fmt.Sprint("web-", i)}})
		select {
		case <-romes:
			took = append(took, time.Since(began))
		case <-time.After(5 * time.Second):
			t.Fatalf("pod %d of the other consumer is not made, with %d in the queue", i, queue.Len())
		}
	}
	slices.Sort(took)
	left := queue.Len()
	t.Logf("another consumer's pod takes %s, at most %s; %d of %d are still in the queue", took[len(took)/2], took[len(took)-1], left, asked)
	if took[len(took)/2] > within {
		t.Errorf("it takes %s, want at most %s", took[len(took)/2], within)
	}
	if left < asked/10 {
		t.Errorf("only %d are left: it was not measured while there is much to do", left)
	}
	books, err := r.books.of(t.Context(), "liqo-tenant-mallory", "mallory")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	books.mu.Lock()
	one, waits := client.ObjectKey{}, len(books.waiting)
	for one = range books.entries {
		break
	}
	books.mu.Unlock()
	books.release(one, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("40"), corev1.ResourceCPU: resource.MustParse("4")})
	if took := time.Since(began); took > within || waits > leastWaiting {
		t.Errorf("%d wait; to find the next of them takes %s", waits, took)
	}
}

// Running pods count before anybody requests more, and also when nothing is granted.
func TestPodsThatRunAreUsed(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase) *corev1.Pod {
		p := podNamed(1, name, "3")
		p.Namespace, p.Name, p.Status.Phase = "ns-0-rome", name, phase
		p.Labels = map[string]string{peering.LabelMadeBy: peering.MadeByShadowPod, peering.LabelPodOrigin: "rome"}
		p.Annotations = map[string]string{peering.AnnotationShadow: "x"}
		return p
	}
	c := lentTo(t, nil, pod("web", corev1.PodRunning), pod("done", corev1.PodSucceeded))
	b := base{client: c, peers: c, reader: c}
	got, err := newLedger(b).Used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rome, mallory := got["liqo-tenant-rome"][corev1.ResourceCPU], got["liqo-tenant-mallory"][corev1.ResourceCPU]
	if rome.String() != "3" || !mallory.IsZero() {
		t.Errorf("got %v", got)
	}
}
