package wizard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// reachScreen asks which Service pods of the other cluster shall reach, and exports it.
type reachScreen struct {
	id    int // of the latest question to the clusters, or run; answers to earlier ones are dropped
	phase reachPhase
	facts flows.Facts // of A and B, with their Services

	offers   []service.Offer
	left     []string // which Services are no offers
	selected int
	// From here on, cluster A of facts and plans is the one that exports.
	chosen  service.Offer
	there   flows.Facts
	plan    flows.Plan
	err     error
	ask     *confirm
	run     run
	changed bool // a run has changed something
	answer  service.Answer
}

type reachPhase uint8

const (
	reachReading reachPhase = iota
	reachChoosing
	reachPlanning
	reachPlanned // the plan is shown, with its question, or with the reason against it
	reachRunning
	reachCalling // a pod of the other cluster calls the Service
	reachEnded
)

// Messages of the screen.
type (
	goReach      struct{} // opens it
	reachPick    struct{} // plans the export of the selected Service
	reachReadMsg struct {
		id    int
		facts flows.Facts
		err   error
	}
	reachPlanMsg struct {
		id   int
		seen engine.Event
		err  error
	}
	reachRunMsg    RunMsg
	reachAnswerMsg struct {
		id     int
		answer service.Answer
		err    error
	}
)

// reachTimeout limits one reading of both clusters.
const reachTimeout = 15 * time.Second

// reach is the question on the screen Live; nothing if neither cluster exchanges Services.
func (s liveScreen) reach(c scene) (lines []string) {
	if !s.together(c).State.Works() {
		return nil
	}
	both, why, fix := service.Exchange(c.facts())
	switch {
	case both:
		why = fmt.Sprintf("Reach something? %s chooses a Service that pods of the other cluster can call.", keys.Called(c.Keys.Services))
	case why == "":
		return nil
	}
	lines = append(lines, "")
	lines = append(lines, c.Theme.Wrap(why, c.Width, 0)...)
	for _, f := range fix {
		lines = append(lines, c.Theme.Command("  ", f.String(), c.Width)...)
	}
	return lines
}

// openReach reads the Services of both clusters.
func (w Wizard) openReach(c scene) (Wizard, tea.Cmd) {
	clusters := [2]engine.Cluster{c.on(flows.A).Cluster, c.on(flows.B).Cluster}
	if clusters[flows.A] == nil || clusters[flows.B] == nil {
		c.Post(session.NoteMsg("A cluster does not answer, so its Services are not known."))
		return w, nil
	}
	w.Step, w.reach = Reach, reachScreen{id: w.reach.id + 1, changed: w.reach.changed}
	id, f, parent, now := w.reach.id, c.facts(), c.Ctx, c.Clock
	return w, func() tea.Msg {
		ctx, cancel := context.WithTimeout(parent, reachTimeout)
		defer cancel()
		answers := engine.Answers{Now: now}
		err := answers.Ask(ctx, &f, clusters, service.AskOffers()...)
		f.At = now()
		return reachReadMsg{id, f, err}
	}
}

// updateReach handles the messages of the screen.
func (w Wizard) updateReach(c scene, msg tea.Msg) (Wizard, tea.Cmd) {
	s := w.reach
	switch msg := msg.(type) {
	case reachReadMsg:
		if msg.id == s.id {
			s.facts, s.err, s.phase = msg.facts, msg.err, reachChoosing
			if !off(msg.facts) {
				s.offers, s.left = service.Offers(msg.facts)
			}
		}
	case reachPick:
		if s.phase == reachChoosing && len(s.offers) > 0 {
			w.reach = s
			return w.planReach(c)
		}
	case reachPlanMsg:
		if msg.id == s.id {
			s.there, s.plan, s.err, s.phase = msg.seen.Facts, msg.seen.Plan, msg.err, reachPlanned
			switch ref := c.pair[s.chosen.Side]; {
			case s.err != nil:
			case s.plan.Done():
				w.reach = s
				return w.callReach(c)
			default:
				s.ask = &confirm{plan: s.plan, yes: onlyAdds(s.plan), quiet: c.Now}
				if c.isProtected(ref) {
					s.ask.word = ref.Name
				}
			}
		}
	case reachRunMsg:
		if s.phase != reachRunning || msg.Run != s.run.id {
			return w, nil
		}
		for _, e := range msg.Events {
			s.plan, s.there, s.changed = e.Plan, e.Facts, s.changed || flows.Changed(e.Changes)
		}
		if !msg.Ended {
			w.reach = s
			return w, s.next(false)
		}
		if s.phase, s.err = reachEnded, msg.Err; s.err == nil {
			w.reach = s
			return w.callReach(c)
		}
	case reachAnswerMsg:
		if msg.id == s.id {
			s.phase, s.answer, s.err = reachEnded, msg.answer, msg.err
		}
	}
	w.reach = s
	return w, nil
}

