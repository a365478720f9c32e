package node

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/offload/home"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// known is what a virtual node's state follows from.
type known struct {
	of       string // version of the VirtualNode
	provider string
	granted  corev1.ResourceList
	problem  string // what the operator says is in the way, "" for nothing
	// answer is what became of the last questions to the provider's API server: nil if it
	// answered.
	answer error
	reach  *provider // nil if it does not answer
	tunnel tunnel
	// twins are the provider's namespaces by those that the node's program looks after, ""
	// where there is none.
	twins  map[string]string
	going  map[string]bool // namespaces of which the provider still has one that nobody wants any more
	ranges []home.Range    // of the provider's pods
}

// twins are the namespaces of a virtual node.
func twins(v *offloadingv1beta1.VirtualNode, m *offloadingv1beta1.NamespaceMap) map[string]string {
	out := map[string]string{}
	for name := range strings.SplitSeq(v.Annotations[peering.AnnotationNamespaces], ",") {
		if name == "" {
			continue
		}
		out[name] = ""
		if there := m.Status.CurrentMapping[name]; there.Phase == offloadingv1beta1.MappingAccepted && m.Spec.DesiredMapping[name] == there.RemoteNamespace {
			out[name] = there.RemoteNamespace
		}
	}
	return out
}

// going are the namespaces of a virtual node that the provider has not removed yet.
func going(twins map[string]string, m *offloadingv1beta1.NamespaceMap) map[string]bool {
	out := map[string]bool{}
	for name, twin := range twins {
		there, listed := m.Status.CurrentMapping[name]
		if twin == "" && listed && there.Phase != offloadingv1beta1.MappingCreationLoopBackOff { // that one was never made
			out[name] = true
		}
	}
	return out
}

// ranges are those of the provider's pods, and as which they are seen here.
func ranges(all []networkingv1beta1.Configuration) (out []home.Range) {
	if len(all) == 0 || all[0].Status.Remote == nil {
		return nil
	}
	own, seen := all[0].Spec.Remote.CIDR.Pod, all[0].Status.Remote.CIDR.Pod
	for i := range min(len(own), len(seen)) {
		from, err := netip.ParsePrefix(string(own[i]))
		to, toerr := netip.ParsePrefix(string(seen[i]))
		if err == nil && toerr == nil {
			out = append(out, home.Range{Own: from, Seen: to})
		}
	}
	return out
}

// offloaded reports whether there is a namespace whose pods can run.
func (k known) offloaded() bool {
	for _, twin := range k.twins {
		if twin != "" {
			return true
		}
	}
	return false
}

// tunnel is the network between the clusters. Without one there is nothing to say of it:
// an admin connects them otherwise.
type tunnel struct {
	there bool
	down  string // why no packets pass, "" if they do
}

// Reasons of conditions.
const (
	reasonAnswers     = "ProviderAnswers"
	reasonUnreachable = "ProviderUnreachable"
	reasonRefused     = "Refused"
	reasonNotGranted  = "NotGranted"
	reasonConnected   = "TunnelConnected"
	reasonDown        = "TunnelDown"
)

var errNotAsked = errors.New("its API server has not answered yet")

// NoPods is what is said of a node that is ready, as long as no pods can run on it.
const NoPods = "no namespace is offloaded to it"

// ready is the condition of this type.
func (k known) ready() corev1.NodeCondition {
	c := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse}
	switch {
	case k.problem != "":
		c.Reason, c.Message = reasonRefused, k.problem
	case k.granted.Cpu().IsZero() || k.granted.Memory().IsZero():
		c.Reason, c.Message = reasonNotGranted, k.provider+" grants no CPU, or no memory"
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

// conditions are all that is measured, each with the time since when it is so.
func (k known) conditions(before []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	all := []corev1.NodeCondition{k.ready()}
	if k.tunnel.there {
		c := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: reasonConnected, Message: "the tunnel to " + k.provider + " is connected"}
		if k.tunnel.down != "" {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonDown, "the tunnel to "+k.provider+": "+k.tunnel.down
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

// allocatable is what pods may ask for: all that is granted, but room for no pod at all as
// long as no namespace is offloaded. Taints don't keep pods off that tolerate everything,
// such as those of DaemonSets.
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

// follower judges a tunnel by what its gateway reports. Clocks of nodes differ: a report
// is too old when it has not changed for too long by this one.
type follower struct {
	text string
	at   time.Time
}

// tunnel is its state.
func (f *follower) tunnel(configured bool, all []networkingv1beta1.Connection, now time.Time) tunnel {
	if len(all) == 0 {
		if configured {
			return tunnel{there: true, down: "there is no gateway for it"}
		}
		return tunnel{}
	}
	c := &all[0]
	if text := c.Annotations[render.AnnotationStatus]; text != f.text || f.at.IsZero() {
		f.text, f.at = text, now
	}
	report, ok, err := render.ParseReport(c.Annotations)
	if err != nil {
		ok = false
	}
	switch stale := render.StaleAt(f.at, time.Duration(report.Interval)*time.Second); {
	case ok && !stale.IsZero() && now.After(stale):
		return tunnel{there: true, down: fmt.Sprintf("its gateway has not reported for %s", now.Sub(f.at).Round(time.Second))}
	case c.Status.Value == networkingv1beta1.Connected:
		return tunnel{there: true}
	case ok && report.Message != "":
		return tunnel{there: true, down: report.Message}
	case c.Status.Value == "":
		return tunnel{there: true, down: "its gateway has not reported yet"}
	}
	return tunnel{there: true, down: "its gateway says " + string(c.Status.Value)}
}
