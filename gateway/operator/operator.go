// Package operator is the control plane of a cluster on which Liqo does not run: it assigns address ranges,
// and makes and watches the gateways' children. It reconciles Liqo's kinds, so peers and tools work with
// either.
package operator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/clusterset"
	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/lending"
	"github.com/liqo-tui/liqo-tui/gateway/operator/ranges"
	"github.com/liqo-tui/liqo-tui/gateway/operator/secrets"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// FieldManager is the name under which the operator applies children.
const FieldManager = control.Manager

// Options of the operator.
type Options struct {
	Namespace     string // the namespace of the operator and of the cluster's Networks
	HealthAddress string // for /healthz and /readyz, such as ":8081"; "" to serve neither
	// Token returns an error if the API server refuses the pod's token. If it is nil, the token is not
	// checked.
	Token func() error
	// Pools are the ranges for peers whose own range is not free here; none: the default.
	Pools []netip.Prefix
	// Stated are the ranges of the cluster's pods and Services that an admin states. The keys are types of
	// Networks.
	Stated map[string][]netip.Prefix
	// Lending has the options of lending, which are off by default.
	Lending lending.Options
	// Services is this cluster's ID if it exports Services to its peers, and imports theirs; else "".
	Services wire.ClusterID
	// PodIP is the address of this replica's pod.
	PodIP netip.Addr
	// Identity is the name of this replica as leader. A process with the identity of a crashed one takes
	// over from it at once, so two running processes must never have the same identity: the name of the pod
	// is right.
	Identity string
}

// replica is the operator of one process, from its start to its end.
type replica struct {
	config   *rest.Config
	options  Options
	client   client.WithWatch // not cached: for work outside of reconciliations
	events   events.EventBroadcaster
	recorder events.EventRecorder
	log      logr.Logger
	health   *health
}

// Run reconciles while this replica leads, until ctx ends. While Liqo's controller-manager is on the
// cluster, it only reports this, and waits.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	r, err := newReplica(config, o)
	if err != nil {
		return fmt.Errorf("set up the operator: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	if o.HealthAddress != "" {
		server, err := r.health.server(ctx, o.HealthAddress)
		if err != nil {
			return err
		}
		group.Go(func() error { return server.Start(ctx) })
	}
	group.Go(func() error { return r.serve(ctx) })
	return group.Wait()
}

func newReplica(config *rest.Config, o Options) (*replica, error) {
	scheme, err := wire.Scheme()
	if err == nil {
		err = o.Lending.AddToScheme(scheme)
	}
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	// A connection has ten objects on each side, and a restart may find hundreds of peers. The API server
	// limits requests itself (priority and fairness).
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	sink, err := eventsv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: sink})
	return &replica{
		config: config, options: o, client: c, log: ctrl.Log, health: &health{token: o.Token},
		events: broadcaster, recorder: broadcaster.NewRecorder(scheme, wire.OperatorName),
	}, nil
}

// A reconciliation that has failed is tried again after firstRetry, and later at growing intervals up to
// lastRetry. The end of a cause may be no event, such as an admission webhook that answers again, or a
// larger quota.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// workers returns the options of a controller with n workers.
func workers(n int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: n,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}

// setUp adds the controllers.
func setUp(mgr ctrl.Manager, status *reporter, o Options) error {
	namespace := o.Namespace
	around := ranges.NewSurroundings(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetConfig())
	order := &turns{}
	kept, err := secrets.New(mgr.GetConfig(), wire.LabelGatewayName)
	if err != nil {
		return err
	}
	ofKind := func(k kind) error {
		return (&gateways{kind: k, client: mgr.GetClient(), reader: mgr.GetAPIReader(), events: status.recorder, surroundings: around, turns: order, home: o.Lending.Home, pod: o.PodIP}).setup(mgr, kept.Tell())
	}
	allocator := ranges.NewAllocator(mgr.GetAPIReader(), around, o.Pools)
	return errors.Join(
		(&discovery{client: mgr.GetClient(), reader: mgr.GetAPIReader(), status: status, namespace: namespace, stated: o.Stated}).setup(mgr),
		(&networks{client: mgr.GetClient(), recorder: status.recorder, allocator: allocator, namespace: namespace}).setup(mgr),
		(&configurations{client: mgr.GetClient(), reader: mgr.GetAPIReader(), allocator: allocator, namespace: namespace}).setup(mgr),
		(&ips{client: mgr.GetClient(), reader: mgr.GetAPIReader(), namespace: namespace}).setup(mgr),
		ofKind(serverKind), ofKind(clientKind),
		(&access{client: mgr.GetClient()}).setup(mgr),
		(&foreignClusters{client: mgr.GetClient(), besides: o.Lending}).setup(mgr),
		o.Lending.SetUp(mgr, status.recorder),
		o.clusterset(mgr, around).SetUp(mgr),
		(&delegates{client: mgr.GetClient()}).setup(mgr, kept.Tell()),
		(&tenants{client: mgr.GetClient(), home: namespace, secrets: kept}).setup(mgr),
	)
}

