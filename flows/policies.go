package flows

import "github.com/liqo-tui/liqo-tui/flows/policy"

// AskPolicies asks for the NetworkPolicies of a cluster, and for the pods that they
// isolate.
type AskPolicies struct{ Side Side }

// On implements [Question].
func (q AskPolicies) On() Side { return q.Side }

// Terms implements [Question]. A run changes no policies.
func (q AskPolicies) Terms() Terms { return Terms{Lasts: true} }

func (q AskPolicies) slot(f *Facts) slot { return q.in(f) }

func (q AskPolicies) in(f *Facts) *Answer[policy.Facts] { return &f.Sides[q.Side].Policies }

// PoliciesUnknown returns the reason that some NetworkPolicies or pods are unknown; ""
// if all are known, or if the question was not asked.
func (c ClusterFacts) PoliciesUnknown() string {
	if f := c.Policies.Value(); f != nil {
		return f.Unknown
	}
	return c.Policies.Unknown()
}
