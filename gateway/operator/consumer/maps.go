package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// maps copies this cluster's NamespaceMaps to a provider, and copies the provider's answers back. If a copy
// does not request a namespace any more, the provider deletes that namespace with everything in it.
//
// Nothing is withdrawn by accident: an annotation of the map names the withdrawn namespaces, and a copy is
// deleted only after its requests were emptied. If the copy requests a namespace that the map neither
// requests nor withdraws, the map was deleted here, or this cluster was restored from a backup. Then maps
// adds the namespace to the map again.
func (r *copier) maps(ctx context.Context, remote client.Client, plane *authv1beta1.Identity, all []authv1beta1.ResourceSlice, id wire.ClusterID) error {
	namespace := *plane.Spec.Namespace
	var mine, shown offloadingv1beta1.NamespaceMapList
	of := client.MatchingLabels{peering.LabelReplication: "true", peering.LabelDestination: string(plane.Spec.ClusterID)}
	if err := r.reader.List(ctx, &mine, client.InNamespace(plane.Namespace), of); err != nil {
		return fmt.Errorf("list NamespaceMaps for %s: %w", plane.Spec.ClusterID, err)
	}
	err := remote.List(ctx, &shown, client.InNamespace(namespace), client.MatchingLabels{peering.LabelOrigin: string(id)})
	if (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) && len(mine.Items) == 0 {
		return nil // the provider runs no pods, and this cluster does not request namespaces
	}
	if err != nil {
		err = fmt.Errorf("list the NamespaceMaps on %s: %w", plane.Spec.ClusterID, err)
	}
	copies := map[string]*offloadingv1beta1.NamespaceMap{}
	for i := range shown.Items {
		copies[shown.Items[i].Name] = &shown.Items[i]
	}
	var errs []error
	for i := range mine.Items {
		m := &mine.Items[i]
		if m.DeletionTimestamp != nil {
			continue
		}
		c := copies[m.Name]
		delete(copies, m.Name)
		answered := err
		if answered == nil {
			if lost := lostBy(m, c); len(lost) > 0 {
				errs = append(errs, r.restoreLost(ctx, plane, m.Spec.DesiredMapping, lost))
				continue
			}
			errs = append(errs, r.told(ctx, m, c))
			answered = r.showMap(ctx, remote, m, c, namespace, id)
		}
		problem := error(nil)
		switch {
		case apierrors.IsForbidden(answered) || apierrors.IsInvalid(answered) || apierrors.IsAlreadyExists(answered) || apierrors.IsNotFound(answered):
			problem = fmt.Errorf("%s%s does not take it: %w", wire.ProblemRefused, plane.Spec.ClusterID, answered)
		case answered != nil:
			errs = append(errs, answered)
			continue
		case c != nil && c.Annotations[wire.AnnotationProblem] != "":
			problem = errors.New(c.Annotations[wire.AnnotationProblem])
		}
		errs = append(errs, answered, control.Complain(ctx, r.client, r.recorder, m, problem))
	}
	over := ended(r.seen, all, client.ObjectKey{Namespace: plane.Namespace, Name: string(plane.Spec.ClusterID)})
	for _, c := range copies {
		switch {
		case c.DeletionTimestamp != nil:
		case over || len(c.Spec.DesiredMapping) == 0:
			errs = append(errs, giveUp(ctx, remote, c))
		default:
			errs = append(errs, r.restoreLost(ctx, plane, nil, c.Spec.DesiredMapping))
		}
	}
	return errors.Join(append(errs, err)...)
}

// giveUp empties the requests in a copy, and then deletes the copy. A deletion alone would not show the
// provider what the consumer wants, because an admin of the provider may delete a copy, too.
func giveUp(ctx context.Context, remote client.Client, c *offloadingv1beta1.NamespaceMap) error {
	if len(c.Spec.DesiredMapping) > 0 {
		c.Spec.DesiredMapping = nil
		if err := remote.Update(ctx, c, client.FieldOwner(control.Manager)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("withdraw all namespaces of NamespaceMap %s: %w", c.Name, err)
		}
	}
	return control.Delete(ctx, remote, c)
}

// lostBy returns the namespaces that the copy requests, and the map neither requests nor withdraws.
func lostBy(m, c *offloadingv1beta1.NamespaceMap) map[string]string {
	if c == nil || c.DeletionTimestamp != nil {
		return nil
	}
	lost, withdrawn := map[string]string{}, peering.Withdrawn(m)
	for namespace, name := range c.Spec.DesiredMapping {
		if m.Spec.DesiredMapping[namespace] == "" && !withdrawn[namespace] {
			lost[namespace] = name
		}
	}
	return lost
}

// told removes namespaces from the map's annotation of withdrawn namespaces when the copy does not request
// them any more.
func (r *copier) told(ctx context.Context, m, c *offloadingv1beta1.NamespaceMap) error {
	all := peering.Withdrawn(m)
	for namespace := range withdraws(m) {
		if m.Spec.DesiredMapping[namespace] == "" && (c == nil || c.Spec.DesiredMapping[namespace] == "") {
			delete(all, namespace)
		}
	}
	if len(all) == len(peering.Withdrawn(m)) {
		return nil
	}
	return sayWithdrawn(ctx, r.client, m, all)
}

// restoreLost adds the lost namespaces of the copy to the map here.
func (r *copier) restoreLost(ctx context.Context, plane *authv1beta1.Identity, has, lost map[string]string) error {
	mapping := maps.Clone(lost)
	maps.Copy(mapping, has)
	_, err := control.Apply(ctx, r.client, peering.NamespaceMap(render.Tenant{Namespace: plane.Namespace, Remote: wire.ClusterID(plane.Spec.ClusterID)}, mapping))
	return err
}

// showMap creates or updates the provider's copy of one map, and copies the provider's answer back.
func (r *copier) showMap(ctx context.Context, remote client.Client, m, c *offloadingv1beta1.NamespaceMap, namespace string, id wire.ClusterID) error {
	want := peering.MapCopy(m, id, namespace)
	switch {
	case c == nil:
		if err := remote.Create(ctx, want, client.FieldOwner(control.Manager)); err != nil {
			return fmt.Errorf("show NamespaceMap %s: %w", m.Name, err)
		}
		return nil // the answer arrives as an event
	case c.DeletionTimestamp != nil:
		return nil // the copy is created again when it is gone
	case !equality.Semantic.DeepEqual(c.Spec, want.Spec) || !equality.Semantic.DeepEqual(c.Labels, want.Labels):
		c.Spec, c.Labels = want.Spec, want.Labels
		if err := remote.Update(ctx, c, client.FieldOwner(control.Manager)); err != nil {
			return fmt.Errorf("show NamespaceMap %s: %w", m.Name, err)
		}
	}
	if unanswered := len(c.Status.CurrentMapping) == 0 && len(c.Spec.DesiredMapping) > 0; unanswered || equality.Semantic.DeepEqual(m.Status, c.Status) {
		return nil // a new copy has no answer yet, so the former copy's answer still holds
	}
	before := m.DeepCopy()
	m.Status = *c.Status.DeepCopy()
	if err := r.client.Status().Patch(ctx, m, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("report on NamespaceMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}
