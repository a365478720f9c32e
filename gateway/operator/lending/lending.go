// Package lending starts the packages provider and consumer, depending on this cluster's roles in lending. It
// also does the work that both roles need: it gives the operator its rights in tenant namespaces, and writes
// the roles of the peer into each ForeignCluster.
package lending

import (
	"context"
	"errors"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/consumer"
	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/provider"
	"github.com/liqo-tui/liqo-tui/gateway/operator/secrets"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Options are the cluster's roles in lending, and their settings.
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

// Prepare restricts the caches of a manager that is not made yet to the objects that the controllers need.
func (o Options) Prepare(m *ctrl.Options) error {
	if !o.On() {
		return nil
	}
	if err := o.AddToScheme(m.Scheme); err != nil {
		return err
	}
	if o.Role.Provides() { // the ResourceQuotas of Tenants; other caches have the ResourceQuotas of mapped namespaces
		notMapped, err := labels.NewRequirement(peering.LabelMapped, selection.DoesNotExist, nil)
		if err != nil {
			return err
		}
		m.Cache.ByObject[&corev1.ResourceQuota{}] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{wire.LabelManagedBy: control.Manager}).Add(*notMapped)}
	}
	m.Cache.ByObject[&corev1.Namespace{}] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{wire.LabelTenantNamespace: "true"})}
	m.Cache.ByObject[&certificatesv1.CertificateSigningRequest{}] = cache.ByObject{
		Label: labels.SelectorFromSet(labels.Set{peering.LabelRequest: "true", wire.LabelManagedBy: control.Manager}),
	}
	return nil
}

// SetUp adds the controllers.
func (o Options) SetUp(mgr ctrl.Manager, recorder events.EventRecorder) error {
	if !o.On() {
		return nil
	}
	of, err := secrets.New(mgr.GetConfig(), wire.LabelRemoteCluster)
	if err != nil {
		return err
	}
	c := mgr.GetClient()
	p := &peers{client: c, role: o.Role}
	errs := []error{(&spaces{client: c, reader: mgr.GetAPIReader(), home: o.Home, secrets: of}).setup(mgr)}
	if o.Role.Provides() {
		errs = append(errs, provider.SetUp(mgr, recorder, provider.Options{APIServer: o.APIServer, Lend: o.Lend, Home: o.Home, ProxyAddress: o.ProxyAddress}, of))
	}
	if o.Role.Consumes() {
		from, err := consumer.NewProviders(c, mgr.GetAPIReader(), o.Home, mgr.GetConfig().WrapTransport)
		if err != nil {
			return err
		}
		p.ask = from.Ask
		errs = append(errs, consumer.SetUp(mgr, recorder, from, of))
	}
	return errors.Join(append(errs, p.setup(mgr))...)
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

// Knows reports whether a peer has a Tenant or an Identity here.
func (o Options) Knows(ctx context.Context, c client.Reader, id string) (bool, error) {
	p, err := readPeer(ctx, c, o.Role, id)
	return p.tenant != nil || p.identity != nil, err
}
