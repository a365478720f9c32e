package flows

import (
	"fmt"

	"github.com/liqo-tui/liqo-tui/render"
)

// PlanReset removes the connection of the two clusters and what they know of
// each other. What others own stays: a tenant namespace goes only if we made it.
func PlanReset(f Facts) Plan {
	plan := Plan{A: f.Local.name(), B: f.Remote.name()}
	if steps := preflight(f); len(steps) > 0 {
		plan.Steps = steps
		return plan
	}
	c := newConnection(Params{}, f)
	plan.Steps = append(c.removeGateways(),
		c.removeConfiguration(A), c.removeConfiguration(B),
		c.removeNamespace(A), c.removeNamespace(B),
	)
	return plan
}

// PlanDisconnect removes the gateways. What the clusters know of each other
// stays, so connecting again gives the same addresses.
func PlanDisconnect(f Facts) Plan {
	plan := Plan{A: f.Local.name(), B: f.Remote.name()}
	if steps := preflight(f); len(steps) > 0 {
		plan.Steps = steps
		return plan
	}
	plan.Steps = newConnection(Params{}, f).removeGateways()
	return plan
}

func (c connection) removeGateways() []Step {
	return []Step{
		c.removeClient(A), c.removeClient(B), c.removeServer(A), c.removeServer(B),
		c.removeKey(A), c.removeKey(B),
		c.drained(A), c.drained(B),
	}
}

func (c connection) removeClient(side Side) Step {
	return remove(side, "gateway-client", "GatewayClient "+string(c.peers[side].Tenant.Remote), c.peers[side].Client)
}

func (c connection) removeServer(side Side) Step {
	return remove(side, "gateway-server", "GatewayServer "+string(c.peers[side].Tenant.Remote), c.peers[side].Server)
}

// removeKey is for keys that no gateway on this side owns.
func (c connection) removeKey(side Side) Step {
	return remove(side, "public-key", "PublicKey "+string(c.peers[side].Tenant.Remote), c.peers[side].PublicKey)
}

// drained waits until the gateway's children are gone: its pod still carries
// traffic until then, and its interfaces exist.
func (c connection) drained(side Side) Step {
	peer := c.peers[side]
	s := Step{ID: stepID(side, "drained"), Side: side, Action: Wait, Title: "gateway is gone", Status: Done}
	pods := 0
	for _, pod := range c.facts.Side(side).Pods {
		if pod.Namespace == peer.Tenant.Namespace {
			pods++
		}
	}
	switch {
	case peer.Client != nil || peer.Server != nil:
		s.Status, s.Reason = Blocked, "needs the gateway to be deleted"
	case pods > 0:
		s.Status, s.Reason = Waiting, fmt.Sprintf("%d gateway pod still ends", pods)
	case peer.Connection != nil:
		s.Status, s.Reason = Waiting, "the Connection still exists"
	}
	return s
}

// removeConfiguration comes after the gateway's own object: Liqo's controllers
// need it to clean up after a gateway. Pods may still end.
func (c connection) removeConfiguration(side Side) Step {
	title := "Configuration " + string(c.peers[side].Tenant.Remote)
	if c.peers[side].Client != nil || c.peers[side].Server != nil {
		return blocked(side, Delete, "configuration", title, "needs the gateway to be deleted")
	}
	return remove(side, "configuration", title, c.peers[side].Configuration)
}

func (c connection) removeNamespace(side Side) Step {
	peer := c.peers[side]
	title := "Namespace " + peer.Tenant.Namespace
	ns := peer.Namespace
	switch {
	case ns != nil && ns.Labels[render.LabelManagedBy] != render.ManagedBy:
		return Step{ID: stepID(side, "namespace"), Side: side, Action: Delete, Title: title, Status: Done, Reason: "kept: liqo-tui did not make it"}
	case peer.Configuration != nil || c.drained(side).Status != Done:
		return blocked(side, Delete, "namespace", title, "needs the rest to be gone")
	}
	s := remove(side, "namespace", title, ns)
	if s.Status == Waiting {
		// Kubernetes takes its own 5 s for an empty namespace; nothing of the
		// connection is left by now, and the next connect waits for it.
		s.Status, s.Reason = Done, "being deleted by Kubernetes"
	}
	return s
}
