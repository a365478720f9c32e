package wire

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestANamespaceThatStaysHasAllReasons(t *testing.T) {
	ns := &corev1.Namespace{}
	for _, of := range []corev1.NamespaceConditionType{
		corev1.NamespaceContentRemaining, corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionGVParsingFailure,
		corev1.NamespaceDeletionContentFailure, corev1.NamespaceFinalizersRemaining,
	} {
		ns.Status.Conditions = append(ns.Status.Conditions, corev1.NamespaceCondition{Type: of, Status: corev1.ConditionFalse, Message: "no " + string(of)})
		if got := Stays(ns); got != "" {
			t.Errorf("%s is false: got %q", of, got)
		}
		one := &corev1.Namespace{}
		one.Status.Conditions = []corev1.NamespaceCondition{{Type: of, Status: corev1.ConditionTrue, Message: "why"}}
		if got := Stays(one); got != "why" {
			t.Errorf("%s: got %q", of, got)
		}
	}
	for i := range ns.Status.Conditions {
		ns.Status.Conditions[i].Status = corev1.ConditionTrue
		ns.Status.Conditions[i].Message = string(ns.Status.Conditions[i].Type)
	}
	const want = "NamespaceDeletionDiscoveryFailure; NamespaceDeletionGroupVersionParsingFailure; NamespaceDeletionContentFailure; NamespaceFinalizersRemaining; NamespaceContentRemaining"
	if got := Stays(ns); got != want {
		t.Errorf("got %q, the cause has to be first: %q", got, want)
	}
}
