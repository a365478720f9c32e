package lending

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

const (
	// lookEvery is the pause after an answer of a provider's API server, before the next request. Liqo has
	// the same pause.
	lookEvery = 15 * time.Second
	// lookAgain is the pause after the first request without an answer. Each further request without an
	// answer doubles the pause, up to lookEvery.
	lookAgain = time.Second
	// asking is the number of workers. A provider that does not answer occupies a worker for 5 s of every
	// 20 s. So 100 such providers occupy 25 workers, and the others serve the rest.
	asking = 32
)

// peers writes the roles of the peer into each ForeignCluster, and whether the peer's API server answers.
// It sends the requests with this cluster's certificate for the peer, and also renews this certificate.
// The foreignClusters controller creates and deletes the ForeignClusters.
type peers struct {
	client  client.Client
	role    render.PeeringRole
	ask     func(context.Context, *authv1beta1.Identity) error // sends a request to a provider; nil if this cluster is no consumer
	retries workqueue.TypedRateLimiter[reconcile.Request]
}

// begin prepares the pauses between requests. It has to be called before the first reconciliation.
func (r *peers) begin() {
	r.retries = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](lookAgain, lookEvery)
}

func (r *peers) setup(mgr ctrl.Manager) error {
	r.begin()
	peer := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if id := o.GetLabels()[wire.LabelRemoteCluster]; id != "" {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: id}}}
		}
		return nil
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("peer").WithOptions(control.Workers(asking)).For(&corev1beta1.ForeignCluster{})
	for _, kind := range (Options{Role: r.role}).Kinds() {
		b = b.Watches(kind, peer)
	}
	if r.role.Consumes() {
		b = b.Watches(&offloadingv1beta1.VirtualNode{}, peer)
	}
	return b.Complete(r)
}

// peer holds this cluster's objects for lending with one peer.
type peer struct {
	tenant   *authv1beta1.Tenant   // lets the peer in as a consumer; nil if there is none
	identity *authv1beta1.Identity // for the operator's own requests to the peer; nil if there is none
	nodes    []offloadingv1beta1.VirtualNode
}

