// Package agent runs the data plane from the API: it watches Liqo's objects, computes the wanted state,
// changes the kernel accordingly, and reports what it sees.
package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// resync is the interval at which a node's kernel is compared with the wanted state although
// the kernel has reported no change.
const resync = 30 * time.Second

// firstRetry is the delay before the first retry. It doubles each time, up to resync.
// controller-runtime begins with the same delay, but goes up to 16 minutes.
const firstRetry = 5 * time.Millisecond

// newManager returns a manager whose cache holds only what the options select. It serves
// metrics at metricsAddress; "0" turns metrics off.
func newManager(config *rest.Config, metricsAddress string, o cache.Options) (ctrl.Manager, error) {
	scheme, err := wire.Scheme()
	if err != nil {
		return nil, err
	}
	return ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: metricsAddress}, Cache: o,
	})
}

// oneRequest makes every event of the watched kinds the same request, because one wanted state is computed
// from all objects. more are further sources of that request.
func oneRequest(mgr ctrl.Manager, name string, r reconcile.Reconciler, kinds []client.Object, more ...source.Source) error {
	same := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named(name)
	for _, kind := range kinds {
		b = b.Watches(kind, same)
	}
	for _, m := range more {
		b = b.WatchesRawSource(m)
	}
	// The cause of a failure can disappear without an event. Until the next try, reports
	// say that the state is not in force.
	b = b.WithOptions(controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, resync),
		// The default queue wakes the process twice a second, for its metrics.
		NewQueue: func(_ string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return workqueue.NewTypedRateLimitingQueue(limiter)
		},
	})
	return b.Complete(r)
}

// prefixes parses CIDRs of an object. what names them in errors.
func prefixes(what string, cidrs []networkingv1beta1.CIDR) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(cidrs))
	for _, c := range cidrs {
		p, err := netip.ParsePrefix(string(c))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}
