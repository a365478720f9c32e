package rights_test

import (
	"slices"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
)

// The commands of service read all of this, and write ServiceExports alone.
func TestRightsToServices(t *testing.T) {
	have := rights.ToServices()
	want := []string{
		"list endpointslices.discovery.k8s.io", "create serviceexports.multicluster.x-k8s.io", "delete serviceexports.multicluster.x-k8s.io",
		"get serviceexports.multicluster.x-k8s.io", "list serviceexports.multicluster.x-k8s.io", "patch serviceexports.multicluster.x-k8s.io",
		"list serviceimports.multicluster.x-k8s.io", "get services",
	}
	var got []string
	for _, p := range have {
		got = append(got, p.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	review := rights.Review{Missing: have[1:2]}
	pair := simulated.NewPair()
	f := flows.Facts{Sides: [2]flows.ClusterFacts{pair.A.Facts(), pair.B.Facts()}}
	if fix := review.Fix(f).Commands(); len(fix) != 1 || !slices.Contains(fix[0].Args(), "--services") {
		t.Errorf("the advice is %v", fix)
	}
}
