package wire

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Stays returns the reasons that a namespace is still being deleted, from all conditions of Kubernetes about
// that; "" if there are none. One API group without a server is enough: Kubernetes then does not know the
// rest of the namespace's content, and keeps the namespace.
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
