package control

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Deletions remembers which deletions of others' objects this operator has seen. A missing object alone
// proves no deletion, because after the restore of a backup, objects come back one after the other. So a
// deletion while no operator ran has no effect, and liqo-tui check lists the leftovers.
type Deletions struct {
	of  func(o client.Object, gone bool) []Deletion
	mu  sync.Mutex
	all map[Deletion]bool
}

// Deletion names a deletion. One deleted object may cause several: the end of the last ResourceSlice for a
// provider is also the end of the use of the provider.
type Deletion struct {
	Of string
	types.NamespacedName
}

// NewDeletions returns an empty memory. of lists the deletions that the end of an object causes. A deletion
// is forgotten when of lists it for an existing object.
func NewDeletions(of func(o client.Object, gone bool) []Deletion) *Deletions {
	return &Deletions{of: of}
}

// Has reports whether a deletion was seen, and no object has been created since then that revokes it.
func (d *Deletions) Has(what Deletion) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[what]
}

// Set notes that an object is gone, or exists.
func (d *Deletions) Set(o client.Object, gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, what := range d.of(o, gone) {
		switch {
		case !gone:
			delete(d.all, what)
			continue
		case d.all == nil:
			d.all = map[Deletion]bool{}
		}
		d.all[what] = true
	}
}

// Seen wraps the handler next, and notes the deletions among its events. If the watch has missed the event of
// a deletion, the deletion counts only if the object was already being deleted. Otherwise the object is
// merely absent from a list.
func (d *Deletions) Seen(next handler.EventHandler) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			d.Set(e.Object, false)
			next.Create(ctx, e, q)
		},
		UpdateFunc: next.Update,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if !e.DeleteStateUnknown || e.Object.GetDeletionTimestamp() != nil {
				d.Set(e.Object, true)
			}
			next.Delete(ctx, e, q)
		},
		GenericFunc: next.Generic,
	}
}
