// Package twins runs here what consumers ask for: namespaces that stand for theirs, the
// pods in these, and endpoints of Services. It makes what the pure package offload decides, and is the only one
// who makes pods there, so it can count.
package twins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/kube/operator/own"
	"github.com/liqo-tui/liqo-tui/offload"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Used says what the pods of all consumers count, by the tenant namespace.
type Used func(context.Context) (map[string]corev1.ResourceList, error)

// OfTenant is the deletion of the Tenant in a namespace.
func OfTenant(namespace string) own.Deletion {
	return own.Deletion{Of: authv1beta1.TenantKind, NamespacedName: types.NamespacedName{Namespace: namespace}}
}

func ofSlices(namespace string) own.Deletion {
	return own.Deletion{Of: authv1beta1.ResourceSliceKind, NamespacedName: types.NamespacedName{Namespace: namespace}}
}

func ofMap(key types.NamespacedName) own.Deletion {
	return own.Deletion{Of: "NamespaceMap", NamespacedName: key}
}

// DeletionsOf are those after which a consumer has less here. A consumer that gives a map up asks for
// nothing in it first: it is somebody else who has deleted one that asks for namespaces.
func DeletionsOf(o client.Object, gone bool) []own.Deletion {
	switch o := o.(type) {
	case *authv1beta1.Tenant:
		return []own.Deletion{OfTenant(o.Namespace)}
	case *authv1beta1.ResourceSlice:
		if asks(o) {
			return []own.Deletion{ofSlices(o.Namespace)}
		}
	case *offloadingv1beta1.NamespaceMap:
		if gone && len(o.Spec.DesiredMapping) > 0 {
			return nil
		}
		return []own.Deletion{ofMap(client.ObjectKeyFromObject(o))}
	}
	return nil
}

// asks reports whether a ResourceSlice is a consumer's, and not one of this cluster's own.
func asks(s *authv1beta1.ResourceSlice) bool { return s.Labels[peering.LabelReplication] != "true" }

// SetUp adds the controllers. home is the operator's namespace. seen is to keep what [DeletionsOf] says.
func SetUp(mgr ctrl.Manager, recorder events.EventRecorder, home string, seen *own.Deletions) (Used, error) {
	here, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme = mgr.GetScheme()
		o.Cache = caches()
	})
	if err != nil {
		return nil, fmt.Errorf("watch what runs for consumers: %w", err)
	}
	b := base{client: here.GetClient(), peers: mgr.GetClient(), reader: mgr.GetAPIReader(), cache: here.GetCache(), recorder: recorder, home: home, seen: seen}
	books := newLedger(b)
	return books.Used, errors.Join(mgr.Add(here), (&namespaces{base: b, books: books, guards: own.Guards{Reader: b.reader, Role: render.PeeringProvider}}).setup(mgr), (&shadowPods{base: b, books: books}).setup(mgr), (&endpoints{base: b}).setup(mgr))
}

// caches hold what is in twins and no more: the manager's have the same kinds, of others.
func caches() cache.Options {
	twin := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{peering.LabelTwin: "true"})}
	written, _ := labels.NewRequirement(peering.LabelPodOrigin, selection.Exists, nil) // of a constant: it does not fail
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}:           twin,
			&corev1.ResourceQuota{}:       untouched(twin),
			&corev1.LimitRange{}:          untouched(twin),
			&networkingv1.NetworkPolicy{}: untouched(twin),
			&rbacv1.RoleBinding{}:         untouched(twin),
			&discoveryv1.EndpointSlice{}:  untouched(twin),
			&corev1.Service{}:             {Label: labels.NewSelector().Add(*written)}, // those of consumers: a policy has them say so
			&corev1.Pod{}:                 {Label: labels.SelectorFromSet(labels.Set{peering.LabelMadeBy: peering.MadeByShadowPod}), Transform: slimPod},
		},
	}
}

// untouched keeps who wrote which fields: what is applied is compared with that.
func untouched(o cache.ByObject) cache.ByObject {
	o.Transform = func(o any) (any, error) { return o, nil }
	return o
}

// slimPod keeps of a pod whose it is, what it counts, how it is, and how long it may take to end.
func slimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	slim := &corev1.Pod{ObjectMeta: p.ObjectMeta}
	slim.ManagedFields = nil
	slim.Status.Phase = p.Status.Phase
	slim.Spec.TerminationGracePeriodSeconds = p.Spec.TerminationGracePeriodSeconds
	for _, containers := range []struct {
		from []corev1.Container
		to   *[]corev1.Container
	}{{p.Spec.InitContainers, &slim.Spec.InitContainers}, {p.Spec.Containers, &slim.Spec.Containers}} {
		for i := range containers.from {
			c := &containers.from[i]
			*containers.to = append(*containers.to, corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
		}
	}
	return slim, nil
}

// base is what all controllers work with.
type base struct {
	client   client.Client // cached: what is in twins
	peers    client.Client // cached: Tenants, slices, the network
	reader   client.Reader // not cached
	cache    cache.Cache
	recorder events.EventRecorder
	home     string
	seen     *own.Deletions
}

