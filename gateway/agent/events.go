package agent

import (
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// troubleLasts is how long a trouble lasts before an Event tells of it. Each
// connection begins with some that pass.
const troubleLasts = 10 * time.Second

// told is what Events have said of a Connection.
type told struct {
	reason wire.Reason // "": nothing yet
	now    wire.Reason // what is so now, and since when
	since  time.Time
}

// due reports whether an Event is: at once when the gateways are connected, later when
// they are not.
func (t *told) due(now time.Time, value networkingv1beta1.ConnectionStatusValue, reason wire.Reason) bool {
	if reason != t.now {
		t.now, t.since = reason, now
	}
	return reason != t.reason && (value == networkingv1beta1.Connected || now.Sub(t.since) >= troubleLasts)
}

// record has the API server keep what the Connection says now. The recorder counts
// what is the same again, and writes that every 6 minutes at most: a tunnel that comes and
// goes writes no more than one that stays.
func record(r recorder.EventRecorder, about *networkingv1beta1.Connection, value networkingv1beta1.ConnectionStatusValue, said wire.Report) {
	kind, reason := corev1.EventTypeWarning, string(said.Reason)
	switch {
	case value == networkingv1beta1.Connected:
		kind, reason = corev1.EventTypeNormal, string(networkingv1beta1.Connected)
	case said.Reason == wire.ReasonNoKey, said.Reason == wire.ReasonNoEndpoint: // what the peer's admin is about to give
		kind = corev1.EventTypeNormal
	}
	r.Eventf(wire.EventAbout(about), nil, kind, reason, "Ping", "%s", wire.EventNote(said.Message))
}
