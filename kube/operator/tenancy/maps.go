package tenancy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/kube/operator/own"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// maps shows a provider which namespaces it is to have, and brings home which it has. What
// it is not asked for any more it deletes, with everything in it.
//
// A map that is withdrawn asks for nothing before it goes. One that is gone without that, while a
// slice still asks this provider, was deleted by somebody else: it is made again, and its copy stays.
func (r *abroad) maps(ctx context.Context, remote client.Client, plane *authv1beta1.Identity, all []authv1beta1.ResourceSlice, id render.ClusterID) error {
	namespace := *plane.Spec.Namespace
	var mine, shown offloadingv1beta1.NamespaceMapList
	of := client.MatchingLabels{peering.LabelReplication: "true", peering.LabelDestination: string(plane.Spec.ClusterID)}
	if err := r.reader.List(ctx, &mine, client.InNamespace(plane.Namespace), of); err != nil {
		return fmt.Errorf("list NamespaceMaps for %s: %w", plane.Spec.ClusterID, err)
	}
	err := remote.List(ctx, &shown, client.InNamespace(namespace), client.MatchingLabels{peering.LabelOrigin: string(id)})
	if (apierrors.IsForbidden(err) || apierrors.IsNotFound(err)) && len(mine.Items) == 0 {
		return nil // it runs no pods, and is not asked to
	}
	if err != nil {
		err = fmt.Errorf("list the namespaces that %s was asked for: %w", plane.Spec.ClusterID, err)
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
			answered = r.showMap(ctx, remote, m, c, namespace, id)
		}
		problem := error(nil)
		switch {
		case apierrors.IsForbidden(answered) || apierrors.IsInvalid(answered) || apierrors.IsAlreadyExists(answered) || apierrors.IsNotFound(answered):
			problem = fmt.Errorf("%s%s does not take it: %w", render.ProblemRefused, plane.Spec.ClusterID, answered)
		case answered != nil:
			errs = append(errs, answered)
			continue
		case c != nil && c.Annotations[render.AnnotationProblem] != "":
			problem = errors.New(c.Annotations[render.AnnotationProblem])
		}
		errs = append(errs, answered, complain(ctx, r.client, r.recorder, m, problem))
	}
	provider := client.ObjectKey{Namespace: plane.Namespace, Name: string(plane.Spec.ClusterID)}
	asks := slices.ContainsFunc(all, func(s authv1beta1.ResourceSlice) bool { return asksProvider(&s, provider) })
	for _, c := range copies {
		if c.DeletionTimestamp == nil && (!asks || len(c.Spec.DesiredMapping) == 0) {
			errs = append(errs, own.Delete(ctx, remote, c))
		}
	}
	return errors.Join(append(errs, err)...)
}

// showMap shows the provider one map, and brings its answer home.
func (r *abroad) showMap(ctx context.Context, remote client.Client, m, c *offloadingv1beta1.NamespaceMap, namespace string, id render.ClusterID) error {
	want := peering.MapCopy(m, id, namespace)
	switch {
	case c == nil:
		if err := remote.Create(ctx, want, client.FieldOwner(own.Manager)); err != nil {
			return fmt.Errorf("show NamespaceMap %s: %w", m.Name, err)
		}
		return nil // its answer is an event
	case c.DeletionTimestamp != nil:
		return nil // it is made again when it is gone
	case !equality.Semantic.DeepEqual(c.Spec, want.Spec) || !equality.Semantic.DeepEqual(c.Labels, want.Labels):
		c.Spec, c.Labels = want.Spec, want.Labels
		if err := remote.Update(ctx, c, client.FieldOwner(own.Manager)); err != nil {
			return fmt.Errorf("show NamespaceMap %s: %w", m.Name, err)
		}
	}
	if equality.Semantic.DeepEqual(m.Status, c.Status) {
		return nil
	}
	before := m.DeepCopy()
	m.Status = *c.Status.DeepCopy()
	if err := r.client.Status().Patch(ctx, m, client.MergeFrom(before), client.FieldOwner(own.Manager)); err != nil {
		return fmt.Errorf("report on NamespaceMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}
