package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// offloader writes three things for offloaded namespaces on this cluster: the requests to providers, the
// rights of virtual kubelets with the list of their namespaces, and a label. It handles all namespaces at
// once, because they are few and share NamespaceMaps. It uses no finalizers. It finds superfluous objects by
// a comparison of lists.
type offloader struct {
	client client.Client // not cached
	cached client.Reader
	home   string
	seen   *control.Deletions
}

func (r *offloader) setup(mgr ctrl.Manager) (err error) {
	if r.client, err = client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()}); err != nil {
		return err
	}
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == wire.OffloadedAccessName })
	return ctrl.NewControllerManagedBy(mgr).Named("offloading").
		WithOptions(control.Workers(1)).
		Watches(&offloadingv1beta1.NamespaceOffloading{}, r.seen.Seen(all)).
		Watches(&offloadingv1beta1.NamespaceMap{}, all).
		Watches(&offloadingv1beta1.VirtualNode{}, all).
		Watches(&authv1beta1.ResourceSlice{}, r.seen.Seen(all), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, all, builder.WithPredicates(control.Labelled(peering.LabelNodeOf), predicate.LabelChangedPredicate{})).
		Watches(&rbacv1.RoleBinding{}, all, builder.WithPredicates(ours)).
		Complete(r)
}

// podsGoAgain is the interval of checks whether the pods have left a namespace that is not offloaded any
// more.
const podsGoAgain = time.Second

// Reconcile compares all offloaded namespaces with the objects that they need.
func (r *offloader) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	in, err := r.read(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := in.plan(time.Now())
	err = r.write(ctx, in, p)
	if err := errors.Join(err, r.report(ctx, in, p, err == nil)); err != nil {
		return ctrl.Result{}, err
	}
	if p.leaving {
		return ctrl.Result{RequeueAfter: podsGoAgain}, nil
	}
	return ctrl.Result{}, nil
}

func (r *offloader) read(ctx context.Context) (in offloadings, err error) {
	in.seen = r.seen
	if in.id, err = control.ClusterID(ctx, r.client, r.home); err != nil {
		return in, err
	}
	var offered offloadingv1beta1.NamespaceOffloadingList
	var nodes offloadingv1beta1.VirtualNodeList
	var mapped offloadingv1beta1.NamespaceMapList
	var rights rbacv1.RoleBindingList
	var asked authv1beta1.ResourceSliceList
	err = errors.Join(
		r.client.List(ctx, &asked, client.MatchingLabels{peering.LabelReplication: "true"}),
		r.client.List(ctx, &rights, client.MatchingFields{metav1.ObjectNameField: wire.OffloadedAccessName}),
		r.client.List(ctx, &offered, client.MatchingFields{metav1.ObjectNameField: peering.OffloadingName}),
		r.client.List(ctx, &nodes, client.MatchingLabels{wire.LabelManagedBy: wire.OperatorName}),
		r.client.List(ctx, &mapped, client.MatchingLabels{wire.LabelManagedBy: wire.OperatorName, peering.LabelReplication: "true"}))
	if err != nil {
		return in, fmt.Errorf("list the objects of offloaded namespaces: %w", err)
	}
	in.offered, in.maps, in.slices, in.taken = offered.Items, mapped.Items, asked.Items, map[string]bool{}
	for _, b := range rights.Items {
		if b.Labels[wire.LabelManagedBy] == wire.OperatorName {
			in.rights = append(in.rights, b)
		} else {
			in.taken[b.Namespace] = true
		}
	}
	for i := range nodes.Items {
		v := &nodes.Items[i]
		if v.DeletionTimestamp != nil {
			continue
		}
		n := &corev1.Node{}
		if err := r.cached.Get(ctx, client.ObjectKey{Name: v.Name}, n); client.IgnoreNotFound(err) != nil {
			return in, fmt.Errorf("read Node %s: %w", v.Name, err)
		}
		one := offering(v, n)
		if one.leaves(offered.Items) {
			if one.holds, err = r.holds(ctx, v.Name); err != nil {
				return in, err
			}
		}
		in.nodes = append(in.nodes, one)
	}
	return in, nil
}

