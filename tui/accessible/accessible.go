// Package accessible is the wizard for screen readers, and for terminals that can only write lines.
// It asks and informs in sentences, draws nothing, and never changes a line that was written. It uses
// the same engine as the screens.
package accessible

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/lines"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

type wizard struct {
	prompter
	options session.Options
	sides   [2]cluster
	goal    session.Goal
	params  flows.Params
	removal flows.RemoveOptions
	exports *service.ExportParams // the goal, if it is an export of cluster A
	plan    flows.Plan            // the latest plan of a run
	changed bool                  // a run has changed something
	closers []func()              // close the clusters that were opened
}

// Run connects two clusters in a conversation on in and out, or changes or ends their connection. The
// error is [ErrNoAnswer] if the input ended too early, [ErrLeft] if the admin did not continue, or
// the error of the run.
func Run(ctx context.Context, o session.Options, in io.Reader, out io.Writer) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	w := &wizard{prompter: prompter{in: lines.NewReader(in), out: out}, options: o, params: o.Params}
	defer func() {
		for _, closeCluster := range w.closers {
			closeCluster()
		}
	}()
	w.say("To leave at any question, type q. Nothing is changed before you confirm it.")
	if err := w.chooseClusters(ctx); err != nil {
		return err
	}
	if err := w.chooseGoal(ctx); err != nil {
		return err
	}
	steps := []func(context.Context) error{w.preflight, w.settings, w.apply, w.verify, w.reach}
	if w.goal != session.Connect {
		steps = []func(context.Context) error{w.apply}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *wizard) facts() flows.Facts {
	return flows.Facts{Sides: [2]flows.ClusterFacts{w.sides[flows.A].facts, w.sides[flows.B].facts}, At: w.options.Now()}
}

// id returns the name of a side's cluster in sentences.
func (w *wizard) id(s flows.Side) string {
	if i := w.params.Install[s]; w.sides[s].facts.ID == "" && i != nil {
		return string(i.ClusterID())
	}
	if s == flows.B && w.removal.Peer != "" {
		return string(w.removal.Peer)
	}
	return cmp.Or(string(w.sides[s].facts.ID), w.sides[s].name())
}

// command returns the command that does the same without a conversation.
func (w *wizard) command(g session.Goal) string {
	if w.options.Command == nil {
		return command.Ours("network", g.String()).String()
	}
	return w.options.Command(session.Request{Goal: g, A: w.sides[flows.A].Ref, B: w.sides[flows.B].Ref, Params: w.params, Removal: w.removal}).String()
}

// chooseGoal asks for the goal, if more than one is possible.
func (w *wizard) chooseGoal(ctx context.Context) error {
	words := []string{"disconnect", "reset"}
	if !w.removal.LocalOnly {
		gateways := connect.Suggested(w.params).Decide(w.facts()).Exists
		known := w.sides[flows.A].facts.End(w.sides[flows.B].facts.ID).Configuration != nil
		switch {
		case gateways:
			if err := w.sayConnection(ctx); err != nil {
				return err
			}
			words = []string{"change", "verify", "disconnect", "reset"}
		case known:
			w.say("%s and %s know each other's addresses, but are not connected.", w.id(flows.A), w.id(flows.B))
			words = []string{"connect", "reset"}
		default:
			return nil // only one goal is possible
		}
	}
	w.say("Disconnect removes the gateways, and keeps the addresses for the next connection. Reset removes all that the clusters know of each other.")
	word, err := w.pick(ctx, "What to do?", words...)
	if err != nil {
		return err
	}
	switch word {
	case "disconnect":
		w.goal = session.Disconnect
	case "reset":
		w.goal = session.Reset
	case "verify":
		if err := w.verify(ctx); err != nil {
			return err
		}
		return w.chooseGoal(ctx)
	}
	return nil
}

// sayConnection writes the reports of each side about the existing connection. It observes again,
// because an answer to the last question may have taken minutes.
func (w *wizard) sayConnection(ctx context.Context) error {
	if err := w.lookAgain(ctx); err != nil {
		return err
	}
	for _, s := range []flows.Side{flows.A, flows.B} {
		state, why := w.sides[s].facts.End(w.sides[s.Other()].facts.ID).Reading().State(w.options.Now())
		w.say("%s says of its connection with %s: %s, %s.", w.id(s), w.id(s.Other()), state.Word(), strings.TrimSuffix(why, "."))
	}
	return nil
}

// preflight writes the results of the checks. Failed checks have to be fixed first.
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
		clusters := [2]engine.Cluster{w.sides[flows.A].open, w.sides[flows.B].open}
		// If a cluster does not answer, the check was not made.
		reviews, _ := engine.Review(ctx, clusters, rights.OfBoth(flows.PlanConnect(w.params, w.facts())))
		results := check.Preflight(w.params, w.facts(), reviews)
		w.say("Step 2 of 5: checks.")
		for _, r := range results {
			w.sayCheck(r)
		}
		if check.Worst(results) != check.Fail {
			return nil
		}
		if _, err := w.pick(ctx, "A check has failed.", "again"); err != nil {
			return err
		}
		if err := w.lookAgain(ctx); err != nil {
			return err
		}
	}
}

