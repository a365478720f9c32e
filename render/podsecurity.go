package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// PodSecurity is the label by which a namespace says how privileged its pods
// may be: https://kubernetes.io/docs/concepts/security/pod-security-admission/.
const PodSecurity = "pod-security.kubernetes.io/enforce"

// RefusesPods says that a namespace's pod security allows no pods of ours; ""
// where it does. Each level but privileged forbids NET_ADMIN and the node's
// own network.
func RefusesPods(ns *corev1.Namespace) string {
	level := ns.Labels[PodSecurity]
	if level == "" || level == "privileged" {
		return ""
	}
	return fmt.Sprintf("namespace %s enforces the pod security level %s, which allows no gateways", ns.Name, level)
}
