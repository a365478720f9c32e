package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

var (
	_ engine.Editor    = (*Cluster)(nil)
	_ engine.Forcer    = (*Cluster)(nil)
	_ engine.DryRunner = (*Cluster)(nil)
)

type write struct {
	force, dryRun bool
	seen          bool // write only if the live object has the resource version of the given object
}

// applyAtOnce is the number of objects that are written at the same time.
const applyAtOnce = 16

// Apply applies the objects without force. If another manager owns a field, the error is a
// [flows.ConflictError]. Objects of one kind that follow each other are written at the same time, because a
// distant API server needs time for each. The next kind begins after that, because bindings need their roles.
func (c *Cluster) Apply(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	return c.applyAll(ctx, objects, write{})
}

// ForceApply applies the objects, and takes over fields that other managers own.
func (c *Cluster) ForceApply(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	return c.applyAll(ctx, objects, write{force: true})
}

// Edit implements [engine.Editor].
func (c *Cluster) Edit(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	return c.applyAll(ctx, objects, write{force: true, seen: true})
}

func (c *Cluster) applyAll(ctx context.Context, objects []wire.Object, w write) ([]flows.Change, error) {
	var changes []flows.Change
	kind := func(o wire.Object) schema.GroupVersionKind { return o.GetObjectKind().GroupVersionKind() }
	for len(objects) > 0 {
		n := slices.IndexFunc(objects, func(o wire.Object) bool { return kind(o) != kind(objects[0]) })
		if n < 0 {
			n = len(objects)
		}
		made, errs := make([]flows.Change, n), make([]error, n)
		var g errgroup.Group
		g.SetLimit(applyAtOnce)
		for i, o := range objects[:n] {
			g.Go(func() error {
				p, err := c.place(ctx, o, w)
				if err != nil {
					errs[i] = c.refused("apply", o, err)
					return nil
				}
				c.remember(p.after)
				made[i] = flows.Change{Verb: p.verb(), Object: apply.Name(o)}
				return nil
			})
		}
		_ = g.Wait() // errs contains the errors
		for i := range made {
			if errs[i] == nil {
				changes = append(changes, made[i])
			}
		}
		if err := cmp.Or(errs...); err != nil {
			return changes, err
		}
		objects = objects[n:]
	}
	return changes, nil
}

// DryRun sends each object as a dry run.
func (c *Cluster) DryRun(ctx context.Context, objects []wire.Object, force bool) ([]engine.DryRunResult, error) {
	out := make([]engine.DryRunResult, len(objects))
	for i, o := range objects {
		p, err := c.place(ctx, o, write{force: force, dryRun: true})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		out[i].Object = apply.Name(o)
		if err != nil {
			out[i].Err = c.refused("apply", o, err)
			continue
		}
		out[i].Verb, out[i].Diff = p.verb(), p.diff()
	}
	return out, nil
}

// place calls put, and takes over fields that only our operator owns. The operator writes such fields for an
// admin: an endpoint of the other cluster, or a detected range.
func (c *Cluster) place(ctx context.Context, o wire.Object, w write) (written, error) {
	p, err := c.put(ctx, o, w)
	other, ok := errors.AsType[*flows.ConflictError](conflict(apply.Name(o), err))
	if ok && slices.Equal(other.Managers, []string{wire.OperatorName}) {
		w.force = true
		return c.put(ctx, o, w)
	}
	return p, err
}

// written is an object before and after a request that changes it.
type written struct {
	before *unstructured.Unstructured // nil if the object did not exist
	after  *unstructured.Unstructured
}

func (p written) verb() flows.Verb {
	switch {
	case p.before == nil:
		return flows.Created
	case p.diff() == "" && p.before.GetGeneration() == p.after.GetGeneration():
		return flows.Unchanged
	}
	return flows.Updated
}

func (p written) diff() string {
	if p.before == nil {
		return apply.Diff(nil, p.after)
	}
	return apply.Diff(p.before, p.after)
}

