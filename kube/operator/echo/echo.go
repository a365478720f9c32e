// Package echo tells a controller which events are of its own writes.
package echo

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

// Writes are those of one controller. The zero value has none.
type Writes struct {
	mu   sync.Mutex
	made map[types.UID][]string // the versions that they made
}

// kept is how many versions of an object are remembered: a reconciliation writes its
// metadata and its status.
const kept = 4

// Patch writes what makes before into o, which is then what the API server has. The
// event of it is no news, unless somebody else has changed the object since it was
// before: then what the controller has concluded is about another one.
func (w *Writes) Patch(ctx context.Context, c client.Client, o, before client.Object, owner client.FieldOwner) error {
	return w.write(o, func() error { return c.Patch(ctx, o, client.MergeFrom(before), owner) })
}

// PatchStatus is [Writes.Patch] of the status.
func (w *Writes) PatchStatus(ctx context.Context, c client.Client, o, before client.Object, owner client.FieldOwner) error {
	return w.write(o, func() error { return c.Status().Patch(ctx, o, client.MergeFrom(before), owner) })
}

func (w *Writes) write(o client.Object, patch func() error) error {
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

// News tells of all changes but own writes, and those of the annotations.
func (w *Writes) News(annotations ...string) predicate.Predicate {
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

// content is what an object says, without the annotations and what the API server
// counts.
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