// offering pairs a virtual node with the labels by which namespaces select it.
func offering(v *offloadingv1beta1.VirtualNode, n *corev1.Node) offered {
	o := offered{VirtualNode: v, labels: v.Spec.Labels}
	if n.UID != "" && peering.MemberOf(n, v.Namespace) {
		o.labels = n.Labels
	}
	return o
}

// leaves reports whether the virtual kubelet handles a namespace that is not offloaded to its node any more.
func (o offered) leaves(all []offloadingv1beta1.NamespaceOffloading) bool {
	return slices.ContainsFunc(o.handles(), func(namespace string) bool {
		return !slices.ContainsFunc(all, func(n offloadingv1beta1.NamespaceOffloading) bool {
			return n.Namespace == namespace && n.DeletionTimestamp == nil && selects(n.Spec.ClusterSelector, o.labels)
		})
	})
}

// holds returns the namespaces of the pods on a node.
func (r *offloader) holds(ctx context.Context, node string) (map[string]struct{}, error) {
	var pods metav1.PartialObjectMetadataList
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.client.List(ctx, &pods, client.MatchingFieldsSelector{Selector: onNode(node)}); err != nil {
		return nil, fmt.Errorf("list the pods on node %s: %w", node, err)
	}
	out := map[string]struct{}{}
	for i := range pods.Items {
		out[pods.Items[i].Namespace] = struct{}{}
	}
	return out, nil
}

// write creates objects before it announces their namespaces to virtual kubelets. It deletes superfluous
// objects after virtual kubelets were updated.
func (r *offloader) write(ctx context.Context, in offloadings, p offloadingPlan) error {
	var errs []error
	for key, mapping := range p.maps {
		if err := r.say(ctx, in.mapOf(key), mapping, p.withdrawn[key]); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, err := control.Apply(ctx, r.client, peering.NamespaceMap(render.Tenant{Namespace: key.Namespace, Remote: wire.ClusterID(key.Name)}, mapping, p.left[key]...)); err != nil {
			errs = append(errs, err)
		}
	}
	for i := range in.maps {
		if m := &in.maps[i]; m.DeletionTimestamp == nil && p.maps[client.ObjectKeyFromObject(m)] == nil {
			errs = append(errs, control.Delete(ctx, r.client, m))
		}
	}
	errs = append(errs, r.labels(ctx, p))
	live := map[string]bool{} // namespaces in which a RoleBinding can be created
	for i := range in.offered {
		live[in.offered[i].Namespace] = in.offered[i].DeletionTimestamp == nil
	}
	refused := map[string]bool{}
	for namespace, nodes := range p.nodes {
		if !live[namespace] {
			continue // the RoleBinding exists, and stays as long as it is needed
		}
		if _, err := control.Apply(ctx, r.client, peering.OffloadedAccess(namespace, nodes)); err != nil {
			errs, refused[namespace] = append(errs, err), true
		}
	}
	for _, n := range in.nodes {
		if slices.ContainsFunc(p.namespaces[n.key()], func(namespace string) bool { return refused[namespace] }) {
			continue
		}
		errs = append(errs, r.tell(ctx, n, p.namespaces[n.key()]))
	}
	return errors.Join(append(errs, r.withdraw(ctx, in, p))...)
}

// say writes the withdrawn namespaces into an annotation of the map, before the map stops requesting them.
// The annotation is needed because the provider may not answer now, and an operator that restarts meanwhile
// forgets the deletion. A namespace that is requested again is removed from the annotation.
func (r *offloader) say(ctx context.Context, m *offloadingv1beta1.NamespaceMap, mapping map[string]string, withdrawn []string) error {
	if m == nil {
		return nil
	}
	all := peering.Withdrawn(m)
	for _, namespace := range withdrawn {
		all[namespace] = true
	}
	for namespace := range mapping {
		delete(all, namespace)
	}
	if maps.Equal(all, peering.Withdrawn(m)) {
		return nil
	}
	return sayWithdrawn(ctx, r.client, m, all)
}

