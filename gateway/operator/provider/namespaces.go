package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// namespaces is the controller of mapped namespaces. It makes the namespaces that the NamespaceMaps of
// consumers request, limits them, and removes them. A reconcile request is for one NamespaceMap.
type namespaces struct {
	base

	guards   control.Guards   // the admission policies that limit consumers
	counting control.Counting // finds ResourceQuotas whose usage Kubernetes does not compute
}

func (r *namespaces) setup(mgr ctrl.Manager) error {
	ofMapped := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.mapOf(ctx, o.GetNamespace())
	})
	ofTenant := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.mapsIn(ctx, o.GetNamespace())
	})
	mapped := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request { return mapNamed(o) })
	// The NetworkPolicies of mapped namespaces list nodes and ranges of this cluster.
	all := control.Soon(func(ctx context.Context, _ client.Object) []reconcile.Request { return r.mapsIn(ctx, "") })
	access := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == wire.ConsumerAccessName })
	return ctrl.NewControllerManagedBy(mgr).Named("twin").
		WithOptions(control.Workers(4)).
		WatchesRawSource(source.Kind[client.Object](r.cache, &offloadingv1beta1.NamespaceMap{}, r.seen.Seen(&handler.EnqueueRequestForObject{}))).
		WatchesRawSource(source.Kind[client.Object](r.cache, &corev1.Namespace{}, mapped)).
		WatchesRawSource(source.Kind[client.Object](r.cache, &corev1.ResourceQuota{}, ofMapped, control.UnlessUsed())).
		WatchesRawSource(source.Kind[client.Object](r.cache, &corev1.LimitRange{}, ofMapped)).
		WatchesRawSource(source.Kind[client.Object](r.cache, &networkingv1.NetworkPolicy{}, ofMapped)).
		WatchesRawSource(source.Kind[client.Object](r.cache, &rbacv1.RoleBinding{}, ofMapped)).
		WatchesRawSource(source.Kind[client.Object](mgr.GetCache(), &rbacv1.RoleBinding{}, ofTenant, access)).
		Watches(&authv1beta1.Tenant{}, r.seen.Seen(ofTenant)).
		Watches(&authv1beta1.ResourceSlice{}, r.seen.Seen(ofTenant)).
		Watches(&networkingv1beta1.Configuration{}, ofTenant).
		Watches(&corev1.Node{}, all, builder.WithPredicates(addressNews())).
		Watches(&ipamv1alpha1.Network{}, all, builder.WithPredicates(rangeNews(r.home))).
		Complete(r)
}

// addressNews selects nodes that appear, disappear, or change their addresses. It ignores the initial list of
// nodes, because the first reconciliation of each map reads all nodes.
func addressNews() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !equality.Semantic.DeepEqual(e.ObjectOld.(*corev1.Node).Status.Addresses, e.ObjectNew.(*corev1.Node).Status.Addresses)
		},
	}
}

// rangeNews selects Networks of this cluster's own ranges that appear, disappear, or change their range. It
// ignores the initial list, as addressNews does.
func rangeNews(home string) predicate.Predicate {
	return predicate.And(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == home }), predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.(*ipamv1alpha1.Network).Spec.CIDR != e.ObjectNew.(*ipamv1alpha1.Network).Spec.CIDR
		},
	})
}

