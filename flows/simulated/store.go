package simulated

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// store has the objects of one cluster's API server.
type store struct {
	cluster *Cluster
	scheme  *runtime.Scheme
	records map[key]*record
}

type key struct{ kind, namespace, name string }

type record struct {
	object wire.Object // with its kind set
	// owned has the fields that each manager owns: the content that it has applied
	// last.
	owned map[string]map[string]any
	// held is the number of ticks for which a deleted object still exists; or
	// Forever.
	held int
}

// scheme is made once, because that takes longer than most tests.
var scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	scheme, err := wire.Scheme()
	if err == nil {
		err = peering.AddToScheme(scheme)
	}
	return scheme, err
})

func newStore(c *Cluster) store {
	scheme, err := scheme()
	if err != nil {
		panic("simulated: " + err.Error()) // the scheme is constant
	}
	return store{cluster: c, scheme: scheme, records: map[key]*record{}}
}

func (s *store) keyOf(o wire.Object) key {
	ref := flows.RefTo(o)
	return key{ref.Kind, ref.Namespace, ref.Name}
}

func (s *store) sorted() []*record {
	keys := slices.SortedFunc(maps.Keys(s.records), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	all := make([]*record, len(keys))
	for i, k := range keys {
		all[i] = s.records[k]
	}
	return all
}

// apply is a server-side apply by one manager, without force.
func (s *store) apply(o wire.Object, manager string) (flows.Verb, error) {
	want, err := apply.Wanted(o)
	if err != nil {
		return "", err
	}
	if want.GetKind() == "" || want.GetAPIVersion() == "" {
		return "", apierrors.NewBadRequest("the object says neither kind nor version")
	}
	if s.cluster.behaviour.PrunesMTU {
		unstructured.RemoveNestedField(want.Object, "spec", "mtu")
	}
	k := s.keyOf(o)
	r := s.records[k]
	if k.kind == "Namespace" && manager == wire.FieldManager {
		// Our program does not change an existing namespace.
		if r != nil && !render.CreatedByUs(r.object) {
			return flows.Unchanged, nil
		}
	} else if r != nil && manager == wire.FieldManager && render.TakesOver(r.object, want) {
		return "", &flows.ForeignError{Object: flows.RefTo(o)}
	}
	if r == nil {
		if err := s.admit(want); err != nil {
			return "", err
		}
		live, err := s.typed(want.GroupVersionKind(), want.Object)
		if err != nil {
			return "", err
		}
		if k.kind == "Namespace" && manager == wire.FieldManager {
			live.SetAnnotations(map[string]string{wire.AnnotationCreated: k.name}) // an apply never writes this annotation
		}
		r := s.create(k, live)
		r.owned[manager] = want.Object
		r.applied(manager, s.cluster.clock())
		return flows.Created, nil
	}
	return s.merge(r, want.Object, manager)
}

// admit refuses a new object if its namespace does not exist or is being deleted.
func (s *store) admit(o metav1.Object) error {
	if in := o.GetNamespace(); in == "" || in == corev1.NamespaceNodeLease { // Kubernetes creates this namespace
		return nil
	}
	ns := s.records[key{"Namespace", "", o.GetNamespace()}]
	switch {
	case ns == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, o.GetNamespace())
	case ns.object.GetDeletionTimestamp() != nil:
		return apierrors.NewForbidden(schema.GroupResource{}, o.GetName(),
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", o.GetNamespace()))
	}
	return nil
}

// create adds o, with the fields that an API server sets in every object.
func (s *store) create(k key, o wire.Object) *record {
	s.cluster.ordinal++
	o.SetUID(types.UID(fmt.Sprintf("%s-%04d", s.cluster.identity.ID, s.cluster.ordinal)))
	o.SetCreationTimestamp(metav1.NewTime(s.cluster.clock()))
	o.SetGeneration(1)
	if k.kind == "Namespace" {
		labels := map[string]string{"kubernetes.io/metadata.name": k.name}
		maps.Copy(labels, o.GetLabels())
		o.SetLabels(labels)
	}
	r := &record{object: o, owned: map[string]map[string]any{}}
	s.records[k] = r
	return r
}

// merge changes a live object so that it has all fields of want.
func (s *store) merge(r *record, want map[string]any, manager string) (flows.Verb, error) {
	live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.object)
	if err != nil {
		return "", err
	}
	if other, taken := r.conflictWith(manager, live, want); taken {
		return "", &flows.ConflictError{Object: apply.Name(r.object), Managers: []string{other}}
	}
	before := runtime.DeepCopyJSON(live)
	withdraw(live, r.owned[manager], want)
	for other, owned := range r.owned {
		if other != manager {
			restore(live, before, owned)
		}
	}
	overlay(live, want)
	r.owned[manager] = want
	if reflect.DeepEqual(before, live) {
		r.applied(manager, time.Time{})
		return flows.Unchanged, nil
	}
	after, err := s.typed(r.object.GetObjectKind().GroupVersionKind(), live)
	if err != nil {
		return "", err
	}
	specChanged := !reflect.DeepEqual(before["spec"], live["spec"])
	if specChanged {
		after.SetGeneration(r.object.GetGeneration() + 1)
	}
	r.object = after
	at := time.Time{}
	if specChanged {
		at = s.cluster.clock()
	}
	r.applied(manager, at)
	return flows.Updated, nil
}

