package tui

import (
	"fmt"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// confirm is the question before anything changes. It keeps the plan that it
// asks about: the yes is for that one.
type confirm struct {
	plan flows.Plan
	yes  bool // the choice that enter takes
}

// action is what the admin decided.
type action uint8

const (
	actionNone action = iota // not decided yet
	actionCancel
	actionApply
)

func (c confirm) update(msg tea.KeyPressMsg, k keyMap) (confirm, action) {
	switch {
	case key.Matches(msg, k.yes):
		return c, actionApply
	case key.Matches(msg, k.no), key.Matches(msg, k.quit):
		return c, actionCancel
	case key.Matches(msg, k.choose):
		c.yes = !c.yes
	case key.Matches(msg, k.enter) && c.yes:
		return c, actionApply
	case key.Matches(msg, k.enter):
		return c, actionCancel
	}
	return c, actionNone
}

func (m Model) updateConfirm(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	c, act := m.confirm.update(msg, m.keys)
	switch act {
	case actionApply:
		return m.startRun(c.plan)
	case actionCancel:
		m.confirm = nil
	case actionNone:
		m.confirm = &c
	}
	return m, nil
}

func (m Model) confirmBody(height int) []string {
	c, t := m.confirm, m.theme
	question, act := "Apply these changes?", "Yes, apply"
	if m.goal != Connect {
		question, act = "Apply these changes? The connection ends.", "Yes, "+m.goal.String()
	}
	lines := []string{t.title.Render(question), "", m.cursor(!c.yes, "No"), m.cursor(c.yes, act), ""}
	for _, text := range c.plan.Interrupts() {
		for _, line := range t.wrap(text, m.width-2, 0) {
			lines = append(lines, t.marks[markWarn].Render("! "+line))
		}
	}
	var changes []string
	for _, s := range c.plan.Steps {
		if s.Status == flows.Done || !s.Action.Changes() {
			continue
		}
		changes = append(changes, fmt.Sprintf("%s  %s %s", t.side(s.Side, string(m.id(s.Side)), m.sideWidth()), pad(s.Action.String(), 6), t.plain(s.Title)))
	}
	if room := height - len(lines); len(changes) > room && room > 0 {
		rest := len(changes) - room + 1
		changes = append(changes[:room-1], t.faint.Render(fmt.Sprintf("and %d more", rest)))
	}
	return append(lines, changes...)
}
