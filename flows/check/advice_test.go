package check_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A command that is pasted and then refused, because another program has written the object, is no advice.
func TestAdviceTakesOverWhatAnotherProgramHasWritten(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	edit := func(o metav1.Object, manager string) {
		o.SetManagedFields(append(o.GetManagedFields(), metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
		}))
	}
	for id, change := range map[flows.Code]func(*flows.ClusterFacts) metav1.Object{
		check.SameRanges: func(f *flows.ClusterFacts) metav1.Object {
			f.Configurations[0].Spec.Remote.CIDR.Pod[0] = "10.9.0.0/16"
			return &f.Configurations[0]
		},
		check.Keys: func(f *flows.ClusterFacts) metav1.Object {
			f.PublicKeys[0].Spec.PublicKey = []byte("12345678901234567890123456789012")
			return &f.PublicKeys[0]
		},
		check.Endpoint: func(f *flows.ClusterFacts) metav1.Object {
			f.Clients[0].Spec.Endpoint.Addresses = []string{"192.0.2.99"}
			return &f.Clients[0]
		},
	} {
		for manager, force := range map[string]bool{"kubectl-edit": true, wire.OperatorName: false, wire.FieldManager: false} {
			f := factsOf(pair)
			counts(&f, 21504, 0, 0, 0)
			edit(change(&f.Sides[flows.A]), manager)
			r := find(t, check.Diagnose(f, nil), id)
			switch {
			case r.State != check.Fail || len(r.Fix) == 0:
				t.Errorf("%s: got %s: %s", id, r.State, r.Summary)
			case strings.Contains(r.Fix[0].String(), " --force-conflicts") != force || (r.Plan == nil) != force:
				t.Errorf("%s, written by %s: got %s, and a plan: %t", id, manager, r.Fix[0], r.Plan != nil)
			}
		}
	}
}