// callReach calls the exported Service from a pod of the other cluster.
func (w Wizard) callReach(c scene) (Wizard, tea.Cmd) {
	s := &w.reach
	s.id, s.phase = s.id+1, reachCalling
	clusters, name, id, ctx, now := s.clusters(c), s.chosen.Name, s.id, c.Ctx, c.Clock
	if clusters[flows.A] == nil || clusters[flows.B] == nil {
		s.phase, s.answer = reachEnded, service.Answer{Name: name, Not: "a cluster does not answer", Facts: s.there}
		return w, nil
	}
	return w, func() tea.Msg {
		answer, err := engine.CallService(ctx, name, clusters[flows.A], clusters[flows.B], now, func(string) {})
		return reachAnswerMsg{id, answer, err}
	}
}

// clusters returns the exporting cluster and the other one.
func (s reachScreen) clusters(c scene) [2]engine.Cluster {
	return [2]engine.Cluster{c.on(s.chosen.Side).Cluster, c.on(s.chosen.Side.Other()).Cluster}
}

func (s reachScreen) params() service.ExportParams { return service.ExportParams{Name: s.chosen.Name} }

// planReach plans the export of the selected Service.
func (w Wizard) planReach(c scene) (Wizard, tea.Cmd) {
	s := &w.reach
	s.id, s.phase, s.chosen = s.id+1, reachPlanning, s.offers[s.selected]
	clusters, params, id, parent := s.clusters(c), s.params(), s.id, c.Ctx
	if clusters[flows.A] == nil || clusters[flows.B] == nil {
		s.phase = reachChoosing
		c.Post(session.NoteMsg("A cluster does not answer, so nothing can be planned."))
		return w, nil
	}
	return w, func() tea.Msg {
		ctx, cancel := context.WithTimeout(parent, reachTimeout)
		defer cancel()
		msg := reachPlanMsg{id: id}
		msg.seen, msg.err = engine.Look(ctx, exporting(params), clusters[flows.A], clusters[flows.B])
		return msg
	}
}

// exporting returns the goal of a Service that is exported.
func exporting(p service.ExportParams) flows.Planner {
	return func(f flows.Facts) flows.Plan { return service.Export(p, f) }
}

// startReach applies the plan that the admin has seen.
func (w Wizard) startReach(c scene) (Wizard, tea.Cmd) {
	s := &w.reach
	approved, params, clusters := s.ask.plan, s.params(), s.clusters(c)
	s.ask = nil
	if clusters[flows.A] == nil || clusters[flows.B] == nil {
		c.Post(session.NoteMsg("A cluster does not answer. Look at the plan when it has answered."))
		return w, nil
	}
	s.run, s.phase = newRun(c.Ctx, s.run.id+1, c.Clock), reachRunning
	o := engine.Options{
		Timeout: c.options.Timeout, Now: c.Clock,
		Approve: func(p flows.Plan) (bool, error) { return covers(approved, p), nil },
	}
	return w, tea.Batch(s.run.drive(exporting(params), clusters[flows.A], clusters[flows.B], o), s.next(true))
}

// next is a command that waits for events of the run.
func (s reachScreen) next(first bool) tea.Cmd {
	next := s.run.next(first)
	return func() tea.Msg {
		msg, ok := next().(RunMsg)
		if !ok {
			return nil
		}
		return reachRunMsg(msg)
	}
}

// key handles a key that answers the question; ok is false if there is none.
func (w Wizard) reachKey(c scene, msg tea.KeyPressMsg) (_ Wizard, _ tea.Cmd, ok bool) {
	s := &w.reach
	if s.ask == nil || s.ask.word == "" && key.Matches(msg, c.Keys.Help) {
		return w, nil, false
	}
	q, decided := s.ask.update(msg, c.Keys, c.Now)
	switch s.ask = &q; decided {
	case actionApply:
		next, cmd := w.startReach(c)
		return next, cmd, true
	case actionCancel:
		s.ask, s.phase = nil, reachChoosing
	case actionNone:
	}
	return w, nil, true
}

// backReach goes back to the list, and from there to the connection.
func (w Wizard) backReach(e session.Env) Wizard {
	if s := w.reach; s.phase == reachPlanned || s.phase == reachPlanning || s.phase == reachEnded && s.err != nil {
		w.reach.phase, w.reach.err = reachChoosing, nil
		w.reach.id++ // a plan that is being made comes too late
		return w
	}
	w.Step = Live
	if w.reach.phase != reachCalling { // its test pod is waited for
		w.reach.id++
	}
	return w.Replan(e)
}

