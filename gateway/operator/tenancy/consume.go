package tenancy

import (
	"errors"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/liqo-tui/liqo-tui/gateway/operator/own"
	"github.com/liqo-tui/liqo-tui/gateway/operator/secrets"
)

// setUpConsumer adds the controllers. p is what they reach, and of watches the Secrets of tenant namespaces.
func setUpConsumer(mgr ctrl.Manager, recorder events.EventRecorder, p *providers, of *secrets.Watch) error {
	seen := own.NewDeletions(deletionsOf)
	return errors.Join(
		mgr.Add(p.keys),
		(&signatures{client: p.client, recorder: recorder, keys: p.keys}).setup(mgr, of.Tell()),
		(&identities{client: p.client, recorder: recorder, keys: p.keys}).setup(mgr, of.Tell()),
		(&abroad{client: p.client, reader: p.reader, recorder: recorder, keys: p.keys, home: p.home, seen: seen}).setup(mgr),
		(&virtualNodes{cached: p.client, recorder: recorder, home: p.home}).setup(mgr),
		(&offloader{cached: p.client, home: p.home, seen: seen}).setup(mgr),
		(&strays{client: p.client}).setup(mgr))
}
