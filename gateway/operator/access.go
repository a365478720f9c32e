package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// access maintains the ClusterRoleBinding of the gateways whose pods may read which node has which pods. The
// operator may change no other ClusterRoleBinding, and no other program writes this one. A gateway without a
// peer, or without known ranges of its peer, is not included, because it has no pods, and another program may
// use its account.
type access struct{ client client.Client }

func (a *access) setup(mgr ctrl.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: wire.GatewayAccessName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("access").
		WithOptions(workers(1)).
		Watches(&networkingv1beta1.GatewayServer{}, one, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&networkingv1beta1.GatewayClient{}, one, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&networkingv1beta1.Configuration{}, one, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&rbacv1.ClusterRoleBinding{}, one).
		Complete(a)
}

func (a *access) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var servers networkingv1beta1.GatewayServerList
	ofPeers := client.HasLabels{wire.LabelRemoteCluster}
	if err := a.client.List(ctx, &servers, ofPeers, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list GatewayServers: %w", err)
	}
	var clients networkingv1beta1.GatewayClientList
	if err := a.client.List(ctx, &clients, ofPeers, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list GatewayClients: %w", err)
	}
	var known networkingv1beta1.ConfigurationList
	if err := a.client.List(ctx, &known, ofPeers, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Configurations: %w", err)
	}
	peer := func(o client.Object) [2]string {
		return [2]string{o.GetNamespace(), o.GetLabels()[wire.LabelRemoteCluster]}
	}
	peers := map[[2]string]bool{}
	for i := range known.Items {
		peers[peer(&known.Items[i])] = true
	}
	var gateways []types.NamespacedName
	add := func(o client.Object) {
		if peers[peer(o)] {
			gateways = append(gateways, client.ObjectKeyFromObject(o))
		}
	}
	for i := range servers.Items {
		add(&servers.Items[i])
	}
	for i := range clients.Items {
		add(&clients.Items[i])
	}
	slices.SortFunc(gateways, func(x, y types.NamespacedName) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	_, err := control.Apply(ctx, a.client, render.GatewayAccess(slices.Compact(gateways)))
	return ctrl.Result{}, err
}
