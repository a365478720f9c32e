package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/signing"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// virtualNodes makes three things for each granted slice: a VirtualNode, its Node, and its virtual kubelet,
// which reports the state of the Node. It runs rarely, so it reads most objects from the API server instead
// of a cache. It has one worker, because all virtual kubelets are subjects of the same bindings.
type virtualNodes struct {
	client    client.Client // not cached
	cached    client.Reader
	programs  client.Reader // cached: the objects of virtual kubelets
	recorder  events.EventRecorder
	home      string
	guards    control.Guards                // admission policies
	unsigned  map[types.UID]time.Time       // VirtualNodes whose certificate no signer signs, with the time of the next request
	asked     map[types.UID]*serving        // certificates that are being signed
	listed    map[types.NamespacedName]bool // VirtualNodes whose virtual kubelets have rights; nil: not read yet
	applied   time.Time                     // when these rights were written or compared last
	authority signing.Authority
}

func (r *virtualNodes) setup(mgr ctrl.Manager) (err error) {
	r.authority = signing.Authority{Config: mgr.GetConfig()}
	r.unsigned, r.asked = map[types.UID]time.Time{}, map[types.UID]*serving{}
	if r.client, err = client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()}); err != nil {
		return err
	}
	r.guards = control.Guards{Reader: r.client, Role: render.PeeringConsumer}
	named, err := labels.NewRequirement(peering.LabelVirtualNode, selection.Exists, nil)
	if err != nil {
		return err
	}
	nodes, err := labels.NewRequirement(peering.LabelNodeOf, selection.Exists, nil)
	if err != nil {
		return err
	}
	// The manager's own cache has no Deployments of virtual kubelets, only those of gateways.
	programs, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultTransform: cache.TransformStripManagedFields(),
		DefaultLabelSelector: labels.NewSelector().Add(*named),
		ByObject:             map[client.Object]cache.ByObject{&coordinationv1.Lease{}: {Label: labels.NewSelector().Add(*nodes)}},
	})
	if err != nil {
		return err
	}
	r.programs = programs
	if err := mgr.Add(programs); err != nil {
		return err
	}
	by := func(namespace, name func(client.Object) string) handler.MapFunc {
		return func(_ context.Context, o client.Object) []reconcile.Request {
			key := client.ObjectKey{Namespace: namespace(o), Name: name(o)}
			if key.Namespace == "" || key.Name == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: key}}
		}
	}
	label := func(key string) func(client.Object) string {
		return func(o client.Object) string { return o.GetLabels()[key] }
	}
	ofNode := by(label(peering.LabelNodeOf), client.Object.GetName)
	// A Lease is renewed every 10 s, so only its deletion counts. The virtual kubelet may not create it.
	deleted := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
	ofProgram := handler.EnqueueRequestsFromMapFunc(by(client.Object.GetNamespace, label(peering.LabelVirtualNode)))
	b := ctrl.NewControllerManagedBy(mgr).Named("virtual-node").
		WithOptions(control.Workers(1)).
		For(&authv1beta1.ResourceSlice{}).
		Watches(&offloadingv1beta1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(by(client.Object.GetNamespace, client.Object.GetName))).
		Watches(&authv1beta1.Identity{}, handler.EnqueueRequestsFromMapFunc(by(client.Object.GetNamespace, label(peering.LabelSliceName)))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(ofNode), builder.WithPredicates(control.Labelled(peering.LabelNodeOf))).
		Watches(&corev1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(r.slicesFor)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.slicesIn)).
		WatchesRawSource(r.authority.News(signing.Every, func(ctx context.Context) []reconcile.Request { return r.slices(ctx, client.InNamespace("")) })).
		WatchesRawSource(source.Kind(programs, client.Object(&corev1.Pod{}), ofProgram)).
		WatchesRawSource(source.Kind(programs, client.Object(&coordinationv1.Lease{}), handler.EnqueueRequestsFromMapFunc(ofNode), deleted))
	// These are the objects of a virtual kubelet. Each is created again if somebody deletes it.
	for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		b = b.WatchesRawSource(source.Kind(programs, o, ofProgram))
	}
	return b.Complete(r)
}

const unfitAgain = 30 * time.Second

