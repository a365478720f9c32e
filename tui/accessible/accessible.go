// Package accessible is the wizard for screen readers, and for terminals that
// can only write lines: it asks and tells in sentences, draws nothing, and
// takes back nothing that was said. Under it is the same engine as under the
// screens.
package accessible

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/tui"
)

// probeTimeout bounds how long the first question waits for clusters that do
// not answer.
const probeTimeout = 10 * time.Second

// heartbeat bounds the silence of a run that waits.
const heartbeat = 30 * time.Second

// wizard is one conversation.
type wizard struct {
	prompter
	options tui.Options
	sides   [2]cluster
	params  flows.Params
	plan    flows.Plan // the latest of a run
	closers []func()   // of the clusters that were opened
}

// cluster is one that can be chosen.
type cluster struct {
	tui.Context
	open  flows.Cluster
	facts flows.ClusterFacts
}

func (c cluster) name() string { return cmp.Or(c.Ref.Name, "current context") }

// Run connects two clusters in a conversation on in and out. The error is
// [ErrNoAnswer] where the input ended too early, [ErrLeft] where the admin did
// not go on, and that of the run if it failed.
func Run(ctx context.Context, o tui.Options, in io.Reader, out io.Writer) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	w := &wizard{prompter: prompter{in: bufio.NewReader(in), out: out}, options: o, params: o.Params}
	defer func() {
		for _, closeCluster := range w.closers {
			closeCluster()
		}
	}()
	for _, step := range []func(context.Context) error{w.chooseClusters, w.preflight, w.settings, w.apply} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return w.verify(ctx)
}

// chooseClusters asks for the clusters that the command line did not name.
func (w *wizard) chooseClusters(ctx context.Context) error {
	contexts, problems := w.options.Backend.Contexts(nil)
	for _, p := range problems {
		w.say("A kubeconfig can't be used: %v.", p)
	}
	w.say("Step 1 of 5: clusters. Looking at %d contexts, for at most %d seconds.", len(contexts), int(probeTimeout.Seconds()))
	all := w.probe(ctx, contexts)
	var ready []cluster
	for _, c := range all {
		if p := c.facts.Problem; p != nil {
			w.say("Not available: %s, %s.", c.name(), strings.TrimSuffix(p.Message, "."))
			continue
		}
		ready = append(ready, c)
	}
	for i, c := range ready {
		id := "no cluster ID yet"
		if c.facts.ID != "" {
			id = "cluster ID " + string(c.facts.ID)
		}
		w.say("%d: %s, Kubernetes %s, %s, %s.", i+1, c.name(), c.facts.Version, c.facts.Software, id)
	}
	for side, named := range [2]flows.ContextRef{w.options.A, w.options.B} {
		if err := w.chooseCluster(ctx, flows.Side(side), named, ready); err != nil {
			return err
		}
	}
	return nil
}

func (w *wizard) chooseCluster(ctx context.Context, side flows.Side, named flows.ContextRef, ready []cluster) error {
	which := [...]string{"Local cluster, A", "Remote cluster, B"}[side]
	if named != (flows.ContextRef{}) {
		for _, c := range ready {
			if c.Ref == named {
				w.sides[side] = c
				w.say("%s: %s.", which, c.name())
				return nil
			}
		}
		return fmt.Errorf("context %s is not available", named)
	}
	if len(ready) < 2 {
		return fmt.Errorf("two clusters are needed, and %d can be used", len(ready))
	}
	for {
		n, _, err := w.choose(ctx, which, len(ready))
		if err != nil {
			return err
		}
		c := ready[n-1]
		if other := w.sides[flows.A]; side == flows.B && other.facts.UID == c.facts.UID {
			w.say("%s is the same cluster as A. Choose another one.", c.name())
			continue
		}
		w.sides[side] = c
		return nil
	}
}

// probe asks all clusters side by side. One that does not answer in time has
// that as its problem.
func (w *wizard) probe(ctx context.Context, contexts []tui.Context) []cluster {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out := make([]cluster, len(contexts))
	var all sync.WaitGroup
	for i, c := range contexts {
		all.Go(func() {
			out[i].Context = c
			var err error
			if out[i].open, err = w.options.Backend.Open(c.Ref); err == nil {
				out[i].facts, err = out[i].open.Observe(ctx)
			}
			if err != nil {
				out[i].facts.Problem = &flows.Problem{Kind: flows.Unreachable, Message: err.Error()}
			}
		})
	}
	all.Wait()
	for _, c := range out {
		if c, ok := c.open.(interface{ Close() }); ok {
			w.closers = append(w.closers, c.Close)
		}
	}
	return out
}

