// Package own writes and deletes objects that are the operator's own.
package own

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/render"
)

// Manager is the name under which the operator writes.
const Manager = render.OperatorName

// Apply makes a child be as wanted, and returns it as it is then. If want has a resource version, and
// the child has another one by then, it is a conflict: want says something that was read with it.
func Apply[O client.Object](ctx context.Context, c client.Client, want O) (O, error) {
	live, ok := reflect.TypeAssert[O](reflect.New(reflect.TypeOf(want).Elem()))
	if !ok {
		return want, fmt.Errorf("apply %s: %T is not a pointer", render.Name(want), want)
	}
	live.GetObjectKind().SetGroupVersionKind(want.GetObjectKind().GroupVersionKind()) // untyped ones have no other
	err := c.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case err == nil && OfAnother(live, want):
		// Left by an earlier owner of this name. What it says, such as being
		// Connected, is not true of this one.
		if err := Delete(ctx, c, live); err != nil {
			return live, err
		}
	case err == nil && render.Contains(Manager, live, want):
		return live, nil
	case client.IgnoreNotFound(err) != nil:
		return live, fmt.Errorf("read %s: %w", render.Name(want), err)
	}
	u, err := render.Wanted(want)
	if err != nil {
		return live, err
	}
	u.SetResourceVersion(want.GetResourceVersion())
	// Children are ours alone: what somebody else changed in them is undone.
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(Manager), client.ForceOwnership)
	if err != nil {
		return live, fmt.Errorf("apply %s: %w", render.Name(want), err)
	}
	if untyped, ok := any(live).(*unstructured.Unstructured); ok {
		untyped.Object = u.Object
		return live, nil
	}
	return live, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, live)
}

// OfAnother reports whether live has another controller than want.
func OfAnother(live, want client.Object) bool {
	has, wants := metav1.GetControllerOf(live), metav1.GetControllerOf(want)
	return has != nil && wants != nil && has.UID != wants.UID
}

// Delete deletes o as it was seen: what was made under its name since then stays.
func Delete(ctx context.Context, c client.Client, o client.Object, options ...client.DeleteOption) error {
	options = append(options, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: new(o.GetUID())})
	err := c.Delete(ctx, o, options...)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s, which nothing needs any more: %w", render.Name(o), err)
	}
	return nil
}
