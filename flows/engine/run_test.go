package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/render"
)

// rounds are the objects that were changed between two observations.
func rounds(events []engine.Event) [][]string {
	var out [][]string
	for _, e := range events {
		var names []string
		for _, c := range e.Changes {
			names = append(names, c.Side.String()+" "+c.Object)
		}
		if len(names) > 0 {
			out = append(out, names)
		}
	}
	return out
}

func TestRunAppliesInAsFewRoundsAsThereAreDependencies(t *testing.T) {
	p := flowtest.NewPair()
	p.A.Behave(func(b *flowtest.Behaviour) { b.NoCIDRs = true }) // nothing but its own step waits for it
	var r flowtest.Recorder
	emit := func(e engine.Event) {
		r.Emit(e)
		if s, _ := e.Plan.Step("connected-a"); s.Status == flows.Done {
			p.A.Behave(func(b *flowtest.Behaviour) { b.NoCIDRs = false })
		}
	}
	if err := engine.Run(t.Context(), flowtest.Connect(flowtest.NodePort()), p.A, p.B, emit, engine.Options{Now: p.Now}); err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"A Namespace liqo-tenant-milan", "B Namespace liqo-tenant-rome"},
		{
			"A Configuration liqo-tenant-milan/milan",
			"B Configuration liqo-tenant-rome/rome", "B GatewayServer liqo-tenant-rome/rome",
		},
		{"A GatewayClient liqo-tenant-milan/milan"},
		{"A PublicKey liqo-tenant-milan/milan"},
		{"B PublicKey liqo-tenant-rome/rome"},
	}
	if d := diff(want, rounds(r.Events)); d != "" {
		t.Errorf("rounds (-want +got):\n%s", d)
	}
}

func TestRunAgainWritesNothing(t *testing.T) {
	for name, plan := range map[string]flows.Planner{
		"connect": flowtest.Connect(flows.Defaults()), "reset": flowtest.Reset,
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			flowtest.MustRun(t, p, flowtest.Connect(flows.Defaults()))
			flowtest.MustRun(t, p, plan)
			p.Forget()
			asked := false
			err := engine.Run(t.Context(), plan, p.A, p.B, func(engine.Event) {}, engine.Options{
				Now: p.Now, Approve: func(flows.Plan) (bool, error) { asked = true; return true, nil },
			})
			if err != nil || asked || len(p.Log()) > 0 {
				t.Errorf("second run: %v, asked %v, wrote %v", err, asked, p.Log())
			}
		})
	}
}

func TestRunResetLeavesNothing(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.DeletionTicks, b.NamespaceTicks = 3, 4 })
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	flowtest.MustRun(t, p, flows.Planner(flowtest.Reset))
	p.Settle()
	if left := append(p.A.Names(), p.B.Names()...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestRunConnectsAgainWhileTheNamespacesAreStillBeingDeleted(t *testing.T) {
	p := flowtest.NewPair()
	p.A.Behave(func(b *flowtest.Behaviour) { b.NamespaceTicks = 6 })
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	flowtest.MustRun(t, p, flows.Planner(flowtest.Reset))
	if ns := p.A.Facts().Namespaces; len(ns) != 1 || ns[0].DeletionTimestamp == nil {
		t.Fatal("the namespace is not being deleted: the test is void")
	}
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
}

func TestRunTimeoutNamesWhatIsPending(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.LoadBalancerPending, b.NoCIDRs = true, true })
	r, err := flowtest.Run(t, p, flowtest.Connect(flows.Defaults()))
	var failed *flows.StepError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a failed step", err)
	}
	const text = "milan: endpoint of the gateway server: gave up after 5m: the load balancer has given no address to Service gw-rome yet (for 4m58s)"
	if err.Error() != text {
		t.Errorf("error:\n got %s\nwant %s", err, text)
	}
	if failed.Step.Kind != flows.FailedTimeout || failed.Cluster != "milan" || !failed.Changed || failed.Step.Hint().IsZero() {
		t.Errorf("got %+v", failed)
	}
	last := r.Events[len(r.Events)-1]
	if waited := last.At.Sub(last.Started); waited < 5*time.Minute || waited > 5*time.Minute+2*flowtest.TickLength {
		t.Errorf("waited %s, want 5m", waited)
	}
	want := []string{
		"B " + text,
		"B milan: addresses of rome: gave up after 5m: the operator has assigned no addresses yet (for 4m58s)",
		"B milan: Connection: gave up after 5m: the peer's public key is not known yet (for 4m55s)",
	}
	if d := diff(want, flowtest.Pending(last.Plan)); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
}