func (r *virtualNodes) slicesFor(ctx context.Context, fc client.Object) []reconcile.Request {
	return r.slices(ctx, client.MatchingLabels{peering.LabelDestination: fc.GetName()})
}

func (r *virtualNodes) slicesIn(ctx context.Context, ns client.Object) []reconcile.Request {
	return r.slices(ctx, client.InNamespace(ns.GetName()))
}

func (r *virtualNodes) slices(ctx context.Context, which client.ListOption) (out []reconcile.Request) {
	var list authv1beta1.ResourceSliceList
	if err := r.cached.List(ctx, &list, which); err != nil {
		return nil // only when the cache has stopped
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// Reconcile makes or repairs the virtual node of one slice, or removes its objects.
func (r *virtualNodes) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, v := &authv1beta1.ResourceSlice{}, &offloadingv1beta1.VirtualNode{}
	if err := errors.Join(r.read(ctx, req.NamespacedName, s), r.read(ctx, req.NamespacedName, v)); err != nil {
		return ctrl.Result{}, err
	}
	live := s.UID != "" && s.DeletionTimestamp == nil && !peering.FromConsumer(s) && s.Spec.ProviderClusterID != nil
	switch {
	case v.UID != "" && v.Labels[wire.LabelManagedBy] != wire.OperatorName:
		why := fmt.Errorf("%sa virtual node needs a ResourceSlice of the same name with annotation %s=true", wire.ProblemRefused, peering.AnnotationVirtualNode)
		return ctrl.Result{}, errors.Join(r.unlist(ctx, req.NamespacedName), control.Complain(ctx, r.client, r.recorder, v, why))
	case !live || !peering.CreatesNode(s) || v.DeletionTimestamp != nil:
		return ctrl.Result{}, r.remove(ctx, req.NamespacedName, v)
	}
	ns := &corev1.Namespace{}
	if err := r.cached.Get(ctx, client.ObjectKey{Name: req.Namespace}, ns); err != nil || ns.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // no admin has labelled the namespace for a peer
	}
	problem, err := r.problem(ctx, s, v.UID != "")
	if err != nil || problem != "" && v.UID == "" { // nothing was granted yet
		return ctrl.Result{}, err
	}
	why, err := r.obstacle(ctx, s)
	if err != nil {
		return ctrl.Result{}, err
	}
	if v, err = control.Apply(ctx, r.client, peering.VirtualNode(s, cmp.Or(why, problem))); err != nil || why != "" {
		return ctrl.Result{RequeueAfter: unfitAgain}, err // after a while, because nothing here watches the conflicting Node or the admission policies
	}
	again, err := r.make(ctx, v)
	return ctrl.Result{RequeueAfter: again}, err
}

// read reads an object into o. If the object does not exist, it leaves o as it is.
func (r *virtualNodes) read(ctx context.Context, key client.ObjectKey, o client.Object) error {
	if err := r.client.Get(ctx, key, o); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read %T %s: %w", o, key, err)
	}
	return nil
}

// problem returns the reason that no pod can run with a slice, or "". It ignores two problems that the
// virtual kubelet reports itself: a provider that does not answer and, if the VirtualNode exists, a missing
// kubeconfig.
func (r *virtualNodes) problem(ctx context.Context, s *authv1beta1.ResourceSlice, made bool) (string, error) {
	for _, what := range []authv1beta1.ResourceSliceConditionType{authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionTypeResources} {
		switch c := peering.Condition(s, what); {
		case c == nil:
			return fmt.Sprintf("%s has not answered yet", *s.Spec.ProviderClusterID), nil
		case c.Status != authv1beta1.ResourceSliceConditionAccepted:
			return fmt.Sprintf("%s grants nothing: %s", *s.Spec.ProviderClusterID, c.Message), nil
		}
	}
	i := &authv1beta1.Identity{}
	if err := r.read(ctx, client.ObjectKey{Namespace: s.Namespace, Name: peering.SliceIdentityName(s.Name)}, i); err != nil {
		return "", err
	}
	if i.Status.KubeconfigSecretRef == nil && !made {
		return "there is no kubeconfig yet", nil
	}
	fc := &corev1beta1.ForeignCluster{}
	if err := r.cached.Get(ctx, client.ObjectKey{Name: string(*s.Spec.ProviderClusterID)}, fc); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read ForeignCluster %s: %w", *s.Spec.ProviderClusterID, err)
	}
	for _, c := range fc.Status.Conditions { // the virtual kubelet may not see this problem: its own certificate may still give it access
		if c.Type == corev1beta1.APIServerStatusCondition && c.Status == corev1beta1.ConditionStatusError && c.Reason != peering.ReasonSilent {
			return c.Message, nil
		}
	}
	return "", nil
}

