package flows

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Contents are what a namespace holds besides the objects of one connection.
type Contents struct {
	// Others are objects that somebody else made, by kind and name, sorted.
	Others []string
	// Unknown says why there may be more; "" if all kinds were looked at.
	Unknown string
}

// namedOthers bounds how many of the others a sentence names.
const namedOthers = 3

// Keeps says why the namespace must stay; "" if it may be deleted.
func (c Contents) Keeps() string {
	switch n := len(c.Others); {
	case n > namedOthers:
		return fmt.Sprintf("it holds %s and %d more", strings.Join(c.Others[:namedOthers], ", "), n-namedOthers)
	case n > 0:
		return "it holds " + strings.Join(c.Others, ", ")
	case c.Unknown != "":
		return "it may hold more: " + c.Unknown
	}
	return ""
}

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
