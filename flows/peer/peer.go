package peer

import (
	"fmt"
	"slices"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/rights"
)

// Goal is the goal of two clusters of which one uses resources of the other.
type Goal struct {
	Params
	Network    flows.Goal // the connection; nil: it stays as it is
	Namespaces [2]string  // see [flows.Params]
}

// Settle implements [flows.Goal].
func (g Goal) Settle(f flows.Facts) flows.Goal {
	if g.Network != nil {
		g.Network = g.Network.Settle(f)
	}
	return g
}

// Plan implements [flows.Goal].
func (g Goal) Plan(f flows.Facts) flows.Plan {
	if g.Network == nil {
		return Plan(g.Params, nil, g.Namespaces, f)
	}
	return Plan(g.Params, g.Network.Plan, g.Namespaces, f)
}

// Whole implements [flows.Lending].
func (p *Params) Whole(network func(flows.Facts) flows.Plan, namespaces [2]string, f flows.Facts) flows.Plan {
	return Plan(*p, network, namespaces, f)
}

// Plan returns one plan for the connection and the lending of two clusters. network plans the
// connection. If network is nil, the plan does not change the connection.
func Plan(p Params, network func(flows.Facts) flows.Plan, namespaces [2]string, f flows.Facts) flows.Plan {
	plan := flows.Plan{A: f.Sides[flows.A].Name(), B: f.Sides[flows.B].Name()}
	if network != nil {
		plan = network(f)
	} else {
		plan.Steps = slices.DeleteFunc(flows.Obstacles(f), func(s flows.Step) bool { return s.Code == flows.CodeNetworks })
	}
	if plan.Failure() != nil {
		return plan
	}
	pair := newPair(p, namespaces, f)
	var way *flows.Step
	var notes []string
	if network != nil {
		way, notes = pair.chooseWay()
	}
	if steps := pair.obstacles(); len(steps) > 0 {
		plan.Steps = steps
		return plan
	}
	var needed []flows.Step
	if network == nil {
		plan.Steps = []flows.Step{pair.TenantNamespace(flows.A), pair.TenantNamespace(flows.B)}
	} else {
		needed = slices.DeleteFunc(slices.Clone(plan.Steps), func(s flows.Step) bool {
			return s.ID != flows.IDOf(pair.con, "cidrs")
		})
	}
	if way != nil {
		plan.Steps = append(plan.Steps, *way)
	}
	steps := slices.Concat(pair.unread(), pair.handshake(), pair.lend(needed))
	plan.Steps = append(plan.Steps, pair.explain(steps, map[flows.Code][]string{
		check.Handshake:   {"Secret"},
		check.Tenant:      {"Tenant"},
		check.Identity:    {"Identity"},
		check.Slice:       {"ResourceSlice"},
		check.VirtualNode: {"VirtualNode", "Deployment", "ReplicaSet", "Pod", "ResourceSlice"},
	})...)
	plan.Kept = slices.Concat(plan.Kept, notes, pair.notes())
	return plan
}

// ToObserve returns the rights that a user needs on a side to read the objects of lending, in addition
// to those for the connection. If one of the clusters can't be used, no plan creates the tenant
// namespace. Then the rights in the tenant namespace are included only if the namespace exists.
func ToObserve(namespaces [2]string, f flows.Facts, side flows.Side) []rights.Permission {
	c, tenant := f.Sides[side], ""
	if f.Sides[flows.A].ID != "" && f.Sides[flows.B].ID != "" {
		tenant = newPair(Params{}, namespaces, f).tenant(side).Namespace
	}
	if (f.Sides[flows.A].Problem != nil || f.Sides[flows.B].Problem != nil) && c.FindNamespace(tenant) == nil {
		tenant = ""
	}
	return rights.ToPeer(c.Namespace, tenant)
}

// Peered describes the result of the plan, in one or two sentences.
func Peered(p Params, f flows.Facts) string {
	pair := newPair(p, [2]string{}, f)
	switch s := pair.ready(); {
	case s.Status == flows.Done:
		return fmt.Sprintf("%s uses resources of %s: Node %s is %s.", pair.id(pair.con), pair.id(pair.pro), pair.nodeName(), s.Reason)
	case pair.granted().Status == flows.Done:
		return fmt.Sprintf("%s grants %s: %s. There is no virtual node for it.", pair.id(pair.pro), pair.id(pair.con), pair.granted().Reason)
	}
	return fmt.Sprintf("%s has access to %s.", pair.id(pair.con), pair.id(pair.pro))
}

// Unpeered describes the result of a removal, in a sentence or two.
func Unpeered(o RemoveOptions, f flows.Facts) string {
	if o.LocalOnly {
		f.Sides[flows.B].ID = o.Peer
	}
	pair := newPair(Params{Consumer: o.Consumer}, o.Namespaces, f)
	text := fmt.Sprintf("%s no longer uses resources of %s.", pair.id(pair.con), pair.id(pair.pro))
	if pair.AnyGateway(flows.A) != nil {
		text += " Their pods still reach each other."
	}
	return text
}

// TakesPods reports whether the virtual node is ready, so that pods can run on it.
func TakesPods(p Params, f flows.Facts) bool {
	pair := newPair(p, [2]string{}, f)
	return pair.ready().Status == flows.Done
}