// A run must end even if it waits for nothing: another program undoes what it applies.
func TestRunEndsWhenAChangeDoesNotLast(t *testing.T) {
	p := flowtest.NewPair()
	p.A.Behave(func(b *flowtest.Behaviour) { b.MTUFixer = true })
	_, err := flowtest.Run(t, p, flowtest.Connect(flowtest.NodePort()))
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Step.Kind != flows.FailedConflict || failed.Step.ID != "gateway-client-a" {
		t.Fatalf("got %v, want a conflict about gateway-client-a", err)
	}
	if !strings.Contains(err.Error(), "it was applied, and does not stay as applied") {
		t.Errorf("got %v", err)
	}
}

// An API server that drops a field answers "unchanged" each time. The run asks
// again at its own pace, not as fast as it can, and does not claim a change.
func TestRunDoesNotSpinWhenAnApplyChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := flowtest.NewPair()
		p.Pacing = flowtest.Manual
		p.A.Behave(func(b *flowtest.Behaviour) { b.PrunesMTU = true })
		flowtest.PartWay(flowtest.ManyRounds, flowtest.NodePort())(t, p) // until nothing is left but the field that does not stay
		p.Forget()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events := 0
		emit := func(engine.Event) {
			if events++; events > 1000 {
				cancel()
			}
		}
		// The clusters' reports are of the pair's clock; so is the run's, moved on by the real one.
		start, epoch := time.Now(), p.Now()
		now := func() time.Time { return epoch.Add(time.Since(start)) }
		err := engine.Run(ctx, flowtest.Connect(flowtest.NodePort()), p.A, p.B, emit, engine.Options{Now: now, Timeout: 20 * time.Second})
		var failed *flows.StepError
		if !errors.As(err, &failed) || failed.Step.ID != "gateway-client-a" || failed.Step.Kind != flows.FailedConflict {
			t.Fatalf("got %v after %d events, want a conflict about gateway-client-a", err, events)
		}
		const why = "it was applied, and does not stay as applied: definition gatewayclients.networking.liqo.io is not the one that liqo-tui needs: in its version v1beta1, field .spec.mtu is missing or different"
		if !strings.HasSuffix(failed.Step.Reason, why) || len(failed.Step.Fix) == 0 || !strings.Contains(failed.Step.Fix[0].String(), "liqo-tui install ") {
			t.Errorf("got %q, advice %v", failed.Step.Reason, failed.Step.Fix)
		}
		if failed.Changed {
			t.Error("the error says that something was changed")
		}
		if n := len(p.Log()); n < 2 || n > 25 {
			t.Errorf("applied %d times in 20 s, want about one a second", n)
		}
	})
}

func TestRunStoppedInTheMiddleKeepsWhatWasDone(t *testing.T) {
	whole := flowtest.NewPair()
	events := len(flowtest.MustRun(t, whole, flowtest.Connect(flowtest.NodePort())).Events)
	for stop := 1; stop < events; stop++ {
		p := flowtest.NewPair()
		ctx, cancel := context.WithCancel(t.Context())
		n, reported := 0, 0
		emit := func(e engine.Event) {
			reported += len(e.Changes)
			if n++; n == stop {
				cancel()
			}
		}
		err := engine.Run(ctx, flowtest.Connect(flowtest.NodePort()), p.A, p.B, emit, engine.Options{Now: p.Now})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped after event %d: got %v, want %v", stop, err, context.Canceled)
		}
		if reported != len(p.Log()) {
			t.Errorf("stopped after event %d: %d changes were reported, and %d made", stop, reported, len(p.Log()))
		}
		if n > stop {
			t.Errorf("stopped after event %d: %d events", stop, n)
		}
		flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
		for _, c := range p.Log() {
			if c.Verb != flows.Created {
				t.Errorf("stopped after event %d: %s was %s, want each object created once", stop, c.Object, c.Verb)
			}
		}
		if d := diff(whole.A.Names(), p.A.Names()); d != "" {
			t.Errorf("stopped after event %d: objects (-uninterrupted +got):\n%s", stop, d)
		}
	}
}

