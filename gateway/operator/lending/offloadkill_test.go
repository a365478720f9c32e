package lending_test

import (
	"fmt"
	"testing"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// The limits for the number of writes: of the node's program, to run and end a pod, and of the operator, to
// offload a namespace and take it back.
const (
	fewestOfAPod, mostOfAPod             = 5, 8
	fewestOfANamespace, mostOfANamespace = 10, 17
)

// testProgramCrashes ends the program after each of its writes, while a pod is run and ended.
func (w *pair) testProgramCrashes(t *testing.T) {
	first := sample.Seed(t)
	for n := range uint64(sample.Of(1, mostOfAPod)) {
		writes := int64((first+n*3)%mostOfAPod) + 1 // 3 and 8 have no common divisor, so all numbers occur
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			before := w.rome.programCrashes.Load()
			w.rome.programEnds.Store(writes)
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "vk-milan"}}
			w.rome.runDeleteNow(t, d)
			p := onMilan("demo", fmt.Sprintf("mortal-%d", writes))
			w.rome.create(p)
			until(t, w.rome, p, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && isReady(p) })
			w.goes(t, p)
			for _, o := range []client.Object{&offloadingv1beta1.ShadowPod{}, &corev1.Pod{}} {
				o.SetNamespace("demo-rome")
				o.SetName(p.Name)
				untilGone(t, w.milan, o)
			}
			if writes <= fewestOfAPod && w.rome.programCrashes.Load() == before {
				t.Error("the program has not crashed")
			}
		})
	}
}

// testOffloadingCrashes ends the operator after each of its writes, while another namespace
// is offloaded and taken back.
func (w *pair) testOffloadingCrashes(t *testing.T) {
	first := sample.Seed(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "second"}}
	w.rome.create(ns.DeepCopy())
	for n := range uint64(sample.Of(1, mostOfANamespace)) {
		writes := int64((first+n*5)%mostOfANamespace) + 1 // 5 and 17 have no common divisor
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			w.rome.stop()
			before := w.rome.crashes.Load()
			w.rome.runOperatorThatEnds(render.PeeringConsumer, writes)
			o := peering.Offloading("second", peering.OffloadingParams{Pods: "Remote", Mapping: "SelectedName", RemoteName: "chosen-rome"})
			w.rome.apply(t, o)
			until(t, w.rome, o, "ready", func(o *offloadingv1beta1.NamespaceOffloading) bool {
				return o.Status.OffloadingPhase == offloadingv1beta1.ReadyOffloadingPhaseType
			})
			p := onMilan("second", "web")
			w.rome.create(p)
			until(t, w.rome, p, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
			w.goes(t, p)
			w.rome.runDelete(t, peering.Offloading("second", peering.OffloadingParams{}))
			w.takenBack(t, "second", "chosen-rome", before)
			untilGone(t, w.rome, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "second", Name: wire.OffloadedAccessName}})
			until(t, w.rome, ns, "without a label", func(ns *corev1.Namespace) bool { return ns.Labels[peering.LabelOffloaded] == "" })
			until(t, w.rome, virtual(), "with one namespace", func(v *offloadingv1beta1.VirtualNode) bool {
				return v.Annotations[peering.AnnotationNamespaces] == "demo"
			})
			if writes <= fewestOfANamespace && w.rome.crashes.Load() == before {
				t.Error("the operator has not crashed")
			}
		})
	}
	w.rome.runDelete(t, ns)
}

// takenBack waits until milan does not have the namespace any more. Its NamespaceOffloading is gone. An
// operator that had crashed by then has not seen the deletion, so its admin confirms it.
func (w *pair) takenBack(t *testing.T, namespace, there string, crashes int64) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := w.milan.Get(t.Context(), client.ObjectKey{Name: there}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("milan has namespace %s still (%v)", there, err)
		}
		m := mapTo("liqo-tenant-milan")
		if err := w.rome.Get(t.Context(), client.ObjectKeyFromObject(m), m); err == nil && peering.Left(m)[namespace] && w.rome.crashes.Load() > crashes {
			w.withdraw(t, namespace)
		}
	}
}

// withdraw confirms that milan may remove objects, by the command that check shows.
func (w *pair) withdraw(t *testing.T, text string) {
	t.Helper()
	if err := w.rome.Patch(t.Context(), mapTo("liqo-tenant-milan"), mergePatch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, peering.AnnotationWithdrawn, text))); err != nil {
		t.Fatal(err)
	}
}
