package waiting_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/kube/waiting"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// event is one of a pod's, so many seconds before noon.
func event(reason, message, uid string, before int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: reason + uid, Namespace: "liqo"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "liqo", Name: "operator-1", UID: "1"},
		Reason:         reason, Message: message, LastTimestamp: metav1.NewTime(noon.Add(-time.Duration(before) * time.Second)),
	}
}

func TestWhatANodePulls(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "operator-1", Namespace: "liqo", UID: "1"}, Spec: corev1.PodSpec{NodeName: "rome-1"}}
	pulling := event("Pulling", `Pulling image "registry.example/liqo-gateway:v1"`, "1", 40)
	former := event("Pulling", "Pulling image", "0", 40)
	former.InvolvedObject.UID = "0" // a pod that had the same name
	series := pulling.DeepCopy()
	series.EventTime, series.LastTimestamp = metav1.NewMicroTime(pulling.LastTimestamp.Time), metav1.Time{}
	ended, cancel := context.WithCancel(t.Context())
	cancel() // as whoever asks has waited in vain
	const hangs = "node rome-1 has been pulling registry.example/liqo-gateway:v1 for 40s: its registry hangs, or is slow"
	for name, c := range map[string]struct {
		events []client.Object
		want   string
	}{
		"nothing is known":       {nil, ""},
		"it pulls":               {[]client.Object{pulling}, hangs},
		"an event of a new kind": {[]client.Object{series}, hangs},
		"it has just begun":      {[]client.Object{event("Pulling", "Pulling image", "1", 3)}, ""},
		"it is done":             {[]client.Object{pulling, event("Pulled", "Successfully pulled", "1", 20)}, ""},
		"it has failed":          {[]client.Object{pulling, event("Failed", "Failed to pull", "1", 20)}, ""},
		"it tries again":         {[]client.Object{event("BackOff", "Back-off", "1", 60), pulling}, hangs},
		"a pod before it":        {[]client.Object{former}, ""},
	} {
		indexed := fake.NewClientBuilder().WithObjects(c.events...)
		for _, field := range []string{"involvedObject.name", "involvedObject.namespace"} {
			indexed = indexed.WithIndex(&corev1.Event{}, field, func(o client.Object) []string {
				e := o.(*corev1.Event)
				return []string{map[string]string{"involvedObject.name": e.InvolvedObject.Name, "involvedObject.namespace": e.InvolvedObject.Namespace}[field]}
			})
		}
		if got := waiting.ToBePulled(ended, indexed.Build(), []*corev1.Pod{pod}, noon); got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
}
