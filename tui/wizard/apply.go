package wizard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

type phase uint8

const (
	phaseNone     phase = iota
	phaseRunning        // the plan is being applied
	phaseStopping       // requests that have begun must end
	phaseStopped        // the admin has stopped the run
	phaseFailed
	phaseDone
)

// applyScreen shows one run of the plan.
type applyScreen struct {
	run          run
	of           task // the task of the latest run
	goal         session.Goal
	phase        phase
	approved     flows.Plan
	timeout      time.Duration
	began, ended time.Time
	event        engine.Event // the latest event
	times        map[flows.StepID]stepTime
	log          []engine.Record
	changed      bool           // this or an earlier run has changed these clusters
	first        []flows.Change // the first change of each object, by this run and those that it repeats
	partial      bool           // the run removes only the objects that earlier runs have created
	before       bool           // earlier runs have changed other clusters
	leave        bool           // the program ends after the run
	choice       int            // the selected choice after the run
	err          error
	page         runPage       // the page that is shown while the plan runs
	logs         *session.Logs // of both gateways; nil until they are read
}

type stepTime struct{ began, ended time.Time }

const maxLog = 200

func (s applyScreen) active() bool { return s.phase == phaseRunning || s.phase == phaseStopping }

// take adds an event of the run.
func (s applyScreen) take(e engine.Event) applyScreen {
	for _, r := range engine.Narrate(s.event, e) {
		if r.Type != engine.RecordStart { // the next record says that the step is done
			s.log = append(slices.Clip(s.log), r)
		}
	}
	s.log = s.log[max(0, len(s.log)-maxLog):]
	s.changed = s.changed || flows.Changed(e.Changes)
	for _, change := range e.Changes {
		known := slices.ContainsFunc(s.first, func(c flows.Change) bool { return c.Side == change.Side && c.Object == change.Object })
		if !known && change.Verb != flows.Unchanged {
			s.first = append(slices.Clip(s.first), change)
		}
	}
	s.began, s.times = e.Started, maps.Clone(s.times)
	if s.times == nil {
		s.times = map[flows.StepID]stepTime{}
	}
	for _, step := range e.Plan.Steps {
		at, known := s.times[step.ID]
		switch {
		case step.Status == flows.Ready, step.Status == flows.Waiting:
			if !known {
				at.began = e.At
			}
			at.ended = time.Time{}
		case step.Status == flows.Done && known && at.ended.IsZero():
			at.ended = e.At
		default:
			continue
		}
		s.times[step.ID] = at
	}
	s.event = e
	return s
}

// elapsed returns the time that a step has taken so far; ok is false if it has not begun.
func (s applyScreen) elapsed(id flows.StepID, now time.Time) (time.Duration, bool) {
	at, ok := s.times[id]
	if !at.ended.IsZero() {
		now = at.ended
	}
	return now.Sub(at.began), ok
}

func (s applyScreen) commands(c scene) []keys.Command {
	k := c.Keys
	if choices := s.choices(c); len(choices) > 0 {
		for i := range choices {
			choices[i].Shown = c.Height >= roomForChoices
		}
		enter := keys.Command{Binding: keys.Named(k.Enter, "choose"), Msg: actChoose, Quiet: c.Height < roomForChoices}
		return append(append(choices, enter), k.Moving()...)
	}
	return append([]keys.Command{
		{Binding: k.Interrupt, Msg: session.InterruptMsg{}},
		{Binding: k.Quit, Msg: session.NoteMsg("It is being applied: ctrl+c stops safely."), Quiet: true},
	}, s.pageCommands(k)...)
}

func (s applyScreen) update(c scene, msg tea.Msg) applyScreen {
	choices := s.choices(c)
	if by, ok := msg.(keys.MoveMsg); ok {
		s.choice = min(max(s.choice+int(by), 0), len(choices)-1)
	} else if msg == actChoose {
		c.Post(choices[min(s.choice, len(choices)-1)].Msg)
	}
	return s
}

