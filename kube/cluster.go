// Package kube is one cluster behind its API: it observes, applies and watches
// for package flows.
package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/clock"
	"github.com/liqo-tui/liqo-tui/kube/credentials"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Options choose a cluster the way kubectl's flags do.
type Options struct {
	Context   flows.ContextRef
	Files     []string // kubeconfigs to find the context in, if it names no file; nil for kubectl's own
	Cluster   string   // overrides the context's cluster
	User      string   // overrides the context's user
	Namespace string   // of Liqo or our operator; default wire.DefaultNamespace
	// Tenant is the namespace of one connection, for a user who may not see other namespaces. The
	// default for a peering user is the tenant namespace for which the user was made.
	Tenant string
	// Delegation makes Observe read the operators' access to each other, with tokens. Only
	// upkeep.Delegate needs that.
	Delegation bool
	// Image is the image of our gateways, for probes on a cluster without our operator; "" if
	// none is known.
	Image string
	// Lending makes Observe read the objects of lending into lending.Facts.
	Lending Lending
}

// Lending says how many objects of lending Observe reads.
type Lending uint8

// LendingShown reads the objects that are shown: no Secrets. LendingOffered reads all that a plan can
// use. Both read only if the cluster can lend or borrow, and only objects that the user may read.
// LendingPlanned reads the objects that a plan needs.
const (
	LendingIgnored Lending = iota
	LendingShown
	LendingOffered
	LendingPlanned
)

// Cluster is one cluster. Its watches run from the first Observe until Close.
type Cluster struct {
	options   Options
	server    string
	transport *credentials.Transport
	client    client.WithWatch
	discovery *discovery.DiscoveryClient
	metadata  metadata.Interface
	changed   chan struct{}
	kinds     []*store
	namespace string
	standard  string                 // the namespace in the kubeconfig's context
	trust     func() ([]byte, error) // reads the certificates with which the API server is verified
	ca        []byte                 // these certificates, read for delegations only

	ctx    context.Context // the watches' life
	cancel context.CancelFunc
	start  sync.Once
	lend   sync.Once // starts the watches of lending kinds

	identityOnce sync.Mutex
	uid, version string
	userTenant   atomic.Value // string: the namespace of the tenant that the user was made for

	pulse       pulse
	clock       *clock.Clock
	warnings    warnings
	secretKeys  secretKeys
	secrets     tenantSecrets
	definitions definitions
	unpatchable sync.Map // kinds, by name, that may be updated but not patched
}

var _ engine.Cluster = (*Cluster)(nil)

// Open reads the kubeconfig and prepares a client. It sends nothing yet: Observe reports a
// cluster that does not answer.
func Open(o Options) (*Cluster, error) {
	choice := kubeconfig.Choice{Context: o.Context, Files: o.Files, Cluster: o.Cluster, User: o.User}
	config, found, err := kubeconfig.Load(choice)
	if err != nil {
		return nil, err
	}
	o.Context, choice.Context = found.Ref, found.Ref
	again := func() (*rest.Config, error) {
		config, _, err := kubeconfig.Load(choice)
		return config, err
	}
	c, err := newCluster(config, o, again)
	if err != nil {
		return nil, &kubeconfig.Error{File: found.File, Cause: fmt.Errorf("context %q: %w", found.Ref.Name, err)}
	}
	c.standard = found.Namespace
	return c, nil
}

// ForConfig returns a cluster that is reached with config, for a caller without a kubeconfig file.
// Its name in messages is o.Context.
func ForConfig(config *rest.Config, o Options) (*Cluster, error) {
	return newCluster(rest.CopyConfig(config), o, nil)
}

