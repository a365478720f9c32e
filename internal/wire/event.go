package wire

import (
	"reflect"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

// GatewayReporter is the program that Events of gateways' pods name.
const GatewayReporter = "liqo-tui-gateway"

// maxNote is the longest text of an Event, in bytes: Kubernetes refuses longer ones.
const maxNote = 1024

// EventAbout refers to an object of Liqo's networking, whatever its version: a recorder
// counts Events about the same reference as one.
func EventAbout(o Object) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: networkingv1beta1.GroupVersion.String(), Kind: reflect.TypeOf(o).Elem().Name(),
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
	}
}

// EventNote is text as far as an Event can hold it.
func EventNote(text string) string {
	if len(text) <= maxNote {
		return text
	}
	const more = "…"
	return strings.ToValidUTF8(text[:maxNote-len(more)], "") + more
}

// ProblemEvent is the Event of a gateway whose [AnnotationProblem] has become this; ""
// is that there is none any more.
func ProblemEvent(problem string) (kind, reason, said string) {
	switch {
	case problem == "":
		return corev1.EventTypeNormal, "Recovered", "the operator makes what the gateway consists of"
	case strings.HasPrefix(problem, ProblemRefused):
		return corev1.EventTypeWarning, "Refused", EventNote(problem)
	}
	return corev1.EventTypeWarning, "Failing", EventNote(problem)
}

// IsOwnEvent reports whether our programs have recorded an Event, about what they also
// say on the object itself.
func IsOwnEvent(e *corev1.Event) bool {
	return e.InvolvedObject.APIVersion == networkingv1beta1.GroupVersion.String() &&
		(e.ReportingController == GatewayReporter || e.ReportingController == OperatorName)
}