func TestRunWaitsForAClusterThatIsLostInTheMiddle(t *testing.T) {
	p := flowtest.NewPair()
	p.A.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 2, For: 30}} })
	p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 20, For: 20}} })
	r := flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	both := slices.ContainsFunc(r.Events, func(e engine.Event) bool {
		a, _ := e.Plan.Step("preflight-a")
		b, _ := e.Plan.Step("preflight-b")
		return a.Status == flows.Waiting && b.Status == flows.Waiting && e.Plan.A == "rome"
	})
	if !both {
		t.Error("no event names both clusters as not answering")
	}
}

func TestRunFailsAtOnceIfAClusterNeverAnswered(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
	r, err := flowtest.Run(t, p, flowtest.Connect(flowtest.NodePort()))
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Step.Kind != flows.FailedUnreachable || failed.Changed || len(r.Events) != 1 {
		t.Errorf("got %v after %d events, want unreachable after one", err, len(r.Events))
	}
}

func TestRunGivesUpOnAClusterThatStaysLost(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 3}} })
	_, err := flowtest.Run(t, p, flowtest.Connect(flowtest.NodePort()))
	const text = "milan: API server: gave up after 5m: https://172.18.0.20:6443 (context kind-milan) does not answer (for 4m58s)"
	var failed *flows.StepError
	if !errors.As(err, &failed) || err.Error() != text || failed.Step.Kind != flows.FailedTimeout || !failed.Changed {
		t.Errorf("\n got %v\nwant %s", err, text)
	}
}

func TestRunDeclinedChangesNothing(t *testing.T) {
	p := flowtest.NewPair()
	asked := 0
	err := engine.Run(t.Context(), flowtest.Connect(flowtest.NodePort()), p.A, p.B, func(engine.Event) {}, engine.Options{
		Now: p.Now,
		Approve: func(plan flows.Plan) (bool, error) {
			asked++
			if plan.Empty() {
				t.Error("asked about an empty plan")
			}
			return false, nil
		},
	})
	if !errors.Is(err, engine.ErrDeclined) || asked != 1 || len(p.Log()) > 0 {
		t.Errorf("got %v, asked %d times, wrote %v", err, asked, p.Log())
	}
}

func TestRunAsksOnceAndDoesNotCountTheAnswerAsWaiting(t *testing.T) {
	p := flowtest.NewPair()
	asked := 0
	err := engine.Run(t.Context(), flowtest.Connect(flowtest.NodePort()), p.A, p.B, func(engine.Event) {}, engine.Options{
		Now: p.Now, Timeout: time.Minute,
		Approve: func(flows.Plan) (bool, error) {
			asked++
			p.Advance(time.Hour) // lunch
			return true, nil
		},
	})
	if err != nil || asked != 1 {
		t.Errorf("got %v, asked %d times", err, asked)
	}
}

func TestRunShowsARefusedChange(t *testing.T) {
	refusal := &flows.ConflictError{Object: "GatewayServer liqo-tenant-rome/rome", Managers: []string{"argocd"}}
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.WriteErrors = map[int]error{3: refusal} })
	r, err := flowtest.Run(t, p, flowtest.Connect(flowtest.NodePort()))
	var failed *flows.StepError
	if !errors.As(err, &failed) || !errors.Is(err, error(refusal)) {
		t.Fatalf("got %v, want a failed step because of %v", err, refusal)
	}
	if failed.Step.ID != "gateway-server-b" || failed.Step.Kind != flows.FailedConflict || !strings.Contains(failed.Step.Hint().String(), "argocd") || !failed.Changed {
		t.Errorf("got %+v", failed)
	}
	last := r.Events[len(r.Events)-1]
	if s, _ := last.Plan.Step("gateway-server-b"); s.Status != flows.Failed || s.Reason == "" {
		t.Errorf("the last event shows the step as %+v", s)
	}
	// The other side's changes of the same round were made, and reported.
	if got := rounds(r.Events[len(r.Events)-1:]); len(got) != 1 || !slices.Contains(got[0], "A Configuration liqo-tenant-milan/milan") {
		t.Errorf("the last event reports %v", got)
	}
	p.B.Behave(func(b *flowtest.Behaviour) { b.WriteErrors = nil })
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
}

