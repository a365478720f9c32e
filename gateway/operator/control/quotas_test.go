package control

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhichQuotasAreMadeAgain(t *testing.T) {
	begin := time.Unix(1000, 0)
	after := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	quota := func(name string, made int, counted bool) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1", CreationTimestamp: metav1.NewTime(after(made))}}
		q.Spec.Hard = corev1.ResourceList{"pods": resource.MustParse("1")}
		if counted {
			q.Status.Used = corev1.ResourceList{"pods": resource.MustParse("0")}
		}
		return q
	}
	var c Counting
	for _, step := range []struct {
		name string
		q    *corev1.ResourceQuota
		at   int
		want bool
	}{
		{"young", quota("a", 0, false), 5, false},
		{"older, and the kind may be new", quota("a", 0, false), 6, true},
		{"counted", quota("a", 0, true), 10, false},
		{"older than the first that was counted", quota("a", 9, false), 16, true},
		{"younger than that one: Kubernetes is busy", quota("a", 11, false), 70, false},
		{"not even after a minute", quota("a", 11, false), 72, true},
		{"of other kinds", quota("b", 11, false), 17, true},
		{"not made yet", &corev1.ResourceQuota{Spec: quota("b", 0, false).Spec}, 99, false},
	} {
		if got := c.Late(step.q, after(step.at)); got != step.want {
			t.Errorf("%s: got %t", step.name, got)
		}
	}
}
