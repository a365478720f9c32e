package virtualnode

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A deletion that a watch has missed is found because the object is absent. For pods, the UID counts, because
// another pod may have the name.
func TestADeletionIsSeenOrMissed(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "u1"}
	ending := meta
	ending.DeletionTimestamp = new(metav1.Unix(1, 0))
	missed := func(o client.Object) any {
		return toolscache.DeletedFinalStateUnknown{Key: "demo/web", Obj: o}
	}
	named := func(s *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
		s.ObjectMeta = meta
		return s
	}
	for name, c := range map[string]struct {
		kind, o client.Object
		is      deletion
		ending  client.Object
		again   bool // a later object of this name is another object
	}{
		"a pod":     {&corev1.Pod{}, &corev1.Pod{ObjectMeta: meta}, ofPod("u1"), &corev1.Pod{ObjectMeta: ending}, true},
		"a Service": {&corev1.Service{}, &corev1.Service{ObjectMeta: meta}, deletion{kind: services, namespace: "demo", name: "web"}, &corev1.Service{ObjectMeta: ending}, false},
		"endpoints": {&discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSlice{ObjectMeta: meta}, deletion{kind: shadows, namespace: "demo", name: "web"}, &discoveryv1.EndpointSlice{ObjectMeta: ending}, false},
		"a Secret":  {metadata(secrets), named(metadata(secrets)), deletion{kind: secrets, namespace: "demo", name: "web"}, &metav1.PartialObjectMetadata{ObjectMeta: ending}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s seen
			s.note(c.kind, missed(c.o), true)
			if s.has(c.is) {
				t.Error("one that was missed counts")
			}
			s.note(c.kind, missed(c.ending), true)
			if !s.has(c.is) {
				t.Error("one that was being deleted does not count")
			}
			s = seen{}
			s.note(c.kind, c.o, true)
			if !s.has(c.is) {
				t.Error("one that was seen does not count")
			}
			s.note(c.kind, c.o, false)
			if s.has(c.is) != c.again {
				t.Errorf("another one of its name is there: counts %t, want %t", s.has(c.is), c.again)
			}
		})
	}
}

func TestDeletionsAreKeptWithinBounds(t *testing.T) {
	var s seen
	for n := range mostSeen + 10 {
		s.set(ofPod(types.UID(fmt.Sprint(n))), true)
	}
	if len(s.all) != mostSeen || len(s.order) != mostSeen || s.has(ofPod("9")) || !s.has(ofPod("10")) {
		t.Errorf("%d are kept", len(s.all))
	}
}
