package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// PodSecurity is the label that limits the privileges of a namespace's pods:
// https://kubernetes.io/docs/concepts/security/pod-security-admission/.
const PodSecurity = "pod-security.kubernetes.io/enforce"

// RefusesPods returns an error text if a namespace's pod security forbids our pods; "" if it allows
// them. Each level except privileged forbids NET_ADMIN and the node's own network.
func RefusesPods(ns *corev1.Namespace) string {
	level := ns.Labels[PodSecurity]
	if level == "" || level == "privileged" {
		return ""
	}
	return fmt.Sprintf("namespace %s enforces the pod security level %s, which allows no gateways", ns.Name, level)
}
