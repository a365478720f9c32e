package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/lending"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// foreignClusters writes a ForeignCluster for each peer, as Liqo does, because `liqoctl info` and `kubectl
// get foreignclusters` show it. This controller writes the networking module. A ForeignCluster exists as long
// as the cluster has any object of the peer.
type foreignClusters struct {
	client  client.Client
	besides lending.Options // finds the objects of a peer for lending
}

func (r *foreignClusters) setup(mgr ctrl.Manager) error {
	peer := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		id := o.GetLabels()[wire.LabelRemoteCluster]
		if id == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: id}}}
	})
	// A gateway reports every few seconds, so reports alone cause no reconciliation. The next one is planned
	// for the time when the last known report would become stale.
	news := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*networkingv1beta1.Connection)
		after, ok2 := e.ObjectNew.(*networkingv1beta1.Connection)
		return ok && ok2 && before.Status.Value != after.Status.Value
	}})
	b := ctrl.NewControllerManagedBy(mgr).Named("foreigncluster").
		WithOptions(workers(1)).
		For(&corev1beta1.ForeignCluster{}).
		Watches(&networkingv1beta1.Configuration{}, peer).
		Watches(&networkingv1beta1.GatewayServer{}, peer).
		Watches(&networkingv1beta1.GatewayClient{}, peer).
		Watches(&appsv1.Deployment{}, peer).
		Watches(&networkingv1beta1.Connection{}, peer, news)
	for _, kind := range r.besides.Kinds() {
		b = b.Watches(kind, peer)
	}
	return b.Complete(r)
}