// mapNamed returns a request for the NamespaceMap that a mapped namespace names.
func mapNamed(mapped client.Object) []reconcile.Request {
	namespace, name, ok := strings.Cut(mapped.GetAnnotations()[peering.AnnotationMapped], "/")
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

func (r *namespaces) mapOf(ctx context.Context, mapped string) []reconcile.Request {
	ns := &corev1.Namespace{}
	if r.client.Get(ctx, client.ObjectKey{Name: mapped}, ns) != nil {
		return nil // the namespace is not mapped, or it is gone
	}
	return mapNamed(ns)
}

// Reconcile makes, changes and removes the mapped namespaces of one map.
func (r *namespaces) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &offloadingv1beta1.NamespaceMap{}
	if err := r.reader.Get(ctx, req.NamespacedName, m); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read NamespaceMap %s: %w", req, err)
	}
	there, err := r.mappedOf(ctx, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	if m.UID == "" || m.DeletionTimestamp != nil || peering.MapOf(m) == "" {
		givenUp := m.DeletionTimestamp != nil && len(m.Spec.DesiredMapping) == 0 || r.seen.Has(ofMap(req.NamespacedName))
		return ctrl.Result{}, r.unasked(ctx, req.Namespace, there, givenUp)
	}
	t, err := r.tenant(ctx, req.Namespace, peering.MapOf(m))
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case t.over:
		return ctrl.Result{}, errors.Join(r.each(ctx, there, r.remove), control.Delete(ctx, r.client, m))
	case t.Tenant == nil: // the Tenant may come back from a backup
		return ctrl.Result{}, r.each(ctx, there, r.withdraw)
	}
	if err := r.guarded(ctx); err != nil {
		return ctrl.Result{RequeueAfter: policiesAgain}, control.Complain(ctx, r.client, r.recorder, m, err)
	}
	in := &mapping{namespaces: r, of: m, tenant: t, there: there, status: map[string]offloadingv1beta1.RemoteNamespaceStatus{}, problems: map[string]error{}}
	if in.conf, err = r.network(ctx, req.Namespace); err != nil {
		return ctrl.Result{}, err
	}
	if in.own, err = r.ownRanges(ctx); err != nil {
		return ctrl.Result{}, err
	}
	failed := in.bringAbout(ctx)
	return ctrl.Result{RequeueAfter: in.again}, errors.Join(failed, in.report(ctx))
}

// policiesAgain is the time after which the operator looks again for missing admission policies.
const policiesAgain = 30 * time.Second

// guarded returns an error if admission policies that limit consumers are missing, or if this is unknown. Then
// this cluster runs no pods of consumers.
func (r *namespaces) guarded(ctx context.Context) error {
	switch why, err := r.guards.Missing(ctx); {
	case err != nil:
		return fmt.Errorf("find out whether admission policies limit consumers: %w", err)
	case why != "":
		return fmt.Errorf("admission policies don't limit consumers on this cluster: %s", why)
	}
	return nil
}

// mappedOf returns the mapped namespaces of the NamespaceMap in req, by their names.
func (r *namespaces) mappedOf(ctx context.Context, req ctrl.Request) (map[string]*corev1.Namespace, error) {
	var all corev1.NamespaceList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces of consumers: %w", err)
	}
	out := map[string]*corev1.Namespace{}
	for i := range all.Items {
		if ns := &all.Items[i]; peering.IsMapped(ns) && ns.Annotations[peering.AnnotationMapped] == req.String() {
			out[ns.Name] = ns.DeepCopy()
		}
	}
	return out, nil
}

// unasked handles mapped namespaces whose map is gone, is being deleted, or names no consumer. They stay, because
// the consumer creates the map again if somebody has deleted it here, or if this cluster was restored from a
// backup. But without access, the consumer loses its rights in them. The operator removes the namespaces when the
// Tenant is drained or deleted. It also removes them if it has seen the consumer give up its map and delete its
// last ResourceSlice.
func (r *namespaces) unasked(ctx context.Context, namespace string, namespaces map[string]*corev1.Namespace, givenUp bool) error {
	return r.each(ctx, namespaces, func(ctx context.Context, ns *corev1.Namespace) error {
		t, err := r.tenant(ctx, namespace, wire.ClusterID(ns.Labels[wire.LabelRemoteCluster]))
		switch {
		case err != nil:
			return err
		case t.over || givenUp && !t.asks && r.seen.Has(ofSlices(namespace)):
			return r.remove(ctx, ns)
		case !t.admitted || len(t.users) == 0:
			return r.withdraw(ctx, ns)
		}
		return nil
	})
}

func (r *namespaces) each(ctx context.Context, namespaces map[string]*corev1.Namespace, do func(context.Context, *corev1.Namespace) error) error {
	var errs []error
	for _, ns := range namespaces {
		errs = append(errs, do(ctx, ns))
	}
	return errors.Join(errs...)
}

