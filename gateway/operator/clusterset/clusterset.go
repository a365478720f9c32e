// Package clusterset gives Services one name in all connected clusters, by the Multi-Cluster Services API.
// Package internal/services decides which objects a cluster has for a name; this package reads what the
// decision needs, and writes its result.
//
// The gateways of this cluster serve the EndpointSlices of exported Services to their peers. They keep copies
// of the peers' slices in the tenant namespaces.
package clusterset

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Options of the controller.
type Options struct {
	// Self is the ID of this cluster. If it is "", the cluster neither exports nor imports Services.
	Self wire.ClusterID
	Home string // namespace of the operator
	// Pods returns the ranges of the cluster's pods; none while they are not known.
	Pods func(context.Context) ([]netip.Prefix, error)
	// Taken returns addresses that this cluster needs, although the range under which it sees a peer may
	// contain them. Nodes send packets for them to no gateway.
	Taken func(context.Context) ([]netip.Addr, error)
}

// A controller reconciles one name at a time: a ServiceExport, a ServiceImport, and all objects of them.
type controller struct {
	Options

	peers  client.Reader // Configurations and Connections
	client client.Client // reads come from the cache
	live   client.Reader // without a cache
	ways   ways
	moved  chan event.GenericEvent // events for the Services of peers whose way has changed
}

// workers is the number of names that are reconciled at the same time.
const workers = 4

// SetUp adds the controller. It has a cache of its own, with all Services and EndpointSlices of the cluster:
// any of them may be exported.
func (o Options) SetUp(mgr ctrl.Manager) error {
	if o.Self == "" {
		return nil
	}
	kept, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultTransform: lean,
	})
	if err != nil {
		return err
	}
	for name, of := range map[string]client.IndexerFunc{indexName: nameOf, indexTenant: tenantOf} {
		if err := kept.IndexField(context.Background(), &discoveryv1.EndpointSlice{}, name, of); err != nil {
			return err
		}
	}
	c, err := client.New(mgr.GetConfig(), client.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), Cache: &client.CacheOptions{Reader: kept},
	})
	if err != nil {
		return err
	}
	r := &controller{Options: o, peers: mgr.GetClient(), client: c, live: mgr.GetAPIReader(), moved: make(chan event.GenericEvent)}
	options := control.Workers(workers)
	// Without the definitions of the API, this cache is never complete. The controllers of connections must
	// not end for this reason.
	options.CacheSyncTimeout = forever
	on := func(kind client.Object, requests handler.MapFunc) source.Source {
		return source.Kind(kept, kind, handler.EnqueueRequestsFromMapFunc(requests))
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return errors.Join(
		mgr.Add(kept), mgr.Add(manager.RunnableFunc(r.watchWays)),
		ctrl.NewControllerManagedBy(mgr).Named("clusterset").WithOptions(options).
			WatchesRawSource(on(&mcsv1beta1.ServiceExport{}, itself)).
			WatchesRawSource(on(&mcsv1beta1.ServiceImport{}, itself)).
			WatchesRawSource(on(&corev1.Service{}, r.ofService)).
			WatchesRawSource(on(&discoveryv1.EndpointSlice{}, r.ofSlice)).
			WatchesRawSource(on(namespace, r.ofNamespace)).
			WatchesRawSource(source.Channel(r.moved, handler.Funcs{GenericFunc: func(ctx context.Context, e event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				for _, request := range r.ofTenant(ctx, e.Object.GetNamespace()) {
					q.Add(request)
				}
			}})).
			Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(r.ofWay)).
			Watches(&networkingv1beta1.Connection{}, handler.EnqueueRequestsFromMapFunc(r.ofWay)).
			Watches(&ipamv1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(r.ofNetwork)).
			Complete(r),
	)
}

// lean drops the fields of others' Services and EndpointSlices that no export needs: the cache has all Services
// of the cluster, and most are not exported.
func lean(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Service:
		if !services.IsDerived(o) {
			o.Labels, o.Annotations, o.Status = nil, nil, corev1.ServiceStatus{}
		}
	case *discoveryv1.EndpointSlice:
		if of, _ := sortOf(o); of == ofKubernetes {
			o.Annotations, o.OwnerReferences = nil, nil
		}
	}
	return control.OnlyApplied(o)
}

const forever = 100 * 365 * 24 * time.Hour

// Indexes of the cache's EndpointSlices.
const (
	indexName   = "name"   // see key
	indexTenant = "tenant" // the tenant namespace of a peer's copy
)

// A sort says where an EndpointSlice comes from.
type sort string

