package own

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

// Deletions are those of others' objects that this operator has seen. That an object is not
// there says nothing: the cluster may have been restored from a backup, whose objects come back
// one after the other. What was deleted while no operator ran therefore has no effect, and check
// names what is left.
type Deletions struct {
	of  func(o client.Object, gone bool) []Deletion
	mu  sync.Mutex
	all map[Deletion]bool
}

// Deletion is what the deletion of an object is of: it may be of more than the object itself.
type Deletion struct {
	Of string
	types.NamespacedName
}

// NewDeletions keeps what of says of each object that is deleted, until of says it of one that is there.
func NewDeletions(of func(o client.Object, gone bool) []Deletion) *Deletions {
	return &Deletions{of: of}
}

// Has reports whether a deletion was seen, and nothing has come after it.
func (d *Deletions) Has(what Deletion) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[what]
}

// Set notes that an object is gone, or is there.
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

// Seen keeps the deletions among the events that another handler gets. One that a watch has missed
// is known from a list alone: the object was absent.
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
