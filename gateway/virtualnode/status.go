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

// known holds the facts from which the status of the Node is computed.
type known struct {
	of       string // the resource version of the VirtualNode
	provider string
	granted  corev1.ResourceList
	arch     string // the architecture of the provider's nodes; "" if they have several
	problem  string // the operator's reason that the node can't work; "" if there is none
	// answer is the result of the last requests to the provider's API server. It is nil if the API server has
	// answered and accepted the certificate.
	answer error
	waits  bool      // the node stays ready, because the provider is silent for less than Patience
	reach  *provider // the connections to the provider; nil if it does not answer
	tunnel network.Tunnel
	// mapped contains each namespace that this virtual kubelet handles, with its mapped namespace; "" if the provider
	// has none.
	mapped map[string]string
	// withdrawn contains the objects on the provider that an admin has withdrawn.
	withdrawn map[types.UID]bool
	// left lists the unowned objects on the provider. unseen is the reason if they are not known.
	left   []peering.Leftover
	unseen error
	going  map[string]bool // namespaces that are not requested any more, but that the provider has not deleted yet
	unsaid map[string]bool // namespaces for which the provider has not answered yet
	ranges network.Ranges  // the ranges of the provider's pods
}

// mapped returns the mapped namespaces that exist. before is its last result. If the NamespaceMap has no
// answer for a namespace, the earlier answer counts. This matters because a deleted NamespaceMap is created
// again without answers, and the answers come only when the provider can be reached.
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

// namespacesOf returns the namespaces that a virtual node handles, with their mapped namespaces.
func namespacesOf(v *offloadingv1beta1.VirtualNode, mapped map[string]string) map[string]string {
	out := map[string]string{}
	for name := range strings.SplitSeq(v.Annotations[peering.AnnotationNamespaces], ",") {
		if name != "" {
			out[name] = mapped[name]
		}
	}
	return out
}

// unsaid returns the namespaces of a virtual node for which the provider's answer is not known. lost means that
// the NamespaceMap may have been deleted, and will be created again.
func unsaid(mapped map[string]string, m *offloadingv1beta1.NamespaceMap, lost bool) map[string]bool {
	out := map[string]bool{}
	for name, there := range mapped {
		if _, answered := m.Status.CurrentMapping[name]; there == "" && !answered && (lost || m.Spec.DesiredMapping[name] != "") {
			out[name] = true
		}
	}
	return out
}

// withdrawn returns the UIDs of the objects that an admin has withdrawn by the NamespaceMap.
func withdrawn(m *offloadingv1beta1.NamespaceMap) map[types.UID]bool {
	out := map[types.UID]bool{}
	for text := range peering.Withdrawn(m) {
		if uid, is := peering.WithdrawnUID(text); is {
			out[uid] = true
		}
	}
	return out
}

// going returns the namespaces of a virtual node that are not requested any more, but that the provider has not
// deleted yet.
func going(mapped map[string]string, m *offloadingv1beta1.NamespaceMap) map[string]bool {
	out := map[string]bool{}
	for name, namespace := range mapped {
		there, listed := m.Status.CurrentMapping[name]
		if namespace == "" && listed && there.Phase != offloadingv1beta1.MappingCreationLoopBackOff { // a namespace in this phase was never created
			out[name] = true
		}
	}
	return out
}

// offloaded reports whether there is a mapped namespace, so that pods can run on the node.
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

// conditions returns all conditions that this program measures. A condition whose status is the same as in before
// keeps its transition time.
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
		c := corev1.NodeCondition{Type: peering.ConditionLeftovers, Status: corev1.ConditionFalse, Reason: reasonNothingLeft, Message: k.provider + " has no unowned objects of this node"}
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

// allocatable returns the resources that pods may request: all granted resources. As long as no namespace is
// offloaded, the number of pods is 0. A taint would not be enough to keep pods away, because some pods tolerate
// every taint, such as those of some DaemonSets.
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