// made are the objects that did not exist before the runs.
func (s applyScreen) made() []flows.Change {
	return slices.DeleteFunc(slices.Clone(s.first), func(c flows.Change) bool { return c.Verb != flows.Created })
}

// removal is the command that removes what the runs have created; ok is false if that is nothing.
func (s applyScreen) removal(c scene) (_ keys.Command, ok bool) {
	made := s.made()
	if c.goal != session.Connect || len(made) == 0 {
		return keys.Command{}, false
	}
	plan := flows.PlanReset(flows.RemoveOptions{Made: made}, c.facts())
	n, what := plan.Changes().Delete, "what was created"
	switch {
	case n > 0:
		what = "the " + draw.Counted(n, "object") + " that the run has created"
	case plan.Failure() == nil:
		return keys.Command{}, false
	}
	if c.wanted.Install != [2]flows.Installation{} {
		what += ", but not the operator"
	}
	return keys.Command{Binding: keys.Named(c.Keys.Disconnect, "remove "+what), Msg: takeAwayMsg(session.Reset)}, true
}

// choices returns the commands to continue after a run that ended before its plan was done.
func (s applyScreen) choices(c scene) []keys.Command {
	k := c.Keys
	remove, removes := s.removal(c)
	switch s.phase {
	case phaseStopped:
		leave := session.QuitMsg{Err: session.ErrInterrupted}
		choices := []keys.Command{{Binding: keys.Named(k.Retry, "continue where it stopped"), Msg: goAgain}}
		if removes {
			choices = append(choices, remove)
		}
		return append(choices, keys.Command{Binding: keys.Named(k.Quit, "leave it as it is"), Msg: leave})
	case phaseFailed:
		choices := []keys.Command{{Binding: k.Retry, Msg: goAgain}, {Binding: keys.Named(k.Plan, "look at the plan"), Msg: goPlan}}
		if c.goal == session.Connect {
			settings := keys.Command{Binding: k.Settings, Msg: goSettings}
			if s.fault().Code == flows.CodeImage {
				settings = keys.Command{Binding: keys.Named(k.Settings, "name another image"), Msg: editMsg(install.ImageSetting().Name)}
			}
			choices = append(choices, settings)
			if s.fault().Code == flows.CodeTunnel {
				// This choice comes first, because another wait of the same length would not
				// help.
				choices = slices.Insert(choices, 0, keys.Command{Binding: keys.Named(k.Diagnose, "find what is broken"), Msg: c.diagnosis()})
				choices = append(choices, keys.Command{Binding: k.Swap, Msg: goSwapped})
			}
		}
		if removes {
			choices = append(choices, remove)
		}
		return append(choices,
			keys.Command{Binding: keys.Named(k.Quit, "leave it as it is"), Msg: session.QuitMsg{Err: s.err}},
			keys.Command{Binding: k.Back, Msg: goPlan, Quiet: true},
		)
	case phaseRunning, phaseStopping, phaseNone, phaseDone:
	}
	return nil
}

// fault returns the step that ended the run; the zero value if there is none.
func (s applyScreen) fault() flows.Step {
	if failed, ok := errors.AsType[*flows.StepError](s.err); ok {
		return failed.Step
	}
	return flows.Step{}
}

// interrupt handles ctrl+c: the first one stops the run safely, the second one ends the
// program.
func (s applyScreen) interrupt(c scene) (applyScreen, tea.Cmd) {
	switch s.phase {
	case phaseRunning:
		s.phase, s.page = phaseStopping, pageSteps
		return s, s.run.stop
	case phaseFailed:
		c.Post(session.QuitMsg{Err: s.err})
	case phaseStopping, phaseStopped, phaseNone, phaseDone:
		c.Post(session.QuitMsg{Err: session.ErrInterrupted})
	}
	return s, nil
}

// roomForChoices is the smallest height on which all choices are below each other. On a lower
// screen, the events of the run matter more than the choices.
const roomForChoices = 16

