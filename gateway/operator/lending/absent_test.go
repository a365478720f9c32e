package lending_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// TestNothingIsDeletedBecauseItIsAbsent removes all objects that rome's operator makes. Then the objects of
// rome's admin come back from a backup, in a random order. Pods on milan go on. Objects that were deleted
// while no operator ran are named, and are removed when the admin confirms it.
func TestNothingIsDeletedBecauseItIsAbsent(t *testing.T) {
	t.Parallel() // because it mostly waits
	requireAPI(t)
	rome, milan := newPlane(t, "rome", render.PeeringConsumer), newPlane(t, "milan", render.PeeringProvider)
	until(t, rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}}, "made", func(s *corev1.Secret) bool { return len(s.Data) == 2 })
	milan.node("node-a", "8", "16Gi")
	rome.runPrograms()
	milan.runPods(t)
	way := newValve(t, proxy(t))
	w := &pair{t: t, rome: rome, milan: milan, proxy: way.url, params: peer.Params{CPU: "2", Memory: "2Gi"}, node: true}
	w.peer(t)
	w.workload(t)
	seed := sample.Seed(t)
	w.watched = hasNoGap(t, milan, "demo-rome")
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"what is derived is deleted", func(t *testing.T) { w.testDerivedDeleted(t, rand.New(rand.NewPCG(seed, 1)), way) }},
		{"a backup comes back", func(t *testing.T) { w.testRestored(t, rand.New(rand.NewPCG(seed, 2))) }},
		{"the provider loses what rome has shown it", func(t *testing.T) { w.testCopiesLost(t, rand.New(rand.NewPCG(seed, 3)), way) }},
		{"what was deleted unseen is left", w.testLeft},
	} {
		if !t.Run(part.name, part.test) {
			return // the next part needs the end state of this part
		}
	}
}

// ofAdmin returns the objects of rome's admin, with the objects that pods need.
func ofAdmin() []client.Object {
	tenant := metav1.ObjectMeta{Namespace: "liqo-tenant-milan"}
	return []client.Object{
		identity(), slice(tenant.Namespace, "milan"), offloaded(peering.OffloadingParams{}),
		onMilan("demo", "web", needs), onMilan("demo", "db"), &corev1.Service{ObjectMeta: inDemo("web")},
		&corev1.ConfigMap{ObjectMeta: inDemo("settings")}, &corev1.Secret{ObjectMeta: inDemo("password")},
	}
}

