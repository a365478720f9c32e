package control

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A failed reconciliation is tried again after firstRetry, and later at growing intervals up to LastRetry.
// The first interval is short, because rights in a namespace take effect with a small delay.
const (
	firstRetry = 20 * time.Millisecond
	LastRetry  = 30 * time.Second
)

// RightsAgain is the time until a refused request is tried again if its rights have just been granted.
const RightsAgain = 30 * time.Millisecond

// Workers returns the options of a controller with n workers.
func Workers(n int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: n,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, LastRetry),
	}
}

// Labelled selects the objects that have a label.
func Labelled(key string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[key] != "" })
}