func (s reachScreen) commands(c scene) []keys.Command {
	k := c.Keys
	back := keys.Command{Binding: k.Back, Msg: goBack}
	switch s.phase {
	case reachChoosing:
		commands := []keys.Command{back}
		if len(s.offers) > 0 {
			enter := "show the plan"
			if s.offers[s.selected].Exported {
				enter = "call it"
			}
			commands = append([]keys.Command{{Binding: keys.Named(k.Enter, enter), Msg: reachPick{}}}, append(commands, k.Moving()...)...)
		}
		return commands
	case reachRunning:
		return []keys.Command{{Binding: k.Interrupt, Msg: session.InterruptMsg{}}, {Binding: k.Quit, Msg: session.NoteMsg("It is being exported: ctrl+c stops safely."), Quiet: true}}
	case reachEnded:
		commands := []keys.Command{back}
		if call := s.answer.Curl(); s.err == nil && call != "" {
			commands = append(commands, keys.Command{Binding: keys.Named(k.CopyCommand, "copy the call"), Msg: session.CopyMsg(call)})
		}
		return commands
	case reachReading, reachPlanning, reachPlanned, reachCalling:
	}
	return []keys.Command{back}
}

func (s reachScreen) update(msg tea.Msg) reachScreen {
	if by, ok := msg.(keys.MoveMsg); ok && len(s.offers) > 0 {
		s.selected = min(max(s.selected+int(by), 0), len(s.offers)-1)
	}
	return s
}

// names are the names of the exporting cluster, and of the other one.
func (s reachScreen) names(c scene) (from, to string) {
	return c.name(s.chosen.Side), c.name(s.chosen.Side.Other())
}

// text returns the screen, in a panel.
func (s reachScreen) text(c scene) []string {
	inner := c.framed()
	t := inner.Theme
	if !t.Frames() {
		return s.body(c)
	}
	what := "Reach something?"
	if s.phase > reachChoosing {
		what = "Reach " + t.Plain(s.chosen.Name.String())
	}
	p := draw.Panel{Title: t.Title.Render(what), Lines: s.body(inner), Grows: true, Open: s.phase == reachEnded || off(s.facts)}
	if s.phase >= reachPlanned && s.err != nil {
		p.Mark = draw.Fail
	}
	return t.Stack(c.Width, c.Room(), []draw.Panel{p})
}

// body returns the text of the screen. The question stands below the plan.
func (s reachScreen) body(c scene) []string {
	t, width := c.Theme, c.Width
	from, to := s.names(c)
	switch s.phase {
	case reachReading:
		return []string{"Reading the Services of both clusters" + t.Ellipsis}
	case reachChoosing:
		return s.list(c)
	case reachPlanning:
		return []string{"Planning the export of " + s.chosen.Name.String() + t.Ellipsis}
	case reachPlanned:
		if s.err != nil {
			return s.failure(c)
		}
		lines := t.Clauses(fmt.Sprintf("%s exports %s. Then pods of %s can call it, and so can pods of other peers of %s that import it.", from, s.chosen.Name, to, from), width)
		for _, text := range slices.Concat(s.plan.Kept, s.plan.Interrupts()) {
			lines = append(lines, t.Clauses("! "+text, width)...)
		}
		lines = append(lines, "")
		if q := s.ask; q != nil && q.word != "" {
			lines = append(lines, q.wordLines(c)...)
		} else if q != nil {
			lines = append(lines, t.Title.Render("Export it?"), t.Row(!q.yes, "No", width), t.Row(q.yes, "Yes, export", width), "")
		}
		for _, step := range s.plan.Steps {
			if step.Diff != "" {
				lines = append(lines, t.Label.Render(t.Plain(step.Action.String()+" "+step.Title+" on "+from)))
				lines = append(lines, t.Diff(step.Diff)...)
			}
		}
		return lines
	case reachRunning:
		lines := []string{t.Title.Render(t.Plain(from + " exports " + s.chosen.Name.String())), ""}
		for _, step := range s.plan.Steps {
			where := from
			if step.Side == flows.B {
				where = to
			}
			text := step.Title + " on " + where
			if step.Status == flows.Waiting && step.Reason != "" {
				text += ": " + step.Reason
			}
			for i, line := range t.Clauses(text, width-t.StateWidth()-1) {
				state := strings.Repeat(" ", t.StateWidth())
				if i == 0 {
					state = t.State(draw.StepMark(step.Status), draw.StepWord(step.Status), t.StateWidth())
				}
				lines = append(lines, state+" "+line)
			}
		}
		return lines
	case reachCalling:
		return t.Clauses(fmt.Sprintf("%s exports %s. A test pod of %s calls it, for %d s at most%s", from, s.chosen.Name, to, int(engine.CallTimeout.Seconds()), t.Ellipsis), width)
	case reachEnded:
	}
	if s.err != nil {
		return s.failure(c)
	}
	return s.result(c)
}