func needs(s *corev1.PodSpec) {
	s.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	s.Volumes = []corev1.Volume{{Name: "password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}}}}
}

// workload runs pods of rome on milan. One of them has been started again there.
func (w *pair) workload(t *testing.T) {
	t.Helper()
	w.rome.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	w.rome.apply(t, offloaded(peering.OffloadingParams{}))
	w.rome.create(&corev1.ConfigMap{ObjectMeta: inDemo("settings"), Data: map[string]string{"a": "b"}})
	w.rome.create(&corev1.Secret{ObjectMeta: inDemo("password"), Data: map[string][]byte{"p": []byte("s")}})
	w.rome.create(&corev1.Service{ObjectMeta: inDemo("web"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}})
	w.rome.create(onMilan("demo", "web", needs))
	w.rome.create(onMilan("demo", "db"))
	w.settled(t)
	p := until(t, w.milan, &corev1.Pod{ObjectMeta: inTwin("web")}, "there", func(*corev1.Pod) bool { return true })
	p.Status.ContainerStatuses[0].RestartCount = 3
	if err := w.milan.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// settled waits until rome reports no problem, and milan has no object that rome does not have.
func (w *pair) settled(t *testing.T) {
	t.Helper()
	until(t, w.rome, offloaded(peering.OffloadingParams{}), "ready", func(o *offloadingv1beta1.NamespaceOffloading) bool {
		return o.Status.OffloadingPhase == offloadingv1beta1.ReadyOffloadingPhaseType && o.Status.ObservedGeneration == o.Generation
	})
	until(t, w.rome, member(), "ready, and nothing is left", func(n *corev1.Node) bool {
		return says(corev1.NodeReady, corev1.ConditionTrue, "")(n) && says(peering.ConditionLeftovers, corev1.ConditionFalse, "milan has no unowned objects of this node")(n)
	})
	for _, name := range []string{"web", "db"} {
		until(t, w.rome, onMilan("demo", name), "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && isReady(p) })
	}
	for _, o := range []client.Object{&corev1.ConfigMap{ObjectMeta: inTwin("settings")}, &corev1.Secret{ObjectMeta: inTwin("password")}, &corev1.Service{ObjectMeta: inTwin("web")}} {
		until(t, w.milan, o, "there", func(o client.Object) bool { return o.GetDeletionTimestamp() == nil })
	}
}

// onProvider returns milan's objects for rome: the UID and the content of each object.
func (w *pair) onProvider(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(o client.Object, content ...any) {
		t.Helper()
		text, err := json.Marshal(append(content, o.GetUID(), o.GetDeletionTimestamp()))
		if err != nil {
			t.Fatal(err)
		}
		out[fmt.Sprintf("%T %s", o, o.GetName())] = string(text)
	}
	inMapped, tenant := client.InNamespace("demo-rome"), client.InNamespace("liqo-tenant-rome")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo-rome"}}
	var pods corev1.PodList
	var asked offloadingv1beta1.ShadowPodList
	var served corev1.ServiceList
	var settings corev1.ConfigMapList
	var secrets corev1.SecretList
	var mapped offloadingv1beta1.NamespaceMapList
	var resources authv1beta1.ResourceSliceList
	err := errors.Join(w.milan.Get(t.Context(), client.ObjectKeyFromObject(ns), ns),
		w.milan.List(t.Context(), &pods, inMapped), w.milan.List(t.Context(), &asked, inMapped), w.milan.List(t.Context(), &served, inMapped),
		w.milan.List(t.Context(), &settings, inMapped, client.HasLabels{peering.LabelPodOrigin}), w.milan.List(t.Context(), &secrets, inMapped),
		w.milan.List(t.Context(), &mapped, tenant), w.milan.List(t.Context(), &resources, tenant))
	if err != nil {
		t.Fatal(err)
	}
	add(ns)
	for _, p := range pods.Items {
		add(&p, p.Spec, p.Status.ContainerStatuses[0].RestartCount)
	}
	for _, p := range asked.Items {
		add(&p, p.Spec)
	}
	for _, s := range served.Items {
		add(&s, s.Spec)
	}
	for _, c := range settings.Items {
		add(&c, c.Data)
	}
	for _, s := range secrets.Items {
		add(&s, s.Data)
	}
	for _, m := range mapped.Items {
		add(&m, m.Spec)
	}
	for _, s := range resources.Items {
		add(&s, s.Spec.Resources)
	}
	return out
}

// runs returns the objects that are a workload, or that keep a workload.
func runs(all map[string]string) map[string]string {
	maps.DeleteFunc(all, func(name, _ string) bool {
		return strings.HasPrefix(name, "*v1beta1.NamespaceMap ") || strings.HasPrefix(name, "*v1beta1.ResourceSlice ")
	})
	return all
}

func (w *pair) same(t *testing.T, before map[string]string, after string) {
	t.Helper()
	if diff := cmp.Diff(before, w.onProvider(t)); diff != "" {
		t.Fatalf("after %s milan has something else (-before +now):\n%s", after, diff)
	}
}

// hasNoGap watches, until stop is called, whether each pod and the Service of a namespace are reachable at
// any time. A pod that is not ready for a moment, or is replaced, is a gap. TestLabLending tests whether
// packets arrive.
func hasNoGap(t *testing.T, p *plane, namespace string) (stop func()) {
	t.Helper()
	c, err := client.NewWithWatch(p.config, client.Options{Scheme: p.Scheme(), Mapper: p.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ServiceList{}} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		// If a connection is lost, the watch continues after the last event.
		events, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &toolscache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list.DeepCopyObject().(client.ObjectList), &client.ListOptions{Namespace: namespace, Raw: &o})
		}})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for e := range events.ResultChan() {
				pod, is := e.Object.(*corev1.Pod)
				if e.Type == watch.Deleted || e.Type == watch.Error || is && (pod.DeletionTimestamp != nil || !isReady(pod)) {
					status := any(nil)
					if is {
						status = pod.Status
					}
					t.Errorf("a gap at %s: %s %v, status %+v", time.Now().Format("15:04:05.000"), e.Type, client.ObjectKeyFromObject(e.Object.(client.Object)), status)
				}
			}
			if ctx.Err() == nil {
				t.Error("whether there is a gap was not watched to the end")
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(stop)
	return stop
}

// derived returns the objects that rome's operator makes from the objects of its admin.
func derived() []client.Object {
	account := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "liqo-tui-node-milan"}
	return []client.Object{
		member(), virtual(), lease(), access(), mapTo("liqo-tenant-milan"),
		&authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "resourceslice-milan"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "kubeconfig-resourceslice-milan"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "kubeconfig-controlplane-milan"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}},
		&corev1.ServiceAccount{ObjectMeta: account}, &rbacv1.Role{ObjectMeta: account}, &rbacv1.RoleBinding{ObjectMeta: account},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: wire.PeeringAccessName}},
		&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}},
	}
}