// choiceRows returns the choices as lines, which are shown below the events.
func (s applyScreen) choiceRows(c scene) []string {
	choices := slices.DeleteFunc(s.choices(c), func(choice keys.Command) bool { return choice.Quiet })
	if len(choices) == 0 {
		return nil
	}
	rows := make([]string, len(choices))
	column := keys.Column(choices, 1)
	if c.Height < roomForChoices {
		i := min(s.choice, len(choices)-1)
		text := fmt.Sprintf("%s %s (%d/%d)", keys.Called(choices[i].Binding), choices[i].Help().Desc, i+1, len(choices))
		return []string{c.Theme.RuleLine("what now?", c.Width), c.Theme.Row(true, text, c.Width)}
	}
	for i, choice := range choices {
		rows[i] = c.Theme.Row(i == s.choice, draw.Pad(keys.Called(choice.Binding), column)+choice.Help().Desc, c.Width)
	}
	return append([]string{c.Theme.RuleLine("what now?", c.Width)}, rows...)
}

func (s applyScreen) text(c scene) []string {
	rows := s.groups(c)
	if c.Height < roomForChoices {
		return slices.Concat(s.card(c), []string{""}, rows)
	}
	return slices.Concat([]string{s.progress(c), ""}, s.card(c), []string{""}, rows)
}

func (s applyScreen) view(c scene) []string {
	if !s.active() {
		lines, choices := slices.Clone(c.Pane()), s.choiceRows(c)
		for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
			lines = lines[:len(lines)-1]
		}
		return c.below(lines[:min(len(lines), max(0, c.Body-len(choices)))], choices)
	}
	if s.page != pageSteps {
		return c.Pane()
	}
	if c.Theme.Frames() {
		return s.panels(c)
	}
	lines := append([]string{s.progress(c)}, s.card(c)...)
	if half, ok := c.half(); ok {
		lines = append(lines, "")
		rows, active := s.rows(half, s.event.Plan.Steps)
		room := max(1, c.Body-len(lines))
		return append(lines, c.Theme.Beside(draw.Window(rows, active, min(room, len(rows))), s.latest(half, room), c.Width)...)
	}
	rows, active := s.rows(c, s.event.Plan.Steps)
	if len(lines)+len(rows) < c.Body {
		lines = append(lines, "")
	}
	room := max(1, c.Body-len(lines))
	lines = append(lines, draw.Window(rows, active, min(room, len(rows)))...)
	// Events fill the remaining lines.
	if rest := c.Body - len(lines); rest >= 3 {
		lines = append(lines, s.latest(c, rest)...)
	}
	return lines
}

// panels draws the steps and the latest events of a run in frames.
func (s applyScreen) panels(c scene) []string {
	t, note, beside := c.Theme, s.card(c), c.Width >= draw.BesideFrom
	room, width := c.Body-len(note), c.Width
	if beside {
		width /= 2
	}
	inner, rest := c, c
	inner.Width, rest.Width = t.Inside(width), t.Inside(c.Width-width)
	rows, active := s.rows(inner, s.event.Plan.Steps)
	height := room
	if !beside {
		height = min(len(rows)+t.Edges(), max(minList, room-fewHappened-t.Edges()))
		rest.Width = inner.Width
	}
	steps := draw.Panel{Title: s.progress(inner), Lines: draw.Window(rows, active, max(1, height-t.Edges()))}
	lines := t.Panel(steps, width, height)
	events := draw.Panel{Title: t.Title.Render("What happened"), Right: t.Faint.Render(keys.Called(c.Keys.Events))}
	if beside {
		events.Lines = s.latest(rest, room-t.Edges()+1)[1:]
		return append(note, draw.Join(lines, t.Panel(events, c.Width-width, room))...)
	}
	events.Lines = s.latest(rest, room-height-t.Edges()+1)[1:]
	return slices.Concat(note, lines, t.Panel(events, width, room-height))
}

// fewHappened is the smallest number of events below the steps of a run.
const fewHappened = 3

// latest returns the latest events of the run, as many as fit into room lines.
func (s applyScreen) latest(c scene, room int) []string {
	lines, happened := []string{c.Theme.RuleLine("what happened, the latest first", c.Width)}, s.happened(c)
	for _, h := range slices.Backward(happened[max(0, len(happened)-room+1):]) {
		lines = append(lines, h.line(c))
	}
	return lines
}