// tenant is what a consumer has here.
type tenant struct {
	*authv1beta1.Tenant // nil if there is none

	over     bool // it is drained, or was deleted: the consumer is to have nothing here
	admitted bool // it has access now
	asks     bool // for resources
	users    []string
	granted  corev1.ResourceList // by all its slices: who asked for a pod is not known
}

// id is the consumer.
func (t *tenant) id() render.ClusterID { return render.ClusterID(t.Spec.ClusterID) }

// gone reports whether it may have nothing here now.
func (t *tenant) gone() bool { return t.Tenant == nil || t.over }

// tenant is the one of a namespace, for a cluster.
func (b *base) tenant(ctx context.Context, namespace string, id render.ClusterID) (*tenant, error) {
	t := &tenant{granted: corev1.ResourceList{}, over: b.seen.Has(OfTenant(namespace))}
	var all authv1beta1.TenantList
	if err := b.peers.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Tenants of namespace %s: %w", namespace, err)
	}
	for i := range all.Items {
		o := &all.Items[i]
		switch {
		case render.ClusterID(o.Spec.ClusterID) != id || t.Tenant != nil:
		case o.DeletionTimestamp != nil:
			t.over = true
		default:
			t.Tenant, t.over = o, o.Spec.TenantCondition == authv1beta1.TenantConditionDrained
		}
	}
	if t.Tenant == nil {
		return t, nil
	}
	// Who judges Tenants gives this binding, and takes it back.
	b0 := &rbacv1.RoleBinding{}
	switch err := b.peers.Get(ctx, client.ObjectKey{Namespace: namespace, Name: render.ConsumerAccessName}, b0); {
	case err == nil:
		owner := metav1.GetControllerOf(b0)
		t.admitted = owner != nil && owner.UID == t.UID && b0.DeletionTimestamp == nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read the access of Tenant %s/%s: %w", namespace, t.Name, err)
	}
	var answered authv1beta1.ResourceSliceList
	if err := b.peers.List(ctx, &answered, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list ResourceSlices of namespace %s: %w", namespace, err)
	}
	for i := range answered.Items {
		s := &answered.Items[i]
		if !asks(s) || s.DeletionTimestamp != nil {
			continue
		}
		t.asks = true
		if s.Status.AuthParams == nil {
			continue // not answered
		}
		t.users = append(t.users, peering.SliceUser(s.Name, id).User)
		offload.Add(t.granted, s.Status.Resources)
	}
	offload.GrantDisk(t.granted)
	return t, nil
}

// lastGrace is how long a pod may take to end whose consumer is to have nothing here, if it
// has not asked for less. Kubernetes asks once, when a session begins, whether somebody may
// exec: only the end of the pod ends the session. It is Kubernetes' default for all pods.
const lastGrace = int64(30) // seconds

// endSoon deletes a pod within lastGrace, also one that is being deleted and has more time. It
// keeps that if somebody refuses it, or the operator's rights have gone with the namespace.
func (b *base) endSoon(ctx context.Context, p *corev1.Pod) error {
	if g := p.DeletionGracePeriodSeconds; g != nil && *g <= lastGrace {
		return nil
	}
	grace := lastGrace
	if asked := p.Spec.TerminationGracePeriodSeconds; asked != nil {
		grace = min(grace, *asked)
	}
	if err := own.Delete(ctx, b.client, p, client.GracePeriodSeconds(grace)); !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}

// tenantOf is the namespace of the Tenant that a twin is of.
func tenantOf(twin *corev1.Namespace) string {
	namespace, _, _ := strings.Cut(twin.Annotations[peering.AnnotationMapped], "/")
	return namespace
}

// network is how the clusters are connected; nil if they are not.
func (b *base) network(ctx context.Context, namespace string) (*networkingv1beta1.Configuration, error) {
	var all networkingv1beta1.ConfigurationList
	if err := b.peers.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Configurations of namespace %s: %w", namespace, err)
	}
	return render.First(slices.DeleteFunc(all.Items, func(c networkingv1beta1.Configuration) bool { return c.DeletionTimestamp != nil })), nil
}

// mapsIn are the copies of consumers' maps in a namespace, and those by which there are twins, which
// may be gone.
func (b *base) mapsIn(ctx context.Context, namespace string) (out []reconcile.Request) {
	var all offloadingv1beta1.NamespaceMapList
	var twins corev1.NamespaceList
	if err := errors.Join(b.client.List(ctx, &all, client.InNamespace(namespace)), b.client.List(ctx, &twins)); err != nil {
		return nil // the cache fails when it ends
	}
	for i := range twins.Items {
		if of := tenantOf(&twins.Items[i]); namespace == "" || of == namespace {
			out = append(out, mapNamed(&twins.Items[i])...)
		}
	}
	for i := range all.Items {
		if peering.MapOf(&all.Items[i]) != "" {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return out
}

// What failed is tried again at these intervals, at first and at last: the rights in a
// namespace come with a lag.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 30 * time.Second
)

func workers(n int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: n,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}
