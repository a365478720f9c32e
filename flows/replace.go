package flows

import (
	"fmt"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// replacing blocks the step that makes a side's gateway while the side has a gateway of the opposite kind,
// because the server moves to the other cluster. A gateway can't change its kind. Both kinds have children
// with the same names, so the old gateway has to be deleted before the new one is created. The old server is
// replaced last: until the new server exists, an interrupted run needs the old one to read the settings
// again.
func (c Connection) replacing(side Side, s Step, role networkingv1beta1.ConnectionType) Step {
	var right, wrong wire.Object = c.Ends[side].Server, c.Ends[side].Client
	if role == networkingv1beta1.ConnectionTypeClient {
		right, wrong = wrong, right
	}
	conn := c.Ends[side].Connection
	switch {
	case !Exists(wrong) && !Exists(right) && conn != nil && conn.Spec.Type != role:
		s.Status, s.Reason, s.Code, s.Objects = Waiting, "the previous gateway's Connection still exists", CodeDeletion, nil
	case !Exists(wrong):
	case wrong.GetDeletionTimestamp() != nil:
		s.Status, s.Reason, s.Code, s.Objects = Waiting, kindOf(wrong)+" is still being deleted"+deletionState(wrong), CodeDeletion, nil
	default:
		s.Status, s.Action, s.Gone, s.Objects = Ready, Replace, []wire.Object{wrong}, []wire.Object{wrong}
		s.Reason = fmt.Sprintf("replaces %s %s (deleted and created again)", kindOf(wrong), wrong.GetName())
		s.Diff = goneDiff(wrong) + s.Diff
		if c.gatewayInterrupts(side) != "" {
			s.Interrupts = fmt.Sprintf("traffic between %s and %s is interrupted for some seconds, while the gateways are replaced", c.Facts.Sides[A].ID, c.Facts.Sides[B].ID)
		}
		if role == networkingv1beta1.ConnectionTypeClient && !Live(c.Ends[side.Other()].Server) {
			s.Status, s.Objects = Blocked, nil
			s.Reason += ", once the new server exists"
		}
	}
	return s
}

// dialledInVain reports whether the side hosts the server, and no packet arrives at either gateway.
func dialledInVain(f Facts, server Side) bool {
	if !Live(f.End(server).Server) || !Live(f.End(server.Other()).Client) {
		return false
	}
	for _, side := range []Side{A, B} {
		if cause := f.End(side).Reading().Cause(f.At); cause != wire.ReasonNoHandshake && cause != wire.ReasonPeerSilent {
			return false
		}
	}
	return true
}

// OtherWayFailed reports whether the gateways also failed to reach each other while the other cluster hosted
// the server.
func (p End) OtherWayFailed() bool {
	return p.Server != nil && p.Server.Annotations[wire.AnnotationOtherWay] != ""
}

func goneDiff(o wire.Object) string {
	text, err := apply.LiveYAML(o)
	if err != nil {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString("-" + line)
	}
	return b.String()
}

func kindOf(o wire.Object) string {
	if _, ok := o.(*networkingv1beta1.GatewayServer); ok {
		return kindServer
	}
	return kindClient
}

// carriesTraffic reports whether the last state that a gateway of either side reported was Connected. A
// tunnel may work although its gateway can't report now.
func (c Connection) carriesTraffic() bool {
	for _, end := range c.Ends {
		if r := end.Reading(); r.Exists && r.Value == networkingv1beta1.Connected {
			return true
		}
	}
	return false
}

// gatewayInterrupts describes the interruption if the side's gateway is deleted; "" if nothing is
// interrupted.
func (c Connection) gatewayInterrupts(side Side) string {
	if !c.carriesTraffic() || c.AnyGateway(side) == nil {
		return ""
	}
	return fmt.Sprintf("traffic between %s and %s stops", c.Facts.Sides[A].ID, c.Facts.Sides[B].ID)
}

// changeInterrupts describes the interruption if the gateway live is changed into want; "" if nothing is
// interrupted. now is live with the fields that our gateways change without interruption.
func (c Connection) changeInterrupts(side Side, live, now, want wire.Object) string {
	if !c.Facts.Sides[side].Can().ChangeInPlace {
		now = live
	}
	now = now.DeepCopyObject().(wire.Object)
	now.SetLabels(want.GetLabels())
	if !c.carriesTraffic() || apply.Contains(wire.FieldManager, now, want) {
		return ""
	}
	return fmt.Sprintf("traffic between %s and %s is interrupted for some seconds, until the gateways reach each other again", c.Facts.Sides[A].ID, c.Facts.Sides[B].ID)
}

// AnyGateway returns the side's gateway of either kind, with its kind set; nil if
// there is none.
func (c Connection) AnyGateway(side Side) wire.Object { return c.Ends[side].gateway() }

// Gateway returns the cluster's gateway for the peer, of either kind; nil if there is none.
func (p End) Gateway() wire.Object { return p.gateway() }

// gateway returns a copy of the peer's GatewayServer or, if there is none, of its
// GatewayClient, with its kind set; nil if there is neither.
func (p End) gateway() wire.Object {
	var o wire.Object
	switch {
	case p.Server != nil:
		o = p.Server.DeepCopy()
	case p.Client != nil:
		o = p.Client.DeepCopy()
	default:
		return nil
	}
	o.GetObjectKind().SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(kindOf(o)))
	return o
}

// Uninterrupting returns p, or a plan that fails if p interrupts traffic. complete is false while p may
// still get other steps.
func Uninterrupting(p Plan, f Facts) (_ Plan, complete bool) {
	if p.Failure() != nil || len(p.Open(f)) > 0 { // open answers may add interruptions
		return p, false
	}
	if interrupts := p.Interrupts(); len(interrupts) > 0 {
		p.Steps = []Step{Refuse(A, CodeInterrupts, "interruption", FailedPreflight,
			strings.Join(interrupts, "; "), command.Text("leave --strict out to accept the interruption"))}
		return p, false
	}
	return p, true
}
