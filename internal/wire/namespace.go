package wire

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Stays is why a namespace that is being deleted is still there, by all conditions that Kubernetes
// sets for that; "" if they give no reason. One API group that nobody serves is enough: then
// Kubernetes does not know what else is in the namespace, and keeps it.
func Stays(ns *corev1.Namespace) string {
	var why []string
	for _, of := range []corev1.NamespaceConditionType{
		corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionGVParsingFailure, corev1.NamespaceDeletionContentFailure,
		corev1.NamespaceFinalizersRemaining, corev1.NamespaceContentRemaining,
	} {
		for _, c := range ns.Status.Conditions {
			if c.Type == of && c.Status == corev1.ConditionTrue && c.Message != "" {
				why = append(why, c.Message)
			}
		}
	}
	return strings.Join(why, "; ")
}
