package agent

import (
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// troubleLasts is the time that a problem must last before an Event reports it, because every connection
// begins with short problems.
const troubleLasts = 10 * time.Second

// told holds the last Event about a Connection, and the problem for the next one.
type told struct {
	reason wire.Reason // of the last Event; "" if there was none
	now    wire.Reason // the present reason
	since  time.Time   // when now became the reason
}

// due reports whether an Event is due: at once if the gateways are connected, else after
// troubleLasts.
func (t *told) due(now time.Time, value networkingv1beta1.ConnectionStatusValue, reason wire.Reason) bool {
	if reason != t.now {
		t.now, t.since = reason, now
	}
	return reason != t.reason && (value == networkingv1beta1.Connected || now.Sub(t.since) >= troubleLasts)
}

// record writes an Event with the Connection's present state. The recorder counts repeated Events, and writes
// the count at most every 6 minutes. So an unstable tunnel causes no more writes than a stable one.
func record(r recorder.EventRecorder, about *networkingv1beta1.Connection, value networkingv1beta1.ConnectionStatusValue, said wire.Report) {
	kind, reason := corev1.EventTypeWarning, string(said.Reason)
	switch {
	case value == networkingv1beta1.Connected:
		kind, reason = corev1.EventTypeNormal, string(networkingv1beta1.Connected)
	case said.Reason == wire.ReasonNoKey, said.Reason == wire.ReasonNoEndpoint: // the peer's admin still has to provide the key or the endpoint
		kind = corev1.EventTypeNormal
	}
	r.Eventf(wire.EventAbout(about), nil, kind, reason, "Ping", "%s", wire.EventNote(said.Message))
}
