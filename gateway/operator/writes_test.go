package operator

import (
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const exampleProblem = "example.org/exampleProblem"

// writer is a GatewayServer, and the number of reconciliations that its changes cause.
type writer struct {
	client.Client
	t      *testing.T
	writes ownWrites
	seen   *networkingv1beta1.GatewayServer // as a cache has it
	asked  int
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	server := &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a", UID: "u"}, Spec: networkingv1beta1.GatewayServerSpec{MTU: 1340}}
	w := &writer{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(server).WithStatusSubresource(server).Build(), t: t}
	w.seen = w.now()
	return w
}

func (w *writer) now() *networkingv1beta1.GatewayServer {
	w.t.Helper()
	var s networkingv1beta1.GatewayServer
	if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: "a", Name: "a"}, &s); err != nil {
		w.t.Fatal(err)
	}
	return &s
}

// look delivers the present object, as a watch does.
func (w *writer) look() {
	w.t.Helper()
	now := w.now()
	if w.writes.News(exampleProblem).Update(event.UpdateEvent{ObjectOld: w.seen, ObjectNew: now}) {
		w.asked++
	}
	w.seen = now
}

// reconcile writes the results from the object in the cache.
func (w *writer) reconcile() {
	w.t.Helper()
	o := w.seen.DeepCopy()
	before := o.DeepCopy()
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, "key", "k")
	if err := w.writes.Patch(w.t.Context(), w.Client, o, before, "me"); err != nil {
		w.t.Fatal(err)
	}
	w.look()
	before = o.DeepCopy()
	o.Status.Endpoint = &networkingv1beta1.EndpointStatus{Port: int32(o.Spec.MTU)}
	if err := w.writes.PatchStatus(w.t.Context(), w.Client, o, before, "me"); err != nil {
		w.t.Fatal(err)
	}
	w.look()
}

func (w *writer) change(how func(*networkingv1beta1.GatewayServer)) {
	w.t.Helper()
	o := w.now()
	how(o)
	if err := w.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func TestOwnWritesAskForNothing(t *testing.T) {
	w := newWriter(t)
	w.reconcile()
	if w.asked != 0 {
		t.Errorf("2 own writes ask for %d reconciliations", w.asked)
	}
	for name, how := range map[string]func(*networkingv1beta1.GatewayServer){
		"a setting":              func(s *networkingv1beta1.GatewayServer) { s.Spec.MTU++ },
		"what we wrote is gone":  func(s *networkingv1beta1.GatewayServer) { delete(s.Annotations, "key") },
		"what we wrote is wrong": func(s *networkingv1beta1.GatewayServer) { s.Annotations["key"] = "x" },
	} {
		w.asked = 0
		w.change(how)
		w.look()
		if w.asked != 1 {
			t.Errorf("%s: asks for %d reconciliations, want 1", name, w.asked)
		}
		w.reconcile()
		if w.asked != 1 {
			t.Errorf("%s, and it was reconciled: %d reconciliations, want 1", name, w.asked)
		}
	}
	w.asked = 0
	w.change(func(s *networkingv1beta1.GatewayServer) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, exampleProblem, "x")
	})
	if w.look(); w.asked != 0 {
		t.Error("an annotation that is left out asks for a reconciliation")
	}
}

// Another program writes after the version in the cache and before our write. The watch delivers both at
// once, as after an interruption.
func TestAnotherWriteBesideOursIsNews(t *testing.T) {
	w := newWriter(t)
	w.change(func(s *networkingv1beta1.GatewayServer) { s.Spec.MTU = 1300 })
	o := w.seen.DeepCopy()
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, "key", "k")
	if err := w.writes.Patch(t.Context(), w.Client, o, w.seen, "me"); err != nil {
		t.Fatal(err)
	}
	if w.look(); w.asked != 1 {
		t.Errorf("asks for %d reconciliations, want 1", w.asked)
	}
}

func TestADeletionIsNews(t *testing.T) {
	w := newWriter(t)
	if !w.writes.News().Delete(event.DeleteEvent{Object: w.seen}) {
		t.Error("it is not")
	}
}