// put writes one object by a server-side apply. If this user may not apply the kind,
// put creates or updates the object instead.
func (c *Cluster) put(ctx context.Context, o wire.Object, w write) (p written, err error) {
	want, err := apply.Wanted(o)
	if err != nil {
		return p, err
	}
	if p.before, err = c.read(ctx, want); err != nil {
		return p, err
	}
	kind := want.GetKind()
	if kind == "Namespace" && (p.before == nil || !render.CreatedByUs(p.before)) {
		return c.putNamespace(ctx, want, w)
	}
	if want, err = w.adopt(p.before, want); err != nil {
		return p, err
	}
	if w.seen {
		if p.before == nil != (o.GetResourceVersion() == "") || p.before != nil && p.before.GetResourceVersion() != o.GetResourceVersion() {
			return p, &changedError{verb: "change", object: apply.Name(o), cause: errors.New("another program has written it")}
		}
		want.SetResourceVersion(o.GetResourceVersion())
	}
	if _, forbidden := c.unpatchable.Load(kind); !forbidden {
		p.after = want.DeepCopy()
		err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(p.after), w.applyOptions()...)
		if !w.force && onlyOurs(conflict(apply.Name(o), err)) {
			p.after = want.DeepCopy()
			err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(p.after), write{force: true, dryRun: w.dryRun}.applyOptions()...)
		}
		if !apierrors.IsForbidden(err) {
			return p, err
		}
	}
	after, without := c.update(ctx, p.before, want, w)
	switch {
	case without == nil:
		c.unpatchable.Store(kind, true)
		p.after = after
		return p, nil
	case err != nil && apierrors.IsForbidden(without):
		return p, err // both are forbidden, so the error is that of the apply, which is the usual request
	}
	return p, without
}

// adopt refuses to change an object that another program or person has made. With force it allows the change,
// but the object does not get the label of our objects, because uninstall and reset delete our objects.
func (w write) adopt(before, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch {
	case before == nil || !render.TakesOver(before, want):
		return want, nil
	case !w.force:
		return nil, &flows.ForeignError{Object: flows.RefTo(want)}
	}
	want = want.DeepCopy()
	labels := want.GetLabels()
	delete(labels, wire.LabelManagedBy)
	want.SetLabels(labels)
	return want, nil
}

// putNamespace creates a namespace, and records in an annotation that we created it. An existing namespace
// stays unchanged, because we have not created it. putNamespace does not use an apply, because that would
// label a namespace that was created a moment ago.
func (c *Cluster) putNamespace(ctx context.Context, want *unstructured.Unstructured, w write) (p written, err error) {
	p.after = want.DeepCopy()
	p.after.SetAnnotations(map[string]string{wire.AnnotationCreated: want.GetName()})
	options := []client.CreateOption{client.FieldOwner(wire.FieldManager)}
	if w.dryRun {
		options = append(options, client.DryRunAll)
	}
	if err = c.client.Create(ctx, p.after, options...); !apierrors.IsAlreadyExists(err) {
		return p, err
	}
	p.before, err = c.read(ctx, want)
	if err == nil && p.before == nil {
		err = apierrors.NewConflict(schema.GroupResource{Resource: "namespaces"}, want.GetName(), errors.New("it was deleted a moment ago"))
	}
	p.after = p.before
	return p, err
}

// onlyOurs reports whether a conflict is only with our own programs. An admin may change the
// values that these programs have written.
func onlyOurs(err error) bool {
	e, ok := errors.AsType[*flows.ConflictError](err)
	return ok && !slices.ContainsFunc(e.Managers, func(m string) bool { return !isOurs(m) })
}

// isOurs reports whether a field manager is one of our programs. If a request names no manager, the
// API server uses the name of the program. For our programs in the clusters, this is liqo-gateway.
func isOurs(manager string) bool {
	return manager == wire.FieldManager || manager == wire.OperatorName || manager == "liqo-gateway"
}

func (w write) applyOptions() []client.ApplyOption {
	options := []client.ApplyOption{client.FieldOwner(wire.FieldManager)}
	if w.force {
		options = append(options, client.ForceOwnership)
	}
	if w.dryRun {
		options = append(options, client.DryRunAll)
	}
	return options
}

// read returns the object from the API server; nil if it does not exist.
func (c *Cluster) read(ctx context.Context, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	err := c.client.Get(ctx, client.ObjectKeyFromObject(want), live)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no object and no error mean that the object does not exist
	}
	return live, err
}

