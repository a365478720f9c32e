package lending

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/secrets"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// spaces gives the operator its rights in namespaces that an admin has labelled for a peer, and withdraws
// them when the label is removed. The operator has no right to read Secrets of peers in other namespaces.
type spaces struct {
	client  client.Client
	reader  client.Reader // not cached
	home    string
	secrets *secrets.Watch
}

func (r *spaces) setup(mgr ctrl.Manager) error {
	if err := mgr.Add(r.secrets); err != nil {
		return err
	}
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == wire.PeeringAccessName })
	return ctrl.NewControllerManagedBy(mgr).Named("tenant-namespace").
		WithOptions(control.Workers(2)).
		For(&corev1.Namespace{}).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
		}), builder.WithPredicates(ours)).
		Complete(r)
}

func (r *spaces) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ns := &corev1.Namespace{}
	err := r.client.Get(ctx, client.ObjectKey{Name: req.Name}, ns)
	switch {
	case apierrors.IsNotFound(err) || err == nil && ns.Labels[wire.LabelRemoteCluster] == "":
		r.secrets.Leave(req.Name)
		return ctrl.Result{}, r.withdraw(ctx, req.Name)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read namespace %s: %w", req.Name, err)
	case ns.DeletionTimestamp != nil:
		r.secrets.Leave(req.Name)
		return ctrl.Result{}, nil
	}
	if _, err := control.Apply(ctx, r.client, peering.OperatorAccess(ns, r.home)); err != nil {
		return ctrl.Result{}, err
	}
	// An API server needs a moment until a new binding has an effect. A watch that is refused in this moment
	// would try again only after a second or more.
	known := &metav1.PartialObjectMetadataList{}
	known.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	switch err := r.reader.List(ctx, known, client.InNamespace(req.Name), client.Limit(1)); {
	case apierrors.IsForbidden(err):
		return ctrl.Result{RequeueAfter: control.RightsAgain}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("list Secrets of namespace %s: %w", req.Name, err)
	}
	r.secrets.Enter(req.Name)
	return ctrl.Result{}, nil
}

func (r *spaces) withdraw(ctx context.Context, namespace string) error {
	b := &rbacv1.RoleBinding{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: wire.PeeringAccessName}, b)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return control.Delete(ctx, r.client, b)
}
