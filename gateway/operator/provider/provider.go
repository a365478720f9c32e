// Package provider lends this cluster's resources, with Liqo's kinds and by Liqo's contract.
//
// It gives nonces to consumers, accepts their Tenants, signs their certificates, grants resources, and runs a
// proxy to the API server. It makes the mapped namespaces that consumers request, the remote pods in these
// namespaces, and the EndpointSlices of their Services. The pure package offload computes these objects. Only
// this package makes pods in mapped namespaces, so it can count them.
package provider

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/secrets"
	"github.com/liqo-tui/liqo-tui/gateway/operator/signing"
)

// Options set the resources to lend, and the addresses that consumers use.
type Options struct {
	// APIServer is the URL of the API server that consumers get; "" for the address that the API servers
	// publish themselves.
	APIServer string
	// Lend is the most of each resource that all consumers together get. Only the nodes limit a resource that
	// it does not name.
	Lend corev1.ResourceList
	Home string // namespace of the operator
	// ProxyAddress is where the proxy to the API server listens, such as ":8118"; "" for no proxy.
	ProxyAddress string
}

// SetUp adds the controllers. of watches the Secrets of tenant namespaces.
func SetUp(mgr ctrl.Manager, recorder events.EventRecorder, o Options, of *secrets.Watch) error {
	c, reader := mgr.GetClient(), mgr.GetAPIReader()
	var errs []error
	if o.ProxyAddress != "" {
		p, err := newProxy(mgr.GetConfig(), o.ProxyAddress)
		if err != nil {
			return err
		}
		errs = append(errs, mgr.Add(p), (&proxyRoute{client: c, reader: reader, home: o.Home}).setup(mgr))
	}
	seen := control.NewDeletions(deletionsOf)
	used, err := setUpMapped(mgr, recorder, o.Home, seen)
	if err != nil {
		return err
	}
	t := &tenants{signer: signer{client: c, reader: reader, authority: signing.Authority{Config: mgr.GetConfig(), Clients: reader}}, recorder: recorder, options: o}
	return errors.Join(append(errs,
		(&nonces{client: c, reader: reader}).setup(mgr, of.Tell()),
		t.setup(mgr, of.Tell()),
		(&grants{tenants: t, used: used, seen: seen}).setup(mgr, of.Tell()),
		(&renews{client: c}).setup(mgr))...)
}
