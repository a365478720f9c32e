package engine_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Somebody makes B's gateway a client: to make it a server, that one has to be
// deleted, which nobody has seen. While the question stands, no request goes out on
// the old plan's word; afterwards, the run stops where it is.
func TestWhatTheAdminHasNotSeenIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		name, said string
		late       bool // after the first requests, not while the question stands
	}{
		{"while the question stands", "nothing was changed", false},
		{"after the first requests", "what was applied before stays", true},
	} {
		for _, again := range []bool{true, false} {
			p := flowtest.NewPair()
			makeClient := sync.OnceFunc(func() {
				p.B.PutAs("kubectl", render.TenantNamespace(p.B.Tenant()), render.GatewayClient(render.ClientParams{
					Tenant: p.B.Tenant(), Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: wire.DefaultNamespace},
					Addresses: []string{"192.0.2.1"}, Port: 51840, MTU: wire.DefaultMTU,
				}))
			})
			var asked []flows.Plan
			err := engine.Run(t.Context(), flowtest.Connect(flowtest.NodePort()), p.A, p.B, func(e engine.Event) {
				if c.late && len(e.Changes) > 0 {
					makeClient()
				}
			}, engine.Options{
				Now: p.Now,
				Approve: func(plan flows.Plan) (bool, error) {
					asked = append(asked, plan)
					if !c.late {
						makeClient()
					}
					return again || len(asked) == 1, nil
				},
			})
			if len(asked) != 2 {
				t.Fatalf("%s: asked %d times, want again before the GatewayClient is deleted; run: %v", c.name, len(asked), err)
			}
			if s, _ := asked[1].Step("gateway-server-b"); s.Action != flows.Replace {
				t.Errorf("%s: the second question is about a plan that does not replace: %+v", c.name, s)
			}
			left := len(p.B.Facts().Clients) > 0
			switch {
			case again && (err != nil || left):
				t.Errorf("%s: after the second yes: %v, GatewayClient still there: %t", c.name, err, left)
			case !again && (!errors.Is(err, engine.ErrDeclined) || !left):
				t.Errorf("%s: after a no: %v, GatewayClient still there: %t", c.name, err, left)
			case !again && !strings.Contains(err.Error(), c.said):
				t.Errorf("%s: after a no: %v, want %q", c.name, err, c.said)
			}
		}
	}
}

// A dry run of somebody without rights says which are missing, as a run would.
func TestADryRunSaysWhatIsForbidden(t *testing.T) {
	for _, tried := range []bool{false, true} {
		p := flowtest.NewPair()
		p.B.Behave(func(b *flowtest.Behaviour) {
			b.Lacks = []rights.Permission{{Verb: "create", Resource: "gatewayservers"}}
		})
		e, err := engine.DryRun(t.Context(), flowtest.Connect(flowtest.NodePort()), p.A, p.B, tried, engine.Options{Now: p.Now})
		if err != nil {
			t.Fatal(err)
		}
		s := e.Plan.Failure()
		if s == nil || s.Kind != flows.FailedAccess || s.Code != flows.CodePermission || !strings.Contains(s.Reason, "create gatewayservers") {
			t.Errorf("judged %t: got %+v, want the missing right", tried, s)
		}
		if len(p.Log()) > 0 {
			t.Errorf("a dry run wrote %v", p.Log())
		}
	}
}

// Every front end measures, since the run does it by itself.
func TestARunVerifiesByItself(t *testing.T) {
	p := flowtest.NewPair()
	params := flowtest.NodePort()
	params.Wait = flows.WaitVerified
	_, err := flowtest.Run(t, p, connect.Goal{Params: params})
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Step.Kind != flows.FailedVerify || failed.Step.Hint().String() != "connect with --wait=connected where no pods can be run for it" {
		t.Errorf("on clusters that can't run probes: got %v, want the step that verifies to have failed", err)
	}
}
