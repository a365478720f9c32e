package twins

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fair is the order of a queue in which consumers take turns: one that asks for much waits
// for itself. It is not safe for use by several at once; its queue sees to that.
type fair[T comparable] struct {
	of      func(T) string // whose an item is
	turns   []string       // of those who have items, the next one first
	waiting map[string][]T
	length  int
}

// Touch is of an item that is in the queue already: it keeps its place.
func (*fair[T]) Touch(T) {}

// Push adds an item.
func (f *fair[T]) Push(item T) {
	whose := f.of(item)
	if len(f.waiting[whose]) == 0 {
		f.turns = append(f.turns, whose)
	}
	f.waiting[whose] = append(f.waiting[whose], item)
	f.length++
}

// Len is how many items there are.
func (f *fair[T]) Len() int { return f.length }

// Pop takes the next item.
func (f *fair[T]) Pop() T {
	whose := f.turns[0]
	f.turns = f.turns[1:]
	items := f.waiting[whose]
	item := items[0]
	items[0] = *new(T) // the array is there for longer
	if items = items[1:]; len(items) == 0 {
		delete(f.waiting, whose)
	} else {
		f.waiting[whose] = items
		f.turns = append(f.turns, whose)
	}
	f.length--
	return item
}

// fairly are n workers, for each of whom consumers take turns.
func (b *base) fairly(n int) controller.Options {
	o := workers(n)
	o.NewQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		order := &fair[reconcile.Request]{of: b.whose, waiting: map[string][]reconcile.Request{}}
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
			Name: name,
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
				Name: name, Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: order}),
			}),
		})
	}
	return o
}

// whose is the tenant namespace of the consumer that a request in a twin is of. The cache
// answers at once, but for the moment in which it is filled; one that has ended is not waited for.
func (b *base) whose(r reconcile.Request) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ns := &corev1.Namespace{}
	if b.client.Get(ctx, client.ObjectKey{Name: r.Namespace}, ns) != nil {
		return ""
	}
	return tenantOf(ns)
}
