package flows

import (
	"fmt"
	"strings"

	"github.com/liqo-tui/liqo-tui/render"
)

// PlanUninstall removes our operator from cluster A, as far as its objects carry
// our label: what has the same name and is somebody else's stays. The definitions
// stay: deleting them would delete all that they define, on clusters that share
// them with others too.
func PlanUninstall(f Facts) Plan {
	c := f.Local
	plan := Plan{A: c.Name()}
	if plan.Steps = unreachable(f, A); len(plan.Steps) > 0 {
		return plan
	}
	refuse := func(kind FailureKind, code Code, reason, hint string) Plan {
		plan.Steps = []Step{failure(A, code, "not changed", kind, reason, hint)}
		return plan
	}
	if n := len(c.KnownPeers()); n > 0 {
		// Without the operator nobody would clean the nodes up after a gateway.
		return refuse(FailedPreflight, CodeUnfit, fmt.Sprintf("it still has %d peers", n), "run liqo-tui network reset for each; liqo-tui info lists them")
	}
	if s := InstalledElsewhere(A, c); s != nil {
		return refuse(FailedPreflight, CodeUnfit, s.Reason, s.Hint)
	}
	plan.Installs[A] = true
	if c.Installation != nil && c.Installation.Unknown != "" {
		return refuse(FailedAccess, CodeForbidden, c.Installation.Unknown, "ask the cluster's administrator for the right to read it")
	}
	rest := c.Installation == nil
	// The rights go before what the programs write: they may still be ending.
	for _, id := range []string{stepOperator, stepFabric, stepRights, stepTemplates, stepSettings} {
		s := c.removePart(id)
		rest = rest || s.Status != Done
		plan.Steps = append(plan.Steps, s)
	}
	plan.Steps = append(plan.Steps, removeNamespace(A, stepHome, c.FindNamespace(c.Namespace), render.Tenant{Namespace: c.Namespace}, f.Contents[A], rest))
	return plan
}

// removePart removes what is ours of one part of the installation.
func (c ClusterFacts) removePart(id string) Step {
	if c.Installation == nil {
		return Step{ID: stepID(A, id), Side: A, Action: Delete, Title: titleOf(id), Status: Blocked, Reason: "needs to be looked for"}
	}
	var all []Step
	for _, o := range c.Installation.Objects {
		if partOf(o) == id && ours(o) {
			all = append(all, remove(A, id, RefTo(o), o, ""))
		}
	}
	s := together(A, id, all)
	s.Action, s.Title = Delete, titleOf(id)
	if len(all) == 0 {
		s.Reason = "does not exist"
	}
	return s
}

// KeptNamespace says why a plan's installation keeps its namespace, "" if it does
// not.
func KeptNamespace(p Plan) string {
	s, _ := p.Step(stepID(A, stepHome))
	why, _ := strings.CutPrefix(s.Reason, keptBecause)
	if s.Status != Done || why == s.Reason {
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
	return id
}