// obstacle returns the reason that this cluster can't have a Node for a slice, or "".
func (r *virtualNodes) obstacle(ctx context.Context, s *authv1beta1.ResourceSlice) (string, error) {
	n := &corev1.Node{}
	if err := r.read(ctx, client.ObjectKey{Name: s.Name}, n); err != nil {
		return "", err
	}
	if n.UID != "" && !peering.MemberOf(n, s.Namespace) {
		return fmt.Sprintf("%sthere is a node %s already, so the virtual node can't have this name", wire.ProblemRefused, n.Name), nil
	}
	switch why, err := r.guards.Missing(ctx); {
	case err != nil:
		return "", fmt.Errorf("check the admission policies for virtual kubelets: %w", err)
	case why != "":
		return fmt.Sprintf("%sadmission policies don't limit the virtual kubelets on this cluster: %s", wire.ProblemRefused, why), nil
	}
	return "", nil
}

// make creates or updates the objects of a VirtualNode.
func (r *virtualNodes) make(ctx context.Context, v *offloadingv1beta1.VirtualNode) (again time.Duration, err error) {
	operator := &appsv1.Deployment{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: r.home, Name: wire.OperatorName}, operator); err != nil {
		return 0, fmt.Errorf("read the operator's own Deployment for the image of virtual kubelets: %w", err)
	}
	id, err := control.ClusterID(ctx, r.client, r.home)
	if err != nil {
		return 0, err
	}
	told := render.OperatorParams(operator)
	p := peering.NodeProgram{VirtualNode: v, Consumer: id, Image: told.Image, Pods: told.Pods.ForGateway()}
	n, err := r.member(ctx, p)
	if err != nil {
		return 0, err
	}
	lease := &coordinationv1.Lease{}
	want := p.Lease(n)
	if err := r.read(ctx, client.ObjectKeyFromObject(want), lease); err != nil {
		return 0, err
	}
	if lease.UID == "" {
		if err := r.client.Create(ctx, want, client.FieldOwner(control.Manager)); err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("create the Lease of Node %s: %w", n.Name, err)
		}
	}
	if err := r.list(ctx, client.ObjectKeyFromObject(v), true); err != nil {
		return 0, err
	}
	for _, ref := range p.Pods.ImagePullSecrets {
		if err := r.pullSecret(ctx, p, ref.Name); err != nil {
			return 0, err
		}
	}
	account, err := control.Apply(ctx, r.client, p.ServiceAccount())
	if err != nil {
		return 0, err
	}
	if _, err := control.Apply(ctx, r.client, p.Role()); err != nil {
		return 0, err
	}
	if _, err := control.Apply(ctx, r.client, p.RoleBinding()); err != nil {
		return 0, err
	}
	d := p.Deployment()
	metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, wire.AnnotationAccount, string(account.UID))
	d, err = control.Apply(ctx, r.client, d)
	if err != nil {
		return 0, err
	}
	ip, err := r.address(ctx, p, n)
	if err != nil {
		return 0, err
	}
	again, err = r.serving(ctx, p, ip, time.Now())
	return again, errors.Join(err, r.report(ctx, v, d, n))
}