// remove deletes the consumer's rights in the namespace, and then the namespace with all of its objects.
func (r *namespaces) remove(ctx context.Context, ns *corev1.Namespace) error {
	if err := r.withdraw(ctx, ns); err != nil || ns.DeletionTimestamp != nil {
		return err
	}
	if err := r.endPods(ctx, ns); err != nil {
		return err
	}
	return control.Delete(ctx, r.client, ns)
}

// If the consumer's Tenant is missing, drained or deleted, endPods shortens the pods' grace period. It runs
// before the deletion of the namespace, which ends the operator's rights over the pods.
func (r *namespaces) endPods(ctx context.Context, ns *corev1.Namespace) error {
	t, err := r.tenant(ctx, tenantOf(ns), wire.ClusterID(ns.Labels[wire.LabelRemoteCluster]))
	if err != nil || !t.gone() {
		return err
	}
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(ns.Name)); err != nil {
		return fmt.Errorf("list pods of namespace %s: %w", ns.Name, err)
	}
	for i := range pods.Items {
		if err := r.endSoon(ctx, &pods.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *namespaces) withdraw(ctx context.Context, ns *corev1.Namespace) error {
	b := &rbacv1.RoleBinding{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: wire.MappedAccessName}, b); err != nil {
		return client.IgnoreNotFound(err)
	}
	return control.Delete(ctx, r.client, b)
}

// ownRanges returns the ranges of this cluster's pods and Services, and the addresses of its nodes.
func (r *namespaces) ownRanges(ctx context.Context) ([]netip.Prefix, error) {
	var networks ipamv1alpha1.NetworkList
	var nodes corev1.NodeList
	if err := errors.Join(r.peers.List(ctx, &networks, client.InNamespace(r.home)), r.peers.List(ctx, &nodes, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, fmt.Errorf("list the cluster's own ranges: %w", err)
	}
	var own []netip.Prefix
	for i := range networks.Items {
		if p, err := netip.ParsePrefix(string(networks.Items[i].Spec.CIDR)); err == nil {
			own = append(own, p.Masked())
		}
	}
	for i := range nodes.Items {
		for _, a := range nodes.Items[i].Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				own = append(own, netip.PrefixFrom(ip, ip.BitLen()))
			}
		}
	}
	slices.SortFunc(own, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(own), nil
}

type mapping struct {
	*namespaces

	of       *offloadingv1beta1.NamespaceMap
	tenant   *tenant
	there    map[string]*corev1.Namespace // the existing mapped namespaces, by name
	conf     *networkingv1beta1.Configuration
	own      []netip.Prefix // see ownRanges
	status   map[string]offloadingv1beta1.RemoteNamespaceStatus
	problems map[string]error // by the consumer's namespace, like status
	again    time.Duration    // until the next reconciliation; 0: only an event causes it
}

// bringAbout makes the mapped namespaces that the map requests, and removes the mapped namespaces that it does
// not request any more.
func (m *mapping) bringAbout(ctx context.Context) error {
	var errs []error
	wanted := map[string]string{}
	for _, original := range m.order() {
		name := m.of.Spec.DesiredMapping[original]
		phase, err := m.one(ctx, original, name, wanted)
		errs = append(errs, err)
		if phase != "" {
			m.status[original] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: name, Phase: phase}
		}
	}
	for name, ns := range m.there {
		original := ns.Annotations[peering.AnnotationOriginal]
		if wanted[name] == original && original != "" || !m.hasAsked(ns) {
			continue
		}
		errs = append(errs, m.remove(ctx, ns))
		m.stays(original, ns)
		if m.status[original].Phase == "" {
			m.status[original] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: name, Phase: offloadingv1beta1.MappingTerminating}
		}
	}
	return errors.Join(errs...)
}

// stays records as a problem why the deletion of a mapped namespace does not finish.
func (m *mapping) stays(original string, ns *corev1.Namespace) {
	if why := wire.Stays(ns); ns.DeletionTimestamp != nil && why != "" {
		m.problems[original] = fmt.Errorf("%s is still being deleted: %s", ns.Name, why)
	}
}

