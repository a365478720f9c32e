package clusterset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A state holds the present objects of the cluster for a name.
type state struct {
	name     types.NamespacedName
	export   *mcsv1beta1.ServiceExport // nil if there is none
	imported *mcsv1beta1.ServiceImport // nil if there is none
	derived  *corev1.Service           // with the name of the derived Service; nil if there is none
	written  []discoveryv1.EndpointSlice
}

// Reconcile writes the objects of one name, or removes them.
func (r *controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	space := &metav1.PartialObjectMetadata{}
	space.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.client.Get(ctx, client.ObjectKey{Name: req.Namespace}, space)
	if apierrors.IsNotFound(err) || err == nil && space.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // by the KEP, an import creates no namespace
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read namespace %s: %w", req.Namespace, err)
	}
	now, err := r.state(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if now.imported != nil && !ours(now.imported) {
		// Two programs would undo each other's changes.
		err := r.removeSlices(ctx, now.written, nil)
		if now.export != nil {
			err = errors.Join(err, r.judge(ctx, now.export, services.NotReady(now.export, services.ReasonAnotherProgram,
				"another program has made the ServiceImport "+now.export.Name+": a cluster has one implementation of this API")))
		}
		return ctrl.Result{}, err
	}
	w, made, err := r.world(ctx, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	merged, err := r.write(ctx, now, w)
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return ctrl.Result{}, nil // the namespace has gone meanwhile
	}
	switch {
	case err == nil:
	case now.export != nil && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err)): // the next attempt may fail, too
		made = services.NotReady(now.export, string(mcsv1beta1.ServiceExportReasonFailed), err.Error())
	default:
		return ctrl.Result{}, err
	}
	if merged.Conflict != nil {
		made = append(made, *merged.Conflict)
	}
	return ctrl.Result{}, errors.Join(err, r.judge(ctx, now.export, made))
}

// state reads the present objects for a name.
func (r *controller) state(ctx context.Context, name types.NamespacedName) (*state, error) {
	now := &state{name: name}
	var err error
	if now.export, err = read(ctx, r.client, &mcsv1beta1.ServiceExport{}, name); err != nil {
		return nil, err
	}
	if now.export != nil && now.export.DeletionTimestamp != nil {
		now.export = nil
	}
	if now.imported, err = read(ctx, r.client, &mcsv1beta1.ServiceImport{}, name); err != nil {
		return nil, err
	}
	derived := types.NamespacedName{Namespace: name.Namespace, Name: services.DerivedName(name)}
	if now.derived, err = read(ctx, r.client, &corev1.Service{}, derived); err != nil {
		return nil, err
	}
	now.written, err = r.slices(ctx, written, name)
	return now, err
}

// read returns an object; nil if it does not exist.
func read[O client.Object](ctx context.Context, c client.Reader, o O, name types.NamespacedName) (none O, err error) {
	if err := c.Get(ctx, name, o); err != nil {
		if apierrors.IsNotFound(err) {
			return none, nil
		}
		return none, fmt.Errorf("read %T %s: %w", o, name, err)
	}
	return o, nil
}

func (r *controller) slices(ctx context.Context, of sort, name types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	var all discoveryv1.EndpointSliceList
	if err := r.client.List(ctx, &all, client.MatchingFields{indexName: key(of, name)}); err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of %s: %w", name, err)
	}
	return all.Items, nil
}

// world collects all inputs of a merge. It also returns the conditions Valid and Ready of this cluster's
// ServiceExport.
func (r *controller) world(ctx context.Context, now *state) (w services.World, conditions []metav1.Condition, err error) {
	w = services.World{Name: now.name, Self: r.Self, Export: now.export, Derived: now.derived}
	present, err := r.ways.all(ctx, r.peers)
	if err != nil {
		return w, nil, err
	}
	copies, err := r.slices(ctx, ofPeer, now.name)
	if err != nil {
		return w, nil, err
	}
	taken, err := r.Taken(ctx)
	if err != nil {
		return w, nil, err
	}
	w.Never = taken
	w.Peers, w.Policy = exporters(present, copies)
	w.Policy.Own = append(w.Policy.Own, r.Home)
	if now.imported != nil {
		w.ImportUID = now.imported.UID
	}
	if now.export == nil {
		return w, nil, nil
	}
	service, err := read(ctx, r.client, &corev1.Service{}, now.name)
	if err != nil {
		return w, nil, err
	}
	local, err := r.slices(ctx, ofKubernetes, now.name)
	if err != nil {
		return w, nil, err
	}
	pods, err := r.Pods(ctx)
	if err != nil {
		return w, nil, err
	}
	made := services.Exported(service, now.export, local, r.Self, pods, w.Policy.Own)
	w.Own = made.Slices
	return w, made.Conditions, nil
}

