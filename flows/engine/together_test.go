package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Two admins connect the same pair at the same moment. If they want the same,
// both get it; if not, neither goes on for ever, and who loses is told why.
func TestTwoRunsAtOnce(t *testing.T) {
	other := flowtest.NodePort()
	other.MTU = 1300
	for name, tc := range map[string]struct {
		second flows.Params
		same   bool
	}{"the same": {flowtest.NodePort(), true}, "different": {other, false}} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			var both sync.WaitGroup
			var errs [2]error
			for i, params := range []flows.Params{flowtest.NodePort(), tc.second} {
				both.Go(func() {
					errs[i] = engine.Run(t.Context(), connect.Goal{Params: params}, p.A, p.B, func(engine.Event) {}, engine.Options{Now: p.Now})
				})
			}
			both.Wait()
			for i, err := range errs {
				var failed *flows.StepError
				if err != nil && (tc.same || !errors.As(err, &failed) || failed.Step.Kind != flows.FailedConflict) {
					t.Errorf("run %d: got %v", i+1, err)
				}
			}
			flowtest.MustRun(t, p, connect.Goal{Params: flowtest.NodePort()})
		})
	}
}

// Verified is what a packet says, not what gateways say.
func TestARunThatEndsWithAMeasurement(t *testing.T) {
	for name, tc := range map[string]struct {
		measured flows.Measurement
		settles  int // after that many, it comes through
		err      error
		code     flows.Code // "" for success
		tries    int
	}{
		"it came through":         {flows.Measurement{OK: true, Result: "1.2 ms"}, 0, nil, "", 1},
		"it got lost":             {flows.Measurement{Result: "nothing came back", Fix: command.Text("look at network policies")}, 0, nil, flows.CodeVerification, 5},
		"it came through at last": {flows.Measurement{Result: "nothing came back"}, 2, nil, "", 3},
		"it can't be tried":       {flows.Measurement{}, 0, errors.New("pods can't be made"), flows.CodeVerification, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			params := flowtest.NodePort()
			params.Wait = flows.WaitVerified
			measured := 0
			var r flowtest.Recorder
			err := engine.Run(t.Context(), connect.Goal{Params: params}, p.A, p.B, r.Emit, engine.Options{
				Now: p.Now, Measure: func(_ context.Context, f flows.Facts) (flows.Measurement, error) {
					measured++
					if c := f.Sides[flows.A].Connections[0].Status.Value; c != "Connected" {
						t.Errorf("measured while A says %s", c)
					}
					if tc.settles > 0 && measured > tc.settles {
						return flows.Measurement{OK: true, Result: "1.2 ms"}, nil
					}
					return tc.measured, tc.err
				},
			})
			if measured != tc.tries {
				t.Errorf("measured %d times, want %d", measured, tc.tries)
			}
			var failed *flows.StepError
			switch {
			case tc.code == "" && err != nil:
				t.Errorf("got %v", err)
			case tc.code != "" && (!errors.As(err, &failed) || failed.Code() != tc.code || failed.Step.Kind != flows.FailedVerify || failed.Step.Reason == ""):
				t.Errorf("got %v, want %s", err, tc.code)
			}
		})
	}
}

func TestNoWaitEndsWhenAllIsApplied(t *testing.T) {
	p := flowtest.NewPair()
	for _, c := range []*flowtest.Cluster{p.A, p.B} {
		c.Behave(func(b *flowtest.Behaviour) { b.NoReports, b.NoCIDRs = true, true })
	}
	params := flowtest.NodePort()
	params.Wait = flows.WaitNone
	flowtest.MustRun(t, p, connect.Goal{Params: params})
	if len(p.A.Facts().PublicKeys) != 1 || len(p.B.Facts().PublicKeys) != 1 {
		t.Error("not all was applied")
	}
}

// What our own operator carried here from the other cluster is no obstacle.
func TestOurOperatorsFieldsAreTakenOver(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	client := p.A.Facts().Clients[0].DeepCopy()
	p.A.Remove(client)
	p.A.PutAs(wire.OperatorName, render.GatewayClient(render.ClientParams{
		Tenant: p.A.Tenant(), Template: render.TemplateRef{Name: client.Spec.ClientTemplateRef.Name, Namespace: client.Spec.ClientTemplateRef.Namespace},
		Addresses: []string{"192.0.2.9"}, Port: 4242, MTU: client.Spec.MTU,
	}))
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	if got := dialled(flowtest.Facts(p), flows.B); got != "UDP 172.18.0.20:30020" {
		t.Errorf("the client dials %s", got)
	}
}

// A namespace that does not go says what holds it.
func TestANamespaceThatDoesNotGoSaysWhy(t *testing.T) {
	p := flowtest.NewPair()
	p.Pacing = flowtest.Manual
	p.A.Put(render.TenantNamespace(p.A.Tenant()))
	f := flowtest.Facts(p)
	ns := &f.Sides[flows.A].Namespaces[0]
	ns.DeletionTimestamp = new(metav1.NewTime(f.At.Add(-time.Minute)))
	ns.Status.Conditions = []corev1.NamespaceCondition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Message: "all is well"},
		{
			Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue,
			Message: "Some content in the namespace has finalizers remaining: example.org/hold in 1 resource instances",
		},
	}
	s, _ := flows.PlanConnect(flowtest.NodePort(), f).Step("namespace-a")
	const want = "Namespace liqo-tenant-milan is still being deleted: Some content in the namespace has finalizers remaining: example.org/hold in 1 resource instances"
	if s.Status != flows.Waiting || s.Reason != want || s.Hint().String() != "see what holds it: kubectl --context kind-rome get namespace liqo-tenant-milan -o yaml" {
		t.Errorf("got %s: %s (%s)", s.Status, s.Reason, s.Hint())
	}
}
