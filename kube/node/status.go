package node

import (
	"errors"
	"fmt"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/render"
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
	tunnel tunnel
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

// NoPods is what is said wherever the node is said to be ready.
const NoPods = "no pods can run on it yet"

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
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonAnswers, fmt.Sprintf("the API server of %s answers; %s", k.provider, NoPods)
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

// allocatable is what pods may ask for: all that is granted, but room for no pod at all.
// Taints don't keep pods off that tolerate everything, such as those of DaemonSets.
func (k known) allocatable() corev1.ResourceList {
	out := k.granted.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	out[corev1.ResourcePods] = resource.Quantity{Format: resource.DecimalSI}
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
