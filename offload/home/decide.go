package home

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/offload/network"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// View is what the pods of one namespace on a virtual node have in common.
type View struct {
	Consumer, Provider string // cluster IDs
	Node               string
	Twin               string // the provider's namespace, "" if there is none
	// Going says that the provider has not removed yet what was the twin: pods may run there.
	Going bool
	// Unsaid says that the provider is asked for a twin, and that its answer is not known: pods that
	// run there may run on.
	Unsaid bool
	// Known says that what the provider has is known now: statuses stay as they are until
	// then, and nothing is taken for gone.
	Known bool
	// Connected says that there is a tunnel of ours, Down why it carries no packets.
	Connected bool
	Down      string
	Ranges    network.Ranges
	Address   string // of the virtual node, "" if it has none
}

// Action is what is to be done for one pod. Its parts are independent of each other.
type Action struct {
	Ask      bool      // make the ShadowPod
	Withdraw types.UID // delete the ShadowPod with this UID
	// Adopt is the ShadowPod with this UID: the pod takes it over if it asks for the same, see
	// [Same]. If not, it is to be deleted.
	Adopt types.UID
	// Forget ends the deletion of the pod here: nothing of it runs any more.
	Forget bool
	// Status is what the pod's is to be, nil to leave it.
	Status *corev1.PodStatus
}

// Decide is what to do for a name. pod is who has it here, shadow and copied what the
// provider has of this name for this node; each may be nil.
func (v View) Decide(pod *corev1.Pod, shadow *Shadow, copied *corev1.Pod, now time.Time) (a Action) {
	switch {
	case v.Twin == "" && v.Unsaid && pod != nil && pod.Status.Phase == corev1.PodRunning:
		return v.blind(pod, now)
	case v.Twin == "" && v.Going && pod != nil && pod.DeletionTimestamp != nil && !over(pod):
		return a // let go, it might be made again elsewhere while it runs there
	case v.Twin == "":
		return NotOffloaded(pod, "namespace "+nameOf(pod)+" is not offloaded to "+v.Node, now)
	case !v.Known:
		return v.blind(pod, now)
	}
	ends := pod != nil && pod.DeletionTimestamp != nil
	// That a pod is not there does not say that somebody has deleted it: this cluster may have
	// been restored from a backup, and pods come back one after the other, with other UIDs.
	switch {
	case shadow == nil || shadow.Deleting:
	case shadow.Gone || ends:
		a.Withdraw = shadow.UID
	case pod != nil && shadow.Of != pod.UID:
		a.Adopt = shadow.UID
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
		// of an earlier pod of this name: wait for its end
	case shadow == nil:
		if why := Unfit(&pod.Spec); why != "" {
			a.Status = waiting(pod, peering.ReasonUnfit, v.Provider+" can't run it: "+why, now)
		} else {
			a.Ask = true
		}
	case copied != nil && copied.DeletionTimestamp != nil && over(copied):
		// It ended because it was deleted there, and is made again: a pod that has failed here
		// would be replaced by another one.
		a.Status = waiting(pod, peering.ReasonAsked, v.Provider+" was asked to run it again", now)
	case copied != nil:
		a.Status = v.running(pod, copied, now)
		if shadow.Problem != "" && a.Status.Phase == corev1.PodPending && a.Status.Message == "" {
			a.Status.Reason, a.Status.Message = peering.ReasonRefused, v.Provider+": "+shadow.Problem
		}
	case shadow.Problem != "":
		a.Status = waiting(pod, peering.ReasonRefused, v.Provider+": "+shadow.Problem, now)
	case ended(shadow.Phase): // unseen, and its pod is gone: it is not made again
		a.Status = waiting(pod, peering.ReasonEnded, v.Provider+" says that it has ended, and has its pod no more: how its containers ended is not known", now)
		a.Status.Phase = shadow.Phase
	default:
		a.Status = waiting(pod, peering.ReasonAsked, v.Provider+" was asked to run it", now)
	}
	return a.news(pod)
}

// over reports whether a pod has ended, for good if nobody is deleting it.
func over(pod *corev1.Pod) bool { return ended(pod.Status.Phase) }

func ended(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// Refused is the status of a pod whose ShadowPod the provider's API server does not take.
func (v View) Refused(pod *corev1.Pod, why string, now time.Time) Action {
	return Action{Status: waiting(pod, peering.ReasonRefused, v.Provider+": "+why, now)}.news(pod)
}

// NotOffloaded is for a pod of a namespace that the provider has none for, such as those of
// DaemonSets that tolerate every taint.
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

// blind is for the time in which the provider can't be asked: nothing new is said of a
// pod, but that no packets reach it. Kubernetes has the pods of a node that is not ready be not ready,
// without a look at them: as a kubelet does, this puts that right.
func (v View) blind(pod *corev1.Pod, now time.Time) Action {
	if pod == nil {
		return Action{}
	}
	s := pod.Status.DeepCopy()
	v.restore(pod, s, now)
	v.cut(s, pod.Status.Conditions, now)
	return Action{Status: s}.news(pod)
}

// news leaves a status out that is as it was.
func (a Action) news(pod *corev1.Pod) Action {
	if a.Status != nil && equality.Semantic.DeepEqual(*a.Status, pod.Status) {
		a.Status = nil
	}
	return a
}
