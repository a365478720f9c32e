package waiting_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/kube/waiting"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// event returns an Event of a pod, so many seconds before noon.
func event(reason, message, uid string, before int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: reason + uid, Namespace: "liqo"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "liqo", Name: "operator-1", UID: "1"},
		Reason:         reason, Message: message, LastTimestamp: metav1.NewTime(noon.Add(-time.Duration(before) * time.Second)),
	}
}

// cluster returns a client with the objects. It finds Events by their object.
func cluster(objects ...client.Object) client.Client {
	indexed := fake.NewClientBuilder().WithObjects(objects...)
	for _, field := range []string{"involvedObject.name", "involvedObject.namespace"} {
		indexed = indexed.WithIndex(&corev1.Event{}, field, func(o client.Object) []string {
			e := o.(*corev1.Event)
			return []string{map[string]string{"involvedObject.name": e.InvolvedObject.Name, "involvedObject.namespace": e.InvolvedObject.Namespace}[field]}
		})
	}
	return indexed.Build()
}

func TestPodsThatAreNotMadeSayWhy(t *testing.T) {
	const quota = `pods "x-" is forbidden: failed quota: team: must specify limits.cpu for: operator`
	meta := metav1.ObjectMeta{Name: "operator", Namespace: "liqo", UID: "1"}
	deployment := func(s corev1.ConditionStatus) client.Object {
		return &appsv1.Deployment{ObjectMeta: meta, Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Message: "no pods"}, {Type: appsv1.DeploymentReplicaFailure, Status: s, Message: quota},
		}}}
	}
	set := func(made int32) client.Object {
		return &appsv1.DaemonSet{ObjectMeta: meta, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, CurrentNumberScheduled: made}}
	}
	about := func(reason, message, uid string, before int) client.Object {
		e := event(reason, message, uid, before)
		e.Name += message[:4]
		e.InvolvedObject.Kind, e.InvolvedObject.Name, e.InvolvedObject.UID = "DaemonSet", "operator", meta.UID
		return e
	}
	refused := about("FailedCreate", quota, "1", 10)
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"nothing is there":            {nil, ""},
		"a Deployment":                {[]client.Object{deployment(corev1.ConditionTrue)}, quota},
		"a Deployment that works":     {[]client.Object{deployment(corev1.ConditionFalse)}, ""},
		"a DaemonSet":                 {[]client.Object{set(0), refused}, quota},
		"a DaemonSet, on some nodes":  {[]client.Object{set(1), refused}, quota},
		"a DaemonSet, before":         {[]client.Object{set(2), refused}, ""},
		"a DaemonSet, of two reasons": {[]client.Object{set(0), about("FailedCreate", "violates PodSecurity", "1", 50), refused}, quota},
		"a DaemonSet, other events":   {[]client.Object{set(0), about("SuccessfulCreate", "made it", "1", 10)}, ""},
	} {
		if got := waiting.NotMade(t.Context(), cluster(c.objects...), client.ObjectKey{Namespace: "liqo", Name: "operator"}); got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
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
		if got := waiting.ToBePulled(ended, cluster(c.events...), []*corev1.Pod{pod}, noon); got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, c.want)
		}
	}
}
