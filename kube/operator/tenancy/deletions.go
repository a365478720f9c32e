package tenancy

import (
	"context"
	"slices"
	"sync"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// deletions are those of an admin's objects that this operator has seen. That an object is not
// there says nothing: this cluster may have been restored from a backup, whose objects come back
// one after the other. What was deleted while no operator ran is therefore left on the provider,
// and check names it.
type deletions struct {
	mu  sync.Mutex
	all map[deletion]bool
}

// deletion is of a NamespaceOffloading or a ResourceSlice, or of one of a provider's slices.
type deletion struct {
	of string
	types.NamespacedName
}

func ofOffloading(namespace string) deletion {
	return deletion{"NamespaceOffloading", types.NamespacedName{Namespace: namespace}}
}

func ofSlice(slice types.NamespacedName) deletion { return deletion{"ResourceSlice", slice} }

func ofProvider(provider types.NamespacedName) deletion { return deletion{"provider", provider} }

func deletionsOf(o client.Object) []deletion {
	switch o := o.(type) {
	case *offloadingv1beta1.NamespaceOffloading:
		return []deletion{ofOffloading(o.Namespace)}
	case *authv1beta1.ResourceSlice:
		out := []deletion{ofSlice(client.ObjectKeyFromObject(o))}
		if o.Spec.ProviderClusterID != nil {
			out = append(out, ofProvider(types.NamespacedName{Namespace: o.Namespace, Name: string(*o.Spec.ProviderClusterID)}))
		}
		return out
	}
	return nil
}

func (d *deletions) has(what deletion) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[what]
}

func (d *deletions) set(o client.Object, gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, what := range deletionsOf(o) {
		switch {
		case !gone:
			delete(d.all, what)
			continue
		case d.all == nil:
			d.all = map[deletion]bool{}
		}
		d.all[what] = true
	}
}

// seen keeps the deletions among the events that another handler gets. One that a watch has missed
// is known from a list alone: the object was absent.
func (d *deletions) seen(next handler.EventHandler) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			d.set(e.Object, false)
			next.Create(ctx, e, q)
		},
		UpdateFunc: next.Update,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if !e.DeleteStateUnknown || e.Object.GetDeletionTimestamp() != nil {
				d.set(e.Object, true)
			}
			next.Delete(ctx, e, q)
		},
		GenericFunc: next.Generic,
	}
}

// ended reports whether slices have asked a provider for resources, and none does any more: the
// deletion of the last one was seen.
func (d *deletions) ended(all []authv1beta1.ResourceSlice, provider types.NamespacedName) bool {
	if slices.ContainsFunc(all, func(s authv1beta1.ResourceSlice) bool { return asksProvider(&s, provider) }) {
		return false
	}
	return d.has(ofProvider(provider)) || slices.ContainsFunc(all, func(s authv1beta1.ResourceSlice) bool {
		return s.DeletionTimestamp != nil && isOf(&s, provider)
	})
}

// asksProvider reports whether a ResourceSlice asks a provider for resources.
func asksProvider(s *authv1beta1.ResourceSlice, provider types.NamespacedName) bool {
	return s.DeletionTimestamp == nil && isOf(s, provider)
}

func isOf(s *authv1beta1.ResourceSlice, provider types.NamespacedName) bool {
	return s.Namespace == provider.Namespace && s.Spec.ProviderClusterID != nil && string(*s.Spec.ProviderClusterID) == provider.Name
}
