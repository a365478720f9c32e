package install

import (
	"fmt"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Removal is the goal of cluster A without our operator.
type Removal struct {
	// Found is set if there was one of our objects.
	Found bool
}

// Settle implements [flows.Goal].
func (r Removal) Settle(f flows.Facts) flows.Goal {
	// Before the cluster has answered, each plan has steps.
	r.Found = r.Found || f.Sides[flows.A].Installation.Asked() && !PlanRemoval(f).Empty()
	return r
}

// Plan implements [flows.Goal].
func (r Removal) Plan(f flows.Facts) flows.Plan { return PlanRemoval(f) }

// PlanRemoval returns the plan that removes our operator from cluster A, with all objects
// of the installation that have our label. Objects of the same names without our label
// stay. The CRDs stay, too: their deletion would delete all objects of their kinds, and
// other programs in the cluster may use these objects.
func PlanRemoval(f flows.Facts) flows.Plan {
	c := f.Sides[flows.A]
	plan := flows.Plan{A: c.Name()}
	if plan.Steps = flows.NoAnswer(f, flows.A); len(plan.Steps) > 0 {
		return plan
	}
	refuse := func(kind flows.FailureKind, code flows.Code, reason string, fix ...command.Hint) flows.Plan {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, code, "not changed", kind, reason, fix...)}
		return plan
	}
	if ending := c.EndingPeers(); len(ending) > 0 && len(ending) == len(c.KnownPeers()) {
		plan.Steps = []flows.Step{{
			ID: flows.IDOf(flows.A, "peers"), Side: flows.A, Action: flows.Wait, Title: "peerings end", Status: flows.Waiting,
			Code: flows.CodeDeletion, Reason: "what is left of " + flows.Some(ending) + " is being deleted",
		}}
		return plan
	}
	if peers := c.KnownPeers(); len(peers) > 0 {
		// Without the operator, the routes to a deleted gateway would stay on the nodes.
		return refuse(flows.FailedPreflight, flows.CodeUnfit, "it still has peers: "+flows.Some(peers), command.Hintf("run %s for each; %s lists them", c.OursWith("network", "reset"), c.Ours("info")))
	}
	if s := flows.InstalledElsewhere(flows.A, c); s != nil {
		return refuse(flows.FailedPreflight, flows.CodeUnfit, s.Reason, s.Fix...)
	}
	plan.Asks = []flows.Question{flows.AskInstallation{Side: flows.A}}
	if why := c.InstallationUnknown(); why != "" {
		return refuse(flows.FailedAccess, flows.CodeForbidden, why, seeInstallation())
	}
	if s := byHelm(c); s != nil {
		plan.Steps = []flows.Step{*s}
		return plan
	}
	if why := endsAccess(c, render.PeeringNone); why != "" {
		return refuse(flows.FailedPreflight, flows.CodeUnfit, why, command.Hintf("run %s for each", c.OursWith("unpeer")))
	}
	clean, kept := cleanNodes(c)
	plan.Steps, plan.Kept = append(plan.Steps, clean), append(plan.Kept, kept...)
	rest := c.Installation.Value() == nil
	plan.Steps = append(plan.Steps, withdraws(flows.A, c)...)
	if plan.Failure() != nil {
		return plan
	}
	// The rights are deleted before the objects that the programs write. Otherwise a
	// program that is still ending could write them again.
	for _, id := range []string{stepOperator, stepFabric, stepNames, stepRights, stepImports, stepTemplates, stepSettings} {
		s := removePart(c, id)
		if id == stepNames && len(s.Gone) == 0 {
			continue // few clusters have it
		}
		rest = rest || s.Status != flows.Done
		if s.Status == flows.Ready && clean.Status != flows.Done {
			s.Status, s.Reason, s.Objects = flows.Blocked, "needs the nodes to be clean", nil
		}
		plan.Steps = append(plan.Steps, s)
	}
	home := flows.RemoveNamespace(flows.A, stepHome, c.FindNamespace(c.Namespace), render.Tenant{Namespace: c.Namespace}, f.Contents[flows.A], rest)
	if c.Installation.Value() == nil {
		home.Asks = nil // after the next observation, the plan asks what the namespace contains
	}
	plan.Steps = append(plan.Steps, home)
	return plan
}

