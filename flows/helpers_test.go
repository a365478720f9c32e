package flows_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/render"
)

// nodePort is a connection that needs no load balancer.
func nodePort() flows.Params {
	p := flows.Defaults()
	p.ServiceType, p.Given = corev1.ServiceTypeNodePort, flows.AllFields
	return p
}

func reset(f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{}, f) }

func disconnect(f flows.Facts) flows.Plan { return flows.PlanDisconnect(flows.RemoveOptions{}, f) }

func connect(params flows.Params) func(flows.Facts) flows.Plan {
	return func(f flows.Facts) flows.Plan { return flows.PlanConnect(params, f) }
}

// factsOf are of clusters whose namespaces were looked into, and hold nothing
// of others.
func factsOf(p *flowtest.Pair) flows.Facts {
	return flows.Facts{Local: p.A.Facts(), Remote: p.B.Facts(), At: p.Now(), Contents: [2]*flows.Contents{{}, {}}}
}

// recorder keeps the events of a run.
type recorder struct{ events []engine.Event }

func (r *recorder) emit(e engine.Event) { r.events = append(r.events, e) }

func run(t *testing.T, p *flowtest.Pair, plan func(flows.Facts) flows.Plan) (*recorder, error) {
	t.Helper()
	var r recorder
	err := engine.Run(t.Context(), plan, p.A, p.B, r.emit, engine.Options{Now: p.Now})
	return &r, err
}

func mustRun(t *testing.T, p *flowtest.Pair, plan func(flows.Facts) flows.Plan) *recorder {
	t.Helper()
	r, err := run(t, p, plan)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return r
}

func diff(a, b any) string { return cmp.Diff(a, b, cmpopts.EquateEmpty()) }

func cidrs(text ...networkingv1beta1.CIDR) []networkingv1beta1.CIDR { return text }

// configuration is of generation 3, with a status; condition "" is none.
func configuration(pod, external []networkingv1beta1.CIDR, condition string, observed int64) *networkingv1beta1.Configuration {
	c := render.Configuration(render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"},
		render.Networks{Pod: cidrs("10.244.0.0/16"), External: cidrs("10.70.0.0/16")})
	c.Generation = 3
	if pod != nil || external != nil {
		c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: pod, External: external}}
	}
	if condition != "" {
		c.Status.Conditions = []metav1.Condition{{
			Type:   networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured,
			Status: metav1.ConditionStatus(condition), ObservedGeneration: observed,
		}}
	}
	return c
}

// pending lists what p still waits for, or waited for in vain, a sentence each.
func pending(p flows.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		if s.Status == flows.Waiting || s.Status == flows.Failed {
			out = append(out, fmt.Sprintf("%s %s: %s: %s", s.Side, p.ID(s.Side), s.Title, s.Reason))
		}
	}
	return out
}
