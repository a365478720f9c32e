package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// used returns the resources that all consumers' pods use. Its keys are tenant namespaces.
type used func(context.Context) (map[string]corev1.ResourceList, error)

// ofTenant is the deletion of the Tenant in a namespace.
func ofTenant(namespace string) control.Deletion {
	return control.Deletion{Of: authv1beta1.TenantKind, NamespacedName: types.NamespacedName{Namespace: namespace}}
}

func ofSlices(namespace string) control.Deletion {
	return control.Deletion{Of: authv1beta1.ResourceSliceKind, NamespacedName: types.NamespacedName{Namespace: namespace}}
}

func ofMap(key types.NamespacedName) control.Deletion {
	return control.Deletion{Of: "NamespaceMap", NamespacedName: key}
}

// deletionsOf returns the deletions to remember, because they take something from a consumer. It ignores the
// deletion of a NamespaceMap that still requests namespaces: a consumer first empties its map, so another
// program or person has deleted such a map.
func deletionsOf(o client.Object, gone bool) []control.Deletion {
	switch o := o.(type) {
	case *authv1beta1.Tenant:
		return []control.Deletion{ofTenant(o.Namespace)}
	case *authv1beta1.ResourceSlice:
		if peering.FromConsumer(o) {
			return []control.Deletion{ofSlices(o.Namespace)}
		}
	case *offloadingv1beta1.NamespaceMap:
		if gone && len(o.Spec.DesiredMapping) > 0 {
			return nil
		}
		return []control.Deletion{ofMap(client.ObjectKeyFromObject(o))}
	}
	return nil
}

// setUpMapped adds the controllers. home is the operator's namespace. seen remembers deletions, see
// [control.Deletions].
func setUpMapped(mgr ctrl.Manager, recorder events.EventRecorder, home string, seen *control.Deletions) (used, error) {
	here, err := cluster.New(mgr.GetConfig(), func(o *cluster.Options) {
		o.Scheme = mgr.GetScheme()
		o.Cache = caches()
	})
	if err != nil {
		return nil, fmt.Errorf("watch the objects of consumers: %w", err)
	}
	b := base{client: here.GetClient(), peers: mgr.GetClient(), reader: mgr.GetAPIReader(), cache: here.GetCache(), recorder: recorder, home: home, seen: seen}
	books := newLedger(b)
	return books.Used, errors.Join(mgr.Add(here), (&namespaces{base: b, guards: control.Guards{Reader: b.reader, Role: render.PeeringProvider}}).setup(mgr), (&shadowPods{base: b, books: books}).setup(mgr), (&endpoints{base: b}).setup(mgr))
}

// caches returns options for a cache of objects in mapped namespaces. The manager's caches contain other
// objects of the same kinds.
func caches() cache.Options {
	mapped := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{peering.LabelMapped: "true"})}
	written, _ := labels.NewRequirement(peering.LabelPodOrigin, selection.Exists, nil) // does not fail: the label is a constant
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}:           mapped,
			&corev1.ResourceQuota{}:       untouched(mapped),
			&corev1.LimitRange{}:          untouched(mapped),
			&networkingv1.NetworkPolicy{}: untouched(mapped),
			&rbacv1.RoleBinding{}:         untouched(mapped),
			&discoveryv1.EndpointSlice{}:  untouched(mapped),
			&corev1.Service{}:             {Label: labels.NewSelector().Add(*written)}, // of consumers: an admission policy requires this label
			&corev1.Pod{}:                 {Label: labels.SelectorFromSet(labels.Set{peering.LabelMadeBy: peering.MadeByShadowPod}), Transform: slimPod},
		},
	}
}

// untouched keeps the managed fields, because [control.Apply] compares them.
func untouched(o cache.ByObject) cache.ByObject {
	o.Transform = func(o any) (any, error) { return o, nil }
	return o
}

// slimPod keeps the fields of a pod that the controllers read: metadata, resources, phase and grace period.
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

// base has the clients and settings that all controllers of this package share.
type base struct {
	client   client.Client // cached: objects in mapped namespaces
	peers    client.Client // cached: Tenants, slices, and objects of the network
	reader   client.Reader // not cached
	cache    cache.Cache
	recorder events.EventRecorder
	home     string
	seen     *control.Deletions
}

// tenant is a consumer with its access and its grants on this cluster.
type tenant struct {
	*authv1beta1.Tenant // nil if there is none

	over     bool // the Tenant is drained or deleted: nothing of the consumer may stay
	admitted bool // the consumer has access now
	asks     bool // the consumer requests resources
	users    []string
	granted  corev1.ResourceList // of all its slices together, because a pod does not say to which slice it belongs
}

