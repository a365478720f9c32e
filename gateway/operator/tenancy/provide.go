package tenancy

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/liqo-tui/liqo-tui/gateway/operator/own"
	"github.com/liqo-tui/liqo-tui/gateway/operator/secrets"
	"github.com/liqo-tui/liqo-tui/gateway/operator/twins"
)

// providerOptions say what a provider lends, and how consumers reach it.
type providerOptions struct {
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

// setUpProvider adds the controllers. of watches the Secrets of tenant namespaces.
func setUpProvider(mgr ctrl.Manager, recorder events.EventRecorder, o providerOptions, of *secrets.Watch) error {
	c, reader := mgr.GetClient(), mgr.GetAPIReader()
	var errs []error
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
	return errors.Join(append(errs,
		(&nonces{client: c, reader: reader}).setup(mgr, of.Tell()),
		t.setup(mgr, of.Tell()),
		(&grants{tenants: t, used: used, seen: seen}).setup(mgr, of.Tell()),
		(&renews{client: c}).setup(mgr))...)
}