// address writes the virtual kubelet's address into the Node. The virtual kubelet must not have the right to
// do this, because it could make API servers send packets anywhere.
func (r *virtualNodes) address(ctx context.Context, p peering.NodeProgram, n *corev1.Node) (at string, err error) {
	var pods corev1.PodList
	err = r.programs.List(ctx, &pods, client.InNamespace(p.Namespace), client.MatchingLabels{peering.LabelVirtualNode: p.Name, peering.LabelKubelet: peering.KubeletComponent})
	if err != nil {
		return "", fmt.Errorf("list the pods of virtual node %s: %w", p.Name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		owner := metav1.GetControllerOf(pod)
		if owner != nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && !pod.Spec.HostNetwork && pod.Spec.ServiceAccountName == peering.NodeAccount(p.Name) {
			at = wire.PodIPv4(pod)
		}
	}
	want := p.Address(at)
	if equality.Semantic.DeepEqual(n.Status.Addresses, want.Status.Addresses) && n.Status.DaemonEndpoints == want.Status.DaemonEndpoints {
		return at, nil
	}
	before := n.DeepCopy()
	n.Status.Addresses, n.Status.DaemonEndpoints = want.Status.Addresses, want.Status.DaemonEndpoints
	if err := r.client.Status().Patch(ctx, n, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
		return "", fmt.Errorf("write the address of the virtual kubelet of Node %s: %w", n.Name, err)
	}
	return at, nil
}

// member creates the Node, or adds missing labels and taints to it. It keeps all others, because Kubernetes
// writes taints into a Node, and admins write labels. If the provider's nodes lose a label, member also
// removes this label from the Node. Kubernetes knows these labels by their field manager.
func (r *virtualNodes) member(ctx context.Context, p peering.NodeProgram) (*corev1.Node, error) {
	n, want := &corev1.Node{}, p.Member()
	if err := r.read(ctx, client.ObjectKeyFromObject(want), n); err != nil {
		return nil, err
	}
	if n.UID == "" {
		if err := r.client.Create(ctx, want, client.FieldOwner(control.Manager)); err != nil {
			return nil, fmt.Errorf("create Node %s: %w", want.Name, err)
		}
		return control.Apply(ctx, r.client, p.Lent())
	}
	before := n.DeepCopy()
	for key, value := range want.Labels {
		metav1.SetMetaDataLabel(&n.ObjectMeta, key, value)
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(has corev1.Taint) bool { return has.Key == peering.TaintNoPods }) // an earlier version of the operator wrote this taint
	for _, t := range want.Spec.Taints {
		if !slices.ContainsFunc(n.Spec.Taints, func(has corev1.Taint) bool { return has.MatchTaint(&t) }) {
			n.Spec.Taints = append(n.Spec.Taints, t)
		}
	}
	if !equality.Semantic.DeepEqual(before, n) {
		if err := r.client.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); err != nil {
			return nil, fmt.Errorf("repair Node %s: %w", n.Name, err)
		}
	}
	return control.Apply(ctx, r.client, p.Lent())
}

// listedAgain is the interval at which the rights of all virtual kubelets are compared with the wanted
// rights, because nothing here watches them.
const listedAgain = 10 * time.Second