// hasAsked reports whether this NamespaceMap has requested a mapped namespace at some time: the map is older
// than the namespace, or its status names the namespace. A younger map was restored from a backup or created
// again, and may have lost the request. Then the namespace has to stay.
func (m *mapping) hasAsked(ns *corev1.Namespace) bool {
	return !ns.CreationTimestamp.Before(&m.of.CreationTimestamp) || m.of.Status.CurrentMapping[ns.Annotations[peering.AnnotationOriginal]].RemoteNamespace == ns.Name
}

// order returns the consumer's namespaces in the map. Namespaces whose mapped namespace exists come first.
func (m *mapping) order() []string {
	all := slices.Sorted(maps.Keys(m.of.Spec.DesiredMapping))
	slices.SortStableFunc(all, func(a, b string) int {
		rank := func(original string) int {
			if ns := m.there[m.of.Spec.DesiredMapping[original]]; ns != nil && ns.Annotations[peering.AnnotationOriginal] == original {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	return all
}

// one creates the mapped namespace called name for the consumer's namespace called original. It adds the name to
// wanted, which has the earlier names of this reconciliation.
func (m *mapping) one(ctx context.Context, original, name string, wanted map[string]string) (offloadingv1beta1.MappingPhase, error) {
	refused := func(why error) (offloadingv1beta1.MappingPhase, error) {
		m.problems[original] = why
		return offloadingv1beta1.MappingCreationLoopBackOff, nil
	}
	switch err := offload.MappedName(name, m.home, m.tenant.id(), m.tenant.Annotations[peering.AnnotationAnyName] == "true"); {
	case err != nil:
		return refused(err)
	case wanted[name] != "":
		return refused(fmt.Errorf("namespace %s stands for %s already", name, wanted[name]))
	case len(wanted) >= offload.MostMapped:
		return refused(fmt.Errorf("a consumer may have %d namespaces at most", offload.MostMapped))
	}
	ns := m.there[name]
	if ns == nil {
		if err := offload.ForPrograms(name); err != nil {
			return refused(err)
		}
		var err error
		if ns, err = m.create(ctx, original, name); err != nil {
			m.again = takenAgain
			return refused(err)
		}
		if ns == nil { // another namespace of this name was deleted a moment ago
			m.again = control.RightsAgain
			return "", nil
		}
	}
	if ns.Annotations[peering.AnnotationOriginal] != original {
		return refused(fmt.Errorf("namespace %s stands for %s already", name, ns.Annotations[peering.AnnotationOriginal]))
	}
	wanted[name] = original
	if ns.DeletionTimestamp != nil {
		m.stays(original, ns)
		return offloadingv1beta1.MappingTerminating, m.withdraw(ctx, ns)
	}
	ready, err := m.furnish(ctx, ns)
	switch {
	case apierrors.IsForbidden(err) && time.Since(ns.CreationTimestamp.Time) < rightsLag:
		m.again = control.RightsAgain // an API server needs a moment until a new binding has an effect
		return "", nil
	case err != nil:
		return m.of.Status.CurrentMapping[original].Phase, err
	case !ready:
		return m.of.Status.CurrentMapping[original].Phase, nil
	}
	return offloadingv1beta1.MappingAccepted, nil
}

// rightsLag is the longest delay of a new binding. In an older mapped namespace, a refused request is an error.
const rightsLag = 5 * time.Second

// create creates a mapped namespace. If another namespace has the name, create returns an error. If that
// namespace has just disappeared, it returns nil without an error.
func (m *mapping) create(ctx context.Context, original, name string) (*corev1.Namespace, error) {
	ns := peering.MappedNamespace(m.of, m.tenant.id(), original, name)
	err := m.client.Create(ctx, ns, client.FieldOwner(control.Manager))
	if err == nil {
		return ns, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create namespace %s: %w", name, err)
	}
	// The cache may lack a namespace that was created for this map a moment ago.
	live := &corev1.Namespace{}
	switch err := m.reader.Get(ctx, client.ObjectKey{Name: name}, live); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read namespace %s: %w", name, err)
	case peering.IsMapped(live) && live.Annotations[peering.AnnotationMapped] == peering.MapName(m.of):
		return live, nil
	}
	return nil, fmt.Errorf("namespace %s exists already", name)
}

// takenAgain is the time after which the operator tries a taken name again. It does not watch other namespaces,
// so no event tells when the name is free.
const takenAgain = 10 * time.Second

// furnish writes the limits of a mapped namespace and the consumer's rights in it. It returns true if Kubernetes
// has computed the usage of all ResourceQuotas and the consumer has access.
func (m *mapping) furnish(ctx context.Context, ns *corev1.Namespace) (bool, error) {
	if err := m.label(ctx, ns); err != nil {
		return false, err
	}
	if _, err := control.Apply(ctx, m.client, peering.MappedOperatorAccess(ns, m.home)); err != nil {
		return false, err
	}
	if _, err := control.Apply(ctx, m.client, peering.MappedLimits(ns, offload.LeastCPU, offload.LeastMemory, offload.LeastStorage)); err != nil {
		return false, err
	}
	if _, err := control.Apply(ctx, m.client, peering.MappedPolicy(ns, m.conf, m.own)); err != nil {
		return false, err
	}
	counted := true
	for _, want := range peering.MappedQuotas(ns, m.tenant.granted) {
		q, err := control.Apply(ctx, m.client, want)
		if err != nil {
			return false, err
		}
		late := m.counting.Late(q, time.Now())
		if control.Counted(q) {
			continue
		}
		counted = false
		if late {
			m.problems[ns.Annotations[peering.AnnotationOriginal]] = fmt.Errorf("this cluster does not count ResourceQuota %s/%s: check that its kube-controller-manager runs", q.Namespace, q.Name)
			if err := control.Delete(ctx, m.client, q); err != nil {
				return false, err
			}
		}
		m.again = countedAgain
	}
	if !m.tenant.admitted || len(m.tenant.users) == 0 {
		m.problems[ns.Annotations[peering.AnnotationOriginal]] = fmt.Errorf("%s has no access or no ResourceSlice on this cluster now", m.tenant.id())
		return false, m.withdraw(ctx, ns)
	}
	if _, err := control.Apply(ctx, m.client, peering.MappedAccess(ns, m.tenant.users)); err != nil {
		return false, err
	}
	return counted, nil
}

// countedAgain is the time after which the operator reads a ResourceQuota again whose usage Kubernetes has not
// computed yet. An event usually comes earlier.
const countedAgain = time.Second

// label restores labels that others have changed. It uses a patch, because an apply would create the namespace
// again if it was deleted.
func (m *mapping) label(ctx context.Context, ns *corev1.Namespace) error {
	want := peering.MappedNamespace(m.of, m.tenant.id(), ns.Annotations[peering.AnnotationOriginal], ns.Name)
	if ns.Labels[peering.LabelEnforce] == "restricted" { // an admin has chosen it
		want.Labels[peering.LabelEnforce] = "restricted"
	}
	before := ns.DeepCopy()
	maps.Copy(ns.Labels, want.Labels)
	if maps.Equal(before.Labels, ns.Labels) {
		return nil
	}
	if err := m.client.Patch(ctx, ns, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("label namespace %s: %w", ns.Name, err)
	}
	return nil
}

// report writes the state of the mapped namespaces into the map, for the consumer.
func (m *mapping) report(ctx context.Context) error {
	before := m.of.DeepCopy()
	if len(m.status) == 0 {
		m.status = nil
	}
	if m.of.Status.CurrentMapping = m.status; !reflect.DeepEqual(before.Status, m.of.Status) {
		if err := m.client.Status().Patch(ctx, m.of, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("report on NamespaceMap %s: %w", peering.MapName(m.of), err)
		}
	}
	return client.IgnoreNotFound(control.Complain(ctx, m.client, m.recorder, m.of, peering.ProblemsOf(m.problems)))
}