// conflict returns the manager of a field that want would change.
func (r *record) conflict(want map[string]any) (manager string, taken bool) {
	live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.object)
	if err != nil {
		return "", false
	}
	return r.conflictWith(wire.FieldManager, live, want)
}

func (r *record) conflictWith(manager string, live, want map[string]any) (other string, taken bool) {
	for other, owned := range r.owned {
		if other != manager && other != wire.OperatorName && disagree(owned, want, live) {
			return other, true
		}
	}
	return "", false
}

// applied records the content that a manager has applied, as an API server does.
// at is the time of a change of the spec; zero if the spec did not change.
func (r *record) applied(manager string, at time.Time) {
	fields := fieldpath.NewSet()
	addFields(fields, nil, r.owned[manager])
	r.written(manager, metav1.ManagedFieldsOperationApply, fields, at)
}

// written records the fields of a manager, with the time to the second.
func (r *record) written(manager string, operation metav1.ManagedFieldsOperationType, fields *fieldpath.Set, at time.Time) {
	text, err := fields.ToJSON()
	if err != nil {
		panic("simulated: " + err.Error()) // names of fields can always be written
	}
	entry := metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: r.object.GetObjectKind().GroupVersionKind().GroupVersion().String(),
		Time: new(metav1.NewTime(at.Truncate(time.Second))), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(text)),
	}
	all := slices.Clone(r.object.GetManagedFields())
	i := slices.IndexFunc(all, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager })
	switch {
	case i < 0:
		all = append(all, entry)
	default:
		if at.IsZero() {
			entry.Time = all[i].Time
		}
		all[i] = entry
	}
	r.object.SetManagedFields(all)
}

// addFields adds the fields in content to set.
func addFields(set *fieldpath.Set, path fieldpath.Path, content map[string]any) {
	for name, v := range content {
		at := append(slices.Clone(path), fieldpath.FieldNameElement(name))
		if name == ownerReferences {
			for _, o := range v.([]any) {
				set.Insert(append(slices.Clone(at), fieldpath.KeyElementByFields("uid", o.(map[string]any)["uid"])))
			}
			continue
		}
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			addFields(set, at, m)
			continue
		}
		set.Insert(at)
	}
}

func (s *store) typed(gvk schema.GroupVersionKind, content map[string]any) (wire.Object, error) {
	if strings.HasSuffix(gvk.Kind, "Template") {
		// Objects in a template don't have their final Go types yet.
		return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}, nil
	}
	fresh, err := s.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(runtime.DeepCopyJSON(content), fresh); err != nil {
		return nil, err
	}
	fresh.GetObjectKind().SetGroupVersionKind(gvk)
	return fresh.(wire.Object), nil
}

// ownerReferences is the only list that is merged. Its key is the UID.
const ownerReferences = "ownerReferences"

// disagree reports whether want has another value than live for a field in owned.
func disagree(owned, want, live map[string]any) bool {
	for name, w := range want {
		o, ok := owned[name]
		if !ok || name == ownerReferences {
			continue
		}
		om, isMap := o.(map[string]any)
		wm, wantsMap := w.(map[string]any)
		lm, _ := live[name].(map[string]any)
		if isMap && wantsMap {
			if disagree(om, wm, lm) {
				return true
			}
			continue
		}
		if !reflect.DeepEqual(live[name], w) {
			return true
		}
	}
	return false
}

// withdraw removes the fields that a manager applied last time, but not this time.
func withdraw(live, last, want map[string]any) {
	for name, l := range last {
		w, ok := want[name]
		if name == ownerReferences {
			if live[name] = withoutOwners(live[name], l, w); len(live[name].([]any)) == 0 {
				delete(live, name)
			}
			continue
		}
		if !ok {
			delete(live, name)
			continue
		}
		lm, isMap := l.(map[string]any)
		wm, wantsMap := w.(map[string]any)
		vm, liveMap := live[name].(map[string]any)
		if isMap && wantsMap && liveMap {
			withdraw(vm, lm, wm)
		}
	}
}

// restore puts back withdrawn fields that another manager owns.
func restore(live, before, owned map[string]any) {
	for name, o := range owned {
		was, ok := before[name]
		if !ok || name == ownerReferences {
			continue
		}
		is, there := live[name]
		if !there {
			live[name] = runtime.DeepCopyJSONValue(was)
			continue
		}
		om, isMap := o.(map[string]any)
		bm, wasMap := was.(map[string]any)
		lm, liveMap := is.(map[string]any)
		if isMap && wasMap && liveMap {
			restore(lm, bm, om)
		}
	}
}

