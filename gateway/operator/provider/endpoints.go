package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// endpoints makes EndpointSlices for consumers' Services on this cluster. They contain those pods of the
// Services that run on the consumer, as ready endpoints while the tunnel carries packets.
type endpoints struct {
	base

	mu        sync.Mutex
	followers map[string]*network.Follower // by tenant namespace
	told      map[string]way               // the last state of a tunnel to which news has reacted, by tenant namespace
	held      map[client.ObjectKey]held    // by ShadowEndpointSlice
	sums      map[string]int               // of held, by tenant namespace
}

// held is the number of endpoints of a ShadowEndpointSlice of a tenant namespace.
type held struct {
	tenant string
	count  int
}

// mostEndpoints is the largest number of endpoints of a consumer in all its mapped namespaces, because
// kube-proxy writes all of them on each node. No quota counts endpoints, and a quota is only for one
// namespace.
const mostEndpoints = 10_000

// way is the state of the tunnel that the EndpointSlices of a consumer depend on.
type way struct {
	ranges string
	passes bool
}

func (r *endpoints) begin() {
	r.followers, r.told = map[string]*network.Follower{}, map[string]way{}
	r.held, r.sums = map[client.ObjectKey]held{}, map[string]int{}
}

func (r *endpoints) setup(mgr ctrl.Manager) error {
	r.begin()
	made := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if owner := metav1.GetControllerOf(o); owner != nil {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: owner.Name}}}
		}
		return nil
	})
	ofService := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return r.shadowsIn(ctx, o.GetNamespace(), client.MatchingLabels{discoveryv1.LabelServiceName: o.GetName()})
	})
	ofTunnel := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request { return r.news(ctx, o.GetNamespace()) })
	return ctrl.NewControllerManagedBy(mgr).Named("shadow-endpoints").
		WithOptions(r.fairly(4)).
		WatchesRawSource(source.Kind[client.Object](r.cache, &offloadingv1beta1.ShadowEndpointSlice{}, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Kind[client.Object](r.cache, &discoveryv1.EndpointSlice{}, made)).
		WatchesRawSource(source.Kind[client.Object](r.cache, &corev1.Service{}, ofService)).
		Watches(&networkingv1beta1.Configuration{}, ofTunnel).
		Watches(&networkingv1beta1.Connection{}, ofTunnel).
		Complete(r)
}

