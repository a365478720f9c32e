package provider

import (
	"context"
	"fmt"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
)

// renews answers a consumer's Renew with the present certificate of its Tenant. The answer contains nothing
// secret: an admin of the consumer can read the same in the Tenant.
type renews struct{ client client.Client }

func (r *renews) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("renew").
		WithOptions(control.Workers(2)).
		For(&authv1beta1.Renew{}).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) (out []reconcile.Request) {
			var list authv1beta1.RenewList
			if err := r.client.List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
				return nil // only when the cache has stopped
			}
			for i := range list.Items {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
			return out
		})).
		Complete(r)
}

func (r *renews) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o := &authv1beta1.Renew{}
	if err := r.client.Get(ctx, req.NamespacedName, o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var all authv1beta1.TenantList
	if err := r.client.List(ctx, &all, client.InNamespace(req.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Tenants of namespace %s: %w", req.Namespace, err)
	}
	for i := range all.Items {
		t := &all.Items[i]
		if t.Spec.ClusterID != o.Spec.ConsumerClusterID || o.Spec.IdentityType != authv1beta1.ControlPlaneIdentityType ||
			t.Status.AuthParams == nil || equality.Semantic.DeepEqual(o.Status.AuthParams, t.Status.AuthParams) {
			continue
		}
		before := o.DeepCopy()
		o.Status.AuthParams = t.Status.AuthParams.DeepCopy()
		if err := r.client.Status().Patch(ctx, o, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
			return ctrl.Result{}, fmt.Errorf("answer Renew %s: %w", req, err)
		}
	}
	return ctrl.Result{}, nil
}
