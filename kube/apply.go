package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// Apply applies the objects one after another, without force: a field that
// another manager owns is a [flows.ConflictError], not a silent win.
func (c *Cluster) Apply(ctx context.Context, objects []render.Object) ([]flows.Change, error) {
	var changes []flows.Change
	for _, o := range objects {
		change, err := c.applyOne(ctx, o)
		if err != nil {
			return changes, err
		}
		changes = append(changes, change)
	}
	return changes, nil
}

func (c *Cluster) applyOne(ctx context.Context, o render.Object) (flows.Change, error) {
	name := render.Name(o)
	want, err := render.Wanted(o)
	if err != nil {
		return flows.Change{}, err
	}
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(want.GroupVersionKind())
	verb := flows.Updated
	switch err := c.client.Get(ctx, client.ObjectKeyFromObject(o), before); {
	case apierrors.IsNotFound(err):
		verb = flows.Created
	case err != nil:
		return flows.Change{}, fmt.Errorf("read %s: %w", name, err)
	}
	err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(render.FieldManager))
	if err != nil {
		if conflicting := conflict(name, err); conflicting != nil {
			return flows.Change{}, conflicting
		}
		return flows.Change{}, fmt.Errorf("apply %s: %w", name, err)
	}
	if verb == flows.Updated && want.GetResourceVersion() == before.GetResourceVersion() {
		verb = flows.Unchanged
	}
	c.remember(want)
	return flows.Change{Verb: verb, Object: name}, nil
}

// Delete deletes the objects; their children go with them, in the background.
func (c *Cluster) Delete(ctx context.Context, objects []render.Object) ([]flows.Change, error) {
	var changes []flows.Change
	for _, o := range objects {
		name := render.Name(o)
		err := c.client.Delete(ctx, o, client.PropagationPolicy("Background"))
		if client.IgnoreNotFound(err) != nil {
			return changes, fmt.Errorf("delete %s: %w", name, err)
		}
		if err == nil {
			changes = append(changes, flows.Change{Verb: flows.Deleted, Object: name})
		}
		if err := c.lookAgain(ctx, o); err != nil {
			return changes, err
		}
	}
	return changes, nil
}

// lookAgain brings the mirror up to date with what a deletion left: nothing, or
// an object that waits for its finalizers.
func (c *Cluster) lookAgain(ctx context.Context, o render.Object) error {
	gvk, err := c.client.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	err = c.client.Get(ctx, client.ObjectKeyFromObject(o), u)
	if apierrors.IsNotFound(err) {
		if s := c.storeOf(gvk.Kind); s != nil {
			s.remove(o)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s after deleting it: %w", render.Name(o), err)
	}
	c.remember(u)
	return nil
}

// remember puts the answer to a write into the mirror, so that the next
// Observe sees it without waiting for the watch.
func (c *Cluster) remember(u *unstructured.Unstructured) {
	s := c.storeOf(u.GetKind())
	if s == nil {
		return
	}
	typed, err := c.client.Scheme().New(u.GroupVersionKind())
	if err != nil {
		return
	}
	obj, ok := typed.(client.Object)
	if !ok || fromUnstructured(u, obj) != nil {
		return // the watch will bring it
	}
	if s.selects(obj) {
		s.put(obj)
	}
}

func (c *Cluster) storeOf(kind string) *store {
	for _, s := range c.kinds {
		if s.kind == kind {
			return s
		}
	}
	return nil
}