const (
	ofKubernetes sort = "kubernetes" // written by Kubernetes for a Service of this cluster
	ofPeer       sort = "peer"       // a gateway's copy of a peer's slice
	written      sort = "written"    // by this controller
)

// sortOf returns the sort of a slice, and the name of the Service to which it belongs; "" if it belongs to
// none.
func sortOf(s *discoveryv1.EndpointSlice) (sort, types.NamespacedName) {
	here := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: s.Namespace, Name: name}
	}
	switch {
	case s.Labels[wire.LabelServiceName] != "":
		return ofPeer, services.CopyOf(s)
	case s.Labels[discoveryv1.LabelManagedBy] == wire.ManagedBy:
		return written, here(s.Labels[mcsv1beta1.LabelServiceName])
	}
	return ofKubernetes, here(s.Labels[discoveryv1.LabelServiceName])
}

// key is the value of the index for the slices of a sort that belong to a Service.
func key(of sort, name types.NamespacedName) string { return string(of) + "/" + name.String() }

func nameOf(o client.Object) []string {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	of, name := sortOf(s)
	return []string{key(of, name)}
}

func tenantOf(o client.Object) []string {
	if s, ok := o.(*discoveryv1.EndpointSlice); ok {
		if of, _ := sortOf(s); of == ofPeer {
			return []string{s.Namespace}
		}
	}
	return nil
}

func itself(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

// ofService returns the request for a Service that is exported, or that comes from an import.
func (r *controller) ofService(ctx context.Context, o client.Object) []reconcile.Request {
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == mcsv1beta1.ServiceImportKindName {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}}}
	}
	return r.exported(ctx, client.ObjectKeyFromObject(o))
}

// exported returns the request for a Service if it is exported. Most Services are not.
func (r *controller) exported(ctx context.Context, name types.NamespacedName) []reconcile.Request {
	if r.client.Get(ctx, name, &mcsv1beta1.ServiceExport{}) != nil {
		return nil // a later ServiceExport causes its own event
	}
	return []reconcile.Request{{NamespacedName: name}}
}

func (r *controller) ofSlice(ctx context.Context, o client.Object) []reconcile.Request {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	switch of, name := sortOf(s); {
	case name.Name == "":
		return nil
	case of == ofKubernetes:
		return r.exported(ctx, name)
	default:
		return []reconcile.Request{{NamespacedName: name}}
	}
}

// ofNamespace returns the Services that peers export in a namespace. They are imported when the namespace is
// created.
func (r *controller) ofNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.copies(ctx, client.MatchingLabels{wire.LabelServiceNamespace: o.GetName()})
}

// ofTenant returns the Services of the peer with this tenant namespace.
func (r *controller) ofTenant(ctx context.Context, namespace string) []reconcile.Request {
	return r.copies(ctx, client.MatchingFields{indexTenant: namespace})
}

func (r *controller) copies(ctx context.Context, which client.ListOption) (out []reconcile.Request) {
	var all discoveryv1.EndpointSliceList
	if r.client.List(ctx, &all, which, client.UnsafeDisableDeepCopy) != nil {
		return nil // only when the cache has stopped
	}
	known := map[types.NamespacedName]bool{}
	for i := range all.Items {
		if name := services.CopyOf(&all.Items[i]); !known[name] {
			known[name] = true
			out = append(out, reconcile.Request{NamespacedName: name})
		}
	}
	return out
}

// ofNetwork returns all exported Services if a range of this cluster has changed.
func (r *controller) ofNetwork(ctx context.Context, o client.Object) (out []reconcile.Request) {
	if o.GetNamespace() != r.Home {
		return nil
	}
	var all mcsv1beta1.ServiceExportList
	if r.client.List(ctx, &all, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	for i := range all.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return out
}

// ofWay returns the Services of all peers whose way has changed.
func (r *controller) ofWay(ctx context.Context, _ client.Object) (out []reconcile.Request) {
	changed, err := r.ways.refresh(ctx, r.peers)
	if err != nil {
		return nil // only when the cache has stopped
	}
	for _, namespace := range changed {
		out = append(out, r.ofTenant(ctx, namespace)...)
	}
	return out
}

// watchWays judges the ways to all peers every second, until ctx ends, because a gateway that stops reporting
// causes no event.
func (r *controller) watchWays(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		changed, err := r.ways.refresh(ctx, r.peers)
		if err != nil {
			return fmt.Errorf("look at the peers whose Services are imported: %w", err)
		}
		for _, namespace := range changed {
			select {
			case r.moved <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}}:
			case <-ctx.Done():
			}
		}
	}
}
