package kube

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/liqo-tui/liqo-tui/render"
)

// TestStatedRangesWinOverDiscoveredOnes has field managers, but no validation;
// TestCluster asks a real API server.
func TestStatedRangesWinOverDiscoveredOnes(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	testOwnOperator(t, &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().Build()})
}
