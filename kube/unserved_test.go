package kube

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// API servers have two answers for an unknown kind. Kubernetes 1.35 gives the second one for
// MutatingAdmissionPolicy.
func TestKindsThatAreNotServedAreKnown(t *testing.T) {
	resource := schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no such path":     {apierrors.NewGenericServerResponse(404, "GET", resource, "x", "404 page not found", 0, true), true},
		"no such resource": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404, Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{}}}, true},
		"no such object":   {apierrors.NewNotFound(resource, "x"), false},
		"not allowed":      {apierrors.NewForbidden(resource, "x", errors.New("no")), false},
		"another error":    {errors.New("x"), false},
	} {
		if got := unserved(c.err); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
