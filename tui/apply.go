package tui

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

type phase uint8

const (
	phaseNone     phase = iota
	phaseRunning        // the plan is being applied
	phaseStopping       // requests that are under way end
	phaseStopped        // by the admin
	phaseFailed
	phaseDone
)

// applyScreen is one run of the plan.
type applyScreen struct {
	run          run
	goal         Goal
	phase        phase
	approved     flows.Plan
	timeout      time.Duration
	began, ended time.Time
	event        flows.Event // the latest
	times        map[flows.StepID]stepTime
	log          []flows.Record
	changed      bool // something, by this run or one before
	leave        bool // end the program when the run has ended
	choice       int  // of what to do after it
	err          error
}

// stepTime is when a step could first be worked on, and when it was done.
type stepTime struct{ began, ended time.Time }

// maxLog bounds the records that are kept.
const maxLog = 200

func (s applyScreen) active() bool { return s.phase == phaseRunning || s.phase == phaseStopping }

// take adds an event of the run.
func (s applyScreen) take(e flows.Event) applyScreen {
	for _, r := range flows.Narrate(s.event, e) {
		if r.Type != flows.RecordStart { // that it is done follows at once
			s.log = append(slices.Clip(s.log), r)
		}
	}
	s.log = s.log[max(0, len(s.log)-maxLog):]
	s.changed = s.changed || len(e.Changes) > 0
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

// elapsed is how long a step has taken so far; ok is false before it began.
func (s applyScreen) elapsed(id flows.StepID, now time.Time) (time.Duration, bool) {
	at, ok := s.times[id]
	if !at.ended.IsZero() {
		now = at.ended
	}
	return now.Sub(at.began), ok
}

func (m Model) applyCommands() []command {
	k := m.keys
	if choices := m.choices(); len(choices) > 0 {
		take := command{Binding: named(k.enter, "take the choice"), quiet: true, do: func(m Model) (Model, tea.Cmd) {
			choices := m.choices()
			return choices[min(m.apply.choice, len(choices)-1)].do(m)
		}}
		move := func(m Model, by int) Model {
			m.apply.choice = min(max(m.apply.choice+by, 0), len(m.choices())-1)
			return m
		}
		return append(append(choices, take), moving(k, move)...)
	}
	stay := func(m Model) (Model, tea.Cmd) {
		m.note = "It is being applied: ctrl+c stops safely."
		return m, nil
	}
	return []command{
		{Binding: k.interrupt, do: Model.interrupt},
		{Binding: k.quit, do: stay, quiet: true},
	}
}

// choices are the ways to go on after a run that has ended before its plan was
// done.
func (m Model) choices() []command {
	k := m.keys
	again := func(m Model) (Model, tea.Cmd) { return m.startRun(m.apply.approved) }
	removes := "remove what was applied"
	if m.wanted.Install != [2]*flows.Installation{} {
		removes += ", but for the operator"
	}
	remove := command{Binding: named(k.disconnect, removes), do: func(m Model) (Model, tea.Cmd) { return m.begin(Reset), nil }}
	switch m.apply.phase {
	case phaseStopped:
		leave := func(m Model) (Model, tea.Cmd) { return m.quit(ErrInterrupted) }
		choices := []command{
			{Binding: named(k.resume, "continue where it stopped"), do: again},
			{Binding: named(k.leave, "keep it so, and leave"), do: leave},
		}
		if m.apply.changed && m.goal == Connect {
			choices = append(choices, remove)
		}
		return append(choices, command{Binding: k.quit, do: leave, quiet: true})
	case phaseFailed:
		toPlan := func(m Model) (Model, tea.Cmd) {
			m.screen, m.plan.pinned, m.apply.phase = screenPlan, true, phaseNone
			return m.replan(), nil
		}
		choices := []command{{Binding: k.retry, do: again}, {Binding: named(k.plan, "look at the plan"), do: toPlan}}
		if m.goal == Connect {
			choices = append(choices, command{Binding: k.settings, do: Model.openSettings})
			if m.fault().Code == flows.CodeTunnel {
				choices = append(choices, command{Binding: named(k.swap, "let the other cluster be the server"), do: Model.swapServer})
			}
		}
		if m.apply.changed && m.goal == Connect {
			choices = append(choices, remove)
		}
		return append(choices,
			command{Binding: named(k.quit, "keep it so, and leave"), do: func(m Model) (Model, tea.Cmd) { return m.quit(m.apply.err) }},
			command{Binding: k.back, do: toPlan, quiet: true},
		)
	case phaseRunning, phaseStopping, phaseNone, phaseDone:
	}
	return nil
}

// fault is the step that ended the run; the zero value for none.
func (m Model) fault() flows.Step {
	if failed, ok := errors.AsType[*flows.StepError](m.apply.err); ok {
		return failed.Step
	}
	return flows.Step{}
}

// swapServer plans the connection the other way round.
func (m Model) swapServer() (Model, tea.Cmd) {
	m.wanted.Server = m.params.Server.Other()
	m.wanted.Given |= flows.FieldServer
	m.screen, m.plan = screenPlan, planScreen{pinned: true}
	m.apply.phase = phaseNone
	return m.replan(), nil
}

// roomForChoices is the height from which on all of them stand below each other.
// On less, what has happened matters more than the other ways to go on.
const roomForChoices = 16

// choiceRows are the choices as lines, below what has happened.
func (m Model) choiceRows() []string {
	choices := slices.DeleteFunc(m.choices(), func(c command) bool { return c.quiet })
	if len(choices) == 0 {
		return nil
	}
	rows := make([]string, len(choices))
	column := keyColumn(choices, 1)
	if m.height < roomForChoices {
		i := min(m.apply.choice, len(choices)-1)
		text := fmt.Sprintf("%s %s (%d/%d)", called(choices[i].Binding), choices[i].Help().Desc, i+1, len(choices))
		return []string{m.ruleLine("what now?"), m.cursor(true, text)}
	}
	for i, c := range choices {
		rows[i] = m.cursor(i == m.apply.choice, pad(called(c.Binding), column)+c.Help().Desc)
	}
	return append([]string{m.ruleLine("what now?")}, rows...)
}

// interruptApply takes ctrl+c: the first one stops safely, the second quits.
func (m Model) interruptApply() (Model, tea.Cmd) {
	switch m.apply.phase {
	case phaseRunning:
		m.apply.phase = phaseStopping
		return m, m.apply.run.stop
	case phaseFailed:
		return m.quit(m.apply.err)
	case phaseStopping, phaseStopped, phaseNone, phaseDone:
	}
	return m.quit(ErrInterrupted)
}

// endedText is all that is to be said of a run that has ended: it scrolls.
func (m Model) endedText() []string {
	rows, left := m.applyRows()
	rows = slices.Concat(rows[left:], rows[:left]) // what is left first
	if m.height < roomForChoices {
		return slices.Concat(m.applyCard(), []string{""}, rows)
	}
	return slices.Concat([]string{m.progress(), ""}, m.applyCard(), []string{""}, rows)
}

func (m Model) applyBody(height int) []string {
	if !m.apply.active() {
		lines, choices := m.paneLines(), m.choiceRows()
		for len(lines) < height-len(choices) {
			lines = append(lines, "")
		}
		return append(lines[:max(0, height-len(choices))], choices...)
	}
	lines := append([]string{m.progress()}, m.applyCard()...)
	rows, active := m.applyRows()
	if len(lines)+len(rows) < height {
		lines = append(lines, "")
	}
	room := max(1, height-len(lines))
	lines = append(lines, m.window(rows, active, min(room, len(rows)))...)
	// What has happened fills the rest.
	if rest := height - len(lines); rest >= 3 {
		happened := m.happened()
		lines = append(lines, m.ruleLine("what happened, the latest first"))
		lines = append(lines, happened[:min(rest-1, len(happened))]...)
	}
	return lines
}

// happened is what the run has done and seen, and the clusters' own warnings
// since it began, the latest first.
func (m Model) happened() []string {
	type line struct {
		at   time.Time
		text string
	}
	var all []line
	for _, r := range m.apply.log {
		all = append(all, line{r.At, m.recordLine(r)})
	}
	for _, s := range []flows.Side{flows.A, flows.B} {
		for _, e := range m.on(s).latest.Events {
			if e.At.Before(m.apply.began.Truncate(time.Second)) {
				continue // events know their second only
			}
			text := e.Object + " " + e.Reason + ": " + e.Message
			if e.Count > 1 {
				text += fmt.Sprintf(" (%d times)", e.Count)
			}
			all = append(all, line{e.At, m.theme.faint.Render(e.At.Format(time.TimeOnly)) + " " +
				m.theme.side(s, string(m.id(s)), m.sideWidth()) + " " + m.theme.marks[markWarn].Render("! "+m.theme.plain(text))})
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return a.at.Compare(b.at) })
	out := make([]string, 0, len(all))
	for _, l := range slices.Backward(all) {
		out = append(out, l.text)
	}
	return out
}

// progress counts what is done, and says how long it took and may take.
func (m Model) progress() string {
	s := m.apply
	done := 0
	for _, step := range s.event.Plan.Steps {
		if step.Status == flows.Done {
			done++
		}
	}
	total, now := len(s.event.Plan.Steps), m.clock
	if !s.active() {
		now = s.ended
	}
	text := fmt.Sprintf("%d of %d done%s%s of at most %s", done, total, m.theme.dot, seconds(now.Sub(s.began)), seconds(s.timeout))
	if total > 0 && m.width >= 70 {
		const cells = 20
		full := done * cells / total
		text += "  " + strings.Repeat(m.theme.bars[len(m.theme.bars)-1], full) + strings.Repeat(m.theme.rule, cells-full)
	}
	return m.theme.title.Render(text)
}

// applyCard says what a run that has ended, or is to end, means for the admin.
func (m Model) applyCard() []string {
	t, s := m.theme, m.apply
	kept := "Nothing was changed."
	if s.changed {
		kept = "What was applied is kept."
	}
	var lines []string
	switch s.phase {
	case phaseStopping:
		lines = []string{t.marks[markWarn].Render(t.glyphs[markWarn] + " stopping: the requests under way end first. ctrl+c again leaves at once.")}
	case phaseStopped:
		lines = append([]string{t.marks[markWarn].Render(t.glyphs[markWarn] + " stopped")}, t.wrap(kept, m.width, 0)...)
	case phaseFailed:
		lines = slices.Concat(m.failureCard(), []string{""}, t.wrap(kept, m.width, 0))
	case phaseRunning, phaseNone, phaseDone:
	}
	return lines
}

// failureCard says what failed, why, and what to do.
func (m Model) failureCard() []string {
	if s := m.fault(); s.ID != "" {
		return m.card(s)
	}
	title := m.theme.marks[markFail].Render(m.theme.glyphs[markFail] + " the run failed")
	return append([]string{title, ""}, m.theme.field("Why   ", m.apply.err.Error(), m.width)...)
}

// applyRows is the checklist, and the index of the line to keep in sight.
func (m Model) applyRows() (rows []string, active int) {
	steps := m.apply.event.Plan.Steps
	if len(steps) == 0 {
		return []string{"Looking at both clusters" + m.theme.ellipsis}, 0
	}
	fault := m.fault()
	active = -1
	for _, s := range steps {
		if fault.ID == s.ID {
			s = fault
		}
		if active < 0 && s.Status != flows.Done {
			active = len(rows)
		}
		rows = append(rows, m.applyRow(s))
		if s.Status == flows.Waiting && s.Reason != "" {
			rows = append(rows, m.theme.field("      now: ", s.Reason, m.width)...)
		}
	}
	return rows, max(0, active)
}

func (m Model) applyRow(s flows.Step) string {
	shown := s
	if s.Status == flows.Waiting || s.Status == flows.Failed {
		shown.Reason = "" // has its own place
	}
	line := m.stepLine(shown, false)
	now := m.clock
	if !m.apply.active() {
		now = m.apply.ended
	}
	took, ok := m.apply.elapsed(s.ID, now)
	if !ok || s.Status == flows.Blocked {
		return line
	}
	const column = 8
	text := seconds(took)
	line = m.theme.fit(line, m.width-column)
	gap := max(1, m.width-cells(line)-cells(text))
	return line + strings.Repeat(" ", gap) + m.theme.faint.Render(text)
}

func (m Model) recordLine(r flows.Record) string {
	side := ""
	if r.Step.ID != "" {
		side = m.theme.side(r.Step.Side, string(m.id(r.Step.Side)), m.sideWidth()) + " "
	}
	return m.theme.faint.Render(r.At.Format(time.TimeOnly)) + " " + side + m.theme.plain(r.Text)
}
