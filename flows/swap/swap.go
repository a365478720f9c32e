// Package swap plans connections whose server may be on either side. If the client gets no
// answer, the plan swaps the roles.
package swap

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// These are the times without an answer after which the roles are swapped. Gateways that can
// reach each other do so within a second after both run. A cloud's load balancer may have an
// address minutes before it forwards packets.
const (
	dialTimeout     = 20 * time.Second
	balancerTimeout = 4 * time.Minute
)

// Possible reports whether either cluster may host the server of a connection that does not
// exist yet. It is false if the admin chose the server's side, or a setting that fits only one
// side. open has the fields that facts decide.
func Possible(p flows.Params, open flows.Fields, f flows.Facts) bool {
	const ofOne = flows.FieldServer | flows.FieldNodePort | flows.FieldLoadBalancerIP | flows.FieldClientAddress | flows.FieldClientPort | flows.FieldRelay |
		flows.FieldServerTemplate | flows.FieldClientTemplate
	_, exists := flows.Adopt(p, f)
	return !exists && p.Given&ofOne == 0 && (open.Has(flows.FieldServer) || p.Given&^flows.FieldMTU == 0)
}

// Connecting is [flows.Connecting] for such a connection. If the client gets no answer, it
// swaps the roles once. This helps because a firewall or a NAT allows answers to packets that
// come from behind it. asked has the fields that the admin chose.
func Connecting(p flows.Params, asked flows.Fields) flows.Planner {
	run, why := flows.Connecting(p), ""
	var since time.Time
	return func(f flows.Facts) flows.Plan {
		plan := run(f)
		switch c := flows.NewConnection(plan.Params, f); {
		case why != "":
		case plan.Failure() != nil || !dialsInVain(c):
			since = time.Time{}
		case since.IsZero():
			since = f.At
		case f.At.Sub(since) >= patience(c):
			server := plan.Params.Server
			why = fmt.Sprintf("%s hosts the server now, because its gateway got no answer from %s for %s",
				f.Sides[server.Other()].Name(), f.Sides[server].Name(), patience(c))
			p = plan.Params
			p.Server = server.Other()
			if !asked.Has(flows.FieldServiceType) {
				p.ServiceType, _ = flows.SuggestServiceType(f.Sides[p.Server])
			}
			p.Given = flows.AllFields
			run = flows.Connecting(p)
			plan = run(f)
		}
		if why != "" {
			plan.Kept = append([]string{why}, plan.Kept...)
		}
		return plan
	}
}

// dialsInVain reports whether both gateways run and know each other's keys, and both report
// that no packet of the client has arrived at the server.
func dialsInVain(c flows.Connection) bool {
	for _, side := range []flows.Side{flows.A, flows.B} {
		s := c.Connected(side)
		if s.Status != flows.Waiting || s.Code != flows.CodeTunnel || c.Ends[side].Reading().Cause(c.Facts.At) != wire.ReasonNoHandshake {
			return false
		}
	}
	return true
}

func patience(c flows.Connection) time.Duration {
	if c.Params.ServiceType == corev1.ServiceTypeLoadBalancer {
		return balancerTimeout
	}
	return dialTimeout
}
