package control

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A reconciliation that has failed is tried again after firstRetry, and later at growing intervals up to
// LastRetry: the rights in a namespace take effect with a delay.
const (
	firstRetry = 20 * time.Millisecond
	LastRetry  = 30 * time.Second
)

// RightsAgain is how soon a refused request is tried again if its rights were granted a moment ago.
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
