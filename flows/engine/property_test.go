package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// From any facts, applying the ready steps converges or ends in a failure that
// says what and why; and once it has converged, another run changes nothing.
func TestEveryRunEnds(t *testing.T) {
	const seeds = 500 // of 100, no run ends in the rarest ways
	var done, failed [flows.FailedVerify + 1]int
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		s := newScenario(r)
		err := s.run(t)
		kind := checkEnd(t, seed, s, err)
		failed[kind]++
		if err == nil {
			checkIdle(t, seed, s)
		}
		if s.heal(); s.healable {
			if err := s.run(t); err != nil {
				t.Errorf("seed %d: %s: once all is well again: %v", seed, s.what, err)
			} else {
				done[kind]++
				checkIdle(t, seed, s)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("ends of %d runs by kind (0: done) %v; of those, converged after healing: %v", seeds, failed, done)
	for kind, n := range failed {
		if n == 0 && flows.FailureKind(kind) != flows.FailedVerify {
			t.Errorf("no run ended with failure kind %d: the scenarios are too tame", kind)
		}
	}
}

// scenario is a pair of clusters with a past and with problems, and what an
// admin wants of it.
type scenario struct {
	pair     *flowtest.Pair
	goal     flows.Goal
	what     []string // for messages
	healable bool     // nothing stays in the way once the behaviour is good
}

func (s *scenario) note(format string, args ...any) {
	s.what = append(s.what, fmt.Sprintf(format, args...))
}

func (s *scenario) side(r *rand.Rand) (flows.Side, *flowtest.Cluster) {
	side := flows.Side(r.IntN(2))
	return side, s.pair.Side(side)
}

func newScenario(r *rand.Rand) *scenario {
	s := &scenario{pair: flowtest.NewPair(), healable: true}
	params := randomParams(r)
	s.past(r, params)
	for range r.IntN(3) {
		s.trouble(r)
	}
	s.goal = s.command(r, params)
	return s
}

// command is what the admin runs.
func (s *scenario) command(r *rand.Rand, params flows.Params) flows.Goal {
	removal := flows.Removal{Disconnect: r.IntN(2) != 0}
	switch r.IntN(8) {
	case 0:
		s.note("init")
		return flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanInit(params, f) })
	case 1:
		s.note("disconnect or reset")
		return removal
	case 2:
		s.note("disconnect or reset of one side")
		removal.LocalOnly, removal.Peer = true, "milan"
		return removal
	}
	s.note("connect %+v", params)
	return connect.Goal{Params: params}
}

func randomParams(r *rand.Rand) flows.Params {
	p := flows.Defaults()
	p.Server = flows.Side(r.IntN(2))
	p.ServiceType = []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP}[r.IntN(3)]
	if p.ServiceType == corev1.ServiceTypeNodePort && r.IntN(2) == 0 {
		p.NodePort = 31000
	}
	if r.IntN(4) == 0 {
		p.MTU = 1300 + r.IntN(100)
	}
	p.Given = flows.AllFields
	if r.IntN(2) == 0 {
		p.Given = flows.Fields(r.IntN(int(flows.AllFields) + 1))
	}
	p.Wait = []flows.WaitLevel{flows.WaitConnected, flows.WaitConnected, flows.WaitNone}[r.IntN(3)]
	return p
}

// past is what was there before: nothing, a connection of ours or another
// tool's, or what is left of a run that stopped somewhere.
func (s *scenario) past(r *rand.Rand, params flows.Params) {
	switch r.IntN(6) {
	case 0:
		s.note("nothing there")
	case 1:
		server, _ := s.side(r)
		s.pair.ConnectByLiqoctl(server)
		s.note("connected by liqoctl, server %s", server)
		s.healable = false // fields of liqoctl's conflict with what is wanted
	default:
		if r.IntN(4) == 0 {
			params = randomParams(r)
		}
		rounds := r.IntN(20)
		s.note("%d rounds of %+v", rounds, params)
		for range rounds {
			s.applyReady(func(f flows.Facts) flows.Plan { return flows.PlanConnect(params, f) })
		}
		s.lose(r)
	}
	if r.IntN(3) == 0 {
		s.killed(r)
	}
	s.pair.Forget()
}