// clusterset returns the options of the controller that exports and imports Services.
func (o Options) clusterset(mgr ctrl.Manager, around *ranges.Surroundings) clusterset.Options {
	return clusterset.Options{
		Self: o.Services, Home: o.Namespace,
		Pods: func(ctx context.Context) (pods []netip.Prefix, err error) {
			own, err := clusterNetworks(ctx, mgr.GetClient(), o.Namespace)
			if err != nil || !own.fixed {
				return nil, err
			}
			for _, c := range own.Pod {
				p, err := netip.ParsePrefix(string(c))
				if err != nil {
					return nil, fmt.Errorf("range of this cluster's pods: %w", err)
				}
				pods = append(pods, p)
			}
			return pods, nil
		},
		Taken: func(ctx context.Context) (taken []netip.Addr, err error) {
			all, err := around.Reserved(ctx)
			for _, r := range ranges.Spared(all) {
				taken = append(taken, r.Prefix.Addr())
			}
			return taken, err
		},
	}
}

func newManager(restConfig *rest.Config, o Options) (ctrl.Manager, error) {
	scheme, err := wire.Scheme()
	if err != nil {
		return nil, err
	}
	ofGateways, err := hasLabel(wire.LabelGatewayName)
	if err != nil {
		return nil, err
	}
	ofPrograms, err := labels.NewRequirement(wire.LabelManagedBy, selection.In, []string{wire.ManagedBy, wire.OperatorName})
	if err != nil {
		return nil, err
	}
	options := ctrl.Options{
		Scheme:     scheme,
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // names are unique in a process, but each term has a manager
		Cache: cache.Options{
			DefaultTransform: control.OnlyApplied,
			ByObject: map[client.Object]cache.ByObject{
				// Of these kinds, only objects of gateways are needed.
				&corev1.Pod{}:                {Label: ofGateways},
				&corev1.Service{}:            {Label: ofGateways},
				&corev1.ServiceAccount{}:     {Label: ofGateways},
				&corev1.ConfigMap{}:          {Label: ofGateways, Transform: withoutHistory},
				&appsv1.Deployment{}:         {Label: ofGateways},
				&rbacv1.Role{}:               {Label: ofGateways},
				&rbacv1.RoleBinding{}:        {Label: labels.NewSelector().Add(*ofPrograms)}, // includes the operator's own
				&coordinationv1.Lease{}:      {Label: ofGateways},
				&rbacv1.ClusterRoleBinding{}: {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, wire.GatewayAccessName)},
				&corev1.Node{}:               {Transform: slimNode},
				&discoveryv1.EndpointSlice{}: {Namespaces: map[string]cache.Config{ranges.APIServerSlice().Namespace: {
					FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, ranges.APIServerSlice().Name),
				}}},
			},
		},
	}
	if err := o.Lending.Prepare(&options); err != nil {
		return nil, err
	}
	return ctrl.NewManager(restConfig, options)
}

// slimNode keeps the fields that gateways and lending need. The rest of a node's status is long, its images
// above all, and changes every few seconds.
func slimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	slim := &corev1.Node{ObjectMeta: n.ObjectMeta, Spec: corev1.NodeSpec{PodCIDRs: n.Spec.PodCIDRs, Unschedulable: n.Spec.Unschedulable}}
	slim.ManagedFields, slim.Annotations = nil, nil
	slim.Status.Addresses, slim.Status.Allocatable = n.Status.Addresses, n.Status.Allocatable
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			slim.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return slim, nil
}

// withoutHistory drops what gateways record: the operator needs none of it, and it has up to 16 KiB for each of them.
func withoutHistory(o any) (any, error) {
	if c, ok := o.(*corev1.ConfigMap); ok {
		delete(c.Data, wire.HistoryKey)
	}
	return control.OnlyApplied(o)
}

func hasLabel(key string) (labels.Selector, error) {
	r, err := labels.NewRequirement(key, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	return labels.NewSelector().Add(*r), nil
}