func TestRunRefusesToTakeAnotherToolsFields(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	params := flowtest.NodePort()
	params.MTU = 1400
	_, err := flowtest.Run(t, p, flowtest.Connect(params))
	var conflict *flows.ConflictError
	if !errors.As(err, &conflict) || conflict.Managers[0] != "liqoctl" {
		t.Fatalf("got %v, want a conflict with liqoctl", err)
	}
	if mtu := p.B.Facts().Servers[0].Spec.MTU; mtu != 1340 {
		t.Errorf("the MTU is %d now", mtu)
	}
}

func TestRunContinuesAConnectionOfAnotherTool(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	before := p.A.Names()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	if d := diff(before, p.A.Names()); d != "" {
		t.Errorf("objects (-before +after):\n%s", d)
	}
	for _, c := range p.Log() {
		if c.Verb != flows.Updated {
			t.Errorf("%s was %s", c.Object, c.Verb)
		}
	}
}

func TestANamespaceThatSomebodyMadeIsUsedAndKept(t *testing.T) {
	p := flowtest.NewPair()
	ns := render.TenantNamespace(p.A.Tenant())
	ns.Labels = map[string]string{"team": "network"}
	p.A.PutAs("kubectl", ns)
	before := p.A.Facts().FindNamespace(ns.Name)
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	if d := diff(before, p.A.Facts().FindNamespace(ns.Name)); d != "" {
		t.Fatalf("connecting changed a namespace that was there before (-before +after):\n%s", d)
	}
	if p.A.Facts().End("milan").Client == nil {
		t.Fatal("the connection is not in it")
	}
	flowtest.MustRun(t, p, flows.Planner(flowtest.Reset))
	if d := diff(before, p.A.Facts().FindNamespace(ns.Name)); d != "" {
		t.Errorf("reset changed a namespace that was there before (-before +after):\n%s", d)
	}
	if p.B.Facts().End("rome").Namespace != nil {
		t.Error("reset kept the namespace that liqo-tui made on the other side")
	}
}

func TestDisconnectKeepsTheAddresses(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	before := p.A.Facts().End("milan").Configuration.Status.Remote
	flowtest.MustRun(t, p, flows.Planner(disconnect))
	end := p.A.Facts().End("milan")
	if end.Client != nil || end.Connection != nil || end.PublicKey != nil || p.B.Facts().End("rome").Server != nil {
		t.Errorf("disconnect left %v on A and %v on B", p.A.Names(), p.B.Names())
	}
	p.Forget()
	flowtest.MustRun(t, p, flows.Planner(disconnect))
	if log := p.Log(); len(log) > 0 {
		t.Errorf("a second run wrote %v", log)
	}
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	if d := diff(before, p.A.Facts().End("milan").Configuration.Status.Remote); d != "" {
		t.Errorf("connecting again gave other addresses (-before +after):\n%s", d)
	}
}

func TestThePlanShowsWhatItWillApplyBeforeTheNamespacesExist(t *testing.T) {
	p := flowtest.NewPair()
	plan := flows.PlanConnect(flowtest.NodePort(), flowtest.Facts(p))
	for _, id := range []flows.StepID{"configuration-a", "configuration-b", "gateway-server-b"} {
		s, _ := plan.Step(id)
		if s.Status != flows.Blocked || !strings.Contains(s.Diff, "+kind: ") || len(s.Objects) > 0 {
			t.Errorf("step %s: got status %s, %d objects and diff %q; want it blocked, with its diff", id, s.Status, len(s.Objects), s.Diff)
		}
	}
}

// What is only a warning otherwise fails a strict run, before anything changes.
func TestAStrictRunInterruptsNothing(t *testing.T) {
	p := flowtest.NewPair()
	want := flowtest.NodePort()
	strict := func(want flows.Params) error {
		return engine.Run(t.Context(), flowtest.Connect(want), p.A, p.B, func(engine.Event) {}, engine.Options{Now: p.Now, Strict: true})
	}
	if err := strict(want); err != nil { // a new connection interrupts nothing, also on its way
		t.Fatal(err)
	}
	want.Server = flows.A
	before := len(p.A.Log()) + len(p.B.Log())
	err := strict(want)
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Step.Kind != flows.FailedPreflight || failed.Code() != flows.CodeInterrupts ||
		!strings.Contains(failed.Step.Reason, "traffic between rome and milan is interrupted for some seconds") {
		t.Errorf("got %v, want to hear which traffic stops", err)
	}
	if after := len(p.A.Log()) + len(p.B.Log()); after != before {
		t.Errorf("%d writes were made", after-before)
	}
	flowtest.MustRun(t, p, flowtest.Connect(want))
}
