package kube

import (
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
)

// What may not be listed is noted, and what may be is not.
func TestWhatIsHiddenIsNoted(t *testing.T) {
	const tenant = "liqo-tenant-milan"
	type noted struct {
		managers, peers, agents, running, pods bool
		seen                                   string
	}
	of := func(f flows.ClusterFacts) noted {
		return noted{f.ManagersHidden, f.PeersHidden, f.AgentsUnknown, f.AttendanceUnknown, f.PodsHidden, f.PodsSeen}
	}
	gateways := func(s *store) {
		s.narrow = func() (client.ListOption, bool) { return client.InNamespace(tenant), true }
	}
	for name, c := range map[string]struct {
		kind             string
		is               func(*store)
		hidden, narrowed noted
	}{
		"Deployments":                       {"Deployment", nil, noted{managers: true}, noted{}},
		"namespaces":                        {"Namespace", nil, noted{}, noted{peers: true}},
		"what agents say":                   {networkingv1beta1.InternalNodeKind, nil, noted{agents: true}, noted{}},
		"pods of gateways":                  {"Pod", gateways, noted{pods: true}, noted{pods: true, seen: tenant}},
		"pods of agents":                    {"Pod", func(s *store) { s.agents = true }, noted{running: true}, noted{}},
		"pods of API servers":               {"Pod", nil, noted{}, noted{}},
		"pods of what is lent":              {"Pod", func(s *store) { gateways(s); s.lending = true }, noted{}, noted{}},
		"what no check takes for all there": {"Node", nil, noted{}, noted{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(c.kind, nil, func() {})
			if c.is != nil {
				c.is(s)
			}
			for _, step := range []struct {
				state            string
				hidden, narrowed bool
				want             noted
			}{{"all may be listed", false, false, noted{}}, {"none", true, false, c.hidden}, {"some", false, true, c.narrowed}} {
				var f flows.ClusterFacts
				s.hidden, s.narrowed = step.hidden, step.narrowed
				if hide(&f, s, tenant); of(f) != step.want {
					t.Errorf("%s: got %+v, want %+v", step.state, of(f), step.want)
				}
			}
		})
	}
}
