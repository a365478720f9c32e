package virtualnode

import (
	"errors"
	"fmt"
	"strings"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// known are the facts from which the state of the virtual node is computed.
type known struct {
	of       string // version of the VirtualNode
	provider string
	granted  corev1.ResourceList
	arch     string // of all nodes of the provider; "" if they differ
	problem  string // the operator's reason that the node can't work; "" if there is none
	// answer is the result of the last requests to the provider's API server: nil if it has answered.
	answer error
	waits  bool      // the provider is silent, but for less than the node's patience, and the node was ready
	reach  *provider // nil if it does not answer
	tunnel network.Tunnel
	// mapped has the mapped namespace of each namespace that this virtual kubelet handles; "" if there is none.
	mapped map[string]string
	// withdrawn are objects on the provider that an admin has withdrawn.
	withdrawn map[types.UID]bool
	// left are objects on the provider without an object here; unseen is the reason that they are unknown.
	left   []peering.Leftover
	unseen error
	going  map[string]bool // namespaces that are not requested any more, and that the provider has not deleted yet
	unsaid map[string]bool // namespaces for which the provider has not answered yet
	ranges network.Ranges  // of the provider's pods
}

// mapped returns the mapped namespaces that exist. As long as the NamespaceMap has no answer for a namespace,
// the earlier answer counts: a deleted NamespaceMap is created again without answers, and gets them only when
// the provider can be reached.
func mapped(before map[string]string, m *offloadingv1beta1.NamespaceMap) map[string]string {
	out := map[string]string{}
	for name, asked := range m.Spec.DesiredMapping {
		there, answered := m.Status.CurrentMapping[name]
		if there.Phase == offloadingv1beta1.MappingAccepted && there.RemoteNamespace == asked || !answered && before[name] == asked {
			out[name] = asked
		}
	}
	return out
}

// namespacesOf returns the namespaces of a virtual node with their mapped namespaces.
func namespacesOf(v *offloadingv1beta1.VirtualNode, mapped map[string]string) map[string]string {
	out := map[string]string{}
	for name := range strings.SplitSeq(v.Annotations[peering.AnnotationNamespaces], ",") {
		if name != "" {
			out[name] = mapped[name]
		}
	}
	return out
}

// unsaid returns the namespaces of a virtual node for which the provider's answer is unknown. lost means that
// the NamespaceMap may have been deleted and will be made again.
func unsaid(mapped map[string]string, m *offloadingv1beta1.NamespaceMap, lost bool) map[string]bool {
	out := map[string]bool{}
	for name, there := range mapped {
		if _, answered := m.Status.CurrentMapping[name]; there == "" && !answered && (lost || m.Spec.DesiredMapping[name] != "") {
			out[name] = true
		}
	}
	return out
}

// withdrawn returns the objects that a NamespaceMap withdraws.
func withdrawn(m *offloadingv1beta1.NamespaceMap) map[types.UID]bool {
	out := map[types.UID]bool{}
	for text := range peering.Withdrawn(m) {
		if uid, is := peering.WithdrawnUID(text); is {
			out[uid] = true
		}
	}
	return out
}

// going returns the namespaces of a virtual node that the provider has not deleted yet.
func going(mapped map[string]string, m *offloadingv1beta1.NamespaceMap) map[string]bool {
	out := map[string]bool{}
	for name, namespace := range mapped {
		there, listed := m.Status.CurrentMapping[name]
		if namespace == "" && listed && there.Phase != offloadingv1beta1.MappingCreationLoopBackOff { // such a namespace was never created
			out[name] = true
		}
	}
	return out
}

// offloaded reports whether there is a mapped namespace, in which pods can run.
func (k known) offloaded() bool {
	for _, mapped := range k.mapped {
		if mapped != "" {
			return true
		}
	}
	return false
}

// Reasons of conditions.
const (
	reasonAnswers     = "ProviderAnswers"
	reasonSilent      = "ProviderSilent"
	reasonUnreachable = "ProviderUnreachable"
	reasonRefused     = "Refused"
	reasonNotGranted  = "NotGranted"
	reasonConnected   = "TunnelConnected"
	reasonDown        = "TunnelDown"
	reasonLeft        = "NotDeleted"
	reasonNothingLeft = "NothingLeft"
	reasonUnseen      = "NotKnown"
)

var errNotAsked = errors.New("its API server has not answered yet")

// NoPods is the message of a node that is ready, but has no namespace whose pods can run on it.
const NoPods = "no namespace is offloaded to it"

// ready returns the condition Ready.
func (k known) ready() corev1.NodeCondition {
	c := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse}
	switch {
	case k.problem != "":
		c.Reason, c.Message = reasonRefused, k.problem
	case k.granted.Cpu().IsZero() || k.granted.Memory().IsZero():
		c.Reason, c.Message = reasonNotGranted, k.provider+" grants no CPU, or no memory"
	case k.waits:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonSilent, fmt.Sprintf("%s: %v; the node is not ready if that lasts", k.provider, k.answer)
	case k.answer != nil:
		c.Reason, c.Message = reasonUnreachable, fmt.Sprintf("%s: %v", k.provider, k.answer)
	default:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonAnswers, fmt.Sprintf("the API server of %s answers", k.provider)
		if !k.offloaded() {
			c.Message += "; " + NoPods
		}
	}
	return c
}

// conditions returns all measured conditions, each with its transition time.
func (k known) conditions(before []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	all := []corev1.NodeCondition{k.ready()}
	if k.tunnel.There {
		c := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: reasonConnected, Message: "the tunnel to " + k.provider + " is connected"}
		if k.tunnel.Down != "" {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonDown, "the tunnel to "+k.provider+": "+k.tunnel.Down
		}
		all = append(all, c)
	}
	if k.offloaded() {
		c := corev1.NodeCondition{Type: peering.ConditionLeftovers, Status: corev1.ConditionFalse, Reason: reasonNothingLeft, Message: k.provider + " has nothing of this node that is not here"}
		switch {
		case k.unseen != nil:
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, reasonUnseen, k.unseen.Error()
		case len(k.left) > 0:
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonLeft, peering.LeftoversText(k.left)
		}
		all = append(all, c)
	}
	for i := range all {
		c := &all[i]
		c.LastTransitionTime, c.LastHeartbeatTime = metav1.NewTime(now), metav1.NewTime(now)
		for _, was := range before {
			if was.Type == c.Type && was.Status == c.Status {
				c.LastTransitionTime = was.LastTransitionTime
			}
		}
	}
	return all
}

// allocatable is what pods may request: all granted resources. But while no namespace is offloaded, there is
// no room for any pod. A taint is not enough for that: pods that tolerate every taint, such as those of some
// DaemonSets, would still be bound.
func (k known) allocatable() corev1.ResourceList {
	out := k.granted.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	if !k.offloaded() {
		out[corev1.ResourcePods] = resource.Quantity{Format: resource.DecimalSI}
	}
	return out
}
