// Package kube implements a cluster for package flows by the Kubernetes API: it observes, applies and
// watches.
package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/clock"
	"github.com/liqo-tui/liqo-tui/kube/credentials"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Options select a cluster, as kubectl's flags do.
type Options struct {
	Context flows.ContextRef
	Files   []string // kubeconfigs that may contain the context, if Context names no file; nil for kubectl's own
	command.Instead
	Namespace string // of Liqo or our operator; default wire.DefaultNamespace
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

// requestTimeout is the time for which an API server may be silent within one request, unless the admin has
// set another time. Distant or overloaded API servers need less.
const requestTimeout = 15 * time.Second

// Lending selects the objects of lending that Observe reads.
type Lending uint8

// LendingShown reads the objects that screens show, and no Secrets. LendingOffered reads all objects that a
// plan can use. Both read nothing if the cluster can't lend or borrow, and leave out objects that the user
// may not read. LendingPlanned reads the objects that a plan needs.
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
	mirrored  []*store // without the stores of tenant namespaces
	namespace string
	standard  string                 // the namespace in the kubeconfig's context
	trust     func() ([]byte, error) // reads the certificates with which the API server is verified
	ca        []byte                 // these certificates, read for delegations only

	ctx    context.Context // the lifetime of the watches
	cancel context.CancelFunc
	start  sync.Once
	lend   sync.Once // starts the watches of lending kinds

	identityOnce sync.Mutex
	uid, version string
	userTenant   atomic.Value // string: the tenant namespace for which the user was made

	pulse       pulse
	clock       *clock.Clock
	warnings    warnings
	secretKeys  secretKeys
	secrets     tenantSecrets
	definitions definitions
	unpatchable sync.Map // names of kinds that may be updated but not patched
}

var _ engine.Cluster = (*Cluster)(nil)

// Open reads the kubeconfig and prepares a client. It sends no request, so Observe reports a cluster that
// does not answer.
func Open(o Options) (*Cluster, error) {
	choice := kubeconfig.Choice{Context: o.Context, Files: o.Files, Instead: o.Instead}
	config, found, err := kubeconfig.Load(choice)
	if err != nil {
		return nil, err
	}
	o.Context, choice.Context = found.Ref, found.Ref
	again := func() (*rest.Config, error) {
		again, _, err := kubeconfig.Load(choice)
		if err == nil {
			again.Timeout = config.Timeout
		}
		return again, err
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

// newCluster prepares the clients. reload reads the credentials again; reload is nil if the credentials are
// not from a file.
func newCluster(config *rest.Config, o Options, reload func() (*rest.Config, error)) (*Cluster, error) {
	// The default of 5 requests a second is for controllers, but a person waits for this program.
	config.QPS, config.Burst = 200, 400
	if o.RequestTimeout == "" {
		config.Timeout = requestTimeout
	}
	config.WarningHandler = rest.NoWarnings{}
	scheme, err := scheme()
	if err != nil {
		return nil, err
	}
	transport, err := credentials.NewTransport(config, reload)
	if err != nil {
		return nil, err
	}
	if o.RequestTimeout != "" {
		transport.Login = &config.Timeout
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
	c.pulse = pulse{ask: c.askVersion, notify: c.notify, within: pulseTimeout}
	if o.RequestTimeout != "" {
		c.pulse.within = config.Timeout
	}
	c.warnings = warnings{ctx: c.ctx, client: cl, notify: c.notify, clock: c.clock}
	c.mirrored = c.stores("")
	if o.Delegation {
		if c.ca, err = c.trust(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// scheme is shared by all clusters, because there may be a thousand.
var scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s, err := wire.Scheme()
	if err != nil {
		return nil, err
	}
	return s, errors.Join(authenticationv1.AddToScheme(s), authorizationv1.AddToScheme(s), policyv1.AddToScheme(s), peering.AddToScheme(s))
})

// LogsIn reports whether a request may start the login program of the kubeconfig's user. Such a
// program may open a browser or ask for a password.
func (c *Cluster) LogsIn() bool { return c.transport.LogsIn() }

// Reader returns a reader of any object, for callers that collect objects.
func (c *Cluster) Reader() client.Reader { return c.client }

// Close ends the watches.
func (c *Cluster) Close() { c.cancel() }

// Changed returns a channel that receives a value when Observe can return new facts.
func (c *Cluster) Changed() <-chan struct{} { return c.changed }

func (c *Cluster) notify() {
	select {
	case c.changed <- struct{}{}:
	default: // one value is enough for any number of changes
	}
}

// mapper knows the resources of the kinds that we use, because discovery would cost several requests before
// the first useful one.
var mapper = sync.OnceValue(func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, k := range kinds.All() {
		m.Add(k.GroupVersionKind, k.Scope())
	}
	return m
})