// Delete deletes the objects as they were observed. Kubernetes deletes their children in the background. If
// an object has changed since, the error is a conflict, and the next Observe sees the changed object.
func (c *Cluster) Delete(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	var changes []flows.Change
	var held error // the error for the first pod that a disruption budget protects; the other pods are still evicted
	for _, o := range objects {
		seen, err := c.asSeen(o)
		if err != nil {
			return changes, err
		}
		deleting := c.end(ctx, o, seen)
		if apierrors.IsTooManyRequests(deleting) {
			held = cmp.Or(held, c.refused("evict", o, deleting))
			continue
		}
		if client.IgnoreNotFound(deleting) != nil && !apierrors.IsConflict(deleting) {
			return changes, c.refused("delete", o, deleting)
		}
		if deleting == nil {
			changes = append(changes, flows.Change{Verb: flows.Deleted, Object: apply.Name(o)})
		}
		if err := c.lookAgain(ctx, o); err != nil {
			return changes, err
		}
		if apierrors.IsConflict(deleting) {
			return changes, &changedError{"delete", apply.Name(o), deleting}
		}
	}
	return changes, held
}

// end deletes an object, or evicts it if it is a pod.
func (c *Cluster) end(ctx context.Context, o wire.Object, seen client.Preconditions) error {
	if pod, ok := o.(*corev1.Pod); ok {
		return c.evict(ctx, pod, seen)
	}
	return c.client.Delete(ctx, o, client.PropagationPolicy("Background"), seen)
}

// asSeen returns the conditions under which the API server deletes an object. The UID must be the observed
// one, so that a newer object with the same name stays. A namespace must also have the observed resource
// version, because somebody may have changed the annotation that says that it is ours. The same is true for
// a ConfigMap, because somebody may have added a key to a ConfigMap of the cluster's DNS. Other objects have
// no such condition, because programs write them all the time, and deletions would fail again and again.
func (c *Cluster) asSeen(o wire.Object) (client.Preconditions, error) {
	if o.GetUID() == "" {
		return client.Preconditions{}, nil // the object was not read from an API server, so only its name is known
	}
	seen := client.Preconditions{UID: new(o.GetUID())}
	gvk, err := c.client.GroupVersionKindFor(o)
	if gvk.Kind == "Namespace" || gvk.Kind == "ConfigMap" {
		seen.ResourceVersion = new(o.GetResourceVersion())
	}
	return seen, err
}

// changedError means that an object was changed or replaced after the plan was made. The plan is not valid
// for the object any more.
type changedError struct {
	verb, object string
	cause        error
}

func (e *changedError) Error() string {
	return fmt.Sprintf("%s %s: it was changed or re-created after this command read it: %v", e.verb, e.object, e.cause)
}

func (e *changedError) Unwrap() error { return e.cause }

func (e *changedError) Hint() command.Hint {
	return command.Text("run the same command again: it reads the present state")
}

// lookAgain reads an object after its deletion, and updates the mirror. The object may still exist, if it has
// finalizers.
func (c *Cluster) lookAgain(ctx context.Context, o wire.Object) error {
	gvk, err := c.client.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	err = c.client.Get(ctx, client.ObjectKeyFromObject(o), u)
	if apierrors.IsNotFound(err) {
		for _, s := range c.mirrors(gvk.Kind) {
			s.remove(o)
		}
		return nil
	}
	if err != nil {
		return c.refused("after deleting it, read", o, err)
	}
	c.remember(u)
	return nil
}

// remember takes the object from the answer to a write, and stores it in the mirror. So the next
// Observe sees the object without waiting for the watch.
func (c *Cluster) remember(u *unstructured.Unstructured) {
	typed, err := c.client.Scheme().New(u.GroupVersionKind())
	if err != nil {
		return
	}
	obj, ok := typed.(client.Object)
	if !ok || fromUnstructured(u, obj) != nil {
		return // the watch will add the object
	}
	for _, s := range c.mirrors(u.GetKind()) {
		if s.selects(obj) && s.answer(obj) {
			c.notify()
		}
	}
}