// list writes the list of virtual kubelets that may report the state of Nodes: those of all VirtualNodes.
// The parameter with says whether the VirtualNode of key is one of them. list reads all VirtualNodes only
// at the first call. Later calls add or remove one, because a read at each call would be slow with many
// VirtualNodes.
func (r *virtualNodes) list(ctx context.Context, key client.ObjectKey, with bool) error {
	if r.listed == nil {
		var list offloadingv1beta1.VirtualNodeList
		if err := r.client.List(ctx, &list, client.MatchingLabels{wire.LabelManagedBy: wire.OperatorName}); err != nil {
			return fmt.Errorf("list VirtualNodes: %w", err)
		}
		r.listed = map[types.NamespacedName]bool{}
		for i := range list.Items {
			r.listed[client.ObjectKeyFromObject(&list.Items[i])] = true
		}
	}
	if r.listed[key] == with && time.Since(r.applied) < listedAgain {
		return nil
	}
	r.applied = time.Time{} // stays zero until both bindings are written
	if with {
		r.listed[key] = true
	} else {
		delete(r.listed, key)
	}
	all := slices.SortedFunc(maps.Keys(r.listed), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	everywhere, leases := peering.NodeAccess(all)
	if _, err := control.Apply(ctx, r.client, everywhere); err != nil {
		return err
	}
	if _, err := control.Apply(ctx, r.client, leases); err != nil {
		return err
	}
	r.applied = time.Now()
	return nil
}

// unlist removes a VirtualNode from the list, because it is deleted, or does not belong to this operator any
// more. It does nothing for other VirtualNodes.
func (r *virtualNodes) unlist(ctx context.Context, key client.ObjectKey) error {
	if !r.listed[key] {
		return nil
	}
	return r.list(ctx, key, false)
}

// pullSecret copies a pull secret from the operator's namespace. If the secret is missing, the pod's events
// say so.
func (r *virtualNodes) pullSecret(ctx context.Context, p peering.NodeProgram, name string) error {
	s := &corev1.Secret{}
	err := r.read(ctx, client.ObjectKey{Namespace: r.home, Name: name}, s)
	switch {
	case err != nil || s.UID == "":
		return err
	case s.Type != corev1.SecretTypeDockerConfigJson && s.Type != corev1.SecretTypeDockercfg:
		return fmt.Errorf("pull secret %s/%s: want type %s, got %s", r.home, name, corev1.SecretTypeDockerConfigJson, s.Type)
	}
	_, err = control.Apply(ctx, r.client, p.PullSecret(s))
	return err
}

// report writes the conditions of a VirtualNode, as Liqo's programs and liqoctl expect them.
func (r *virtualNodes) report(ctx context.Context, v *offloadingv1beta1.VirtualNode, d *appsv1.Deployment, n *corev1.Node) error {
	one := func(what offloadingv1beta1.VirtualNodeConditionType, runs bool) offloadingv1beta1.VirtualNodeCondition {
		c := offloadingv1beta1.VirtualNodeCondition{Type: what, Status: offloadingv1beta1.CreatingConditionStatusType, LastTransitionTime: metav1.Now()}
		if runs {
			c.Status = offloadingv1beta1.RunningConditionStatusType
		}
		for _, was := range v.Status.Conditions {
			if was.Type == c.Type && was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
		}
		return c
	}
	before := v.DeepCopy()
	v.Status.Conditions = []offloadingv1beta1.VirtualNodeCondition{
		one(offloadingv1beta1.VirtualKubeletConditionType, d.Status.AvailableReplicas > 0),
		one(offloadingv1beta1.NodeConditionType, slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})),
	}
	if equality.Semantic.DeepEqual(before.Status, v.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, v, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("report on VirtualNode %s/%s: %w", v.Namespace, v.Name, err)
	}
	return nil
}

// remove removes the objects of a virtual node. It begins with the virtual kubelet and its rights, so that no
// report reaches a Node that is being deleted.
func (r *virtualNodes) remove(ctx context.Context, key client.ObjectKey, v *offloadingv1beta1.VirtualNode) error {
	n := &corev1.Node{}
	if err := r.read(ctx, client.ObjectKey{Name: key.Name}, n); err != nil {
		return err
	}
	member := n.UID != "" && peering.MemberOf(n, key.Namespace)
	var errs []error
	if v.UID != "" {
		if v.DeletionTimestamp == nil {
			errs = append(errs, control.Delete(ctx, r.client, v))
		}
	}
	gone := func(o client.Object, name string) {
		if err := r.read(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, o); err != nil {
			errs = append(errs, err)
			return
		}
		if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == offloadingv1beta1.VirtualNodeKind && owner.Name == key.Name && o.GetDeletionTimestamp() == nil {
			errs = append(errs, control.Delete(ctx, r.client, o))
		}
	}
	gone(&appsv1.Deployment{}, peering.DeploymentName(key.Name))
	for _, o := range []client.Object{&rbacv1.RoleBinding{}, &rbacv1.Role{}, &corev1.ServiceAccount{}} {
		gone(o, peering.NodeAccount(key.Name))
	}
	gone(&corev1.Secret{}, peering.ServingName(key.Name))
	errs = append(errs, r.unaskedFor(ctx, v))
	if v.UID == "" && !member {
		return errors.Join(append(errs, r.unlist(ctx, key))...)
	}
	errs = append(errs, r.list(ctx, key, false))
	if member {
		lease := &coordinationv1.Lease{}
		if err := r.read(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: n.Name}, lease); err != nil {
			errs = append(errs, err)
		} else if lease.Labels[peering.LabelNodeOf] == key.Namespace {
			errs = append(errs, control.Delete(ctx, r.client, lease))
		}
		if n.DeletionTimestamp == nil {
			errs = append(errs, control.Delete(ctx, r.client, n))
		}
	}
	return errors.Join(errs...)
}