// id is the consumer's cluster ID.
func (t *tenant) id() wire.ClusterID { return wire.ClusterID(t.Spec.ClusterID) }

// gone reports whether the consumer may have nothing here: its Tenant is missing, drained or deleted.
func (t *tenant) gone() bool { return t.Tenant == nil || t.over }

// tenant reads the Tenant of consumer id in a tenant namespace, with its access and its grants.
func (b *base) tenant(ctx context.Context, namespace string, id wire.ClusterID) (*tenant, error) {
	t := &tenant{granted: corev1.ResourceList{}, over: b.seen.Has(ofTenant(namespace))}
	var all authv1beta1.TenantList
	if err := b.peers.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Tenants of namespace %s: %w", namespace, err)
	}
	for i := range all.Items {
		o := &all.Items[i]
		switch {
		case wire.ClusterID(o.Spec.ClusterID) != id || t.Tenant != nil:
		case o.DeletionTimestamp != nil:
			t.over = true
		default:
			t.Tenant, t.over = o, o.Spec.TenantCondition == authv1beta1.TenantConditionDrained
		}
	}
	if t.Tenant == nil {
		return t, nil
	}
	// The tenants controller makes this binding when it accepts a Tenant, and deletes it when it revokes
	// the access.
	b0 := &rbacv1.RoleBinding{}
	switch err := b.peers.Get(ctx, client.ObjectKey{Namespace: namespace, Name: wire.ConsumerAccessName}, b0); {
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
		if !peering.FromConsumer(s) || s.DeletionTimestamp != nil {
			continue
		}
		t.asks = true
		if s.Status.AuthParams == nil {
			continue // not answered yet
		}
		t.users = append(t.users, peering.SliceUser(s.Name, id).User)
		offload.Add(t.granted, s.Status.Resources)
	}
	offload.GrantDisk(t.granted)
	return t, nil
}

// lastGrace is the longest time that a pod may take to end after its consumer has lost everything here. It is
// Kubernetes' default for all pods. Kubernetes checks the right to exec only when a session begins, so only
// the end of the pod ends the session.
const lastGrace = int64(30) // seconds

// endSoon deletes a pod within lastGrace, even if the pod is already being deleted with more time. A refused
// deletion is no error: an admission webhook may refuse it, or the operator's rights have ended with the
// namespace.
func (b *base) endSoon(ctx context.Context, p *corev1.Pod) error {
	if g := p.DeletionGracePeriodSeconds; g != nil && *g <= lastGrace {
		return nil
	}
	grace := lastGrace
	if asked := p.Spec.TerminationGracePeriodSeconds; asked != nil {
		grace = min(grace, *asked)
	}
	if err := control.Delete(ctx, b.client, p, client.GracePeriodSeconds(grace)); !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}

// tenantOf returns the tenant namespace of the consumer that a mapped namespace belongs to.
func tenantOf(mapped *corev1.Namespace) string {
	namespace, _, _ := strings.Cut(mapped.Annotations[peering.AnnotationMapped], "/")
	return namespace
}

// network returns the Configuration of the connection to the consumer; nil if there is none.
func (b *base) network(ctx context.Context, namespace string) (*networkingv1beta1.Configuration, error) {
	var all networkingv1beta1.ConfigurationList
	if err := b.peers.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Configurations of namespace %s: %w", namespace, err)
	}
	return wire.First(slices.DeleteFunc(all.Items, func(c networkingv1beta1.Configuration) bool { return c.DeletionTimestamp != nil })), nil
}

// mapsIn returns requests for the consumers' maps in a tenant namespace ("" for all). It adds the maps that
// mapped namespaces name, because these may be gone.
func (b *base) mapsIn(ctx context.Context, namespace string) (out []reconcile.Request) {
	var all offloadingv1beta1.NamespaceMapList
	var namespaces corev1.NamespaceList
	if err := errors.Join(b.client.List(ctx, &all, client.InNamespace(namespace)), b.client.List(ctx, &namespaces)); err != nil {
		return nil // only when the cache has stopped
	}
	for i := range namespaces.Items {
		if of := tenantOf(&namespaces.Items[i]); namespace == "" || of == namespace {
			out = append(out, mapNamed(&namespaces.Items[i])...)
		}
	}
	for i := range all.Items {
		if peering.MapOf(&all.Items[i]) != "" {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return out
}
