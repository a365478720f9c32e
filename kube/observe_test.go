package kube

import (
	"errors"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		at               int // the index of the watch among the kind's watches
		hidden, narrowed noted
	}{
		"Deployments":                       {"Deployment", 0, noted{managers: true}, noted{managers: true}},
		"namespaces":                        {"Namespace", 0, noted{}, noted{peers: true}},
		"gateways":                          {networkingv1beta1.GatewayServerKind, 0, noted{}, noted{peers: true}},
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

// A user who may list Deployments only in the namespace of the installation does not see an installation in
// another namespace.
func TestDeploymentsOfOneNamespaceAreNotAll(t *testing.T) {
	c, err := ForConfig(&rest.Config{Host: "https://127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := c.mirrors("Deployment")[0]
	s.narrowed = true
	var f flows.ClusterFacts
	if c.noteUnlisted(&f, s); !f.ManagersHidden {
		t.Error("an operator in another namespace counts as seen")
	}
}

// A kind whose list has never succeeded is hidden.
func TestWhatWasNeverListedIsHidden(t *testing.T) {
	for name, c := range map[string]struct {
		seen string
		err  error
		want bool
	}{
		"listed":                  {"7", nil, false},
		"not listed again":        {"7", errors.New("timeout"), false},
		"never listed":            {"", errors.New("timeout"), true},
		"the API server has none": {"", apierrors.NewNotFound(schema.GroupResource{}, ""), false},
		"it was not asked for it": {"", nil, false},
	} {
		s := &store{seen: c.seen, err: c.err}
		if s.isHidden() != c.want {
			t.Errorf("%s: hidden is %t", name, s.isHidden())
		}
	}
}
