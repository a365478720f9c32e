package flows

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

// How long a client dials in vain before the other cluster hosts the server. Gateways
// that can reach each other do so within a second after both run. A cloud's load
// balancer may have an address minutes before it passes packets on.
const (
	dialledLong           = 20 * time.Second
	dialledLongByBalancer = 4 * time.Minute
)

// Swappable reports whether either cluster may host the server of a connection that
// is not there yet: nobody has said which one, or anything that holds for one only.
// open are the fields that facts decide because the admin says so.
func (p Params) Swappable(open Fields, f Facts) bool {
	const ofOne = FieldServer | FieldNodePort | FieldLoadBalancerIP | FieldClientAddress | FieldClientPort | FieldServerTemplate | FieldClientTemplate
	_, exists := Adopt(p, f)
	return !exists && p.Given&ofOne == 0 && (open.Has(FieldServer) || p.Given&^FieldMTU == 0)
}

// Swapping is [Connecting] for such a connection: where the client gets no answer, the
// roles are swapped, once. A firewall or a NAT lets through what is dialled from behind it.
// asked are the fields that the admin has chosen.
func Swapping(p Params, asked Fields) func(Facts) Plan {
	run, why := Connecting(p), ""
	var since time.Time
	return func(f Facts) Plan {
		plan := run(f)
		switch c := NewConnection(plan.Params, f); {
		case why != "":
		case plan.Failure() != nil || !c.dialsInVain():
			since = time.Time{}
		case since.IsZero():
			since = f.At
		case f.At.Sub(since) >= c.patience():
			server := plan.Params.Server
			why = fmt.Sprintf("%s hosts the server now, because its gateway got no answer from %s for %s",
				f.Side(server.Other()).Name(), f.Side(server).Name(), c.patience())
			p = plan.Params
			p.Server = server.Other()
			if !asked.Has(FieldServiceType) {
				p.ServiceType, _ = SuggestServiceType(f.Side(p.Server))
			}
			p.Given = AllFields
			run = Connecting(p)
			plan = run(f)
		}
		if why != "" {
			plan.Kept = append([]string{why}, plan.Kept...)
		}
		return plan
	}
}

// dialsInVain reports whether both gateways run and know each other's keys, and no
// packet of the client has come to the server, as both say.
func (c Connection) dialsInVain() bool {
	for _, side := range []Side{A, B} {
		s := c.Connected(side)
		if s.Status != Waiting || s.Code != CodeTunnel || c.Peers[side].Reading().Cause(c.Facts.At) != render.ReasonNoHandshake {
			return false
		}
	}
	return true
}

func (c Connection) patience() time.Duration {
	if c.Params.ServiceType == corev1.ServiceTypeLoadBalancer {
		return dialledLongByBalancer
	}
	return dialledLong
}