func (w *wizard) facts() flows.Facts {
	return flows.Facts{Local: w.sides[flows.A].facts, Remote: w.sides[flows.B].facts, At: w.options.Now()}
}

// id names a side's cluster in sentences.
func (w *wizard) id(s flows.Side) string {
	if i := w.params.Install[s]; w.sides[s].facts.ID == "" && i != nil {
		return string(i.ClusterID())
	}
	return cmp.Or(string(w.sides[s].facts.ID), w.sides[s].name())
}

// preflight tells what was checked; what has failed has to be mended first.
func (w *wizard) preflight(ctx context.Context) error {
	for side := range w.sides {
		if facts := w.sides[side].facts; w.options.Install != nil && facts.Installable() {
			i, err := w.options.Install(facts, facts.ID)
			if err != nil {
				return err
			}
			w.params.Install[side] = i
			w.say("%s has neither Liqo nor the liqo-tui operator: installing the operator, as %s, becomes a part of the plan.", w.sides[side].name(), i.ClusterID())
		}
	}
	for {
		results := check.Preflight(w.params, w.facts(), w.reviews(ctx))
		w.say("Step 2 of 5: checks.")
		for _, r := range results {
			w.sayCheck(r)
		}
		if check.Worst(results) != check.Fail {
			return nil
		}
		text, err := w.ask(ctx, "A check has failed. Type r to check again, or q to quit:")
		switch {
		case err != nil:
			return err
		case text == "q":
			return ErrLeft
		}
		for side := range w.sides {
			facts, err := w.sides[side].open.Observe(ctx)
			if err != nil {
				return err
			}
			w.sides[side].facts = facts
		}
	}
}

func (w *wizard) sayCheck(r check.Result) {
	if r.State == check.Pass {
		w.say("Check %s, %s, %s: pass.", r.ID, strings.ReplaceAll(r.Where(), ",", " and "), r.Title)
		return
	}
	w.say("Check %s, %s, %s: %s. %s.", r.ID, strings.ReplaceAll(r.Where(), ",", " and "), r.Title, r.State, strings.TrimSuffix(r.Summary, "."))
	for _, fix := range r.Fix {
		w.say("To do: %s.", strings.TrimSuffix(fix, "."))
	}
}

// reviews asks what the user may do; nobody's answer is no failure.
func (w *wizard) reviews(ctx context.Context) (reviews [2]*flows.Review) {
	plan := flows.PlanConnect(w.params, w.facts())
	for side := range w.sides {
		reviewer, ok := w.sides[side].open.(flows.Reviewer)
		if !ok {
			continue
		}
		if review, err := reviewer.Review(ctx, plan.Permissions(flows.Side(side))); err == nil {
			reviews[side] = &review
		}
	}
	return reviews
}

// settings asks how to connect, unless the clusters are connected already.
func (w *wizard) settings(ctx context.Context) error {
	w.say("Step 3 of 5: gateway.")
	adopted, exists := flows.Adopt(w.params, w.facts())
	if exists {
		w.say("%s and %s have gateways already: their settings are kept.", w.id(flows.A), w.id(flows.B))
		w.params = adopted
		return nil
	}
	p := &w.params
	side, why := flows.SuggestServer(w.facts())
	p.Server = side
	w.say("Suggested server: %s, because %s.", side, why)
	err := w.value(ctx, "The side of the gateway server, A or B,", p.Server.String(), func(text string) error {
		switch strings.ToUpper(text) {
		case "A":
			p.Server = flows.A
		case "B":
			p.Server = flows.B
		default:
			return errors.New("want A or B")
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.ServiceType, why = flows.SuggestServiceType(w.facts().Side(p.Server))
	w.say("Suggested service type: %s, because %s.", p.ServiceType, why)
	return w.askService(ctx)
}

func (w *wizard) askService(ctx context.Context) error {
	p := &w.params
	set := func(change func(*flows.Params)) error {
		changed := *p
		change(&changed)
		if err := changed.Validate(); err != nil {
			return err
		}
		*p = changed
		return nil
	}
	err := w.value(ctx, "The service type, LoadBalancer, NodePort or ClusterIP,", string(p.ServiceType), func(text string) error {
		for _, t := range []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP} {
			if strings.EqualFold(text, string(t)) {
				p.ServiceType = t
				return nil
			}
		}
		return errors.New("want LoadBalancer, NodePort or ClusterIP")
	})
	if err != nil {
		return err
	}
	return w.value(ctx, "The MTU of the tunnel, in bytes,", strconv.Itoa(p.MTU), func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("want a number")
		}
		return set(func(p *flows.Params) { p.MTU = n })
	})
}