// testDerivedDeleted deletes all derived objects, sometimes without the provider, and sometimes without the
// operator.
func (w *pair) testDerivedDeleted(t *testing.T, random *rand.Rand, way *valve) {
	before := w.onProvider(t)
	defer hasNoGap(t, w.rome, "demo")() // pods that are not ready on rome get no packets there
	w.alone(t, w.rome, derived())
	w.settled(t)
	w.same(t, before, "each derived object was deleted alone")
	for round := range sample.Of(1, 6) {
		all := derived()
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		from, to := part(random, len(all))
		stop, begin := part(random, len(all))
		stops := random.IntN(2) == 0
		for i, o := range all {
			if i == from {
				way.set(true)
			}
			if i == to {
				way.set(false)
			}
			if stops && i == stop {
				w.rome.stop()
			}
			if stops && i == begin {
				w.rome.runOperator(render.PeeringConsumer)
			}
			err := w.rome.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			if apierrors.IsNotFound(err) {
				continue // it was deleted with its owner
			} else if err != nil {
				t.Fatal(err)
			}
			uid := o.GetUID()
			if err := w.rome.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if away := i >= from && i < to || stops && i >= stop && i < begin; !away && random.IntN(2) == 0 {
				until(t, w.rome, o, "made again", func(o client.Object) bool { return o.GetUID() != uid })
			}
		}
		for _, o := range derived() {
			until(t, w.rome, o, "there", func(o client.Object) bool { return o.GetDeletionTimestamp() == nil })
		}
		w.settled(t)
		w.same(t, before, fmt.Sprintf("round %d of deletions", round))
	}
}

// alone deletes objects one by one. Each comes back without another event.
func (w *pair) alone(t *testing.T, p *plane, all []client.Object) {
	t.Helper()
	for _, o := range all {
		until(t, p, o, "there", func(o client.Object) bool { return o.GetDeletionTimestamp() == nil })
		uid := o.GetUID()
		t.Logf("%s deletes %T %s", time.Now().Format("15:04:05.000"), o, o.GetName())
		if err := p.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		until(t, p, o, "made again", func(o client.Object) bool { return o.GetUID() != uid })
	}
}

// part returns a random part of n items, which ends before the last item.
func part(random *rand.Rand, n int) (from, to int) {
	from = random.IntN(n - 1)
	return from, from + 1 + random.IntN(n-1-from)
}

// quiet stops rome's operator and its program.
func (w *pair) quiet(t *testing.T) {
	t.Helper()
	w.rome.stop()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}}
	if err := w.rome.Delete(t.Context(), d); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); w.rome.programs.Load() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the program does not end")
		}
	}
}

// testRestored removes all objects of rome except its installation, and restores them one by one.
func (w *pair) testRestored(t *testing.T, random *rand.Rand) {
	before := w.onProvider(t)
	for round := range sample.Of(1, 6) {
		backup := ofAdmin()
		namespaces := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-milan"}}}
		for _, o := range append(backup, namespaces...) {
			if err := w.rome.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatal(err)
			}
		}
		w.lose(t)
		w.same(t, before, "the loss of rome's objects")
		w.rome.runOperator(render.PeeringConsumer)
		random.Shuffle(len(backup), func(i, j int) { backup[i], backup[j] = backup[j], backup[i] })
		var order []string
		came := map[string]bool{}
		for _, o := range append(namespaces, backup...) {
			name := fmt.Sprintf("%T %s", o, o.GetName())
			order = append(order, name)
			o.SetUID("")
			o.SetResourceVersion("")
			o.SetManagedFields(nil)
			o.SetCreationTimestamp(metav1.Time{})
			if ns, is := o.(*corev1.Namespace); is {
				ns.Status = corev1.NamespaceStatus{}
			}
			w.rome.create(o)
			came[name] = true
			w.lookedAt(t, came)
			w.same(t, before, fmt.Sprintf("in round %d, %s", round, strings.Join(order, ", ")))
		}
		w.settled(t)
		w.same(t, before, fmt.Sprintf("round %d, in the order %s", round, strings.Join(order, ", ")))
	}
}