// overlay writes want into live: maps are merged, all other values are replaced.
func overlay(live, want map[string]any) {
	for name, w := range want {
		if name == ownerReferences {
			live[name] = append(withoutOwners(live[name], w, nil), w.([]any)...)
			continue
		}
		wm, wantsMap := w.(map[string]any)
		lm, liveMap := live[name].(map[string]any)
		if wantsMap && liveMap {
			overlay(lm, wm)
			continue
		}
		live[name] = runtime.DeepCopyJSONValue(w)
	}
}

// withoutOwners returns all without the owners in gone, unless they are in kept.
func withoutOwners(all, gone, kept any) []any {
	uids := func(list any) map[any]bool {
		out := map[any]bool{}
		l, _ := list.([]any)
		for _, o := range l {
			out[o.(map[string]any)["uid"]] = true
		}
		return out
	}
	drop, keep := uids(gone), uids(kept)
	list, _ := all.([]any)
	return slices.DeleteFunc(slices.Clone(list), func(o any) bool {
		uid := o.(map[string]any)["uid"]
		return drop[uid] && !keep[uid]
	})
}

// remove deletes an object that was observed; the verb is "" if it does not exist.
// A namespace is only marked as being deleted, and so is a gateway if the
// behaviour says so.
func (s *store) remove(o wire.Object) (flows.Verb, error) {
	k := s.keyOf(o)
	r := s.records[k]
	b := s.cluster.behaviour
	switch {
	case r == nil:
		return "", nil
	case o.GetUID() != "" && r.object.GetUID() != o.GetUID():
		return "", apierrors.NewConflict(schema.GroupResource{Resource: k.kind}, k.name, errors.New("precondition failed: UID"))
	case r.object.GetDeletionTimestamp() != nil:
	case k.kind == "Namespace":
		r.hold(s.cluster.clock(), b.NamespaceTicks)
	case b.DeletionTicks != 0 && isGateway(r.object):
		r.hold(s.cluster.clock(), b.DeletionTicks)
	case len(r.object.GetFinalizers()) > 0:
		r.hold(s.cluster.clock(), Forever) // the program that made them removes the finalizer
	default:
		delete(s.records, k)
	}
	return flows.Deleted, nil
}

// hold marks an object as being deleted, and keeps it for a number of ticks.
func (r *record) hold(now time.Time, ticks int) {
	stamp := metav1.NewTime(now)
	r.object.SetDeletionTimestamp(&stamp)
	if isGateway(r.object) {
		r.object.SetFinalizers([]string{"flowtest.liqo-tui.dev/hold"})
	}
	r.held = ticks
}

func isGateway(o wire.Object) bool {
	switch o.(type) {
	case *networkingv1beta1.GatewayServer, *networkingv1beta1.GatewayClient:
		return true
	}
	return false
}

// collect simulates one step of Kubernetes' own controllers: it deletes the
// children of deleted objects, but not yet their children, and finishes deletions.
func (s *store) collect() bool {
	alive := map[types.UID]bool{}
	for _, r := range s.records {
		alive[r.object.GetUID()] = true
	}
	counting := false
	var gone []key
	for k, r := range s.records {
		switch {
		case r.object.GetDeletionTimestamp() != nil && r.held == Forever:
		case s.orphaned(r.object, alive) || s.ended(k, r):
			gone = append(gone, k)
		case r.held > 0 && r.object.GetDeletionTimestamp() != nil:
			r.held--
			counting = true
		}
	}
	for _, k := range gone {
		if r := s.records[k]; r.object.GetDeletionTimestamp() == nil && len(r.object.GetFinalizers()) > 0 {
			r.hold(s.cluster.clock(), Forever)
			continue
		}
		delete(s.records, k)
	}
	return counting || len(gone) > 0
}

func (s *store) orphaned(o wire.Object, alive map[types.UID]bool) bool {
	owners := o.GetOwnerReferences()
	return len(owners) > 0 && !slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return alive[r.UID] })
}

// ended reports whether a deletion can finish: that of a namespace, when it is
// empty; that of an object in a deleted namespace, at once.
func (s *store) ended(k key, r *record) bool {
	ns := s.records[key{"Namespace", "", k.namespace}]
	if k.namespace != "" && ns != nil && ns.object.GetDeletionTimestamp() != nil && r.object.GetDeletionTimestamp() == nil {
		return true
	}
	if r.object.GetDeletionTimestamp() == nil || r.held != 0 {
		return false
	}
	if _, ok := r.object.(*corev1.Namespace); !ok {
		return true
	}
	for other := range s.records {
		if other.namespace == k.name {
			return false
		}
	}
	return true
}
