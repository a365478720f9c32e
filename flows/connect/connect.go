// Package connect has the goal of two connected clusters. It decides the settings that an admin leaves
// open, and swaps the roles of the gateways if the client gets no answer.
package connect

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Goal is the goal of two connected clusters. Settings of existing gateways stay, unless the admin has
// given other values.
type Goal struct {
	flows.Params

	// Open has the fields that facts decide for a new connection.
	Open flows.Fields
	// Auto is set if facts also decide what the admin left out, see [flows.Params.Undecided]. Then the
	// plan says what they have decided.
	Auto bool
	// Seen is set if the admin has seen the values of the open fields. Facts don't change them then.
	Seen bool
	// Offer adds installations for clusters without an operator; nil adds none.
	Offer *install.Offer
	// Probe is set if test pods have to find the way between the clusters open, see [check.ClosedWay].
	Probe bool
	Reach *trial.Reach // the results of the test pods; nil before they ran

	// Exists is set by [Goal.Decide] if the clusters have gateways.
	Exists bool
	// Decisions are the settings that facts have decided.
	Decisions []flows.Decision
	// Swapped is the reason that the roles were swapped, as a sentence; "" if they were not.
	Swapped string

	settled  bool         // the settings stay
	refused  *flows.Step  // the reason that no plan is possible; nil if there is none
	given    flows.Fields // the fields that existing gateways don't change
	said     []string     // sentences about the decisions
	kept     []string     // [flows.Plan.Kept] of the first plan
	either   bool         // either cluster may host the server
	otherWay bool         // [flows.Params.OtherWay] of the first plan
	asked    flows.Fields // the fields that the admin chose
	since    time.Time    // when the client began to dial in vain; zero if it does not
}

// Suggested returns the goal of a connection in which facts decide all that they can, unless the admin
// has chosen it.
func Suggested(p flows.Params) Goal {
	return Goal{Params: p, Open: (flows.FieldServer | flows.FieldServiceType | flows.FieldMTU) &^ p.Given}
}

// Settle implements [flows.Goal]. It settles the goal at the first facts from which a plan can be made:
// if a gateway is replaced during the run, its settings are not lost.
func (g Goal) Settle(f flows.Facts) flows.Goal {
	if g.settled {
		return g.revise(f)
	}
	if d := g.Decide(f); d.settled {
		return d
	}
	return g
}

// Plan implements [flows.Goal].
func (g Goal) Plan(f flows.Facts) flows.Plan {
	if !g.settled {
		g = g.Decide(f)
	}
	if g.refused != nil {
		return flows.Plan{Steps: []flows.Step{*g.refused}, A: f.Sides[flows.A].ID, B: f.Sides[flows.B].ID}
	}
	plan := g.plan(f)
	if g.settled {
		plan.Kept = slices.Concat(g.said, g.kept)
	}
	return plan
}

// plan returns the plan with the given fields, also if existing gateways have other values.
func (g Goal) plan(f flows.Facts) flows.Plan {
	p := g.Params
	p.Given, p.OtherWay = g.given, g.otherWay
	return flows.PlanConnect(p, f)
}

// Decide returns the goal with the settings that follow from the facts f. Given and Preset stay: they
// are the admin's choices.
func (g Goal) Decide(f flows.Facts) Goal {
	if f.Reach == nil {
		f.Reach = g.Reach
	}
	if g.Offer != nil {
		if g.Install, g.refused = g.Offer.Installations(f); g.refused != nil {
			return g
		}
	}
	p := g.Params
	if _, g.Exists = flows.Adopt(p, f); !g.Exists {
		p.Given |= p.Preset
		g.asked = p.Given
		g.either = p.Given&ofOne == 0 && (g.Open.Has(flows.FieldServer) || g.Auto && p.Given&^flows.FieldMTU == 0)
		if !g.Seen {
			p, g.Decisions = p.Decide(g.open(p, f), f)
		}
	}
	first := flows.PlanConnect(p, f)
	g.given, g.kept = p.Given, first.Kept
	p.Given = g.Given
	if g.Params, _ = flows.Adopt(p, f); first.Failure() != nil {
		return g
	}
	if g.say(p, f); g.refused == nil {
		g.settled, g.given, g.otherWay = true, flows.AllFields, first.Params.OtherWay
	}
	return g
}

// open returns the fields that facts decide.
func (g Goal) open(p flows.Params, f flows.Facts) flows.Fields {
	if g.Auto {
		return g.Open | p.Undecided(f)
	}
	return g.Open
}

// say sets the sentences about the decisions, or the reason that the way between the clusters is closed.
func (g *Goal) say(p flows.Params, f flows.Facts) {
	g.said = nil
	if g.Auto {
		for _, d := range g.Decisions {
			g.said = append(g.said, fmt.Sprintf("--%s is %s, because %s", d.Setting.Name, d.Setting.Write(p), d.Why))
		}
	}
	if !g.Probe {
		return
	}
	g.refused = check.ClosedWay(p, f)
	g.said = append(g.said, check.UntriedWay(p, f)...)
	if g.Reach == nil {
		g.said = append(g.said, "UDP was not tried, because a dry run makes no pods. check --pre --probe tries it")
	}
}

// Suggestion returns p with the value that facts suggest for a setting. The reason completes the
// sentence "… because …".
func Suggestion(s flows.ConnectionSetting, p flows.Params, f flows.Facts) (_ flows.Params, why string) {
	why = flows.Suggest(s, &p, f)
	return p, why
}

// ofOne has the settings that fit only one side. The roles are not swapped under them.
const ofOne = flows.FieldServer | flows.FieldNodePort | flows.FieldLoadBalancerIP | flows.FieldClientAddress | flows.FieldClientPort | flows.FieldRelay |
	flows.FieldServerTemplate | flows.FieldClientTemplate

// These are the times without an answer after which the roles are swapped. Gateways that can
// reach each other do so within a second after both run. A cloud's load balancer may have an
// address minutes before it forwards packets.
const (
	dialTimeout     = 20 * time.Second
	balancerTimeout = 4 * time.Minute
)

// revise swaps the roles once, if the client gets no answer. This helps because a firewall or a NAT
// allows answers to packets that come from behind it.
func (g Goal) revise(f flows.Facts) Goal {
	if !g.either || g.Swapped != "" {
		return g
	}
	switch c := flows.NewConnection(g.Params, f); {
	case !dialsInVain(c) || g.plan(f).Failure() != nil:
		g.since = time.Time{}
	case g.since.IsZero():
		g.since = f.At
	case f.At.Sub(g.since) >= patience(c):
		server := g.Server
		g.Swapped = fmt.Sprintf("%s hosts the server now, because its gateway got no answer from %s for %s",
			f.Sides[server.Other()].Name(), f.Sides[server].Name(), patience(c))
		g.Server = server.Other()
		if !g.asked.Has(flows.FieldServiceType) {
			g.ServiceType, _ = flows.SuggestServiceType(f.Sides[g.Server])
		}
		first := g.plan(f)
		g.otherWay = first.Params.OtherWay
		g.said, g.kept = append(slices.Clip(g.said), g.Swapped), first.Kept
	}
	return g
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