// off reports whether a cluster exchanges no Services: then nothing can be chosen.
func off(f flows.Facts) bool {
	a, _ := service.Off(f.Sides[flows.A])
	b, _ := service.Off(f.Sides[flows.B])
	return a != "" || b != ""
}

// list returns the Services that can be chosen.
func (s reachScreen) list(c scene) []string {
	t, width := c.Theme, c.Width
	var lines []string
	if !t.Frames() { // else it is the title of the panel
		lines = []string{t.Title.Render("Reach something?")}
	}
	add := func(mark, text string, run ...command.Command) {
		lines = append(lines, t.Field(mark, text, width, run...)...)
	}
	if s.err != nil {
		add("! ", "The Services were not read: "+s.err.Error())
	}
	for _, unlisted := range service.Unlisted(s.facts) {
		add("! ", unlisted.String(), unlisted.Commands()...)
	}
	if off(s.facts) {
		return append(lines, "Nothing can be chosen until both clusters exchange Services.")
	}
	if len(s.offers) > 0 {
		add("", "Choose a Service: pods of the other cluster get an address for it, and a name. Nothing changes before you have seen the plan; a test pod calls a Service that is exported already.")
	} else if s.err == nil {
		add("", "No Service can be exported.")
	}
	for _, text := range s.left {
		add("", text)
	}
	lines = append(lines, "")
	var rows []string
	for i, o := range s.offers {
		row := draw.Pad(t.Sides[o.Side].Render(t.Plain(c.name(o.Side))), max(draw.Cells(c.name(flows.A)), draw.Cells(c.name(flows.B)))) + "  " + t.Plain(o.Name.String())
		if o.Exported {
			row += t.Faint.Render("  exported already")
		}
		if o.Missing != "" {
			row += t.Faint.Render("  " + t.Plain(o.Missing))
		}
		rows = append(rows, t.Row(i == s.selected, row, width))
	}
	return append(lines, draw.Window(rows, s.selected, min(len(rows), max(1, c.Room()-len(lines)-t.Edges())))...)
}

// result says what is true at the end, and what the first request has shown.
func (s reachScreen) result(c scene) []string {
	t, width := c.Theme, c.Width
	_, to := s.names(c)
	text, next := service.Exported(s.params(), s.answer.Facts)
	mark := draw.Warn
	if s.answer.Came() {
		mark = draw.OK
	}
	lines := s.answer.Lines()
	head := t.Clauses(t.Glyphs[mark]+" "+lines[0], width)
	for i := range head {
		head[i] = t.Marks[mark].Render(head[i])
	}
	for _, line := range lines[1:] {
		head = append(head, t.Clauses(line, width)...)
	}
	lines = append(head, "")
	for line := range strings.Lines(text) {
		lines = append(lines, t.Clauses(strings.TrimSuffix(line, "\n"), width)...)
	}
	add := func(title, command string) {
		lines = append(lines, "", t.Faint.Render(t.Plain(title)))
		lines = append(lines, t.Command("  ", command, width)...)
	}
	for _, fix := range next {
		for _, command := range fix.Commands() {
			add("This lets "+to+" import it:", command.String())
		}
	}
	if call := s.answer.Curl(); call != "" {
		add("The same request in a pod of "+to+":", call)
	}
	add("To take the export back:", s.takeBack())
	return lines
}

// takeBack is the command that ends the export.
func (s reachScreen) takeBack() string {
	return s.there.Sides[flows.A].Ours("service", "unexport", s.chosen.Name.String()).String()
}

// failure says why there is no plan, or why a run ended.
func (s reachScreen) failure(c scene) []string {
	t, width := c.Theme, c.Width
	lines := []string{t.Marks[draw.Fail].Render(t.Glyphs[draw.Fail] + " " + t.Plain(s.chosen.Name.String()) + " is not exported")}
	why := s.err.Error()
	failed, isStep := errors.AsType[*flows.StepError](s.err)
	switch {
	case isStep:
		why = failed.Step.Title + ": " + failed.Step.Reason
	case errors.Is(s.err, engine.ErrDeclined):
		why = "the cluster has changed since you saw the plan: look at the new one"
	case errors.Is(s.err, context.Canceled):
		why = "stopped"
	}
	lines = append(append(lines, ""), t.Field("Why   ", why, width)...)
	if isStep {
		for _, fix := range failed.Step.Fix {
			lines = append(lines, t.Field("Fix   ", fix.String(), width, fix.Commands()...)...)
		}
	}
	if s.phase == reachEnded && s.changed {
		lines = append(lines, "", "What was applied is kept. To take it back:")
		return append(lines, t.Command("  ", s.takeBack(), width)...)
	}
	return append(lines, "", "Nothing was changed.")
}
