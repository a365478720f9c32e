package flows

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Connected waits until the side's gateway reports that it reaches the other one.
func (c Connection) Connected(side Side) Step {
	end := c.Ends[side]
	s := Step{ID: IDOf(side, "connected"), Side: side, Action: Wait, Title: "Connection", Status: Waiting, Code: CodeTunnel}
	owner := c.Gateway(side)
	r := end.Reading()
	state, why := r.State(c.Facts.At)
	switch conn := end.Connection; {
	case !Exists(owner):
		s.Status, s.Reason, s.Code = Blocked, "needs the gateway", ""
	case conn != nil && conn.Spec.GatewayRef.UID != "" && conn.Spec.GatewayRef.UID != owner.GetUID():
		s.Reason = "waiting for this gateway's Connection, there is still the previous one's"
	case !state.Works():
		s.Reason = why
	case c.Facts.Sides[side].Can().RouteByReadiness && end.Pod != nil && !end.Pod.Ready:
		s.Reason = "waiting for the kubelet to report the gateway's pod: only then do the nodes know where it is"
	case !end.current(r, owner):
		s.Reason = "waiting for a report newer than the change"
		if strings.Contains(r.Message, "; ") { // the gateway adds remarks after "; "
			s.Reason += "; the gateway says: " + r.Message
		}
	case !r.Enforces(c.Params.Allow[side]):
		s.Reason = fmt.Sprintf("waiting for the gateway to report that it allows the peer's pods: %s", c.Params.Allow[side])
		if r.Allow == "" {
			s.Reason += "; it reports nothing about it: a gateway of an earlier release lets them reach all pods"
		}
	default:
		s.Status, s.Reason = Done, "Connected"
		if r.Latency > 0 {
			s.Reason += ", latency " + wire.FormatLatency(r.Latency)
		}
	}
	if s.Status == Waiting && r.Waiting != "" {
		s.Code = CodePod
	}
	return s
}

// current reports whether a Connection's status is newer than the last change of the gateway's
// settings. Our gateways report the generation. For other gateways, the time decides, to the
// second.
func (p End) current(r Reading, owner wire.Object) bool {
	if r.Generation > 0 {
		return r.Generation >= owner.GetGeneration()
	}
	if r.At.IsZero() {
		return true // the status has no time
	}
	changed := p.specChanged(owner)
	if p.PublicKey != nil {
		changed = later(changed, p.specChanged(p.PublicKey))
	}
	return !r.At.Before(changed)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// specChanged returns the time of the last write of an object's spec, to the second, by the
// cluster's clock.
func specChanged(o wire.Object) time.Time {
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

// verified is done when packets have passed from pod to pod.
func (c Connection) verified() Step {
	s := Step{ID: "verified", Side: A, Action: Verify, Title: "packets from pod to pod"}
	m := c.Facts.Measured.Value()
	switch {
	case c.Connected(A).Status != Done || c.Connected(B).Status != Done:
		s.Status, s.Reason = Blocked, "needs both Connections"
	case m == nil:
		s.Status = Ready
	case m.OK:
		s.Status, s.Reason = Done, m.Result
	default:
		s.Fail(FailedVerify, CodeVerification, m.Result, m.Fix)
	}
	return s
}
