package lending

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Amounts returns the resources as text, sorted.
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

// Refused returns the reason that our operator refuses an object in its present state; "" if the operator
// accepts the object, or has not judged it yet.
func Refused(o metav1.Object) string {
	if o.GetAnnotations()[wire.AnnotationProblemOf] != strconv.FormatInt(o.GetGeneration(), 10) {
		return ""
	}
	return o.GetAnnotations()[wire.AnnotationProblem]
}

// Accepted reports whether the provider has accepted one of the two parts of a ResourceSlice.
func Accepted(s *authv1beta1.ResourceSlice, what authv1beta1.ResourceSliceConditionType) bool {
	c := peering.Condition(s, what)
	return c != nil && c.Status == authv1beta1.ResourceSliceConditionAccepted
}

// Granted reports whether the provider has accepted both parts of a ResourceSlice.
func Granted(s *authv1beta1.ResourceSlice) bool {
	return Accepted(s, authv1beta1.ResourceSliceConditionTypeAuthentication) && Accepted(s, authv1beta1.ResourceSliceConditionTypeResources)
}

// Reached returns whether a cluster's Liqo reaches the other cluster's API server, and a message:
// Established, Error, or "" if Liqo does not try.
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

// NodeCondition returns the status of a node's condition; "" if the node has no condition of this type.
func NodeCondition(n *corev1.Node, what corev1.NodeConditionType) corev1.ConditionStatus {
	return nodeCondition(n, what).Status
}

// NodeMessage returns the message of a node's condition; "" if there is none.
func NodeMessage(n *corev1.Node, what corev1.NodeConditionType) string {
	return nodeCondition(n, what).Message
}

func nodeCondition(n *corev1.Node, what corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == what {
			return c
		}
	}
	return corev1.NodeCondition{}
}