// happening is an event of a run, or a warning of a cluster.
type happening struct {
	at      time.Time
	label   string // styled
	text    string
	warning bool
}

// happened returns the events of the run, and the clusters' warnings since it began, the
// oldest first.
func (s applyScreen) happened(c scene) []happening {
	var all []happening
	label := func(at time.Time, side string) string {
		return c.Theme.Faint.Render(at.Format(time.TimeOnly)) + " " + side
	}
	for _, r := range s.log {
		side := ""
		if r.Step.ID != "" {
			side = c.side(r.Step.Side) + " "
		}
		all = append(all, happening{r.At, label(r.At, side), r.Text, false})
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		for _, e := range c.on(side).Latest.Events {
			if e.At.Before(s.began.Truncate(time.Second)) {
				continue // times of events have no fractions of a second
			}
			text := "! " + e.Object + " " + e.Reason + ": " + e.Message
			if e.Count > 1 {
				text += fmt.Sprintf(" (%d times)", e.Count)
			}
			all = append(all, happening{e.At, label(e.At, c.side(side)+" "), text, true})
		}
	}
	slices.SortStableFunc(all, func(a, b happening) int { return a.at.Compare(b.at) })
	return all
}

func (h happening) lines(c scene) []string {
	indent := draw.Cells(h.label)
	lines := c.Theme.Wrap(h.text, c.Width, indent)
	if h.warning {
		for i := range lines {
			lines[i] = c.Theme.Marks[draw.Warn].Render(lines[i])
		}
	}
	lines[0] = h.label + lines[0]
	return lines
}

// line returns as much of the text as fits in one line.
func (h happening) line(c scene) string {
	text := c.Theme.Plain(h.text)
	if h.warning {
		text = c.Theme.Marks[draw.Warn].Render(text)
	}
	return h.label + text
}

// progress counts the finished steps, and shows the time so far and the time limit.
func (s applyScreen) progress(c scene) string {
	done := 0
	for _, step := range s.event.Plan.Steps {
		if step.Status == flows.Done {
			done++
		}
	}
	total, now := len(s.event.Plan.Steps), c.Now
	if !s.active() {
		now = s.ended
	}
	t, bar := c.Theme, ""
	text := fmt.Sprintf("%d of %d done%s%s of at most %s", done, total, c.Theme.Dot, draw.Seconds(now.Sub(s.began)), draw.Seconds(s.timeout))
	if total > 0 && c.Width >= 70 {
		const cells = 20
		full := done * cells / total
		bar = "  " + t.Marks[draw.OK].Render(strings.Repeat(t.Bars[len(t.Bars)-1], full)) + t.Faint.Render(strings.Repeat(t.Rule, cells-full))
	}
	return t.Title.Render(text) + bar
}

// card explains the end of a run to the admin, or that it will end.
func (s applyScreen) card(c scene) []string {
	t := c.Theme
	kept := "Nothing was changed."
	if s.changed {
		kept = "What was applied is kept."
	}
	var lines []string
	switch s.phase {
	case phaseStopping:
		lines = []string{t.Marks[draw.Warn].Render(t.Glyphs[draw.Warn] + " stopping after the current requests. Press ctrl+c again to leave at once.")}
	case phaseStopped:
		lines = append([]string{t.Marks[draw.Warn].Render(t.Glyphs[draw.Warn] + " stopped")}, t.Wrap(kept, c.Width, 0)...)
	case phaseFailed:
		lines = slices.Concat(s.failureCard(c), []string{""}, t.Wrap(kept, c.Width, 0))
	case phaseRunning, phaseNone, phaseDone:
	}
	return lines
}

// failureCard explains what has failed, why, and the advice.
func (s applyScreen) failureCard(c scene) []string {
	if step := s.fault(); step.ID != "" {
		return c.card(step)
	}
	title := c.Theme.Marks[draw.Fail].Render(c.Theme.Glyphs[draw.Fail] + " the run failed")
	return append([]string{title, ""}, c.Theme.Field("Why   ", s.err.Error(), c.Width)...)
}

