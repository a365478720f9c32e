// Package wizard leads the admin through the connection of two clusters: the choice of
// clusters, checks, settings, the plan, its progress, and the live connection. Each
// screen is a struct with its own state. All screens are drawn from the [scene].
package wizard

import (
	"context"
	"errors"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Step is a screen of the wizard.
type Step uint8

// The steps, in order.
const (
	Away Step = iota // the dashboard is shown
	Clusters
	Preflight
	Settings
	Plan
	Apply
	Live
	Reach // asks for a Service to export, after the last step
)

func (s Step) String() string {
	return [...]string{"dashboard", "Clusters", "Preflight", "Gateway", "Plan", "Apply", "Live", "Reach"}[s]
}

// Wizard connects two clusters, changes their connection, or ends it.
type Wizard struct {
	Step Step
	task
	met      [2]flows.ContextRef // the pair for which wanted was chosen
	chose    answers             // the answers with which a run has begun
	visiting bool                // the wizard was opened from the dashboard: back leads there
	landed   bool                // its Live screen was shown: back leads there first

	clusters  clustersScreen
	preflight preflightScreen
	aside     Step // the screen from which a diagnosis was opened; Away: none
	form      settingsScreen
	plan      planScreen
	apply     applyScreen
	live      liveScreen
	reach     reachScreen
	confirm   *confirm
}

// New returns the wizard with the clusters that the command line names.
func New(o session.Options) Wizard {
	w := Wizard{Step: Clusters, task: task{options: o, pair: [2]flows.ContextRef{o.A, o.B}, wanted: given(o), params: o.Params}}
	var none flows.ContextRef
	switch {
	case o.Start == session.StartDashboard:
		w.Step = Away
	case o.A != none && o.B != none:
		w.Step = Plan
	}
	return w
}

// given returns the connection with the settings of the command line.
func given(o session.Options) connect.Goal {
	g := connect.Suggested(o.Params)
	g.Seen = true
	return g
}

func (w Wizard) scene(e session.Env) scene {
	return scene{e, w.task, w.plan.localOnly, w.plan.made, w.preflight.results}
}

// Update handles messages of events and of commands.
func (w Wizard) Update(e session.Env, msg tea.Msg) (Wizard, tea.Cmd) {
	c := w.scene(e)
	switch msg := msg.(type) {
	case RunMsg:
		return w.updateRun(c, msg)
	case turnMsg:
		var cmd tea.Cmd
		w.apply, cmd = w.apply.turn(c, runPage(msg))
		return w, cmd
	case logsMsg:
		var cmd tea.Cmd
		w.apply, cmd = w.apply.takeLogs(c, msg)
		return w, cmd
	case GreetMsg:
		return w.greet(c), nil
	case reviewMsg:
		w.preflight = w.preflight.update(c, msg)
		return w.land(e), nil
	case session.VerifiedMsg:
		if v := &w.live.verify; v.Running() && msg.ID == v.ID {
			v.Stop, v.Result, v.Err, v.Ended = nil, msg.Result, msg.Err, true
		}
	case askAddress:
		c.askAddress()
	case findAddress:
		return w, c.findAddress(address.Target(msg))
	case addressMsg:
		c.showAddress(msg)
	case goReach:
		return w.openReach(c)
	case reachReadMsg, reachPick, reachPlanMsg, reachRunMsg, reachAnswerMsg:
		return w.updateReach(c, msg)
	case tryMsg:
		return w.try(c)
	case triedMsg:
		return w.takeTrial(e, msg), nil
	case session.VerifyMsg:
		w.pair = msg.Pair
		return w.verify(w.scene(e))
	case session.VisitMsg:
		w.pair, w.visiting, w.landed, w.aside = msg.Pair, true, false, Away
		switch w = w.begin(e, msg.Goal); {
		case msg.Remedy != nil:
			w = w.remedied(e, *msg.Remedy)
		case msg.Goal == session.Connect:
			w = w.openSettings(e)
		}
	case session.DiagnoseMsg:
		w.aside, w.Step = w.Step, Away
	case session.ReturnMsg:
		w.aside, w.Step = Away, w.aside
	case session.ChooseMsg:
		w.pair, w.visiting = [2]flows.ContextRef{}, false
		w = w.toClusters()
		w.clusters.used = false
		return w.greet(w.scene(e)), nil
	case session.StopMsg:
		if w.apply.active() && w.Step == Apply {
			w.apply.phase, w.apply.leave = phaseStopping, true
			return w, w.apply.run.stop
		}
		if w.reach.phase == reachRunning {
			e.Post(session.QuitMsg{Err: session.ErrInterrupted})
			return w, w.reach.run.stop
		}
		e.Post(session.QuitMsg{Err: session.ErrInterrupted})
	case session.InterruptMsg:
		return w.interrupt(c)
	case chosenMsg:
		side := c.choosing()
		w.offered = [2]flows.ContextRef{}
		if w.pair[side] = flows.ContextRef(msg); w.scene(e).chosen(side.Other()) {
			e.Post(session.PairMsg(w.pair))
			return w.meet(e).land(e), nil
		}
		w.clusters = w.clusters.offer(w.scene(e))
	case submittedMsg:
		w.wanted.Params, w.wanted.Seen = flows.Params(msg), true
		w.Step, w.plan = Plan, planScreen{pinned: true}
		w = w.replan(e)
	case editMsg:
		w = w.openSettings(e)
		w.form.focus = string(msg)
		w.form = w.form.check(w.form.focused(w.scene(e)))
	case takeAwayMsg:
		after := w.Step == Apply
		w = w.begin(e, session.Goal(msg))
		if after {
			w = w.onlyMade(e)
		}
	case move:
		return w.goTo(c, msg)
	default:
		w = w.toScreen(c, msg)
	}
	return w, nil
}

// toScreen gives a message to the shown screen.
func (w Wizard) toScreen(c scene, msg tea.Msg) Wizard {
	if paste, ok := msg.(tea.PasteMsg); ok && w.confirm != nil {
		q := *w.confirm
		q.typed, q.problem = q.typed.Insert(paste.Content), ""
		w.confirm = &q
		return w
	}
	switch w.Step {
	case Clusters:
		w.clusters = w.clusters.update(c, msg)
	case Preflight:
		w.preflight = w.preflight.update(c, msg)
	case Settings:
		w.form = w.form.update(c, msg)
	case Plan:
		w.plan = w.plan.update(c, msg)
	case Apply:
		w.apply = w.apply.update(c, msg)
	case Reach:
		w.reach = w.reach.update(msg)
	case Live, Away:
	}
	return w
}

func (w Wizard) goTo(c scene, to move) (Wizard, tea.Cmd) {
	switch to {
	case goBack:
		return w.back(c), nil
	case goClusters:
		return w.toClusters(), nil
	case goSettings:
		return w.openSettings(c.Env), nil
	case goChecks:
		w.Step, w.plan.pinned, w.preflight.passing = Preflight, true, false
		w.preflight = w.preflight.evaluate(c)
	case goPlan:
		pinned := w.Step == Apply
		w.Step, w.plan.pinned = Plan, true
		if pinned {
			w.apply.phase = phaseNone
			w = w.replan(c.Env)
		}
	case goLocally: // the plan removes only cluster A's part, because B may be gone for good
		w.plan = planScreen{localOnly: true, afterRun: w.plan.afterRun, made: w.plan.made}
		return w.replan(c.Env), nil
	case goSwapped:
		w = w.hostOn(w.params.Server.Other())
		w.Step, w.plan, w.apply.phase = Plan, planScreen{pinned: true}, phaseNone
		return w.replan(c.Env), nil
	case goApply:
		w.plan.note = ""
		switch {
		case w.Current.Done():
		case w.goal == session.Connect && w.preflight.failed():
			w.Step, w.plan.pinned, w.preflight.passing = Preflight, true, false
			w.preflight = w.preflight.pass(c)
		case w.Current.Empty(): // the plan has only waits
			return w.startRun(c, w.Current)
		default:
			w.confirm = c.askFor(w.Current)
		}
	case goAgain:
		return w.startRun(c, w.apply.approved)
	case goBoard:
		w.pair, w.plan, w.goal = [2]flows.ContextRef{}, planScreen{}, session.Connect
		w.Step, w.visiting = Away, false
	}
	return w, nil
}

// hostOn lets a side host the server, also if facts or existing gateways say otherwise.
func (w Wizard) hostOn(side flows.Side) Wizard {
	w.wanted.Server = side
	w.wanted.Given |= flows.FieldServer
	return w
}

// back goes back to the screen from which the present one was opened.
func (w Wizard) back(c scene) Wizard {
	switch w.Step {
	case Clusters:
		if c.chosen(flows.A) {
			w.clusters.selected, w.pair[flows.A] = w.pair[flows.A], flows.ContextRef{}
		} else if c.Boarded {
			w.Step = Away
		}
	case Settings:
		switch {
		case w.plan.pinned:
			w.Step, w.form.left = Plan, true
		case w.visiting && !w.landed:
			return w.toClusters()
		case w.fixed:
			return w.toLive(c.Env)
		default:
			w.Step, w.form.left = Preflight, true
		}
		return w.replan(c.Env)
	case Preflight:
		if !w.plan.pinned {
			return w.toClusters()
		}
		w.Step = Plan
		return w.replan(c.Env)
	case Plan:
		switch {
		case w.plan.afterRun: // the choice of what to do after the run is still open
			w.Step, w.goal, w.plan = Apply, w.apply.goal, planScreen{}
			return w.replan(c.Env)
		case w.visiting && !w.landed && (w.goal != session.Connect || w.plan.remedy):
			return w.toClusters()
		case c.planned() && (w.goal != session.Connect || w.fixed):
			return w.toLive(c.Env)
		}
		return w.toClusters()
	case Reach:
		return w.backReach(c.Env)
	case Away, Apply, Live:
	}
	return w
}

func (w Wizard) openSettings(e session.Env) Wizard {
	w.form, w.Step, w.goal = w.form.open(w.scene(e)), Settings, session.Connect
	return w
}

// toLive shows the connection. It forgets wanted settings that were not applied.
func (w Wizard) toLive(e session.Env) Wizard {
	w.Step, w.goal, w.plan, w.landed = Live, session.Connect, planScreen{}, true
	w.wanted = given(w.options)
	return w.replan(e)
}

// toClusters shows the list of clusters again. The first choice stays.
func (w Wizard) toClusters() Wizard {
	if w.visiting {
		w.visiting, w.Step, w.goal = false, Away, session.Connect
		w.pair, w.plan = [2]flows.ContextRef{}, planScreen{}
		return w
	}
	w.Step, w.clusters.used = Clusters, true
	if w.suggested() { // the admin has chosen none
		w.clusters.selected, w.pair, w.offered = w.pair[flows.A], [2]flows.ContextRef{}, [2]flows.ContextRef{}
	} else {
		w.clusters.selected, w.pair[flows.B] = w.pair[flows.B], flows.ContextRef{}
	}
	w.plan, w.goal = planScreen{}, session.Connect
	return w
}

// meet is the step after the choice of both clusters. It shows the connection if there
// is one, otherwise the checks, which become the plan.
func (w Wizard) meet(e session.Env) Wizard {
	w.goal, w.plan = session.Connect, planScreen{}
	if w.pair != w.met {
		w.met, w.wanted, w.form.left = w.pair, connect.Suggested(w.options.Params), false
		w = w.remember(e)
	}
	w.Step = Plan
	if w = w.replan(e); w.Step == Plan {
		w.Step = Preflight
	}
	if w.Step == Preflight {
		w.preflight.selected, w.preflight.passing = checkKey{}, true
		w.preflight = w.preflight.evaluate(w.scene(e))
	}
	return w
}

// land shows the plan if the checks before it have ended and none has failed. If the admin has chosen the clusters
// and the plan only adds objects, it comes with its question.
func (w Wizard) land(e session.Env) Wizard {
	if w.Step != Preflight || !w.preflight.passing || !w.preflight.complete(w.scene(e)) {
		return w
	}
	w.preflight.passing = false
	if w.Current.Failure() != nil || w.preflight.failed() {
		return w
	}
	w.Step, w.plan.pinned = Plan, true
	if w = w.replan(e); !w.suggested() && !w.Current.Done() && onlyAdds(w.Current) {
		w.confirm = w.scene(e).askFor(w.Current)
	}
	return w
}

// GreetMsg says that there is news of clusters, while they are shown for the choice.
type GreetMsg struct{}

// greet chooses the two clusters if all clusters have answered, exactly one pair of them can be connected and is not,
// and the admin has not begun to choose.
func (w Wizard) greet(c scene) Wizard {
	if w.Step != Clusters || w.clusters.used || c.chosen(flows.A) {
		return w
	}
	pair, ok := c.onlyPair()
	if !ok {
		return w
	}
	w.pair, w.offered = pair, pair
	c.Post(session.PairMsg(w.pair))
	return w.meet(c.Env).land(c.Env)
}

// begin shows the plan for a goal.
func (w Wizard) begin(e session.Env, g session.Goal) Wizard {
	w.goal, w.Step, w.plan = g, Plan, planScreen{}
	if w.scene(e).planned() {
		w = w.replan(e)
	}
	return w
}

// onlyMade restricts the plan to what the runs have created. If that is the whole connection, the
// plan stays as it is: a command does the same.
func (w Wizard) onlyMade(e session.Env) Wizard {
	all, made := w.Current, w.apply.made()
	w.plan.afterRun, w.plan.made = true, made
	w = w.replan(e)
	if all.Failure() == nil && w.Current.Changes() == all.Changes() {
		w.plan.made = nil
		w = w.replan(e)
	}
	return w
}

// remedied shows the plan that repairs a connection. The connection keeps its other
// settings.
func (w Wizard) remedied(e session.Env, r check.Remedy) Wizard {
	w.wanted = given(w.options)
	for _, s := range w.options.ConnectionSettings() {
		if s.Name == r.Setting && s.Set(&w.wanted.Params, r.Value) == nil {
			w.wanted.Given |= s.Sets
		}
	}
	w.Step, w.plan = Plan, planScreen{pinned: true, remedy: true}
	return w.replan(e)
}

// replan makes the plan from the latest facts. An existing connection is shown live,
// because most admins start the program to see it.
func (w Wizard) replan(e session.Env) Wizard {
	facts := w.scene(e).facts()
	w = w.offerInstallation(facts)
	decided := w.wanted.Decide(facts)
	w.params, w.fixed = decided.Params, decided.Exists
	w.Current = w.scene(e).planFor(facts)
	w.plan = w.plan.keep(w.Current)
	c := w.scene(e)
	if w.Step == Plan && w.goal == session.Connect && !w.plan.pinned {
		exists := c.peer(flows.A).Connection != nil && c.peer(flows.B).Connection != nil
		switch {
		case w.Current.Failure() != nil:
			w.Step = Preflight // this screen shows the reasons against a plan
		case w.confirm == nil && (w.Current.Done() || exists):
			w.Step = Live
		}
	}
	if w.Step == Preflight || w.Step == Plan && w.goal == session.Connect {
		w.preflight = w.preflight.evaluate(c)
	}
	return w
}

// offerInstallation adds the installation of our operator to the plan, for the
// clusters that need it.
func (w Wizard) offerInstallation(f flows.Facts) Wizard {
	if w.options.Install == nil {
		return w
	}
	for _, s := range []flows.Side{flows.A, flows.B} {
		facts := f.Sides[s]
		if w.wanted.Install[s] != nil || !facts.Installable() {
			continue
		}
		if i, err := w.options.Install(facts, facts.ID); err == nil {
			w.wanted.Install[s] = i // otherwise the plan says that nothing is installed
		}
	}
	return w
}

// Learned is called after the fleet has learned new facts about a cluster.
func (w Wizard) Learned(e session.Env, ref flows.ContextRef) Wizard {
	if w.paired(ref) { // the ID of the peer may be new
		w.live = w.live.witness(w.scene(e))
	}
	return w
}

// Listed is called after the list of contexts has changed.
func (w Wizard) Listed(e session.Env) Wizard {
	w.clusters = w.clusters.keep(w.clusters.rows(w.scene(e)))
	return w
}

// Planned reports whether both clusters have answered.
func (w Wizard) Planned(e session.Env) bool { return w.scene(e).planned() }

// Replan makes the plan again, if both clusters have answered.
func (w Wizard) Replan(e session.Env) Wizard {
	if w.scene(e).planned() {
		return w.replan(e).land(e)
	}
	return w
}

// Ask asks the clusters for answers that the screen needs and the facts don't have.
func (w Wizard) Ask(e session.Env) (Wizard, tea.Cmd) {
	if w.Step != Preflight && (w.Step != Plan || w.goal != session.Connect) {
		return w, nil
	}
	var cmd tea.Cmd
	w.preflight, cmd = w.preflight.ask(w.scene(e))
	return w, cmd
}

// Key handles a key that is part of a text, or an answer; ok is false for any other
// key.
func (w Wizard) Key(e session.Env, msg tea.KeyPressMsg) (_ Wizard, _ tea.Cmd, ok bool) {
	c := w.scene(e)
	switch {
	case w.confirm != nil && w.confirm.word == "" && key.Matches(msg, e.Keys.Help):
	case w.confirm != nil:
		q, decided := w.confirm.update(msg, e.Keys, e.Now)
		switch w.confirm = &q; decided {
		case actionApply:
			next, cmd := w.startRun(c, q.plan)
			return next, cmd, true
		case actionCancel:
			w.confirm = nil
		case actionNone:
			if q.word == "" && key.Matches(msg, e.Keys.Enter) {
				e.Post(session.NoteMsg("This enter came too soon to be an answer. Press it again."))
			}
		}
		return w, nil, true
	case w.Step == Reach:
		return w.reachKey(c, msg)
	case w.Step == Clusters:
		w.clusters, ok = w.clusters.key(c, msg)
	case w.Step == Settings:
		if next, edited := w.form.key(c, msg); edited {
			w.form, ok = next, true
		}
	}
	return w, nil, ok
}

// interrupt handles ctrl+c on all screens.
func (w Wizard) interrupt(c scene) (Wizard, tea.Cmd) {
	switch w.Step {
	case Apply:
		var cmd tea.Cmd
		w.apply, cmd = w.apply.interrupt(c)
		return w, cmd
	case Reach:
		if w.reach.phase == reachRunning {
			return w, w.reach.run.stop
		}
		c.Post(session.QuitMsg{})
	case Live, Away:
		c.Post(session.QuitMsg{})
	case Clusters, Preflight, Settings, Plan:
		c.Post(session.QuitMsg{Err: session.ErrInterrupted})
	}
	return w, nil
}

// startRun applies the current plan. approved is the plan that the admin has seen.
func (w Wizard) startRun(c scene, approved flows.Plan) (Wizard, tea.Cmd) {
	w.confirm, w.offered = nil, [2]flows.ContextRef{}
	if c.on(flows.A).Cluster == nil || c.on(flows.B).Cluster == nil { // they are being opened again
		c.Post(session.NoteMsg("Contacting the clusters again. Look at the plan when they have answered."))
		return w, nil
	}
	var cmd tea.Cmd
	w.apply, cmd = w.apply.start(c, approved)
	if c.goal == session.Connect {
		w.chose = answers{w.pair, w.wanted.Params}
	}
	w.Step = Apply
	return w, cmd
}

// Follows reports whether a message is from the latest run.
func (w Wizard) Follows(msg RunMsg) bool { return msg.Run == w.apply.run.id }

// updateRun handles the events of a run. The fleet already has their facts.
func (w Wizard) updateRun(c scene, msg RunMsg) (Wizard, tea.Cmd) {
	if !w.Follows(msg) {
		return w, nil
	}
	for _, e := range msg.Events {
		w.apply = w.apply.take(e)
	}
	if !msg.Ended {
		return w, w.apply.run.next(false)
	}
	return w.endRun(c.Env, msg.Err)
}

// endRun continues after the end of a run, and watches the clusters again.
func (w Wizard) endRun(e session.Env, err error) (Wizard, tea.Cmd) {
	w.apply.err, w.apply.ended = err, e.Now
	if err == nil {
		w.goal = session.Connect // the goal of later plans
	}
	w = w.replan(e)
	switch {
	case err == nil:
		w.apply.phase = phaseDone
		w.Step, w.plan, w.landed = Live, planScreen{}, true
		if w.apply.goal == session.Connect {
			return w.verify(w.scene(e))
		}
	case w.apply.leave:
		e.Post(session.QuitMsg{Err: session.ErrInterrupted})
	case errors.Is(err, engine.ErrDeclined):
		w.apply.phase = phaseNone
		w.Step, w.plan.pinned = Plan, true
		w.plan.note = "The clusters have changed since you saw the plan. Nothing was applied: look at the new plan."
		if w.apply.changed {
			w.plan.note = "The run stopped: the plan would now delete or replace more than you saw. What was applied stays: look at the new plan."
		}
		if g, ok := w.apply.event.Goal.(connect.Goal); ok && g.Swapped != "" {
			w.plan.note = "In the new plan, " + g.Swapped + ". What was applied stays."
			w.wanted.ServiceType = g.ServiceType
			w = w.hostOn(g.Server).replan(e)
		}
	case errors.Is(err, context.Canceled):
		w.apply.phase = phaseStopped
	default:
		w.apply.phase = phaseFailed
	}
	return w, nil
}

// verify measures the connection of the pair, from pod to pod.
func (w Wizard) verify(c scene) (Wizard, tea.Cmd) {
	a, b := c.on(flows.A).Cluster, c.on(flows.B).Cluster
	before := w.live.verify
	switch {
	case before.Running() && before.Pair == w.pair:
		return w, nil
	case a == nil || b == nil:
		c.Post(session.NoteMsg("A cluster does not answer, so nothing can be measured."))
		return w, nil
	}
	ctx, stop := context.WithCancel(c.Ctx)
	w.live.verify = session.Verification{ID: before.ID + 1, Pair: w.pair, Began: c.Now, Stop: stop}
	id, now := w.live.verify.ID, c.Clock
	return w, func() tea.Msg {
		if before.Running() { // the measurement of another pair
			before.Stop()
		}
		defer stop()
		result, err := engine.VerifyPair(ctx, a, b, engine.VerifyRequest{Now: now}, func(flows.Side, string) {})
		return session.VerifiedMsg{ID: id, Result: result, Err: err, At: now()}
	}
}

// Commands returns the commands of the present screen, the most likely first.
func (w Wizard) Commands(e session.Env) []keys.Command {
	c := w.scene(e)
	switch w.Step {
	case Clusters:
		return w.clusters.commands(c)
	case Preflight:
		return w.preflight.commands(e.Keys)
	case Settings:
		return w.form.commands(c)
	case Plan:
		return w.plan.commands(c)
	case Apply:
		return w.apply.commands(c)
	case Live:
		return w.live.commands(c)
	case Reach:
		return w.reach.commands(c)
	case Away:
	}
	return nil
}

// answers are the settings that were chosen for two clusters.
type answers struct {
	pair   [2]flows.ContextRef
	params flows.Params
}

// Answers returns the admin's choices, as a suggestion for the next program. A choice
// counts only if a plan with it was begun, and not if it was only tried in the form.
// ok is false if nothing was chosen.
func (w Wizard) Answers() (a, b flows.ContextRef, p flows.Params, ok bool) {
	last := w.chose
	ok = last.params.Given != w.options.Params.Given || last.params.Wait != w.options.Params.Wait
	return last.pair[flows.A], last.pair[flows.B], last.params, ok && last.pair != [2]flows.ContextRef{}
}

// remember suggests the admin's earlier choices for the pair, unless there are
// gateways, which have the real settings.
func (w Wizard) remember(e session.Env) Wizard {
	if w.options.Answers == nil {
		return w
	}
	if w.wanted.Decide(w.scene(e).facts()).Exists {
		return w
	}
	if p, ok := w.options.Answers(w.pair[flows.A], w.pair[flows.B], w.wanted.Params); ok {
		w.wanted = connect.Suggested(p)
		e.Post(session.NoteMsg("The form has what you chose for these clusters the last time."))
	}
	return w
}
