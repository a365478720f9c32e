// Package control has functions that the operator's controllers share: they write and delete their own
// objects, report problems of others' objects, and try again.
package control

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Manager is the field manager that the operator writes as.
const Manager = wire.OperatorName

// Apply writes an object of ours, and returns it as stored. If want has a resource version, it was made from
// that version. Then Apply fails with a conflict if the object has changed since.
func Apply[O client.Object](ctx context.Context, c client.Client, want O) (O, error) {
	live, ok := reflect.TypeAssert[O](reflect.New(reflect.TypeOf(want).Elem()))
	if !ok {
		return want, fmt.Errorf("apply %s: %T is not a pointer", apply.Name(want), want)
	}
	live.GetObjectKind().SetGroupVersionKind(want.GetObjectKind().GroupVersionKind()) // only this line gives an unstructured object its kind
	err := c.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case err == nil && OfAnother(live, want):
		// The object is a leftover of an earlier owner of this name. Its contents, such as the state
		// Connected, are wrong for the new owner.
		if err := Delete(ctx, c, live); err != nil {
			return live, err
		}
	case err == nil && apply.Contains(Manager, live, want):
		return live, nil
	case client.IgnoreNotFound(err) != nil:
		return live, fmt.Errorf("read %s: %w", apply.Name(want), err)
	}
	u, err := apply.Wanted(want)
	if err != nil {
		return live, err
	}
	u.SetResourceVersion(want.GetResourceVersion())
	// The operator owns these objects, so it undoes changes by others.
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(Manager), client.ForceOwnership)
	if err != nil {
		return live, fmt.Errorf("apply %s: %w", apply.Name(want), err)
	}
	if untyped, ok := any(live).(*unstructured.Unstructured); ok {
		untyped.Object = u.Object
		return live, nil
	}
	return live, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, live)
}

// OnlyApplied drops all managed fields except those that we have applied. [Apply] needs these to
// find the fields that have to be removed. The rest is long.
func OnlyApplied(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil && len(m.GetManagedFields()) > 0 {
		var own []metav1.ManagedFieldsEntry
		for _, e := range m.GetManagedFields() {
			if e.Manager == Manager && e.Operation == metav1.ManagedFieldsOperationApply {
				own = append(own, e)
			}
		}
		m.SetManagedFields(own)
	}
	return o, nil
}

// OfAnother reports whether live has another controller than want.
func OfAnother(live, want client.Object) bool {
	has, wants := metav1.GetControllerOf(live), metav1.GetControllerOf(want)
	return has != nil && wants != nil && has.UID != wants.UID
}

// Delete deletes o, but not a newer object of the same name.
func Delete(ctx context.Context, c client.Client, o client.Object, options ...client.DeleteOption) error {
	options = append(options, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: new(o.GetUID())})
	err := c.Delete(ctx, o, options...)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s, which nothing needs any more: %w", apply.Name(o), err)
	}
	return nil
}

// ClusterID reads the ID of this cluster from the namespace home of the operator.
func ClusterID(ctx context.Context, c client.Reader, home string) (wire.ClusterID, error) {
	var m corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: home, Name: wire.ClusterIDConfigMap}, &m); err != nil {
		return "", fmt.Errorf("read the cluster's ID: %w", err)
	}
	return wire.ClusterID(m.Data[wire.ClusterIDKey]), nil
}
