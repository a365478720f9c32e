// Package tenancy implements whole peerings up to the point where pods run, with Liqo's kinds and by Liqo's
// contract. As provider, the cluster gives nonces to consumers, accepts their Tenants, signs their
// certificates, grants resources, and has a proxy to its API server. As consumer, it has its keys and its
// Identities, requests resources, and creates the virtual nodes for them.
package tenancy

import (
	"context"
	"errors"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/own"
	"github.com/liqo-tui/liqo-tui/gateway/operator/secrets"
	"github.com/liqo-tui/liqo-tui/gateway/operator/twins"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Options say which roles the cluster has in peerings.
type Options struct {
	Role render.PeeringRole
	// APIServer is the URL of the API server that consumers get; "" for the address that the API servers
	// publish themselves.
	APIServer string
	// Lend is the most of each resource that all consumers together get. Only the nodes limit a resource
	// that it does not name.
	Lend corev1.ResourceList
	Home string // namespace of the operator
	// ProxyAddress is where the proxy to the API server listens, such as ":8118"; "" for no proxy.
	ProxyAddress string
}

// On reports whether the cluster has any role.
func (o Options) On() bool { return o.Role.Consumes() || o.Role.Provides() }

// AddToScheme adds the kinds that the controllers use.
func (o Options) AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(authv1beta1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme), offloadingv1beta1.AddToScheme(scheme))
}

// Prepare tells a manager that is not made yet which objects to cache: of each kind only those that the
// controllers need.
func (o Options) Prepare(m *ctrl.Options) error {
	if !o.On() {
		return nil
	}
	if err := o.AddToScheme(m.Scheme); err != nil {
		return err
	}
	if o.Role.Provides() { // those of Tenants; other caches have those of namespaces that stand for a consumer's
		notTwin, err := labels.NewRequirement(peering.LabelTwin, selection.DoesNotExist, nil)
		if err != nil {
			return err
		}
		m.Cache.ByObject[&corev1.ResourceQuota{}] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{render.LabelManagedBy: own.Manager}).Add(*notTwin)}
	}
	m.Cache.ByObject[&corev1.Namespace{}] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{render.LabelTenantNamespace: "true"})}
	m.Cache.ByObject[&certificatesv1.CertificateSigningRequest{}] = cache.ByObject{
		Label: labels.SelectorFromSet(labels.Set{peering.LabelRequest: "true", render.LabelManagedBy: own.Manager}),
	}
	return nil
}

// SetUp adds the controllers.
func (o Options) SetUp(mgr ctrl.Manager, recorder events.EventRecorder) error {
	if !o.On() {
		return nil
	}
	of, err := secrets.New(mgr.GetConfig(), render.LabelRemoteCluster)
	if err != nil {
		return err
	}
	c, reader := mgr.GetClient(), mgr.GetAPIReader()
	s := &spaces{client: c, reader: reader, home: o.Home, secrets: of}
	providers, err := newProviders(mgr.GetConfig().WrapTransport)
	if err != nil {
		return err
	}
	k := &keys{client: c, home: o.Home, providers: providers}
	var errs []error
	if o.Role.Provides() {
		if o.ProxyAddress != "" {
			p, err := newProxy(mgr.GetConfig(), o.ProxyAddress)
			if err != nil {
				return err
			}
			errs = append(errs, mgr.Add(p), (&way{client: c, reader: reader, home: o.Home}).setup(mgr))
		}
		seen := own.NewDeletions(twins.DeletionsOf)
		used, err := twins.SetUp(mgr, recorder, o.Home, seen)
		if err != nil {
			return err
		}
		t := &tenants{signer: signer{client: c, reader: reader, authority: authority{mgr.GetConfig(), reader}}, recorder: recorder, options: o}
		errs = append(errs,
			(&nonces{client: c, reader: reader}).setup(mgr, of.Tell()),
			t.setup(mgr, of.Tell()),
			(&grants{tenants: t, used: used, seen: seen}).setup(mgr, of.Tell()),
			(&renews{client: c}).setup(mgr))
	}
	if o.Role.Consumes() {
		seen := own.NewDeletions(deletionsOf)
		errs = append(errs,
			mgr.Add(k),
			(&signatures{client: c, recorder: recorder, keys: k}).setup(mgr, of.Tell()),
			(&identities{client: c, recorder: recorder, keys: k}).setup(mgr, of.Tell()),
			(&abroad{client: c, reader: reader, recorder: recorder, keys: k, home: o.Home, seen: seen}).setup(mgr),
			(&virtualNodes{cached: c, recorder: recorder, home: o.Home}).setup(mgr),
			(&offloader{cached: c, home: o.Home, seen: seen}).setup(mgr),
			(&strays{client: c}).setup(mgr))
	}
	return errors.Join(append(errs, s.setup(mgr), (&peers{client: c, reader: reader, keys: k, role: o.Role, home: o.Home}).setup(mgr))...)
}

// Kinds returns the kinds of the objects that a peer may have here. Their label has the peer's ID.
func (o Options) Kinds() (kinds []client.Object) {
	if o.Role.Provides() {
		kinds = append(kinds, &authv1beta1.Tenant{})
	}
	if o.Role.Consumes() {
		kinds = append(kinds, &authv1beta1.Identity{})
	}
	return kinds
}

// Knows reports whether a peer has such an object here.
func (o Options) Knows(ctx context.Context, c client.Reader, id string) (bool, error) {
	p, err := readPeer(ctx, c, o.Role, id)
	return p.tenant != nil || p.identity != nil, err
}

// A reconciliation that has failed is tried again after firstRetry, and later at growing intervals up to
// lastRetry: the rights in a namespace take effect with a delay.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 30 * time.Second
)

func workers(n int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: n,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}

// labelled selects the objects that have a label.
func labelled(key string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[key] != "" })
}

// complain calls [own.Complain].
func complain(ctx context.Context, c client.Client, recorder events.EventRecorder, o client.Object, why error) error {
	return own.Complain(ctx, c, recorder, o, why)
}