// killed is a run of some command that ended after some of its writes.
func (s *scenario) killed(r *rand.Rand) {
	goal := s.command(r, randomParams(r))
	for _, side := range []flows.Side{flows.A, flows.B} {
		c := s.pair.Side(side)
		c.Behave(flowtest.KilledAfter(c.Writes() + r.IntN(6)))
	}
	s.note("which was killed")
	// Whatever it says: it is over.
	_ = engine.Run(context.Background(), goal, s.pair.A, s.pair.B, func(engine.Event) {}, engine.Options{Timeout: scenarioTimeout, Now: s.pair.Now})
	for _, c := range []*flowtest.Cluster{s.pair.A, s.pair.B} {
		c.Behave(func(b *flowtest.Behaviour) { b.WriteErrors = nil })
	}
}

// applyReady is one round of a run, without its judgement.
func (s *scenario) applyReady(plan flows.Planner) {
	p := plan(s.facts())
	for _, step := range p.Steps {
		if step.Status == flows.Ready {
			// What another tool owns stays as it is.
			_, _ = s.pair.Side(step.Side).Apply(context.Background(), step.Objects)
		}
	}
	s.pair.Tick()
}

func (s *scenario) facts() flows.Facts {
	return flows.Facts{Sides: [2]flows.ClusterFacts{s.pair.A.Facts(), s.pair.B.Facts()}, At: s.pair.Now()}
}

// lose takes away or damages some of what is there.
func (s *scenario) lose(r *rand.Rand) {
	for range r.IntN(3) {
		side, c := s.side(r)
		objects := c.Objects()
		if len(objects) == 0 {
			continue
		}
		o := objects[r.IntN(len(objects))]
		switch r.IntN(4) {
		case 0:
			s.note("%s lost %s", side, apply.Name(o))
			c.Remove(o)
		case 1:
			if _, ok := o.(*networkingv1beta1.Connection); !ok {
				s.note("%s is deleting %s", side, apply.Name(o))
				c.Behave(func(b *flowtest.Behaviour) { b.DeletionTicks, b.NamespaceTicks = r.IntN(9), r.IntN(9) })
				_, _ = c.Delete(context.Background(), []wire.Object{o})
			}
		case 2:
			if key, ok := o.(*networkingv1beta1.PublicKey); ok {
				s.note("%s has another key", side)
				key.Spec.PublicKey[0] ^= 1
				c.Put(key)
			}
		case 3:
			if client, ok := o.(*networkingv1beta1.GatewayClient); ok {
				s.note("%s dials somewhere else", side)
				client.Spec.Endpoint.Port++
				c.Put(client)
			}
		}
	}
}

// trouble makes something go wrong from now on.
func (s *scenario) trouble(r *rand.Rand) {
	side, c := s.side(r)
	n := 1 + r.IntN(12)
	behave := func(name string, edit func(*flowtest.Behaviour)) {
		s.note("%s %s", side, name)
		c.Behave(edit)
	}
	troubles := []func(){
		func() {
			w := flowtest.Window{From: n, For: r.IntN(20)}
			w.From += c.Observed()
			behave(fmt.Sprintf("unreachable %+v", w), func(b *flowtest.Behaviour) { b.Unreachable = append(b.Unreachable, w) })
		},
		func() {
			errs := []error{errors.New("the server is overloaded"), flowtest.Forbidden("ada", "gatewayservers", "liqo-tenant-rome"), &flows.ConflictError{Object: "x", Managers: []string{"argocd"}}}
			err, at := errs[r.IntN(len(errs))], c.Writes()+n
			behave(fmt.Sprintf("refuses write %d: %v", n, err), func(b *flowtest.Behaviour) { b.WriteErrors = map[int]error{at: err} })
		},
		func() { behave("operator is silent", func(b *flowtest.Behaviour) { b.Silent = true }) },
		func() { behave("assigns no CIDRs", func(b *flowtest.Behaviour) { b.NoCIDRs = true }) },
		func() { behave("publishes no keys", func(b *flowtest.Behaviour) { b.NoKeys = true }) },
		func() { behave("load balancer pending", func(b *flowtest.Behaviour) { b.LoadBalancerPending = true }) },
		func() {
			behave("image can't be pulled", func(b *flowtest.Behaviour) { b.PodWaiting = "ImagePullBackOff" })
		},
		func() { behave("wrong key", func(b *flowtest.Behaviour) { b.WrongKey = true }) },
		func() { behave("gateways are dead", func(b *flowtest.Behaviour) { b.NoReports = true }) },
		func() { behave("MTU fixer", func(b *flowtest.Behaviour) { b.MTUFixer = true }) },
		func() { behave("prunes the MTU", func(b *flowtest.Behaviour) { b.PrunesMTU = true }) },
		func() { behave("deletions hang", func(b *flowtest.Behaviour) { b.DeletionTicks = flowtest.Forever }) },
		func() {
			s.note("%s has no software", side)
			s.healable = false
			c.Be(func(f *flows.ClusterFacts) { f.Software, f.HasCRDs = flows.NoSoftware, false })
		},
		func() {
			s.note("%s has no address ranges", side)
			s.healable = false
			c.Be(func(f *flows.ClusterFacts) { f.Networks = render.Networks{} })
		},
	}
	troubles[r.IntN(len(troubles))]()
}

