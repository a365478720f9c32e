package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/secrets"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// tenants gives the operator its rights in a namespace only if an admin has made a Configuration there, or a
// server for an invited peer that has no Configuration yet. So the operator can neither read Secrets nor
// create pods in other namespaces. A reconcile request is for a namespace.
type tenants struct {
	client  client.Client
	home    string // namespace of the operator
	secrets *secrets.Watch
}

func (r *tenants) setup(mgr ctrl.Manager) error {
	byNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
	})
	if err := mgr.Add(r.secrets); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("tenant").
		WithOptions(workers(1)).
		Watches(&networkingv1beta1.Configuration{}, byNamespace, existence()).
		Watches(&networkingv1beta1.GatewayServer{}, byNamespace, existence()).
		Watches(&rbacv1.RoleBinding{}, byNamespace, builder.WithPredicates(tenantAccess())).
		Complete(r)
}

// accessNames are the names of the bindings. Either is enough.
var accessNames = []string{wire.OperatorName, wire.InvitedAccessName}

// tenantAccess selects the bindings that tenants writes.
func tenantAccess() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return slices.Contains(accessNames, o.GetName()) })
}

// Reconcile keeps the bindings of one namespace. Each binding is owned by the Configuration or server that is
// its reason.
func (r *tenants) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var list networkingv1beta1.ConfigurationList
	if err := r.client.List(ctx, &list, client.InNamespace(req.Name)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Configurations of %s: %w", req.Name, err)
	}
	owners := living(list.Items)
	if len(owners) == 0 {
		var servers networkingv1beta1.GatewayServerList
		if err := r.client.List(ctx, &servers, client.InNamespace(req.Name), client.HasLabels{wire.LabelRemoteCluster}); err != nil {
			return ctrl.Result{}, fmt.Errorf("list GatewayServers of %s: %w", req.Name, err)
		}
		owners = living(servers.Items)
	}
	if len(owners) == 0 {
		r.secrets.Leave(req.Name)
		return ctrl.Result{}, nil
	}
	_, err := control.Apply(ctx, r.client, render.TenantAccess(req.Name, r.home, owners))
	switch {
	case apierrors.IsForbidden(err) && young(owners[0]):
		return ctrl.Result{RequeueAfter: rightsAgain}, nil
	case apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).Info("waits for its rights", "reason", err.Error())
		return ctrl.Result{RequeueAfter: kindsAgain}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	r.secrets.Enter(req.Name)
	return ctrl.Result{}, nil
}

// living returns the objects that are not being deleted, by name.
func living[T any, O interface {
	*T
	wire.Object
}](items []T) (out []wire.Object) {
	for i := range items {
		if o := O(&items[i]); o.GetDeletionTimestamp() == nil {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b wire.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

const (
	// rightsLag is the longest time until an API server knows a change: of a Configuration that allows the
	// binding, or of the binding itself.
	rightsLag   = 5 * time.Second
	rightsAgain = 50 * time.Millisecond
	// kindsAgain is the pause if the API server's policies don't know Configurations yet. If another policy
	// has parameters, policies discover new kinds only every 30 s.
	kindsAgain = time.Second
)

// rightsIn returns the binding that gives the operator its rights in a namespace; nil before [tenants] has
// made one.
func rightsIn(ctx context.Context, c client.Reader, namespace string) (*rbacv1.RoleBinding, error) {
	for _, name := range accessNames {
		b := &rbacv1.RoleBinding{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b)
		if err == nil || !apierrors.IsNotFound(err) {
			return b, err
		}
	}
	return nil, nil
}

// notYet reports whether err means that the API server does not know the new rights yet.
func notYet(err error, rights *rbacv1.RoleBinding) bool {
	return apierrors.IsForbidden(err) && young(rights)
}

func young(o client.Object) bool { return time.Since(o.GetCreationTimestamp().Time) < rightsLag }
