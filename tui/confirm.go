package tui

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// confirm is the question before anything changes. It keeps the plan that it
// asks about: the yes is for that one.
type confirm struct {
	plan flows.Plan
	yes  bool // the choice that enter takes
	// word is what has to be typed instead, where a protected cluster is changed.
	word    string
	typed   line
	problem string // with what was typed
}

// action is what the admin decided.
type action uint8

const (
	actionNone action = iota // not decided yet
	actionCancel
	actionApply
)

func (c confirm) update(msg tea.KeyPressMsg, k keyMap) (confirm, action) {
	if c.word != "" {
		return c.updateWord(msg, k)
	}
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

// updateWord takes a key where a word is the only yes.
func (c confirm) updateWord(msg tea.KeyPressMsg, k keyMap) (confirm, action) {
	switch {
	case key.Matches(msg, k.back):
		return c, actionCancel
	case key.Matches(msg, k.enter) && strings.TrimSpace(c.typed.String()) == c.word:
		return c, actionApply
	case key.Matches(msg, k.enter):
		c.problem = "this is not " + c.word
	default:
		c.typed, _ = c.typed.update(msg)
		c.problem = ""
	}
	return c, actionNone
}

// askFor is the question for a plan, as its clusters take it.
func (m Model) askFor(p flows.Plan) *confirm {
	return &confirm{plan: p, word: strings.Join(m.protected(), " ")}
}

// protected are the contexts of the clusters that the goal changes and whose
// names have to be typed for it.
func (m Model) protected() []string {
	var names []string
	for _, s := range []flows.Side{flows.A, flows.B} {
		ref := m.pair[s]
		if s == flows.B && m.goal != Connect && m.plan.localOnly || !m.isProtected(ref) || slices.Contains(names, ref.Name) {
			continue
		}
		names = append(names, ref.Name)
	}
	return names
}

func (m Model) isProtected(ref flows.ContextRef) bool {
	return m.options.Protected != nil && m.options.Protected(ref)
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
	lines := []string{t.title.Render(question), ""}
	if c.word == "" {
		lines = append(lines, m.cursor(!c.yes, "No"), m.cursor(c.yes, act), "")
	} else {
		lines = append(lines, m.wordLines()...)
	}
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

// wordLines ask for the names of protected contexts.
func (m Model) wordLines() []string {
	c, t := m.confirm, m.theme
	what := "This cluster is protected by your configuration: type its context's name, and enter."
	if strings.Contains(c.word, " ") {
		what = "Both clusters are protected by your configuration: type their contexts' names, and enter."
	}
	lines := append(t.wrap(what, m.width, 0), "", t.label.Render(t.plain(c.word)+" > ")+c.typed.view(t, m.width-len(c.word)-3, true))
	if c.problem != "" {
		lines = append(lines, t.marks[markFail].Render(t.glyphs[markFail]+" "+t.plain(c.problem)))
	}
	return append(lines, "")
}