// apply tells the plan, asks, and tells how the run goes.
func (w *wizard) apply(ctx context.Context) error {
	w.say("Step 4 of 5: plan.")
	var last flows.Event
	spoken := w.options.Now()
	emit := func(e flows.Event) {
		w.plan = e.Plan
		for _, r := range flows.Narrate(last, e) {
			if r.Type == flows.RecordPlan || r.Type == flows.RecordStart {
				continue
			}
			w.say("%s, %s, %s.", w.where(r.Step), r.Text, seconds(r.Elapsed))
			spoken = e.At
		}
		if e.At.Sub(spoken) >= heartbeat {
			for _, s := range e.Plan.Steps {
				if s.Status == flows.Waiting {
					w.say("%s, %s: still waiting, %s, %s.", w.where(s), s.Title, s.Reason, seconds(e.At.Sub(e.Started)))
				}
			}
			spoken = e.At
		}
		last = e
	}
	a, b := w.sides[flows.A].open, w.sides[flows.B].open
	err := flows.Run(ctx, flows.Connecting(w.params), a, b, emit, flows.Options{
		Timeout: w.options.Timeout, Now: w.options.Now,
		Approve: func(p flows.Plan) (bool, error) { return w.approve(ctx, p) },
	})
	command := ""
	if w.options.Command != nil {
		command = w.options.Command(tui.Request{A: w.sides[flows.A].Ref, B: w.sides[flows.B].Ref, Params: w.params})
	}
	if failed, ok := errors.AsType[*flows.StepError](err); ok {
		w.say("Failed: %s on %s, %s.", failed.Step.Title, failed.Cluster, failed.Step.Reason)
		if failed.Step.Hint != "" {
			w.say("To do: %s.", strings.TrimSuffix(failed.Step.Hint, "."))
		}
	}
	if err != nil && !errors.Is(err, flows.ErrDeclined) && !errors.Is(err, ErrNoAnswer) && command != "" {
		w.say("What was applied stays. To continue: %s", command)
	}
	return err
}

// where is a step's side in words; the whole run has none.
func (w *wizard) where(s flows.Step) string {
	for i, step := range w.plan.Steps {
		if step.ID == s.ID {
			return fmt.Sprintf("Step %d of %d on %s", i+1, len(w.plan.Steps), w.id(s.Side))
		}
	}
	return "On " + w.id(s.Side)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%d s", int(d.Seconds())) }

// approve tells the plan and takes the one word that applies it.
func (w *wizard) approve(ctx context.Context, p flows.Plan) (bool, error) {
	w.say("Plan: %s.", p.Changes())
	for _, s := range p.Steps {
		if s.Status != flows.Done && s.Action.Changes() {
			w.say("%s %s on %s.", s.Action, s.Title, w.id(s.Side))
		}
	}
	for _, text := range p.Interrupts() {
		w.say("Warning: %s.", strings.TrimSuffix(text, "."))
	}
	for {
		text, err := w.ask(ctx, `Type "apply" to continue, "diff" to read the changes, or "q" to quit:`)
		switch {
		case err != nil:
			return false, err
		case text == "apply":
			w.say("Step 5 of 5: applying.")
			return true, nil
		case text == "q":
			return false, nil
		case text == "diff":
			for _, s := range p.Steps {
				if s.Diff == "" {
					continue
				}
				w.say("%s %s on %s:", s.Action, s.Title, w.id(s.Side))
				for line := range strings.Lines(s.Diff) {
					w.say("%s", strings.TrimRight(line, "\n"))
				}
			}
		default:
			w.say("%q is none of these.", text)
		}
	}
}

// verify measures the connection, and says what it is.
func (w *wizard) verify(ctx context.Context) error {
	w.say("Connected: each gateway answers the other's pings. Measuring with a pod on each side.")
	v, err := flows.VerifyPair(ctx, w.sides[flows.A].open, w.sides[flows.B].open, flows.VerifyRequest{Now: w.options.Now}, func(flows.Side, string) {})
	if err != nil {
		w.say("Not measured: %v.", err)
		return nil
	}
	for _, line := range v.Lines() {
		w.say("%s", strings.TrimSpace(line))
	}
	if w.options.Command != nil {
		w.say("To undo: %s", w.options.Command(tui.Request{Goal: tui.Reset, A: w.sides[flows.A].Ref, B: w.sides[flows.B].Ref, Params: w.params}))
	}
	return nil
}