// lookedAt waits until rome's operator and its program have handled the restored objects.
func (w *pair) lookedAt(t *testing.T, came map[string]bool) {
	t.Helper()
	there := func(o client.Object) bool { return came[fmt.Sprintf("%T %s", o, o.GetName())] }
	if !there(identity()) {
		return
	}
	asks, sliced := there(offloaded(peering.OffloadingParams{})), there(slice("liqo-tenant-milan", "milan"))
	until(t, w.rome, mapTo("liqo-tenant-milan"), fmt.Sprintf("brought home, left: %v", !asks || !sliced), func(m *offloadingv1beta1.NamespaceMap) bool {
		return m.Spec.DesiredMapping["demo"] == "demo-rome" && peering.Left(m)["demo"] == (!asks || !sliced)
	})
	if !asks || !sliced {
		return
	}
	until(t, w.rome, member(), fmt.Sprintf("aware of what is left, with %v", came), func(n *corev1.Node) bool {
		for _, c := range n.Status.Conditions {
			if c.Type != peering.ConditionLeftovers || c.Status == corev1.ConditionUnknown {
				continue
			}
			all, _, _ := peering.Leftovers(c.Message)
			is := map[string]bool{}
			for _, l := range all {
				is[l.Kind+" "+l.Name] = l.Namespace == "demo-rome" && l.UID != ""
			}
			return is["ShadowPod web"] == !there(onMilan("demo", "web")) && is["ShadowPod db"] == !there(onMilan("demo", "db")) && is["Service web"] == !there(&corev1.Service{ObjectMeta: inDemo("web")}) &&
				is["ConfigMap settings"] == !there(&corev1.ConfigMap{ObjectMeta: inDemo("settings")}) && is["Secret password"] == !there(&corev1.Secret{ObjectMeta: inDemo("password")})
		}
		return false
	})
}

// lose deletes rome's objects outside of its installation, while no program of rome runs.
func (w *pair) lose(t *testing.T) {
	t.Helper()
	w.quiet(t)
	var pods corev1.PodList
	if err := w.rome.List(t.Context(), &pods, client.InNamespace("demo")); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		w.rome.runDeletePod(t, &pods.Items[i])
	}
	gone := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-milan"}},
		member(), lease(), &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}},
	}
	for _, o := range gone {
		if err := w.rome.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	for _, o := range gone {
		untilGone(t, w.rome, o)
	}
}

// shown returns the provider's copies, and the objects that its operator makes from them and from the Tenant.
func shown() []client.Object {
	access := metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: wire.ConsumerAccessName}
	return []client.Object{
		mapTo("liqo-tenant-rome"), slice("liqo-tenant-rome", "milan"), &rbacv1.RoleBinding{ObjectMeta: access}, &corev1.ResourceQuota{ObjectMeta: access},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: access.Namespace, Name: peering.SliceCertificateName("milan")}},
		&rbacv1.RoleBinding{ObjectMeta: inTwin(wire.MappedAccessName)}, &rbacv1.RoleBinding{ObjectMeta: inTwin(wire.MappedOperatorName)},
		&corev1.ResourceQuota{ObjectMeta: inTwin(wire.MappedAccessName)}, &corev1.LimitRange{ObjectMeta: inTwin(wire.MappedAccessName)},
		&networkingv1.NetworkPolicy{ObjectMeta: inTwin(wire.MappedAccessName)},
		&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}},
	}
}