// write writes the objects that the merge returns. The ServiceImport comes first, because it owns the other
// objects. Its address comes from the derived Service.
func (r *controller) write(ctx context.Context, now *state, w services.World) (services.Merged, error) {
	merged := services.Merge(w)
	if merged.Import == nil {
		return merged, r.remove(ctx, now)
	}
	if w.ImportUID == "" {
		// The cache may be late. An apply without the addresses would remove them from the object for a moment.
		made, err := read(ctx, r.live, &mcsv1beta1.ServiceImport{}, now.name)
		if err == nil && made == nil {
			made, err = control.Apply(ctx, r.client, merged.Import)
		}
		if err == nil && !ours(made) {
			err = fmt.Errorf("another program has just made ServiceImport %s", now.name)
		}
		if err != nil {
			return merged, err
		}
		w.ImportUID = made.UID
		merged = services.Merge(w)
	}
	var err error
	switch {
	case merged.Service != nil:
		if w.Derived, err = control.Apply(ctx, r.client, merged.Service); err != nil {
			return merged, err
		}
		merged = services.Merge(w)
	case now.derived != nil && services.IsDerived(now.derived): // the exported Service has become headless
		if err := control.Delete(ctx, r.client, now.derived); err != nil {
			return merged, err
		}
	}
	if now.imported, err = control.Apply(ctx, r.client, merged.Import); err != nil {
		return merged, err
	}
	for i := range merged.Slices {
		if _, err := control.Apply(ctx, r.client, &merged.Slices[i]); err != nil {
			return merged, err
		}
	}
	if err := r.removeSlices(ctx, now.written, merged.Slices); err != nil {
		return merged, err
	}
	return merged, r.describe(ctx, now.imported, &merged.Import.Status)
}

// describe writes the status of a ServiceImport if it differs.
func (r *controller) describe(ctx context.Context, live *mcsv1beta1.ServiceImport, want *mcsv1beta1.ServiceImportStatus) error {
	before := live.DeepCopy()
	live.Status.EndpointSliceObjects, live.Status.Clusters = want.EndpointSliceObjects, want.Clusters
	setConditions(&live.Status.Conditions, want.Conditions)
	if equality.Semantic.DeepEqual(before.Status, live.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, live, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("write the status of ServiceImport %s/%s: %w", live.Namespace, live.Name, err)
	}
	return nil
}

// judge writes the conditions of a ServiceExport if they differ. Conditions of other programs stay.
func (r *controller) judge(ctx context.Context, export *mcsv1beta1.ServiceExport, want []metav1.Condition) error {
	if export == nil {
		return nil
	}
	before := export.DeepCopy()
	if !slices.ContainsFunc(want, func(c metav1.Condition) bool { return c.Type == string(mcsv1beta1.ServiceExportConditionConflict) }) {
		meta.RemoveStatusCondition(&export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict))
	}
	setConditions(&export.Status.Conditions, want)
	if equality.Semantic.DeepEqual(before.Status, export.Status) {
		return nil
	}
	err := r.client.Status().Patch(ctx, export, client.MergeFrom(before), client.FieldOwner(control.Manager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of ServiceExport %s/%s: %w", export.Namespace, export.Name, err)
	}
	return nil
}

func setConditions(all *[]metav1.Condition, want []metav1.Condition) {
	for _, c := range want {
		meta.SetStatusCondition(all, c)
	}
}

// ours reports whether this controller writes a ServiceImport.
func ours(i *mcsv1beta1.ServiceImport) bool {
	return i.Labels[wire.LabelManagedBy] == wire.ManagedBy
}

// remove removes the objects of a name that nobody exports, or that the cluster does not import any more.
func (r *controller) remove(ctx context.Context, now *state) error {
	if err := r.removeSlices(ctx, now.written, nil); err != nil {
		return err
	}
	if now.derived != nil && services.IsDerived(now.derived) {
		if err := control.Delete(ctx, r.client, now.derived); err != nil {
			return err
		}
	}
	if now.imported == nil {
		return nil
	}
	return control.Delete(ctx, r.client, now.imported)
}

// removeSlices deletes the slices that are not wanted any more.
func (r *controller) removeSlices(ctx context.Context, live, want []discoveryv1.EndpointSlice) error {
	for i := range live {
		if slices.ContainsFunc(want, func(s discoveryv1.EndpointSlice) bool { return s.Name == live[i].Name }) {
			continue
		}
		if err := control.Delete(ctx, r.client, &live[i]); err != nil {
			return err
		}
	}
	return nil
}
