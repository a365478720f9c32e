package lending

import (
	"fmt"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Amounts are resources in words, sorted.
func Amounts(r corev1.ResourceList) string {
	if len(r) == 0 {
		return "nothing"
	}
	var out []string
	for name, q := range r {
		out = append(out, fmt.Sprintf("%s %s", name, q.String()))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Accepted reports whether the provider has accepted one side of a slice.
func Accepted(s *authv1beta1.ResourceSlice, what authv1beta1.ResourceSliceConditionType) bool {
	c := peering.Condition(s, what)
	return c != nil && c.Status == authv1beta1.ResourceSliceConditionAccepted
}

// Granted reports whether the provider has accepted a slice whole.
func Granted(s *authv1beta1.ResourceSlice) bool {
	return Accepted(s, authv1beta1.ResourceSliceConditionTypeAuthentication) && Accepted(s, authv1beta1.ResourceSliceConditionTypeResources)
}

// Reached is whether a cluster's Liqo reaches the other's API server: Established, Error,
// or "" where it does not try.
func Reached(c *corev1beta1.ForeignCluster) (corev1beta1.ConditionStatusType, string) {
	if c != nil {
		for _, cond := range c.Status.Conditions {
			if cond.Type == corev1beta1.APIServerStatusCondition {
				return cond.Status, cond.Message
			}
		}
	}
	return "", ""
}

// NodeCondition is one of a node's, "" if it has not said it.
func NodeCondition(n *corev1.Node, what corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == what {
			return c.Status
		}
	}
	return ""
}