// tunnel returns the ranges by which this cluster reaches the consumer's pods, and the state of the tunnel.
func (r *endpoints) tunnel(ctx context.Context, namespace string) (network.Ranges, network.Tunnel, error) {
	conf, err := r.network(ctx, namespace)
	if err != nil {
		return nil, network.Tunnel{}, err
	}
	var all networkingv1beta1.ConnectionList
	if err := r.peers.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil, network.Tunnel{}, fmt.Errorf("list Connections of namespace %s: %w", namespace, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.followers[namespace]
	if f == nil {
		f = &network.Follower{}
		r.followers[namespace] = f
	}
	return network.RangesOf(conf), f.Tunnel(conf != nil, all.Items, time.Now()), nil
}

// news returns requests for all ShadowEndpointSlices of a consumer, if its tunnel has changed. A gateway
// reports every few seconds, and most reports change nothing.
func (r *endpoints) news(ctx context.Context, namespace string) (out []reconcile.Request) {
	ranges, tunnel, err := r.tunnel(ctx, namespace)
	if err != nil {
		return nil // only when the cache has stopped
	}
	now := way{fmt.Sprint(ranges), tunnel.Down == ""}
	r.mu.Lock()
	was, told := r.told[namespace]
	r.told[namespace] = now
	r.mu.Unlock()
	if told && was == now {
		return nil
	}
	var namespaces corev1.NamespaceList
	if r.client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	for i := range namespaces.Items {
		if tenantOf(&namespaces.Items[i]) != namespace {
			continue
		}
		out = append(out, r.shadowsIn(ctx, namespaces.Items[i].Name)...)
	}
	return out
}

func (r *endpoints) shadowsIn(ctx context.Context, namespace string, which ...client.ListOption) (out []reconcile.Request) {
	var all offloadingv1beta1.ShadowEndpointSliceList
	if r.client.List(ctx, &all, append(which, client.InNamespace(namespace))...) != nil {
		return nil // only when the cache has stopped
	}
	for i := range all.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return out
}

func (r *endpoints) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mapped := &corev1.Namespace{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: req.Namespace}, mapped); err != nil || !peering.IsMapped(mapped) || mapped.DeletionTimestamp != nil {
		err = client.IgnoreNotFound(err)
		if err == nil {
			r.release(req.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	s := &offloadingv1beta1.ShadowEndpointSlice{}
	switch err := r.client.Get(ctx, req.NamespacedName, s); {
	case apierrors.IsNotFound(err) || err == nil && s.DeletionTimestamp != nil:
		return ctrl.Result{}, r.remove(ctx, req)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read ShadowEndpointSlice %s: %w", req, err)
	}
	namespace := tenantOf(mapped)
	id := wire.ClusterID(mapped.Labels[wire.LabelRemoteCluster])
	t, err := r.tenant(ctx, namespace, id)
	if err != nil {
		return ctrl.Result{}, err
	}
	if t.gone() || !t.admitted {
		return ctrl.Result{RequeueAfter: accessAgain}, r.remove(ctx, req)
	}
	theirs, why, err := r.leads(ctx, s, id)
	switch {
	case err != nil: // the owner of the Service is unknown, so the endpoints stay
		return ctrl.Result{}, err
	case !theirs:
		return ctrl.Result{}, errors.Join(r.remove(ctx, req), client.IgnoreNotFound(control.Complain(ctx, r.client, r.recorder, s, why)))
	}
	ranges, tunnel, err := r.tunnel(ctx, namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.silent(namespace, tunnel)
	want := offload.Endpoints(s, id, ranges, tunnel.Down == "")
	if why := r.hold(namespace, req.NamespacedName, len(want.Endpoints)); why != nil {
		return ctrl.Result{RequeueAfter: shadowAgain}, errors.Join(r.remove(ctx, req), client.IgnoreNotFound(control.Complain(ctx, r.client, r.recorder, s, why)))
	}
	_, err = control.Apply(ctx, r.client, want)
	switch {
	case apierrors.IsForbidden(err) && time.Since(mapped.CreationTimestamp.Time) < rightsLag:
		return ctrl.Result{RequeueAfter: control.RightsAgain}, nil
	case apierrors.IsInvalid(err):
		return ctrl.Result{RequeueAfter: shadowAgain}, client.IgnoreNotFound(control.Complain(ctx, r.client, r.recorder, s, fmt.Errorf("%s%w", wire.ProblemRefused, err)))
	case err != nil:
		return ctrl.Result{}, err
	}
	var again time.Duration
	if !tunnel.Until.IsZero() { // there is no event when a gateway stops reporting
		again = max(time.Until(tunnel.Until), 0) + time.Second
	}
	return ctrl.Result{RequeueAfter: again}, client.IgnoreNotFound(control.Complain(ctx, r.client, r.recorder, s, nil))
}

// leads reports whether the Service of s belongs to the consumer. why is set if it does not. If the Service
// does not exist yet, its creation is an event.
func (r *endpoints) leads(ctx context.Context, s *offloadingv1beta1.ShadowEndpointSlice, id wire.ClusterID) (theirs bool, why, err error) {
	key := client.ObjectKey{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
	service := &corev1.Service{}
	switch err := r.client.Get(ctx, key, service); {
	case err == nil && service.Labels[peering.LabelPodOrigin] == string(id):
		return true, nil, nil
	case client.IgnoreNotFound(err) != nil:
		return false, nil, fmt.Errorf("read Service %s: %w", key, err)
	case key.Name == "":
		return false, nil, nil
	}
	switch err := r.reader.Get(ctx, key, service); {
	case apierrors.IsNotFound(err) || err == nil && service.Labels[peering.LabelPodOrigin] == string(id): // its event comes
		return false, nil, nil
	case err != nil:
		return false, nil, fmt.Errorf("read Service %s: %w", key, err)
	}
	return false, fmt.Errorf("%sService %s is not of cluster %s, which has endpoints for its own Services only", wire.ProblemRefused, key.Name, id), nil
}

// silent makes news react to the next report in any case. The time since the last report has shown that
// packets don't pass, so the next report may equal the last one.
func (r *endpoints) silent(namespace string, tunnel network.Tunnel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tunnel.Down != "" && r.told[namespace].passes {
		delete(r.told, namespace)
	}
}

// hold counts the endpoints of a ShadowEndpointSlice. If its consumer has too many, hold counts none of them,
// and returns an error.
func (r *endpoints) hold(tenant string, key client.ObjectKey, count int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uncount(key)
	if has := r.sums[tenant]; has+count > mostEndpoints {
		return fmt.Errorf("%s%d endpoints asked for; its cluster has %d here, and %d are the most", wire.ProblemRefused, count, has, mostEndpoints)
	}
	r.held[key] = held{tenant, count}
	r.sums[tenant] += count
	return nil
}

// release forgets a ShadowEndpointSlice that has no endpoints here any more.
func (r *endpoints) release(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uncount(key)
}

// uncount is the same as release, for a caller that holds the lock.
func (r *endpoints) uncount(key client.ObjectKey) {
	was := r.held[key]
	delete(r.held, key)
	if r.sums[was.tenant] -= was.count; r.sums[was.tenant] == 0 {
		delete(r.sums, was.tenant)
	}
}

func (r *endpoints) remove(ctx context.Context, req ctrl.Request) error {
	r.release(req.NamespacedName)
	o := &discoveryv1.EndpointSlice{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: offload.EndpointsName(req.Name)}, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	return control.Delete(ctx, r.client, o)
}
