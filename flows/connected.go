package flows

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

// connected waits for the side's own claim that it reaches the other gateway.
func (c connection) connected(side Side) Step {
	peer := c.peers[side]
	s := Step{ID: stepID(side, "connected"), Side: side, Action: Wait, Title: "Connection", Status: Waiting, Code: CodeTunnel}
	owner := c.gateway(side)
	switch conn := peer.Connection; {
	case !exists(owner):
		s.Status, s.Reason, s.Code = Blocked, "needs the gateway", ""
	case conn == nil:
		s.Reason = cmp.Or(podWait(peer.Pod), "the gateway has reported nothing yet")
	case conn.Spec.GatewayRef.UID != "" && conn.Spec.GatewayRef.UID != owner.GetUID():
		s.Reason = "waiting for this gateway's Connection, there is still the previous one's"
	case conn.Status.Value == networkingv1beta1.Connected:
		s.Status, s.Reason = c.claim(peer, owner)
	default:
		s.Reason = connectingReason(conn, peer.Pod)
	}
	if s.Status == Waiting && podWait(peer.Pod) != "" {
		s.Code = CodePod
	}
	return s
}

// claim judges a Connection that says Connected: whether that is still so, and
// whether it is about the gateways as they are now.
func (c connection) claim(peer Peer, owner render.Object) (Status, string) {
	report, ok, err := peer.report()
	switch {
	case err != nil:
		return Waiting, err.Error()
	case ok && report.Stale(c.facts.At):
		return Waiting, fmt.Sprintf("waiting for a new report, the last one is %s old", c.facts.At.Sub(report.At).Round(time.Second))
	case !peer.current(report, ok, owner):
		reason := "waiting for a report newer than the change"
		if strings.Contains(report.Message, "; ") { // that, and what is wrong all the same
			reason += "; the gateway says: " + report.Message
		}
		return Waiting, reason
	}
	if latency := peer.Connection.Status.Latency.Value; latency != "" && latency != render.FormatLatency(0) {
		return Done, "Connected, latency " + latency
	}
	return Done, "Connected"
}

// current reports whether a Connection's claim is newer than the last change of
// what the gateway was told. Gateways of ours say which generation they speak
// of. Of others the time has to do, to the second that the API server notes.
func (p Peer) current(report render.Report, reported bool, owner render.Object) bool {
	if report.Generation > 0 {
		return report.Generation >= owner.GetGeneration()
	}
	at := p.ours(p.Connection.Status.Latency.Timestamp.Time)
	if reported {
		at = report.At
	}
	if at.IsZero() {
		return true // nothing tells
	}
	changed := p.specChanged(owner)
	if p.PublicKey != nil {
		changed = later(changed, p.specChanged(p.PublicKey))
	}
	return !at.Before(changed)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// specChanged is when an object's spec was last written, as far as the API
// server has noted it: to the second, and by the cluster's clock.
func specChanged(o render.Object) time.Time {
	changed := o.GetCreationTimestamp().Time
	for _, e := range o.GetManagedFields() {
		if e.Subresource == "" && e.Time != nil && touchesSpec(e) {
			changed = later(changed, e.Time.Time)
		}
	}
	return changed
}

func touchesSpec(e metav1.ManagedFieldsEntry) bool {
	return e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:spec"`))
}

func connectingReason(conn *networkingv1beta1.Connection, pod *PodFacts) string {
	if wait := podWait(pod); wait != "" {
		return wait
	}
	if report, ok, err := render.ParseReport(conn.Annotations); ok && err == nil && report.Message != "" {
		if report.Reason == render.ReasonPinged {
			return "pings are answered, waiting for the state" // the gateway writes its reason first
		}
		return report.Message
	}
	if conn.Status.Value == "" {
		return "waiting for the gateway's first report"
	}
	return "its state is " + string(conn.Status.Value)
}

func podWait(pod *PodFacts) string {
	if pod == nil || pod.Waiting == "" {
		return ""
	}
	return "pod " + pod.Name + ": " + pod.Waiting
}

// verified is done by a packet that was measured from pod to pod.
func (c connection) verified() Step {
	s := Step{ID: "verified", Side: A, Action: Verify, Title: "packets from pod to pod"}
	m := c.facts.Measured
	switch {
	case c.connected(A).Status != Done || c.connected(B).Status != Done:
		s.Status, s.Reason = Blocked, "needs both Connections"
	case m == nil:
		s.Status = Ready
	case m.OK:
		s.Status, s.Reason = Done, m.Result
	default:
		s.Status, s.Kind, s.Code, s.Reason, s.Hint = Failed, FailedVerify, CodeVerification, m.Result, m.Hint
	}
	return s
}
