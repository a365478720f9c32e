// Package consumer uses the resources of other clusters, with Liqo's kinds and by Liqo's contract.
//
// It makes this cluster's keys and kubeconfigs, requests resources, creates the virtual nodes for them, and
// requests namespaces for the offloaded ones. Package virtualnode runs the pods.
package consumer

import (
	"errors"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/secrets"
)

// SetUp adds the controllers. They reach providers by p. of watches the Secrets of tenant namespaces.
func SetUp(mgr ctrl.Manager, recorder events.EventRecorder, p *Providers, of *secrets.Watch) error {
	seen := control.NewDeletions(deletionsOf)
	return errors.Join(
		mgr.Add(p.keys),
		(&signatures{client: p.client, recorder: recorder, keys: p.keys}).setup(mgr, of.Tell()),
		(&identities{client: p.client, recorder: recorder, keys: p.keys}).setup(mgr, of.Tell()),
		(&copier{client: p.client, reader: p.reader, recorder: recorder, keys: p.keys, home: p.home, seen: seen}).setup(mgr),
		(&virtualNodes{cached: p.client, recorder: recorder, home: p.home}).setup(mgr),
		(&offloader{cached: p.client, home: p.home, seen: seen}).setup(mgr),
		(&strays{client: p.client}).setup(mgr))
}
