package provider

import (
	"context"
	"crypto/rand"
	"fmt"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// nonces writes the nonces that consumers sign. When a Tenant is deleted, nonces replaces the nonce of that
// Tenant, so that nobody can use the signature again.
type nonces struct {
	client client.Client
	reader client.Reader // not cached, because an old list may lack the Tenant that uses a nonce
}

func (r *nonces) setup(mgr ctrl.Manager, secrets <-chan event.GenericEvent) error {
	onlyDeletions := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
	return ctrl.NewControllerManagedBy(mgr).Named("nonce").
		WithOptions(control.Workers(2)).
		WatchesRawSource(source.Channel(secrets, &handler.EnqueueRequestForObject{}, source.WithPredicates[client.Object, reconcile.Request](control.Labelled(peering.LabelNonce)))).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(r.beside), builder.WithPredicates(onlyDeletions)).
		Complete(r)
}

func (r *nonces) beside(ctx context.Context, o client.Object) (out []reconcile.Request) {
	all, err := noncesIn(ctx, r.client, o.GetNamespace())
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list nonces")
	}
	for i := range all {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all[i])})
	}
	return out
}

func noncesIn(ctx context.Context, c client.Reader, namespace string) ([]corev1.Secret, error) {
	var list corev1.SecretList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{peering.LabelNonce}); err != nil {
		return nil, fmt.Errorf("list nonces of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// Reconcile writes the nonce of one Secret, if there is none or the Tenant that used it is gone.
func (r *nonces) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &corev1.Secret{}
	if err := r.client.Get(ctx, req.NamespacedName, s); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if s.Labels[peering.LabelNonce] == "" || s.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if len(s.Data[peering.KeyNonce]) > 0 {
		good, err := r.good(ctx, s)
		if good || err != nil {
			return ctrl.Result{}, err
		}
	}
	text, err := peering.NewNonce(rand.Reader)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("make a nonce: %w", err)
	}
	before := s.DeepCopy()
	s.Data = map[string][]byte{peering.KeyNonce: text}
	delete(s.Annotations, peering.AnnotationUsed)
	if err := r.client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); err != nil {
		return ctrl.Result{}, fmt.Errorf("write the nonce of Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return ctrl.Result{}, nil
}

// good reports whether a nonce is unused, or the Tenant that used it exists.
func (r *nonces) good(ctx context.Context, s *corev1.Secret) (bool, error) {
	used := s.Annotations[peering.AnnotationUsed]
	if used == "" {
		return true, nil
	}
	var list authv1beta1.TenantList
	if err := r.reader.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return false, fmt.Errorf("list Tenants of namespace %s: %w", s.Namespace, err)
	}
	for _, t := range list.Items {
		if string(t.UID) == used {
			return true, nil
		}
	}
	return false, nil
}
