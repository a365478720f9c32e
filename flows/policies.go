package flows

import "github.com/liqo-tui/liqo-tui/flows/policy"

// AskPolicies asks for the NetworkPolicies of a cluster, and the pods that they isolate.
type AskPolicies struct{ Side Side }

// On implements [Question].
func (q AskPolicies) On() Side { return q.Side }

// Terms implements [Question]. A run changes no policies.
func (q AskPolicies) Terms() Terms { return Terms{Lasts: true} }

func (q AskPolicies) slot(f *Facts) slot { return q.in(f) }

func (q AskPolicies) in(f *Facts) *Answer[policy.Facts] { return &f.Sides[q.Side].Policies }

// PoliciesUnknown returns the reason that not all NetworkPolicies and pods are known; ""
// if they are, or if nobody has asked.
func (c ClusterFacts) PoliciesUnknown() string {
	if f := c.Policies.Value(); f != nil {
		return f.Unknown
	}
	return c.Policies.Unknown()
}
