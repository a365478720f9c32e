package wire

import (
	"reflect"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

// GatewayReporter is the reporting program in Events of gateways' pods.
const GatewayReporter = "liqo-tui-gateway"

// maxNote is the longest text of an Event that Kubernetes accepts, in bytes.
const maxNote = 1024

// EventAbout is a reference to an object of Liqo's networking. It has no resource version, so that a recorder
// counts Events about the same object as one Event.
func EventAbout(o Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: networkingv1beta1.GroupVersion.String(), Kind: reflect.TypeOf(o).Elem().Name(),
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
	}
}

// EventNote shortens text to the length that an Event can hold.
func EventNote(text string) string {
	if len(text) <= maxNote {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:maxNote-len(more)], "") + more
}

// ProblemEvent is the Event about a gateway's new [AnnotationProblem]. problem is "" if the problem is gone.
func ProblemEvent(problem string) (kind, reason, said string) {
	switch {
	case problem == "":
		return corev1.EventTypeNormal, "Recovered", "the operator makes the gateway's objects"
	case strings.HasPrefix(problem, ProblemRefused):
		return corev1.EventTypeWarning, "Refused", EventNote(problem)
	}
	return corev1.EventTypeWarning, "Failing", EventNote(problem)
}

// IsOwnEvent reports whether one of our programs recorded the Event. Such an Event repeats
// the text of an annotation.
func IsOwnEvent(e *corev1.Event) bool {
	return e.InvolvedObject.APIVersion == networkingv1beta1.GroupVersion.String() &&
		(e.ReportingController == GatewayReporter || e.ReportingController == OperatorName)
}
