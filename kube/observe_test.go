package kube

import (
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/client-go/rest"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Kinds that the user may not list are noted. Other kinds are not.
func TestWhatIsHiddenIsNoted(t *testing.T) {
	const tenant = "liqo-tenant-milan"
	type noted struct {
		managers, peers, agents, running, pods bool
		seen                                   string
	}
	of := func(f flows.ClusterFacts) noted {
		return noted{f.ManagersHidden, f.PeersHidden, f.AgentsUnknown, f.AttendanceUnknown, f.PodsHidden, f.PodsSeen}
	}
	c, err := ForConfig(&rest.Config{Host: "https://127.0.0.1:1"}, Options{Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, tt := range map[string]struct {
		kind             string
		at               int // which of the kind's watches
		hidden, narrowed noted
	}{
		"Deployments":                       {"Deployment", 0, noted{managers: true}, noted{managers: true}},
		"namespaces":                        {"Namespace", 0, noted{}, noted{peers: true}},
		"what agents say":                   {networkingv1beta1.InternalNodeKind, 0, noted{agents: true}, noted{}},
		"pods of agents":                    {"Pod", 0, noted{running: true}, noted{}},
		"pods of gateways":                  {"Pod", 1, noted{pods: true}, noted{pods: true, seen: tenant}},
		"pods of API servers":               {"Pod", 2, noted{}, noted{}},
		"what no check takes for all there": {"Node", 0, noted{}, noted{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.mirrors(tt.kind)[tt.at]
			for _, step := range []struct {
				state            string
				hidden, narrowed bool
				want             noted
			}{{"all may be listed", false, false, noted{}}, {"none", true, false, tt.hidden}, {"some", false, true, tt.narrowed}} {
				var f flows.ClusterFacts
				s.hidden, s.narrowed = step.hidden, step.narrowed
				if c.noteUnlisted(&f, s); of(f) != step.want {
					t.Errorf("%s: got %+v, want %+v", step.state, of(f), step.want)
				}
			}
		})
	}
}
