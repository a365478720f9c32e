package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// View holds the facts for the decisions about all pods of one namespace on a virtual node.
type View struct {
	Consumer, Provider string // cluster IDs
	Node               string
	Mapped             string // the mapped namespace, "" if there is none
	// Going means that the provider has not deleted the former mapped namespace yet: pods may still run in
	// it.
	Going bool
	// Unsaid means that a mapped namespace is requested, but the provider's answer is not known. Running pods
	// may still run.
	Unsaid bool
	// Known means that the provider's objects have been listed. Until then, statuses stay, and no object
	// counts as gone.
	Known bool
	// Connected means that there is a tunnel of ours. Down is the reason that it carries no packets.
	Connected bool
	Down      string
	Ranges    network.Ranges
	Address   string // of the virtual node, "" if it has none
}

// Action contains the requests for one pod. Its fields are independent of each other.
type Action struct {
	Ask      bool      // create the ShadowPod
	Withdraw types.UID // delete the ShadowPod with this UID
	// Adopt is the UID of a ShadowPod to hand over to the pod if it requests the same pod, see [Same].
	// Otherwise the ShadowPod has to be deleted.
	Adopt types.UID
	// Labels are the new labels of the ShadowPod, nil to leave them as they are.
	Labels map[string]string
	// Unsent names the changes of the pod that the provider does not get; "" if there are none.
	Unsent string
	// Forget completes the deletion of the pod here, because its remote pod is gone.
	Forget bool
	// Status is the pod's new status; nil keeps the present one.
	Status *corev1.PodStatus
}

// Decide decides about one name. pod is the pod of this name here. shadow and copied are the provider's
// ShadowPod and remote pod of this name for this node. Each may be nil.
func (v View) Decide(pod *corev1.Pod, shadow *Shadow, copied *corev1.Pod, now time.Time) (a Action) {
	switch {
	case v.Mapped == "" && v.Unsaid && pod != nil && pod.Status.Phase == corev1.PodRunning:
		return v.blind(pod, now)
	case v.Mapped == "" && v.Going && pod != nil && pod.DeletionTimestamp != nil && !over(pod):
		return a // without the pod here, it might be created elsewhere while the remote pod still runs
	case v.Mapped == "":
		return NotOffloaded(pod, "namespace "+nameOf(pod)+" is not offloaded to "+v.Node, now)
	case !v.Known:
		return v.blind(pod, now)
	}
	ends := pod != nil && pod.DeletionTimestamp != nil
	// A missing pod proves no deletion: after the restore of a backup, this cluster's pods come back one
	// after the other, with other UIDs.
	switch {
	case shadow == nil || shadow.Deleting:
	case shadow.Gone || ends:
		a.Withdraw = shadow.UID
	case pod != nil && shadow.Of != pod.UID:
		a.Adopt = shadow.UID
	case pod != nil && !over(pod):
		a.Labels, a.Unsent = v.relabelled(pod, shadow), v.unsent(pod, shadow)
	}
	switch {
	case pod == nil:
	case ends && shadow == nil && copied == nil:
		a.Forget = true
	case over(pod):
	case ends && copied != nil:
		a.Status = v.running(pod, copied, now)
	case ends:
	case shadow == nil && copied != nil, shadow != nil && shadow.Of != pod.UID, shadow != nil && shadow.Deleting:
		// the ShadowPod or remote pod belongs to an earlier pod of this name: wait for its end
	case shadow == nil:
		if why := Unrunnable(&pod.Spec); why != "" {
			a.Status = waiting(pod, peering.ReasonUnfit, v.Provider+" can't run it: "+why, now)
		} else {
			a.Ask = true
		}
	case copied != nil && copied.DeletionTimestamp != nil && over(copied):
		// The remote pod has ended because it was deleted there, and is created again. The phase must not
		// become Failed, because then the pod's controller would replace the pod.
		a.Status = waiting(pod, peering.ReasonAsked, v.Provider+" was asked to run it again", now)
	case copied != nil:
		a.Status = v.running(pod, copied, now)
		if shadow.Problem != "" && a.Status.Phase == corev1.PodPending && a.Status.Message == "" {
			a.Status.Reason, a.Status.Message = peering.ReasonRefused, v.Provider+": "+shadow.Problem
		}
	case shadow.Problem != "":
		a.Status = waiting(pod, peering.ReasonRefused, v.Provider+": "+shadow.Problem, now)
	case ended(shadow.Phase): // the pod has ended, but its remote pod is gone, and no other one is created
		a.Status = waiting(pod, peering.ReasonEnded, v.Provider+" reports that it has ended, and has deleted its pod: the results of its containers are not known", now)
		a.Status.Phase = shadow.Phase
	default:
		a.Status = waiting(pod, peering.ReasonAsked, v.Provider+" was asked to run it", now)
	}
	return a.news(pod)
}

// over reports whether a pod has ended. This is final, unless the pod is being deleted.
func over(pod *corev1.Pod) bool { return ended(pod.Status.Phase) }

func ended(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// Refused writes the API server's refusal of a ShadowPod into the pod's status.
func (v View) Refused(pod *corev1.Pod, why string, now time.Time) Action {
	return Action{Status: waiting(pod, peering.ReasonRefused, v.Provider+": "+why, now)}.news(pod)
}

// NotOffloaded decides about a pod without a mapped namespace, such as a DaemonSet's pod that tolerates every
// taint.
func NotOffloaded(pod *corev1.Pod, why string, now time.Time) Action {
	switch {
	case pod == nil || over(pod) && pod.DeletionTimestamp == nil:
		return Action{}
	case pod.DeletionTimestamp != nil:
		return Action{Forget: true}
	}
	return Action{Status: waiting(pod, peering.ReasonNotOffloaded, why, now)}.news(pod)
}

func nameOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Namespace
}

// blind decides while the provider does not answer. The status stays, except that a pod without a tunnel is
// not ready. If a node is not ready, Kubernetes marks all its pods as not ready. blind corrects this, as a
// kubelet does.
func (v View) blind(pod *corev1.Pod, now time.Time) Action {
	if pod == nil {
		return Action{}
	}
	s := pod.Status.DeepCopy()
	v.restore(pod, s, now)
	v.cut(s, pod.Status.Conditions, now)
	return Action{Status: s}.news(pod)
}

func (a Action) news(pod *corev1.Pod) Action {
	if a.Status != nil && equality.Semantic.DeepEqual(*a.Status, pod.Status) {
		a.Status = nil
	}
	return a
}