func (w *wizard) lookAgain(ctx context.Context) error {
	for side := range w.sides {
		facts, err := w.sides[side].open.Observe(ctx)
		if err != nil {
			return err
		}
		w.sides[side].facts = facts
	}
	return nil
}

func (w *wizard) sayCheck(r check.Result) {
	if r.State == check.Pass {
		w.say("Check %s, %s, %s: pass.", r.ID, strings.ReplaceAll(r.Where(), "→", "to"), r.Title)
		return
	}
	w.say("Check %s, %s, %s: %s. %s.", r.ID, strings.ReplaceAll(r.Where(), "→", "to"), r.Title, r.State, strings.TrimSuffix(r.Summary, "."))
	for _, fix := range r.Fix {
		w.say("To do: %s.", strings.TrimSuffix(fix.String(), "."))
	}
}

// settings writes how the clusters will be connected. If the admin wants something else, it asks for
// each setting.
func (w *wizard) settings(ctx context.Context) error {
	w.say("Step 3 of 5: gateway.")
	if decided := connect.Suggested(w.params).Decide(w.facts()); decided.Exists {
		w.params = decided.Params
		w.say("%s and %s already have gateways. Settings that you do not change are kept:", w.id(flows.A), w.id(flows.B))
	} else {
		if p, ok := w.remembered(); ok {
			w.params = p
			w.say("These are the settings that you chose for these clusters the last time.")
		}
		w.suggest()
	}
	fields := w.form()
	for _, f := range fields {
		if !w.params.Uses(f) {
			continue
		}
		if f.Empty == "" && f.Value(w.params) == "" { // this setting must have a value
			if err := w.setting(ctx, f); err != nil {
				return err
			}
		}
		w.say("%s: %s.", f.Label, f.Value(w.params))
	}
	word, err := w.pickOr(ctx, "Are these settings right?", "keep them", "edit")
	if err != nil || word == "" {
		return err
	}
	for _, f := range fields {
		if !w.params.Uses(f) {
			continue
		}
		if err := w.setting(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// form returns the settings that the conversation asks for.
func (w *wizard) form() []flows.ConnectionSetting {
	a, b := w.id(flows.A), w.id(flows.B)
	form := append(peer.Form(w.facts(), a, b), flows.Form(w.options.Settings, a, b)...)
	if w.params.Install != ([2]flows.Installation{}) {
		form = append([]flows.ConnectionSetting{install.ImageSetting()}, form...)
	}
	return form
}

// remembered returns the parameters with the admin's earlier answers.
func (w *wizard) remembered() (_ flows.Params, ok bool) {
	if w.options.Answers == nil {
		return w.params, false
	}
	return w.options.Answers(w.sides[flows.A].Ref, w.sides[flows.B].Ref, w.params)
}

// suggest sets the values that the clusters' facts suggest, unless the command line has a value.
func (w *wizard) suggest() {
	decided := connect.Suggested(w.params).Decide(w.facts())
	w.params = decided.Params
	for _, d := range decided.Decisions {
		for _, f := range w.form() {
			if f.Name == d.Setting.Name {
				w.say("Suggested %s: %s, because %s.", f.Noun, f.Value(w.params), d.Why)
			}
		}
	}
}

func (w *wizard) setting(ctx context.Context, f flows.ConnectionSetting) error {
	what := f.Label
	var options []string
	for _, o := range f.Options {
		options = append(options, o.String())
	}
	if options != nil {
		what += ", " + strings.Join(options, " or ")
	}
	explain := f.Explain
	if f.Empty != "" {
		explain += " Type none for: " + f.Empty + "."
	}
	return w.value(ctx, what, f.Value(w.params), explain, func(text string) error {
		changed := w.params
		if text == "none" && f.Empty != "" {
			text = ""
		}
		if err := f.Set(&changed, text); err != nil {
			return err
		}
		changed.Given |= f.Sets
		if err := changed.Validate(); err != nil {
			return err
		}
		w.params = changed
		return nil
	})
}

// verify measures the connection, and writes the result.
func (w *wizard) verify(ctx context.Context) error {
	w.say("Measuring with a pod on each side.")
	v, err := engine.VerifyPair(ctx, w.sides[flows.A].open, w.sides[flows.B].open, engine.VerifyRequest{Now: w.options.Now}, func(flows.Side, string) {})
	if err != nil {
		w.say("Not measured: %v.", err)
	} else {
		for _, line := range v.Lines() {
			w.say("%s", strings.ReplaceAll(strings.TrimSpace(line), "→", "to"))
		}
	}
	w.say("To remove the whole connection: %s", w.command(session.Reset))
	return nil
}