// newCluster prepares the clients. reload reads the credentials again; it is nil if the
// credentials are not from a file.
func newCluster(config *rest.Config, o Options, reload func() (*rest.Config, error)) (*Cluster, error) {
	// The default of 5 requests a second is for controllers; a person waits here.
	config.QPS, config.Burst = 200, 400
	config.WarningHandler = rest.NoWarnings{}
	scheme, err := wire.Scheme()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), policyv1.AddToScheme(scheme), peering.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	transport, err := credentials.NewTransport(config, reload)
	if err != nil {
		return nil, err
	}
	timing := &clock.Clock{}
	httpClient := &http.Client{Transport: timing.Through(transport)}
	cl, err := client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		options: o, server: config.Host, transport: transport, client: cl, discovery: disco, metadata: meta,
		changed: make(chan struct{}, 1), namespace: o.Namespace, clock: timing,
		trust: func() ([]byte, error) { return certificateAuthority(config) },
	}
	c.clock.Notify = c.notify
	if c.namespace == "" {
		c.namespace = wire.DefaultNamespace
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.pulse = pulse{ask: c.askVersion, notify: c.notify}
	c.warnings = warnings{ctx: c.ctx, client: cl, notify: c.notify, clock: c.clock}
	c.kinds = c.watchedKinds()
	if o.Lending != LendingIgnored {
		c.kinds = append(c.kinds, c.lendingKinds()...)
	}
	if o.Delegation {
		c.kinds = append(c.kinds, c.delegationKinds()...)
		if c.ca, err = c.trust(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// LogsIn reports whether a request may start the login program of the kubeconfig's user. Such a
// program may open a browser or ask for a password.
func (c *Cluster) LogsIn() bool { return c.transport.LogsIn() }

// Reader reads any object, for callers that collect objects.
func (c *Cluster) Reader() client.Reader { return c.client }

// Close ends the watches.
func (c *Cluster) Close() { c.cancel() }

// Changed receives a value when an Observe can give new facts.
func (c *Cluster) Changed() <-chan struct{} { return c.changed }

func (c *Cluster) notify() {
	select {
	case c.changed <- struct{}{}:
	default: // one value stands for any number of changes
	}
}

// mapper knows the resources of the kinds that we use. To ask the API server for them would cost
// several requests before the first useful one.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	add := func(gv schema.GroupVersion, scope meta.RESTScope, kinds ...string) {
		for _, kind := range kinds {
			m.Add(gv.WithKind(kind), scope)
		}
	}
	root, namespaced := meta.RESTScopeRoot, meta.RESTScopeNamespace
	add(corev1.SchemeGroupVersion, root, "Namespace", "Node")
	add(corev1.SchemeGroupVersion, namespaced, "ConfigMap", "Pod", "ResourceQuota", "Secret", "Service", "ServiceAccount", "Event")
	add(appsv1.SchemeGroupVersion, namespaced, "Deployment", "DaemonSet")
	add(authenticationv1.SchemeGroupVersion, root, "SelfSubjectReview")
	add(authorizationv1.SchemeGroupVersion, root, "SelfSubjectAccessReview")
	add(batchv1.SchemeGroupVersion, namespaced, "Job")
	add(schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}, root, "ClusterRole", "ClusterRoleBinding")
	add(schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}, namespaced, "Role", "RoleBinding")
	add(schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}, root, "ServiceCIDR")
	add(networkingv1.SchemeGroupVersion, namespaced, "NetworkPolicy")
	add(schedulingv1.SchemeGroupVersion, root, "PriorityClass")
	add(admissionregistrationv1.SchemeGroupVersion, root, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
	add(apiextensionsv1.SchemeGroupVersion, root, "CustomResourceDefinition")
	add(policyv1.SchemeGroupVersion, namespaced, "Eviction")
	add(authv1beta1.GroupVersion, namespaced, authv1beta1.TenantKind, authv1beta1.IdentityKind, authv1beta1.RenewKind, authv1beta1.ResourceSliceKind)
	add(offloadingv1beta1.SchemeGroupVersion, namespaced, offloadingv1beta1.VirtualNodeKind, "NamespaceMap", "NamespaceOffloading")
	add(corev1beta1.GroupVersion, root, corev1beta1.ForeignClusterKind)
	add(ipamv1alpha1.SchemeGroupVersion, namespaced, ipamv1alpha1.NetworkKind, ipamv1alpha1.IPKind)
	add(networkingv1beta1.GroupVersion, namespaced,
		networkingv1beta1.ConfigurationKind, networkingv1beta1.GatewayServerKind, networkingv1beta1.GatewayClientKind,
		networkingv1beta1.ConnectionKind, networkingv1beta1.InternalFabricKind,
		networkingv1beta1.WgGatewayServerTemplateKind, networkingv1beta1.WgGatewayClientTemplateKind)
	add(networkingv1beta1.GroupVersion, root, networkingv1beta1.InternalNodeKind)
	m.AddSpecific(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.PublicKeyKind),
		networkingv1beta1.PublicKeyGroupVersionResource, // Liqo's plural: publickeies
		networkingv1beta1.GroupVersion.WithResource("publickey"), namespaced)
	return m
}
