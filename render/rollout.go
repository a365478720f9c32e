package render

import (
	"fmt"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// reconnecting is the longest wait for a replaced gateway whose pod runs without a connection, before the
// next gateway is replaced. A gateway connects within 3 s, but its peer may be away.
const reconnecting = 30 * time.Second

// Replacing returns the reason to wait during the replacement of a gateway's pods. It returns "" if the pods
// are replaced and the gateway is connected again, or if further waiting is useless. now is by the cluster's
// clock. c is the gateway's Connection, or nil. It has the name of the Deployment.
func Replacing(d *appsv1.Deployment, c *networkingv1beta1.Connection, now time.Time) string {
	replicas := int32(1) // Kubernetes' default
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	s, replaced := d.Status, time.Time{}
	for _, cond := range s.Conditions {
		switch {
		case cond.Type == appsv1.DeploymentProgressing && cond.Reason == newReplicaSetAvailable:
			replaced = cond.LastUpdateTime.Time
		case cond.Type == appsv1.DeploymentProgressing && cond.Status == corev1.ConditionFalse && s.ObservedGeneration >= d.Generation:
			return "" // Kubernetes has given up the replacement, after 10 minutes
		}
	}
	switch {
	case s.ObservedGeneration < d.Generation || s.UpdatedReplicas < replicas || s.AvailableReplicas < replicas || s.Replicas > s.UpdatedReplicas:
		return fmt.Sprintf("%d of %d pods run", min(s.UpdatedReplicas, s.AvailableReplicas), replicas)
	case c != nil && !connectedSince(c, replaced) && now.Sub(replaced) < reconnecting:
		return "it is not connected again yet"
	}
	return ""
}

// newReplicaSetAvailable is Kubernetes' reason in a Deployment whose pods are all replaced:
// https://github.com/kubernetes/kubernetes/blob/v1.35.4/pkg/controller/deployment/util/deployment_util.go
const newReplicaSetAvailable = "NewReplicaSetAvailable"

// connectedSince reports whether a gateway has reported a connection after the time at. An earlier report is
// from the replaced pod. Reports of Liqo's gateways have no time, so they always count.
func connectedSince(c *networkingv1beta1.Connection, at time.Time) bool {
	report, ok, err := wire.ParseReport(c.Annotations)
	return c.Status.Value == networkingv1beta1.Connected && (!ok || err != nil || report.At.After(at))
}