// heal ends all trouble, as an admin would before the next attempt.
func (s *scenario) heal() {
	for _, c := range []*flowtest.Cluster{s.pair.A, s.pair.B} {
		c.Behave(func(b *flowtest.Behaviour) { *b = flowtest.Behaviour{} })
		for _, o := range c.Objects() {
			if o.GetDeletionTimestamp() != nil {
				c.Remove(o)
			}
		}
	}
	if f := s.goal.Plan(s.facts()).Failure(); f != nil {
		s.healable = false // for instance the clusters are connected the other way round
	}
}

const (
	scenarioTimeout = 60 * time.Second
	// A run takes a round per second of its timeout, and at most one more for
	// each thing that it applies; each round emits at most two events.
	maxEvents = 2 * (60 + 40)
)

// run returns how the run ended; too many rounds are an error of their own.
func (s *scenario) run(t *testing.T) error {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	events := 0
	emit := func(engine.Event) {
		if events++; events > maxEvents {
			cancel(fmt.Errorf("no end after %d events", events))
		}
	}
	err := engine.Run(ctx, s.goal, s.pair.A, s.pair.B, emit, engine.Options{Timeout: scenarioTimeout, Now: s.pair.Now})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// checkEnd checks that a run ended well or in a failure that says what and why,
// and returns the failure's kind.
func checkEnd(t *testing.T, seed int, s *scenario, err error) flows.FailureKind {
	t.Helper()
	if err == nil {
		if p := s.goal.Plan(s.facts()); !p.Done() {
			t.Errorf("seed %d: %q: the run ended well, and this is open: %q", seed, s.what, flowtest.Pending(p))
		}
		return 0
	}
	var failed *flows.StepError
	if !errors.As(err, &failed) {
		t.Errorf("seed %d: %q: got %v, want success or a failed step", seed, s.what, err)
		return 0
	}
	step := failed.Step
	if step.Status != flows.Failed || step.Kind == 0 || step.Reason == "" || step.Title == "" || step.ID == "" {
		t.Errorf("seed %d: %q: the failure does not say what and why: %+v", seed, s.what, step)
	}
	wrote := false
	for _, c := range s.pair.Log() {
		wrote = wrote || c.Verb != flows.Unchanged
	}
	if failed.Changed != wrote {
		t.Errorf("seed %d: %q: the error says changed %v, and what was written is %v", seed, s.what, failed.Changed, s.pair.Log())
	}
	return step.Kind
}

// checkIdle checks that a run after a good end writes nothing at all. What the
// operators do meanwhile stays as it was, so it may wait in vain. Only the
// program that works against us is stopped.
func checkIdle(t *testing.T, seed int, s *scenario) {
	t.Helper()
	s.pair.Forget()
	for _, c := range []*flowtest.Cluster{s.pair.A, s.pair.B} {
		c.Behave(func(b *flowtest.Behaviour) { b.Unreachable, b.WriteErrors, b.MTUFixer = nil, nil, false })
	}
	var failed *flows.StepError
	if err := s.run(t); err != nil && (!errors.As(err, &failed) || failed.Step.Kind != flows.FailedTimeout) {
		t.Errorf("seed %d: %q: second run: %v", seed, s.what, err)
	}
	if log := s.pair.Log(); len(log) > 0 {
		t.Errorf("seed %d: %q: the second run wrote %v", seed, s.what, log)
	}
}
