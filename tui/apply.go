package tui

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

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
	note         string
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
	again := func(m Model) (Model, tea.Cmd) { return m.startRun(m.apply.approved) }
	leave := func(m Model) (Model, tea.Cmd) { return m.quit(ErrInterrupted) }
	switch m.apply.phase {
	case phaseStopped:
		return []command{
			{Binding: k.resume, do: again},
			{Binding: k.leave, do: leave},
			{Binding: k.quit, do: leave, quiet: true},
			{Binding: k.retry, do: again, quiet: true},
		}
	case phaseFailed:
		toPlan := func(m Model) (Model, tea.Cmd) {
			m.screen, m.plan.pinned, m.apply.phase = screenPlan, true, phaseNone
			return m, nil
		}
		return []command{
			{Binding: k.retry, do: again},
			{Binding: k.plan, do: toPlan},
			{Binding: k.back, do: toPlan, quiet: true},
			{Binding: k.quit, do: func(m Model) (Model, tea.Cmd) { return m.quit(m.apply.err) }},
		}
	case phaseRunning, phaseStopping, phaseNone, phaseDone:
	}
	stay := func(m Model) (Model, tea.Cmd) {
		m.apply.note = "It is being applied: ctrl+c stops safely."
		return m, nil
	}
	return []command{
		{Binding: k.interrupt, do: Model.interrupt},
		{Binding: k.quit, do: stay, quiet: true},
	}
}

// interruptApply takes ctrl+c: the first one stops safely, the second quits.
func (m Model) interruptApply() (Model, tea.Cmd) {
	switch m.apply.phase {
	case phaseRunning:
		m.apply.phase, m.apply.note = phaseStopping, ""
		return m, m.apply.run.stop
	case phaseFailed:
		return m.quit(m.apply.err)
	case phaseStopping, phaseStopped, phaseNone, phaseDone:
	}
	return m.quit(ErrInterrupted)
}

// endedText is all that is to be said of a run that has ended: it scrolls.
func (m Model) endedText() []string {
	rows, _ := m.applyRows()
	return slices.Concat([]string{m.progress(), ""}, m.applyCard(), []string{""}, rows)
}

func (m Model) applyBody(height int) []string {
	if !m.apply.active() {
		return m.paneLines()
	}
	lines := append([]string{m.progress()}, m.applyCard()...)
	rows, active := m.applyRows()
	if len(lines)+len(rows) < height {
		lines = append(lines, "")
	}
	room := max(1, height-len(lines))
	lines = append(lines, m.window(rows, active, min(room, len(rows)))...)
	// What has happened fills the rest.
	if rest := height - len(lines); rest >= 3 && len(m.apply.log) > 0 {
		lines = append(lines, m.ruleLine("what happened, the latest first"))
		for i := range min(rest-1, len(m.apply.log)) {
			lines = append(lines, m.recordLine(m.apply.log[len(m.apply.log)-1-i]))
		}
	}
	return lines
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
		lines = append(lines, "c  continue where it stopped", "k  keep it so, and leave")
	case phaseFailed:
		lines = slices.Concat(m.failureCard(), []string{""}, t.wrap(kept, m.width, 0))
	case phaseRunning, phaseNone, phaseDone:
		if s.note != "" {
			lines = []string{t.marks[markWarn].Render(s.note)}
		}
	}
	return lines
}

// failureCard says what failed, why, and what to do.
func (m Model) failureCard() []string {
	if failed, ok := errors.AsType[*flows.StepError](m.apply.err); ok {
		return m.card(failed.Step)
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
	var failed *flows.StepError
	errors.As(m.apply.err, &failed)
	active = -1
	for _, s := range steps {
		if failed != nil && failed.Step.ID == s.ID {
			s = failed.Step
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
	gap := max(1, m.width-ansi.StringWidth(line)-ansi.StringWidth(text))
	return line + strings.Repeat(" ", gap) + m.theme.faint.Render(text)
}

func (m Model) recordLine(r flows.Record) string {
	side := ""
	if r.Step.ID != "" {
		side = m.theme.side(r.Step.Side, string(m.id(r.Step.Side)), m.sideWidth()) + " "
	}
	return m.theme.faint.Render(r.At.Format(time.TimeOnly)) + " " + side + m.theme.plain(r.Text)
}