// readPeer reads the objects that an operator with this role has for the peer with this cluster ID.
func readPeer(ctx context.Context, c client.Reader, role render.PeeringRole, id string) (p peer, err error) {
	ofPeer := client.MatchingLabels{wire.LabelRemoteCluster: id}
	if role.Provides() {
		var list authv1beta1.TenantList
		if err := c.List(ctx, &list, ofPeer); err != nil {
			return p, fmt.Errorf("list Tenants of %s: %w", id, err)
		}
		for i := range list.Items {
			if string(list.Items[i].Spec.ClusterID) == id && p.tenant == nil {
				p.tenant = &list.Items[i]
			}
		}
	}
	if role.Consumes() {
		var list authv1beta1.IdentityList
		if err := c.List(ctx, &list, ofPeer); err != nil {
			return p, fmt.Errorf("list Identities for %s: %w", id, err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; string(o.Spec.ClusterID) == id && o.Spec.Type == authv1beta1.ControlPlaneIdentityType && p.identity == nil {
				p.identity = o
			}
		}
		var nodes offloadingv1beta1.VirtualNodeList
		if err := c.List(ctx, &nodes, ofPeer, client.MatchingLabels{wire.LabelManagedBy: control.Manager}); err != nil {
			return p, fmt.Errorf("list VirtualNodes for %s: %w", id, err)
		}
		p.nodes = nodes.Items
	}
	return p, nil
}

func (r *peers) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	fc := &corev1beta1.ForeignCluster{}
	if err := r.client.Get(ctx, req.NamespacedName, fc); err != nil {
		r.retries.Forget(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	p, err := readPeer(ctx, r.client, r.role, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	var answer error
	again, asked := time.Duration(0), p.identity != nil && p.identity.Status.KubeconfigSecretRef != nil
	if asked {
		if answer = r.ask(ctx, p.identity); answer != nil {
			again = r.retries.When(req)
		} else {
			again = lookEvery
			r.retries.Forget(req)
		}
	}
	before := fc.DeepCopy()
	p.describe(&fc.Status, asked, answer, metav1.Now())
	if equality.Semantic.DeepEqual(before.Status, fc.Status) {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	// The foreignClusters controller also writes this status. A conflict is no error, because the watch of
	// ForeignClusters starts another reconciliation.
	if err := r.client.Status().Update(ctx, fc, client.FieldOwner(control.Manager)); err != nil && !apierrors.IsConflict(err) {
		return ctrl.Result{}, fmt.Errorf("report on ForeignCluster %s: %w", fc.Name, err)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// describe writes the roles and conditions of the peer into the status s. asked means that a request was sent
// to the peer's API server. answer is the result of the request.
func (p peer) describe(s *corev1beta1.ForeignClusterStatus, asked bool, answer error, now metav1.Time) {
	s.Role = cmp.Or(map[[2]bool]corev1beta1.RoleType{
		{true, false}: corev1beta1.ConsumerRole, {false, true}: corev1beta1.ProviderRole, {true, true}: corev1beta1.ConsumerAndProviderRole,
	}[[2]bool{p.tenant != nil, p.identity != nil}], corev1beta1.UnknownRole)
	var conditions []corev1beta1.Condition
	if t := p.tenant; t != nil {
		c := corev1beta1.Condition{Type: corev1beta1.AuthTenantStatusCondition, Status: corev1beta1.ConditionStatusReady, Reason: "TenantReady", Message: "the peer has access to this cluster"}
		if t.Status.AuthParams == nil || t.Annotations[wire.AnnotationProblem] != "" {
			c.Status, c.Reason, c.Message = corev1beta1.ConditionStatusNotReady, "TenantNotReady", cmp.Or(t.Annotations[wire.AnnotationProblem], "the peer has no access to this cluster yet")
		}
		conditions = append(conditions, c)
		s.TenantNamespace.Local = t.Namespace
	}
	s.APIServerURL, s.ForeignProxyURL, s.TenantNamespace.Remote = "", "", ""
	if i := p.identity; i != nil {
		c := corev1beta1.Condition{Type: corev1beta1.AuthIdentityControlPlaneStatusCondition, Status: corev1beta1.ConditionStatusReady, Reason: "IdentityReady", Message: "this cluster has access to the peer"}
		if !asked {
			c.Status, c.Reason, c.Message = corev1beta1.ConditionStatusNotReady, "IdentityNotReady", cmp.Or(i.Annotations[wire.AnnotationProblem], "there is no kubeconfig for the peer yet")
		}
		conditions = append(conditions, c)
		s.TenantNamespace.Local, s.APIServerURL = i.Namespace, i.Spec.AuthParams.APIServer
		if i.Spec.AuthParams.ProxyURL != nil {
			s.ForeignProxyURL = *i.Spec.AuthParams.ProxyURL
		}
		if i.Spec.Namespace != nil {
			s.TenantNamespace.Remote = *i.Spec.Namespace
		}
	}
	s.Modules.Authentication = corev1beta1.Module{Enabled: len(conditions) > 0, Conditions: since(conditions, s.Modules.Authentication.Conditions, now)}
	offloading := p.offloading()
	s.Modules.Offloading = corev1beta1.Module{Enabled: len(offloading) > 0, Conditions: since(offloading, s.Modules.Offloading.Conditions, now)}
	old := s.Conditions
	s.Conditions = slices.DeleteFunc(slices.Clone(old), func(c corev1beta1.Condition) bool { return c.Type == corev1beta1.APIServerStatusCondition })
	if asked {
		c := corev1beta1.Condition{Type: corev1beta1.APIServerStatusCondition, Status: corev1beta1.ConditionStatusEstablished, Reason: "APIServerReady", Message: "the peer's API server answers"}
		if answer != nil {
			c.Status, c.Reason, c.Message = corev1beta1.ConditionStatusError, "APIServerNotReady", answer.Error()
			if errors.Is(answer, peering.ErrNoAnswer) {
				c.Reason = peering.ReasonSilent
			}
		}
		s.Conditions = append(s.Conditions, since([]corev1beta1.Condition{c}, old, now)...)
	}
	if len(s.Conditions) == 0 {
		s.Conditions = nil
	}
}

// offloading returns two conditions. The first counts this cluster's running virtual kubelets for the peer, the
// second the ready virtual nodes. If the peer has no virtual node here, offloading returns no condition.
func (p peer) offloading() (conditions []corev1beta1.Condition) {
	if len(p.nodes) == 0 {
		return nil
	}
	for _, c := range []struct {
		is           corev1beta1.ConditionType
		of           offloadingv1beta1.VirtualNodeConditionType
		reason, what string
	}{
		{corev1beta1.OffloadingVirtualNodeStatusCondition, offloadingv1beta1.VirtualKubeletConditionType, "VirtualNodes", "virtual kubelets that run"},
		{corev1beta1.OffloadingNodeStatusCondition, offloadingv1beta1.NodeConditionType, "Nodes", "virtual nodes that are ready"},
	} {
		runs := 0
		for i := range p.nodes {
			if slices.ContainsFunc(p.nodes[i].Status.Conditions, func(v offloadingv1beta1.VirtualNodeCondition) bool {
				return v.Type == c.of && v.Status == offloadingv1beta1.RunningConditionStatusType
			}) {
				runs++
			}
		}
		out := corev1beta1.Condition{Type: c.is, Status: corev1beta1.ConditionStatusSomeNotReady, Message: fmt.Sprintf("%s: %d of %d", c.what, runs, len(p.nodes))}
		switch runs {
		case len(p.nodes):
			out.Status = corev1beta1.ConditionStatusReady
		case 0:
			out.Status = corev1beta1.ConditionStatusNotReady
		}
		out.Reason = c.reason + string(out.Status)
		conditions = append(conditions, out)
	}
	return conditions
}

// since sets the transition time of each condition: the time in before if the status is the same there, else now.
func since(conditions, before []corev1beta1.Condition, now metav1.Time) []corev1beta1.Condition {
	for i := range conditions {
		c := &conditions[i]
		c.LastTransitionTime = now
		for _, old := range before {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return conditions
}
