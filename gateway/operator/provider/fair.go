package provider

import (
	"context"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fair orders a queue so that consumers take turns: a consumer with many items delays only its own. fair
// needs no lock, because its queue has one.
type fair[T comparable] struct {
	of      func(T) string // the consumer that an item belongs to
	turns   []string       // the consumers that have items, in the order of their turns
	waiting map[string][]T
	length  int
}

// Touch is called for an item that is queued again. The item keeps its place.
func (*fair[T]) Touch(T) {}

func (f *fair[T]) Push(item T) {
	whose := f.of(item)
	if len(f.waiting[whose]) == 0 {
		f.turns = append(f.turns, whose)
	}
	f.waiting[whose] = append(f.waiting[whose], item)
	f.length++
}

// Len returns the number of items.
func (f *fair[T]) Len() int { return f.length }

// Pop takes the next item of the consumer whose turn it is.
func (f *fair[T]) Pop() T {
	whose := f.turns[0]
	f.turns = f.turns[1:]
	items := f.waiting[whose]
	item := items[0]
	items[0] = *new(T) // so that the array does not keep the item
	if items = items[1:]; len(items) == 0 {
		delete(f.waiting, whose)
	} else {
		f.waiting[whose] = items
		f.turns = append(f.turns, whose)
	}
	f.length--
	return item
}

// fairly returns the options for n workers that serve consumers in turns.
func (b *base) fairly(n int) controller.Options {
	o := control.Workers(n)
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

// whose returns the tenant namespace that a request in a mapped namespace belongs to. The cache answers at
// once, except while it fills. The timeout is for a cache that has stopped.
func (b *base) whose(r reconcile.Request) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ns := &corev1.Namespace{}
	if b.client.Get(ctx, client.ObjectKey{Name: r.Namespace}, ns) != nil {
		return ""
	}
	return tenantOf(ns)
}
