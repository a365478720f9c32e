package flows

import (
	"fmt"
)

// preflight is what must hold before anything is planned. The steps it returns
// have failed; none means that all is well.
func preflight(f Facts) []Step {
	var steps []Step
	for _, side := range []Side{A, B} {
		if s := fitness(side, f.Side(side)); s != nil {
			steps = append(steps, *s)
		}
	}
	if len(steps) > 0 {
		return steps
	}
	a, b := f.Local, f.Remote
	switch {
	case a.UID == b.UID:
		return []Step{failure(B, "clusters are different", FailedPreflight,
			fmt.Sprintf("%s and %s are the same cluster (kube-system has UID %s in both)", a.Context, b.Context, a.UID),
			"choose another context with --context or --remote-context")}
	case a.ID == b.ID:
		return []Step{failure(B, "cluster IDs are different", FailedPreflight,
			fmt.Sprintf("both clusters call themselves %q", a.ID),
			"install one of them with another --cluster-id")}
	}
	return nil
}

func fitness(side Side, c ClusterFacts) *Step {
	var s Step
	switch {
	case c.Problem != nil:
		s = failure(side, "cluster answers", FailedUnreachable, c.Problem.Message, c.Problem.Hint)
	case !c.HasCRDs || c.Software == NoSoftware && c.ID == "":
		s = failure(side, "Liqo or our operator is installed", FailedPreflight,
			fmt.Sprintf("%s has neither Liqo nor the liqo-tui operator", c.Context),
			fmt.Sprintf("run: liqo-tui install --context %s --cluster-id NAME", c.Context.Name))
	case c.ID.Validate() != nil:
		s = failure(side, "cluster has an ID", FailedPreflight, c.ID.Validate().Error(),
			fmt.Sprintf("set it in ConfigMap liqo-clusterid-configmap in namespace %s", c.Namespace))
	case len(c.Networks.Pod) == 0 || len(c.Networks.External) == 0:
		s = failure(side, "cluster knows its address ranges", FailedPreflight,
			fmt.Sprintf("no Network of type pod-cidr or external-cidr with a status in namespace %s", c.Namespace),
			"is the operator running? see: kubectl -n "+c.Namespace+" get pods,networks")
	default:
		return nil
	}
	return &s
}

func failure(side Side, title string, kind FailureKind, reason, hint string) Step {
	return Step{
		ID: stepID(side, "preflight"), Side: side, Action: Wait, Title: title,
		Status: Failed, Kind: kind, Reason: reason, Hint: hint,
	}
}
