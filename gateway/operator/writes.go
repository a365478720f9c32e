package operator

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// ownWrites remembers the writes of one controller. The zero value is empty.
type ownWrites struct {
	mu   sync.Mutex
	made map[types.UID][]string // the resource versions that the writes have made
}

// kept is the number of remembered versions of an object, because a reconciliation writes its metadata and
// its status.
const kept = 4

// Patch changes the object before into o, and updates o from the answer of the API server. [ownWrites.News]
// drops the event of this write, unless another program has changed the object after before was read. In that
// case the controller has decided about an old object.
func (w *ownWrites) Patch(ctx context.Context, c client.Client, o, before client.Object, owner client.FieldOwner) error {
	return w.write(o, func() error { return c.Patch(ctx, o, client.MergeFrom(before), owner) })
}

// PatchStatus is like [ownWrites.Patch], for the status.
func (w *ownWrites) PatchStatus(ctx context.Context, c client.Client, o, before client.Object, owner client.FieldOwner) error {
	return w.write(o, func() error { return c.Status().Patch(ctx, o, client.MergeFrom(before), owner) })
}

func (w *ownWrites) write(o client.Object, patch func() error) error {
	want := content(o)
	w.mu.Lock() // the event may come before the answer
	defer w.mu.Unlock()
	if err := patch(); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(want, content(o)) {
		return nil
	}
	if w.made == nil {
		w.made = map[types.UID][]string{}
	}
	made := append(w.made[o.GetUID()], o.GetResourceVersion())
	w.made[o.GetUID()] = slices.Clone(made[max(0, len(made)-kept):])
	return nil
}

// News selects all changes except own writes and changes of these annotations.
func (w *ownWrites) News(annotations ...string) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			w.mu.Lock()
			own := slices.Contains(w.made[e.ObjectNew.GetUID()], e.ObjectNew.GetResourceVersion())
			w.mu.Unlock()
			return !own && !equality.Semantic.DeepEqual(content(e.ObjectOld, annotations...), content(e.ObjectNew, annotations...))
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.made, e.Object.GetUID())
			return true
		},
	}
}

// content returns an object without these annotations, and without the fields that the API server maintains.
func content(o client.Object, annotations ...string) client.Object {
	out := o.DeepCopyObject().(client.Object)
	all := out.GetAnnotations()
	for _, name := range annotations {
		delete(all, name)
	}
	out.SetAnnotations(all)
	out.SetResourceVersion("")
	out.SetManagedFields(nil)
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out
}
