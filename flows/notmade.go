package flows

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// FailedCreate is the reason of the event that explains why a controller can't make a pod: a quota,
// a LimitRange, Pod Security, a webhook, or a missing ServiceAccount or priority class.
const FailedCreate = "FailedCreate"

// NotMade returns the reason that Kubernetes makes no pod of a Deployment; "" if it makes them.
func NotMade(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// notMade returns the reason that Kubernetes makes no pod of a gateway, from the warnings; "" if no
// warning has one. Deployments of gateways are not watched.
func (c ClusterFacts) notMade(namespace, gateway string) string {
	for _, e := range c.Events { // the newest comes first
		hash, ours := strings.CutPrefix(e.Object, "ReplicaSet "+namespace+"/"+wire.GatewayObjectName(gateway)+"-")
		if e.Reason == FailedCreate && ours && !strings.Contains(hash, "-") {
			return strings.TrimPrefix(strings.TrimSpace(e.Message), "Error creating: ")
		}
	}
	return ""
}