func (r *foreignClusters) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	p, err := r.read(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	known, err := r.besides.Knows(ctx, r.client, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	known = known || p.exists()
	fc := &corev1beta1.ForeignCluster{}
	err = r.client.Get(ctx, client.ObjectKey{Name: req.Name}, fc)
	switch {
	case apierrors.IsNotFound(err) && !known:
		return ctrl.Result{}, nil
	case apierrors.IsNotFound(err):
		if fc, err = r.create(ctx, req.Name); err != nil {
			return ctrl.Result{}, err
		}
	case err != nil:
		return ctrl.Result{}, err
	case !known && fc.Labels[wire.LabelManagedBy] == FieldManager:
		return ctrl.Result{}, control.Delete(ctx, r.client, fc)
	}
	now := time.Now()
	conditions, again := p.conditions(now)
	return ctrl.Result{RequeueAfter: again}, r.report(ctx, fc, p.exists(), conditions, p.namespace, metav1.NewTime(now))
}

func (r *foreignClusters) create(ctx context.Context, id string) (*corev1beta1.ForeignCluster, error) {
	fc := &corev1beta1.ForeignCluster{
		ObjectMeta: metav1.ObjectMeta{Name: id, Labels: map[string]string{wire.LabelRemoteCluster: id, wire.LabelManagedBy: FieldManager}},
		Spec:       corev1beta1.ForeignClusterSpec{ClusterID: corev1beta1.ClusterID(id)},
	}
	if err := r.client.Create(ctx, fc); err != nil {
		return nil, fmt.Errorf("create ForeignCluster %s: %w", id, err)
	}
	return fc, nil
}

// peer has the network objects of one peer.
type peer struct {
	namespace     string
	configuration *networkingv1beta1.Configuration
	server        *networkingv1beta1.GatewayServer
	client        *networkingv1beta1.GatewayClient
	deployments   []appsv1.Deployment
	connection    *networkingv1beta1.Connection
}

func (r *foreignClusters) read(ctx context.Context, id string) (*peer, error) {
	of := client.MatchingLabels{wire.LabelRemoteCluster: id}
	var confs networkingv1beta1.ConfigurationList
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	var deployments appsv1.DeploymentList
	var connections networkingv1beta1.ConnectionList
	for _, list := range []client.ObjectList{&confs, &servers, &clients, &deployments, &connections} {
		if err := r.client.List(ctx, list, of); err != nil {
			return nil, fmt.Errorf("list the objects of peer %s: %w", id, err)
		}
	}
	p := &peer{configuration: wire.First(confs.Items), server: wire.First(servers.Items), client: wire.First(clients.Items), deployments: deployments.Items, connection: wire.First(connections.Items)}
	switch {
	case p.configuration != nil:
		p.namespace = p.configuration.Namespace
	case p.server != nil:
		p.namespace = p.server.Namespace
	case p.client != nil:
		p.namespace = p.client.Namespace
	}
	return p, nil
}

// lookForReports is the interval at which a stale Connection is read again. Reports are not watched, because
// they come every few seconds.
const lookForReports = 10 * time.Second

// exists reports whether the peer has an object that admins make. Objects that the operator makes for it
// don't count, because the operator deletes them.
func (p *peer) exists() bool { return p.configuration != nil || p.server != nil || p.client != nil }

// conditions returns the conditions of the networking module, and the time until they may change without an
// event; 0 for never. liqoctl calls a module healthy when each of its conditions is Ready or Established.
func (p *peer) conditions(now time.Time) ([]corev1beta1.Condition, time.Duration) {
	configured := condition(corev1beta1.NetworkConfigurationStatusCondition, corev1beta1.ConditionStatusReady,
		"NetworkConfigurationPresent", "this cluster knows the peer's address ranges")
	if p.configuration == nil {
		configured = condition(corev1beta1.NetworkConfigurationStatusCondition, corev1beta1.ConditionStatusNotReady,
			"NetworkConfigurationMissing", "this cluster does not know the peer's address ranges")
	}
	present := condition(corev1beta1.NetworkGatewayPresenceCondition, corev1beta1.ConditionStatusReady, "GatewayPresent", "there is a gateway")
	if p.server == nil && p.client == nil {
		present = condition(corev1beta1.NetworkGatewayPresenceCondition, corev1beta1.ConditionStatusNotReady, "GatewayMissing", "there is no gateway")
	}
	all := []corev1beta1.Condition{configured, present}
	if p.server != nil {
		all = append(all, p.running(corev1beta1.NetworkGatewayServerStatusCondition, p.server.Name))
	}
	if p.client != nil {
		all = append(all, p.running(corev1beta1.NetworkGatewayClientStatusCondition, p.client.Name))
	}
	connected, again := p.connected(now)
	return append(all, connected), again
}

func (p *peer) running(kind corev1beta1.ConditionType, gateway string) corev1beta1.Condition {
	i := slices.IndexFunc(p.deployments, func(d appsv1.Deployment) bool { return d.Name == wire.GatewayObjectName(gateway) })
	if i < 0 || p.deployments[i].Status.ReadyReplicas == 0 {
		return condition(kind, corev1beta1.ConditionStatusNotReady, "GatewayNotReady", "the gateway's pod is not ready")
	}
	return condition(kind, corev1beta1.ConditionStatusReady, "GatewayReady", "the gateway's pod is ready")
}

func (p *peer) connected(now time.Time) (c corev1beta1.Condition, again time.Duration) {
	const kind = corev1beta1.NetworkConnectionStatusCondition
	if p.connection == nil {
		return condition(kind, corev1beta1.ConditionStatusNotReady, "ConnectionMissing", "the gateway has reported nothing yet"), 0
	}
	report, said, err := wire.ParseReport(p.connection.Annotations)
	if said && err == nil {
		if report.Stale(now) {
			return condition(kind, corev1beta1.ConditionStatusError, "ConnectionStale", "the gateway has reported nothing since "+report.At.UTC().Format(time.RFC3339)), lookForReports
		}
		again = report.StaleAt().Sub(now) + time.Second
	}
	switch p.connection.Status.Value {
	case networkingv1beta1.Connected:
		return condition(kind, corev1beta1.ConditionStatusEstablished, "ConnectionEstablished", "the gateways reach each other"), again
	case networkingv1beta1.ConnectionError:
		return condition(kind, corev1beta1.ConditionStatusError, "ConnectionError", cmp.Or(report.Message, "the gateways do not reach each other")), again
	case networkingv1beta1.Connecting:
	}
	return condition(kind, corev1beta1.ConditionStatusPending, "ConnectionPending", cmp.Or(report.Message, "the gateways do not reach each other yet")), again
}

func condition(kind corev1beta1.ConditionType, status corev1beta1.ConditionStatusType, reason, message string) corev1beta1.Condition {
	return corev1beta1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func (r *foreignClusters) report(ctx context.Context, fc *corev1beta1.ForeignCluster, enabled bool, conditions []corev1beta1.Condition, namespace string, now metav1.Time) error {
	before := fc.DeepCopy()
	for i := range conditions {
		c := &conditions[i]
		c.LastTransitionTime = now
		for _, old := range fc.Status.Modules.Networking.Conditions {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	fc.Status.Role = cmp.Or(fc.Status.Role, corev1beta1.UnknownRole) // the operator's other controllers know whether the peer is consumer or provider
	fc.Status.ObservedGeneration = fc.Generation
	fc.Status.TenantNamespace.Local = cmp.Or(namespace, fc.Status.TenantNamespace.Local)
	fc.Status.Modules.Networking = corev1beta1.Module{Enabled: enabled, Conditions: conditions}
	if equality.Semantic.DeepEqual(before.Status, fc.Status) {
		return nil
	}
	// This is an update, because a patch would leave out the other modules, whose "enabled: false" the schema
	// requires. The peers controller of package lending writes the status, too. A conflict is no error: the
	// watch queues the peer again.
	if err := r.client.Status().Update(ctx, fc, client.FieldOwner(FieldManager)); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("report on ForeignCluster %s: %w", fc.Name, err)
	}
	return nil
}