// groups returns the checklist of a run that has ended: first the remaining steps, then the
// finished ones.
func (s applyScreen) groups(c scene) []string {
	var left, done []flows.Step
	for _, step := range s.event.Plan.Steps {
		if step.Status == flows.Done {
			done = append(done, step)
		} else {
			left = append(left, step)
		}
	}
	var rows []string
	for _, group := range []struct {
		name  string
		steps []flows.Step
	}{{"Left:", left}, {"Done:", done}} {
		if len(group.steps) > 0 {
			lines, _ := s.rows(c, group.steps)
			rows = append(append(rows, c.Theme.Label.Render(group.name)), lines...)
		}
	}
	return rows
}

// rows returns steps as a checklist, and the index of the line that has to be visible.
func (s applyScreen) rows(c scene, steps []flows.Step) (rows []string, active int) {
	if len(steps) == 0 {
		return []string{"Looking at both clusters" + c.Theme.Ellipsis}, 0
	}
	fault := s.fault()
	active = -1
	for _, step := range steps {
		if fault.ID == step.ID {
			step = fault
		}
		if active < 0 && step.Status != flows.Done {
			active = len(rows)
		}
		rows = append(rows, s.row(c, step))
		if step.Status == flows.Waiting && step.Reason != "" {
			label := "      now: "
			if !s.active() {
				label = "     last: " // this is not observed any more
			}
			rows = append(rows, c.Theme.Field(label, step.Reason, c.Width)...)
		}
	}
	return rows, max(0, active)
}

// widestRow is the largest distance between a step and its time, in cells. Across 200 cells,
// nobody would see which time belongs to which step.
const widestRow = 120

func (s applyScreen) row(c scene, step flows.Step) string {
	shown := step
	if step.Status == flows.Waiting || step.Status == flows.Failed {
		shown.Reason = "" // it is shown elsewhere
	}
	if _, worked := s.times[step.ID]; worked && step.Status == flows.Done && step.Action == flows.Delete {
		shown.Reason = "deleted" // the plan only knows that it does not exist
	}
	line := c.stepLine(shown, false)
	switch {
	case s.active() && step.Status == flows.Ready: // the step's requests are running
		line = c.stepLineAs(draw.Running, "working", shown, false)
	case !s.active() && step.Status == flows.Waiting:
		line = c.stepLineAs(draw.Pending, "not yet", shown, false)
	}
	now := c.Now
	if !s.active() {
		now = s.ended
	}
	took, ok := s.elapsed(step.ID, now)
	if !ok || step.Status == flows.Blocked || took < 100*time.Millisecond { // a column of 0.0s would be useless
		return line
	}
	const column = 8
	text := draw.Seconds(took)
	width := min(c.Width, widestRow)
	line = c.Theme.Fit(line, width-column)
	gap := max(1, width-draw.Cells(line)-draw.Cells(text))
	return line + strings.Repeat(" ", gap) + c.Theme.Faint.Render(text)
}

// start applies the current plan. approved is the plan that the admin has seen.
func (s applyScreen) start(c scene, approved flows.Plan) (applyScreen, tea.Cmd) {
	a, b := c.on(flows.A).Cluster, c.on(flows.B).Cluster
	r := newRun(c.Ctx, s.run.id+1, c.Clock)
	same, changed, log, first := s.of.pair == c.pair, s.changed, s.log, s.first
	if s.phase == phaseDone {
		first = nil
	}
	before := s.before || changed && !same
	s = applyScreen{
		run: r, of: c.task, goal: c.goal, phase: phaseRunning, approved: approved, began: c.Now, timeout: c.options.Timeout,
		before: before, partial: c.made != nil,
	}
	if same {
		s.changed, s.log, s.first = changed, log, first
	}
	o := engine.Options{
		Timeout: c.options.Timeout, Now: c.Clock,
		Approve: func(p flows.Plan) (bool, error) { return covers(approved, p), nil },
	}
	return s, tea.Batch(r.drive(c.wants(), a, b, o), r.next(true))
}