// testCopiesLost deletes rome's copies on milan, and restores milan from a backup that lacks them or is
// older.
func (w *pair) testCopiesLost(t *testing.T, random *rand.Rand, way *valve) {
	defer hasNoGap(t, w.rome, "demo")()
	before := runs(w.onProvider(t))
	same := func(after string) {
		t.Helper()
		if diff := cmp.Diff(before, runs(w.onProvider(t))); diff != "" {
			t.Fatalf("after %s milan runs something else (-before +now):\n%s", after, diff)
		}
	}
	lose := func(all ...client.Object) {
		t.Helper()
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, o := range all {
			if err := w.milan.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
	}
	back := func() {
		t.Helper()
		for _, o := range shown() {
			until(t, w.milan, o, "there", func(o client.Object) bool { return o.GetDeletionTimestamp() == nil })
		}
		until(t, w.milan, mapTo("liqo-tenant-rome"), "answered", func(m *offloadingv1beta1.NamespaceMap) bool {
			return m.Status.CurrentMapping["demo"].Phase == offloadingv1beta1.MappingAccepted
		})
		w.settled(t)
	}
	w.alone(t, w.milan, shown())
	same("each copy was deleted alone")
	// All programs run.
	for range sample.Of(1, 4) {
		m := until(t, w.milan, mapTo("liqo-tenant-rome"), "there", func(*offloadingv1beta1.NamespaceMap) bool { return true })
		lose(slices.DeleteFunc(shown(), func(o client.Object) bool { return o.GetName() == "milan" && random.IntN(2) == 0 && !isMap(o) })...)
		until(t, w.milan, mapTo("liqo-tenant-rome"), "made again", func(o *offloadingv1beta1.NamespaceMap) bool { return o.UID != m.UID })
		back()
		same("the copies were deleted")
	}
	rightless := func() { // so the operator has handled the change
		t.Helper()
		untilGone(t, w.milan, &rbacv1.RoleBinding{ObjectMeta: inTwin(wire.MappedAccessName)})
	}
	// rome is away, and milan's operator runs.
	way.set(true)
	lose(mapTo("liqo-tenant-rome"), slice("liqo-tenant-rome", "milan"))
	rightless()
	same("the copies were deleted, and rome was away")
	way.set(false)
	back()
	same("rome has shown them again, as it was away")
	// rome is away. milan's operator finds only the mapped namespaces.
	restored := func(change func()) {
		t.Helper()
		way.set(true)
		w.milan.stop()
		change()
		w.milan.runOperator(render.PeeringProvider)
	}
	restored(func() { lose(shown()...) })
	rightless()
	same("milan has lost the copies")
	way.set(false)
	back()
	same("rome has shown them again")
	// The map of the backup contains only another namespace.
	restored(func() {
		m := until(t, w.milan, mapTo("liqo-tenant-rome"), "there", func(*offloadingv1beta1.NamespaceMap) bool { return true })
		lose(m.DeepCopy())
		m.UID, m.ResourceVersion, m.ManagedFields, m.CreationTimestamp = "", "", nil, metav1.Time{}
		m.Spec.DesiredMapping = map[string]string{"other": "other-rome"}
		w.milan.create(m)
	})
	until(t, w.milan, mapTo("liqo-tenant-rome"), "answered", func(m *offloadingv1beta1.NamespaceMap) bool {
		return m.Status.CurrentMapping["other"].Phase == offloadingv1beta1.MappingAccepted
	})
	same("milan has an older map")
	way.set(false)
	back()
	same("rome has shown its map")
	until(t, w.rome, mapTo("liqo-tenant-milan"), "aware of what is left", func(m *offloadingv1beta1.NamespaceMap) bool { return peering.Left(m)["other"] })
	w.asCheckSays(t, "namespace other-rome on milan")
	untilGone(t, w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other-rome"}})
}

func isMap(o client.Object) bool {
	_, is := o.(*offloadingv1beta1.NamespaceMap)
	return is
}

// testLeft deletes objects while no program of rome runs. The leftovers are named, and are removed when the
// admin confirms it.
func (w *pair) testLeft(t *testing.T) {
	w.watched()
	before := w.onProvider(t)
	w.quiet(t)
	w.rome.runDeletePod(t, onMilan("demo", "db"))
	for _, o := range []client.Object{&corev1.ConfigMap{ObjectMeta: inDemo("settings")}, &corev1.Service{ObjectMeta: inDemo("web")}} {
		w.rome.runDelete(t, o)
	}
	w.rome.runOperator(render.PeeringConsumer)
	until(t, w.rome, member(), "aware of what is left", func(n *corev1.Node) bool {
		return says(peering.ConditionLeftovers, corev1.ConditionTrue, "ShadowPod demo-rome/db ")(n) && says(peering.ConditionLeftovers, corev1.ConditionTrue, "ConfigMap demo-rome/settings ")(n) &&
			says(peering.ConditionLeftovers, corev1.ConditionTrue, "Service demo-rome/web ")(n)
	})
	w.same(t, before, "deletions that nobody has seen")
	w.asCheckSays(t, "ShadowPod demo-rome/db on milan", "ConfigMap demo-rome/settings on milan", "Service demo-rome/web on milan")
	for _, o := range []client.Object{
		&offloadingv1beta1.ShadowPod{ObjectMeta: inTwin("db")}, &corev1.Pod{ObjectMeta: inTwin("db")}, &corev1.ConfigMap{ObjectMeta: inTwin("settings")}, &corev1.Service{ObjectMeta: inTwin("web")},
	} {
		untilGone(t, w.milan, o)
	}
	until(t, w.rome, member(), "without leftovers", says(peering.ConditionLeftovers, corev1.ConditionFalse, ""))
	// A deletion that the operator sees takes effect at once.
	w.rome.create(&corev1.Service{ObjectMeta: inDemo("seen"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	until(t, w.milan, &corev1.Service{ObjectMeta: inTwin("seen")}, "there", func(*corev1.Service) bool { return true })
	w.rome.runDelete(t, &corev1.Service{ObjectMeta: inDemo("seen")})
	untilGone(t, w.milan, &corev1.Service{ObjectMeta: inTwin("seen")})
	// A namespace.
	before = w.onProvider(t)
	w.rome.stop()
	w.rome.runDelete(t, offloaded(peering.OffloadingParams{}))
	w.rome.runOperator(render.PeeringConsumer)
	until(t, w.rome, mapTo("liqo-tenant-milan"), "aware of what is left", func(m *offloadingv1beta1.NamespaceMap) bool { return peering.Left(m)["demo"] })
	w.same(t, before, "a NamespaceOffloading was deleted, and nobody has seen it")
	w.asCheckSays(t, "namespace demo-rome on milan")
	untilGone(t, w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo-rome"}})
	untilGone(t, w.milan, mapTo("liqo-tenant-rome"))
	w.goes(t, onMilan("demo", "web"))
	untilGone(t, w.rome, mapTo("liqo-tenant-milan"))
	// A slice.
	w.rome.stop()
	w.rome.runDelete(t, slice("liqo-tenant-milan", "milan"))
	w.rome.runOperator(render.PeeringConsumer)
	w.nodeGone(t)
	until(t, w.milan, slice("liqo-tenant-rome", "milan"), "there", func(s *authv1beta1.ResourceSlice) bool { return s.DeletionTimestamp == nil })
	r := w.leftovers(t)
	if r.State != check.Warn || !strings.HasPrefix(r.Summary, "ResourceSlice liqo-tenant-rome/milan on milan") || !strings.HasSuffix(command.Join(r.Fix, " ").String(), " delete resourceslices.authentication.liqo.io milan") {
		t.Errorf("check says %+v", r)
	}
	w.milan.runDelete(t, slice("liqo-tenant-rome", "milan"))
}

// leftovers returns check's result about the leftovers.
func (w *pair) leftovers(t *testing.T) check.Result {
	t.Helper()
	f, err := engine.Observe(t.Context(), w.rome.cluster(), w.milan.cluster(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range check.Diagnose(f, nil) {
		if r.ID == check.LentLeftovers && r.Sides[0] == flows.A {
			return r
		}
	}
	t.Fatal("no check is about leftovers")
	return check.Result{}
}

// asCheckSays waits until check names these leftovers, and follows its advice.
func (w *pair) asCheckSays(t *testing.T, left ...string) {
	t.Helper()
	r := w.leftovers(t)
	found := append([]string{r.Summary}, r.Evidence...)
	if r.State != check.Warn || len(found) != len(left) || len(r.Fix) != 1 {
		t.Fatalf("check says %+v, want %v", r, left)
	}
	for _, name := range left {
		if !slices.ContainsFunc(found, func(text string) bool { return strings.HasPrefix(text, name+": ") }) {
			t.Errorf("check says %v, want %s", found, name)
		}
	}
	_, text, is := strings.Cut(r.Fix[0].String(), " -n liqo-tenant-milan annotate namespacemaps.offloading.liqo.io milan --overwrite "+peering.AnnotationWithdrawn+"=")
	if !is {
		t.Fatalf("check says: %s", r.Fix[0])
	}
	w.withdraw(t, text)
}