func sayWithdrawn(ctx context.Context, c client.Client, m *offloadingv1beta1.NamespaceMap, all map[string]bool) error {
	before := m.DeepCopy()
	peering.SetWithdrawn(m, all)
	if err := c.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("write the withdrawals of NamespaceMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}

// labels labels offloaded namespaces, and removes the label from others. It does not change labels of others.
func (r *offloader) labels(ctx context.Context, p offloadingPlan) error {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.client.List(ctx, &list, client.HasLabels{peering.LabelOffloaded}); err != nil {
		return fmt.Errorf("list offloaded namespaces: %w", err)
	}
	var errs []error
	has := map[string]bool{} // with our label, or with another program's label of any value
	for i := range list.Items {
		ns := &list.Items[i]
		has[ns.Name] = !wroteLabel(ns) || ns.Labels[peering.LabelOffloaded] == "true"
		if !p.labelled[ns.Name] && wroteLabel(ns) {
			_, err := control.Apply(ctx, r.client, peering.OffloadedNamespace(ns.Name, false))
			errs = append(errs, err)
		}
	}
	for name, wanted := range p.labelled {
		if wanted && !has[name] {
			_, err := control.Apply(ctx, r.client, peering.OffloadedNamespace(name, true))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func wroteLabel(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == control.Manager && e.Operation == metav1.ManagedFieldsOperationApply && e.FieldsV1 != nil && strings.Contains(string(e.FieldsV1.GetRawBytes()), peering.LabelOffloaded)
	})
}

// tell writes the namespaces that a virtual kubelet has to handle into its VirtualNode.
func (r *offloader) tell(ctx context.Context, n offered, namespaces []string) error {
	text := strings.Join(namespaces, ",")
	if n.Annotations[peering.AnnotationNamespaces] == text {
		return nil
	}
	before := n.DeepCopy()
	if metav1.SetMetaDataAnnotation(&n.ObjectMeta, peering.AnnotationNamespaces, text); text == "" {
		delete(n.Annotations, peering.AnnotationNamespaces)
	}
	if err := r.client.Patch(ctx, n.VirtualNode, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("write the namespaces of virtual node %s: %w", n.Name, err)
	}
	return nil
}

// withdraw deletes the RoleBindings of virtual kubelets in namespaces that need none.
func (r *offloader) withdraw(ctx context.Context, in offloadings, p offloadingPlan) error {
	var errs []error
	for i := range in.rights {
		if b := &in.rights[i]; len(p.nodes[b.Namespace]) == 0 && b.DeletionTimestamp == nil {
			errs = append(errs, control.Delete(ctx, r.client, b))
		}
	}
	return errors.Join(errs...)
}

// report writes the statuses. It writes the observed generation only if the plan was written. Otherwise a
// change would count as observed, and would be lost, because an unchanged NamespaceOffloading keeps its
// mappings.
func (r *offloader) report(ctx context.Context, in offloadings, p offloadingPlan, written bool) error {
	var errs []error
	for i := range in.offered {
		o := &in.offered[i]
		want := p.statuses[client.ObjectKeyFromObject(o)]
		if !written {
			want.ObservedGeneration = o.Status.ObservedGeneration
		}
		if equality.Semantic.DeepEqual(o.Status, want) {
			continue
		}
		before := o.DeepCopy()
		o.Status = want
		if err := r.client.Status().Patch(ctx, o, client.MergeFrom(before), client.FieldOwner(control.Manager)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("report on the offloading of namespace %s: %w", o.Namespace, err))
		}
	}
	return errors.Join(errs...)
}
