package decide

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Seen returns the address under which a remote pod is reachable from here; false if there is none. Without a
// tunnel of ours, this is the pod's own address.
func (v View) Seen(text string) (string, bool) {
	if !v.Connected {
		return text, text != ""
	}
	return v.Ranges.Seen(text)
}

// waiting returns the status of a pod that does not run, as the consumer sees it.
func waiting(pod *corev1.Pod, reason, message string, now time.Time) *corev1.PodStatus {
	s := ofHome(pod)
	s.Phase, s.Reason, s.Message = corev1.PodPending, reason, message
	s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reason})
	keepTimes(s.Conditions, pod.Status.Conditions, now)
	return s
}

// ofHome returns the part of a status that this cluster's own programs have written.
func ofHome(pod *corev1.Pod) *corev1.PodStatus {
	was := pod.Status.DeepCopy()
	return &corev1.PodStatus{
		QOSClass: was.QOSClass, ObservedGeneration: was.ObservedGeneration, NominatedNodeName: was.NominatedNodeName, ResourceClaimStatuses: was.ResourceClaimStatuses,
		Conditions: slices.DeleteFunc(was.Conditions, func(c corev1.PodCondition) bool { return ofKubelet(c.Type) }),
	}
}

func ofKubelet(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodReadyToStartContainers:
		return true
	default:
		return false
	}
}

// running returns the status of a pod whose remote pod is copied. It copies each field explicitly, because
// the provider's data is not trusted.
func (v View) running(pod, copied *corev1.Pod, now time.Time) *corev1.PodStatus {
	s, there := ofHome(pod), copied.Status.DeepCopy()
	s.Phase, s.Reason, s.Message, s.StartTime = there.Phase, there.Reason, there.Message, there.StartTime
	if s.Phase == "" || s.Phase == corev1.PodUnknown {
		s.Phase = corev1.PodPending
	}
	s.ContainerStatuses, s.InitContainerStatuses = statuses(there.ContainerStatuses, pod.Spec.Containers), statuses(there.InitContainerStatuses, pod.Spec.InitContainers)
	for _, ip := range there.PodIPs {
		if seen, ok := v.Seen(ip.IP); ok {
			s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: seen})
		}
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
	if v.Address != "" {
		s.HostIP, s.HostIPs = v.Address, []corev1.HostIP{{IP: v.Address}}
	}
	for _, c := range there.Conditions {
		if ofKubelet(c.Type) {
			s.Conditions = append(s.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime})
		}
		// The consumer's scheduler has succeeded. Only a failure on the provider is copied.
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && s.Phase == corev1.PodPending {
			s.Reason, s.Message = peering.ReasonUnschedulable, v.Provider+": "+c.Message
		}
	}
	v.gate(pod, s)
	v.cut(s, pod.Status.Conditions, now)
	return s
}

// statuses returns the statuses of the pod's own containers.
func statuses(all []corev1.ContainerStatus, containers []corev1.Container) (out []corev1.ContainerStatus) {
	for _, c := range all {
		if slices.ContainsFunc(containers, func(has corev1.Container) bool { return has.Name == c.Name }) {
			out = append(out, corev1.ContainerStatus{
				Name: c.Name, State: c.State, LastTerminationState: c.LastTerminationState, Ready: c.Ready, RestartCount: c.RestartCount,
				Image: c.Image, ImageID: c.ImageID, ContainerID: c.ContainerID, Started: c.Started,
			})
		}
	}
	return out
}

// gate makes a pod not ready until all its readiness gates are open, as kubelets do. Programs of the consumer
// open the gates.
func (v View) gate(pod *corev1.Pod, s *corev1.PodStatus) {
	for _, g := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == g.ConditionType && c.Status == corev1.ConditionTrue })
		if i := readiness(s.Conditions); !open && i >= 0 && s.Conditions[i].Status == corev1.ConditionTrue {
			s.Conditions[i].Status, s.Conditions[i].Reason, s.Conditions[i].Message = corev1.ConditionFalse, "ReadinessGatesNotReady", "readiness gate "+string(g.ConditionType)+" is not open"
		}
	}
}

// restore makes a pod ready whose containers were ready at the provider's last answer.
func (v View) restore(pod *corev1.Pod, s *corev1.PodStatus, now time.Time) {
	i := readiness(s.Conditions)
	if i < 0 || s.Conditions[i].Status == corev1.ConditionTrue || s.Phase != corev1.PodRunning || !slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.ContainersReady && c.Status == corev1.ConditionTrue
	}) {
		return
	}
	c := &s.Conditions[i]
	c.Status, c.Reason, c.Message, c.LastTransitionTime = corev1.ConditionTrue, "", "", metav1.Time{}
	v.gate(pod, s)
	keepTimes(s.Conditions[i:i+1], pod.Status.Conditions, now)
}

// cut makes a pod not ready while no packets reach it, whatever the provider reports.
func (v View) cut(s *corev1.PodStatus, before []corev1.PodCondition, now time.Time) {
	i := readiness(s.Conditions)
	if v.Down == "" || i < 0 || s.Conditions[i].Status != corev1.ConditionTrue {
		return
	}
	c := &s.Conditions[i]
	c.Status, c.Reason, c.Message, c.LastTransitionTime = corev1.ConditionFalse, peering.ReasonTunnelDown, "the tunnel to "+v.Provider+" carries no packets", metav1.Time{}
	keepTimes(s.Conditions[i:i+1], before, now)
}

func readiness(all []corev1.PodCondition) int {
	return slices.IndexFunc(all, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
}

// keepTimes sets missing transition times to the time of the same status before, or to now.
func keepTimes(all, before []corev1.PodCondition, now time.Time) {
	for i := range all {
		c := &all[i]
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = metav1.NewTime(now)
		for _, was := range before {
			if was.Type == c.Type && was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
		}
	}
}
