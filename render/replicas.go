package render

import (
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// If a gateway's template has several replicas, the pod with the Lease holds the tunnel, and the others stand
// by. The pod that holds the tunnel announces this itself, in its own label and in the InternalFabric. The
// operator can't do this, because it may have been on the same lost node.

// leaderElection is the flag of Liqo's gateways for several replicas.
const leaderElection = "--leader-election"

// ShareTunnel changes the Deployment of a gateway with several replicas. Its pods compete for the tunnel, and
// none is active from the start. If possible, they run on different nodes. They are replaced one after the
// other.
func ShareTunnel(d *appsv1.Deployment) {
	pod := &d.Spec.Template
	delete(d.Labels, wire.LabelActive)
	delete(pod.Labels, wire.LabelActive)
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; slices.Contains(c.Args, "tunnel") && !slices.Contains(c.Args, leaderElection) {
			c.Args = append(c.Args, leaderElection)
		}
	}
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		// There is never a third pod, because every change would have to reach it, too.
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromInt32(1)), MaxSurge: new(intstr.FromInt32(0))},
	}
	d.Spec.MinReadySeconds = max(d.Spec.MinReadySeconds, standbySeconds)
	if a := pod.Spec.Affinity; (a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil) && len(pod.Spec.TopologySpreadConstraints) == 0 {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: d.Spec.Selector,
			// Old pods are counted separately. Otherwise an old pod on the other node could put both new pods
			// on this node.
			MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
		}}
	}
}

// SharesTunnel reports whether a gateway's pod competes with others for the tunnel.
func SharesTunnel(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool { return slices.Contains(c.Args, leaderElection) })
}

// standbySeconds is the time in which a new pod reads the objects for a takeover, before the pod that holds
// the tunnel is replaced, too. Without it, packets were lost for 4 to 9 s on a slow machine. A readiness
// probe can't replace this, because its later failure would remove the pod from its Service.
const standbySeconds = 5

// Serves reports whether a pod is ready and not ending.
func Serves(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// FirstReady returns the oldest pod that is ready and not ending; nil if there is none. If the pod of a
// gateway with one replica is being replaced, the returned pod holds the tunnel.
func FirstReady(pods []corev1.Pod) *corev1.Pod {
	var first *corev1.Pod
	for i := range pods {
		p := &pods[i]
		if !Serves(p) {
			continue
		}
		if first == nil || p.CreationTimestamp.Before(&first.CreationTimestamp) || p.CreationTimestamp.Equal(&first.CreationTimestamp) && p.Name < first.Name {
			first = p
		}
	}
	return first
}

// Lease returns the Lease for which the pods of a gateway with several replicas compete.
func (g Gateway) Lease() *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: g.meta(wire.GatewayObjectName(g.Name))}
	l.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	return l
}

// LeaderRules returns further rights, in addition to [Gateway.Role], for a gateway with several pods: to
// renew the Lease, if there is one, and to publish which pod holds the tunnel. pods are the names of the
// pods.
func (g Gateway) LeaderRules(pods []string) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{wire.GatewayObjectName(g.Name)},
			Verbs: []string{"get", "list", "watch", "update"},
		},
		{
			APIGroups: []string{networkingv1beta1.GroupVersion.Group}, Resources: []string{"internalfabrics"}, ResourceNames: []string{g.Name},
			Verbs: []string{"get", "list", "watch", "patch"},
		},
	}
	if len(pods) > 0 { // an empty list of names would mean all pods
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: pods, Verbs: []string{"patch"}})
	}
	return rules
}