// cleanNodes returns the step that waits until the agents have removed our routes and rules from their
// nodes. An agent does this when it sees that the last gateway is gone, and nobody else could do it later.
// kept has a note if nodes can't be cleaned.
func cleanNodes(c flows.ClusterFacts) (s flows.Step, kept []string) {
	s = flows.Step{ID: flows.IDOf(flows.A, stepNodes), Side: flows.A, Action: flows.Wait, Title: titleOf(stepNodes), Status: flows.Done}
	var wait, stay, problems []string
	silent := 0
	for _, node := range c.Agents {
		switch status := c.AgentStatus[node]; {
		case status.Kernel == wire.KernelUnknown:
			silent++
		case status.Kernel == wire.KernelClean:
		case slices.Contains(c.Unattended, node):
			stay = append(stay, node)
		default:
			wait = append(wait, node)
			if status.Problem != "" {
				problems = append(problems, node+": "+status.Problem)
			}
		}
	}
	if len(stay) > 0 {
		kept = append(kept, fmt.Sprintf("our routes and rules stay on nodes of %s without an agent that is ready, until the nodes start again: %s", c.Name(), flows.Some(stay)))
	}
	switch {
	case len(wait) > 0:
		s.Status, s.Code = flows.Waiting, flows.CodeNotReady
		s.Reason = "the agents have not removed them yet: " + flows.Some(wait)
		if len(problems) > 0 {
			s.Reason += "; " + strings.Join(problems, "; ")
		}
	case silent > 0:
		s.Reason = fmt.Sprintf("not known for %d of %d nodes: their agents are older", silent, len(c.Agents))
	case c.AgentsUnknown:
		s.Reason = "not known: InternalNodes may not be read"
	case len(c.Agents) == 0:
		s.Reason = "not known: no agent has reported"
	case len(stay) > 0:
		s.Reason = "on all nodes but " + flows.Some(stay)
	default:
		s.Reason = fmt.Sprintf("reported by %d agents", len(c.Agents))
	}
	return s, kept
}

// removePart returns the step that removes our objects of one part of the installation.
func removePart(c flows.ClusterFacts, id string) flows.Step {
	if c.Installation.Value() == nil {
		return flows.Step{ID: flows.IDOf(flows.A, id), Side: flows.A, Action: flows.Delete, Title: titleOf(id), Status: flows.Blocked, Reason: "needs to be looked for"}
	}
	var all []flows.Step
	for _, o := range c.Installation.Value().Objects {
		if partOf(o) == id && render.MadeByUs(o) {
			all = append(all, flows.Remove(flows.A, id, flows.RefTo(o), o, ""))
		}
	}
	s := together(flows.A, id, all)
	s.Action, s.Title = flows.Delete, titleOf(id)
	if len(all) == 0 {
		s.Reason = "does not exist"
	}
	return s
}

// KeptNamespace returns the reason that a removal by this plan keeps the namespace of the
// installation; "" if it deletes the namespace.
func KeptNamespace(p flows.Plan) string {
	s, _ := p.Step(flows.IDOf(flows.A, stepHome))
	why, _ := strings.CutPrefix(s.Reason, flows.KeptBecause)
	if s.Status != flows.Done || why == s.Reason {
		return ""
	}
	return why
}

func titleOf(id string) string {
	for _, p := range parts {
		if p.id == id {
			return p.title
		}
	}
	switch id {
	case stepImports:
		return "imported Services"
	case stepNodes:
		return "nodes without our routes and rules"
	}
	return id
}
