package control

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Counted reports whether Kubernetes has counted everything that a quota limits. Until then the API server
// refuses every new object of these kinds.
func Counted(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if _, counted := q.Status.Used[name]; !counted {
			return false
		}
	}
	return true
}

// UnlessUsed ignores updates of quotas that change only the counts of objects.
func UnlessUsed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*corev1.ResourceQuota), e.ObjectNew.(*corev1.ResourceQuota)
		return Counted(was) != Counted(is) || !equality.Semantic.DeepEqual(was.Spec, is.Spec) || !maps.Equal(was.Labels, is.Labels)
	}}
}

const (
	// countingTime is the time after which a new quota counts as late. Kubernetes usually counts it within
	// 100 to 300 ms.
	countingTime = 5 * time.Second
	// busyTime replaces countingTime if Kubernetes already knows the kinds. Then a late count only means that
	// Kubernetes is busy.
	busyTime = time.Minute
)

// Counting finds the quotas that have to be created again. Kubernetes discovers new kinds with a delay. If
// a quota existed before this discovery, Kubernetes counts it only some minutes later. It counts a quota that
// is created after the discovery at once. If Kubernetes is only busy, a new quota does not help.
type Counting struct {
	mu    sync.Mutex
	known map[string]time.Time // when a quota of this name was counted for the first time
}

// Late reports whether a quota has to be created again. Quotas of the same name limit the same kinds.
func (c *Counting) Late(q *corev1.ResourceQuota, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, is := c.known[q.Name]
	if Counted(q) {
		if !is {
			if c.known == nil {
				c.known = map[string]time.Time{}
			}
			c.known[q.Name] = now
		}
		return false
	}
	patience := countingTime
	if is && q.CreationTimestamp.After(known) {
		patience = busyTime
	}
	return q.UID != "" && now.Sub(q.CreationTimestamp.Time) > patience
}
