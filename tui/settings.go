package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// settingsScreen asks how the clusters are to be connected. What was typed
// stays, also in fields that do not apply now, and texts that are no values.
type settingsScreen struct {
	focus    settingID
	draft    flows.Params // of the choices; texts are not in it yet
	texts    [settingCount]line
	problems [settingCount]string
	chosen   flows.Fields // that differ from what was offered
	explain  bool
}

// settings are the fields in their order. The names are those of the clusters.
func (m Model) settings() []Field {
	name := func(s flows.Side) string { return s.String() + " " + m.name(s) }
	return append(m.idSettings(), Fields(name(flows.A), name(flows.B))...)
}

// idSettings name the clusters that have no ID yet, because nothing is
// installed there.
func (m Model) idSettings() []Field {
	var out []Field
	for _, s := range []flows.Side{flows.A, flows.B} {
		facts := m.on(s).good
		if m.options.Install == nil || !facts.Installable() || facts.ID != "" {
			continue
		}
		out = append(out, Field{
			id: settingIDA + settingID(s), Label: "Cluster ID of " + s.String(), Applies: always,
			get: func(p flows.Params) string {
				if p.Install[s] == nil {
					return ""
				}
				return string(p.Install[s].ClusterID())
			},
			set: func(p *flows.Params, text string) (err error) {
				if err := render.ClusterID(text).Validate(); err != nil {
					return err
				}
				p.Install[s], err = m.options.Install(facts, render.ClusterID(text))
				return err
			},
			Explain: "The operator is installed there first. Other clusters will know it by this ID: lower case letters, digits and dashes. It can't be changed later without ending all its connections.",
		})
	}
	return out
}

// openSettings fills the form with what holds now.
func (m Model) openSettings() (Model, tea.Cmd) {
	s := settingsScreen{draft: m.params, explain: m.form.explain, focus: settingServer}
	for _, f := range m.settings() {
		if f.get != nil {
			s.texts[f.id] = line{}.insert(f.get(m.params))
		}
	}
	m.form, m.screen, m.goal = s, screenSettings, Connect
	return m, nil
}

// shownSettings are the fields that apply.
func (m Model) shownSettings() []Field {
	return slices.DeleteFunc(m.settings(), func(f Field) bool { return !f.Applies(m.form.draft) })
}

// focused is the field that keys go to.
func (m Model) focused() Field {
	fields := m.shownSettings()
	return fields[max(0, slices.IndexFunc(fields, func(f Field) bool { return f.id == m.form.focus }))]
}

func (m Model) settingsCommands() []command {
	k := m.keys
	commands := []command{
		{Binding: named(k.enter, "see the plan"), do: Model.submitSettings},
		{Binding: k.back, do: Model.leaveSettings},
		{Binding: k.explain, do: func(m Model) (Model, tea.Cmd) { m.form.explain = !m.form.explain; return m, nil }},
		{Binding: k.previous, do: func(m Model) (Model, tea.Cmd) { return m.moveSetting(-1), nil }, quiet: true},
		{Binding: k.next, do: func(m Model) (Model, tea.Cmd) { return m.moveSetting(+1), nil }, quiet: true},
	}
	if m.focused().Options != nil {
		commands = append(commands,
			command{Binding: k.left, do: func(m Model) (Model, tea.Cmd) { return m.chooseSetting(-1), nil }, quiet: true},
			command{Binding: k.right, do: func(m Model) (Model, tea.Cmd) { return m.chooseSetting(+1), nil }},
		)
	}
	return commands
}

// updateSettings takes a key that edits a text; ok is false for any other.
func (m Model) updateSettings(msg tea.KeyPressMsg) (_ Model, ok bool) {
	f := m.focused()
	if f.Options != nil || msg.String() == "?" {
		return m, false // none of the texts can have one, and it asks for help
	}
	edited, ok := m.form.texts[f.id].update(msg)
	return m.typed(f, edited), ok
}

// typed puts a text into a field. A problem goes as soon as the text is a value.
func (m Model) typed(f Field, text line) Model {
	if text.String() != m.form.texts[f.id].String() {
		m.form.chosen |= f.Sets
	}
	m.form.texts[f.id] = text
	if m.form.problems[f.id] != "" {
		m.form = m.form.check(f)
	}
	return m
}

// check reads the text of a field.
func (s settingsScreen) check(f Field) settingsScreen {
	if f.set == nil {
		return s
	}
	s.problems[f.id] = ""
	if err := f.set(&s.draft, strings.TrimSpace(s.texts[f.id].String())); err != nil {
		s.problems[f.id] = err.Error()
	}
	return s
}

func (m Model) moveSetting(by int) Model {
	fields, f := m.shownSettings(), m.focused()
	m.form = m.form.check(f)
	i := slices.IndexFunc(fields, func(g Field) bool { return g.id == f.id })
	m.form.focus = fields[(i+by+len(fields))%len(fields)].id
	return m
}

func (m Model) chooseSetting(by int) Model {
	f := m.focused()
	i := f.choice(m.form.draft)
	if next := min(max(i+by, 0), len(f.Options)-1); next != i {
		f.choose(&m.form.draft, next)
		m.form.chosen |= f.Sets
	}
	return m
}

// submitSettings shows the plan, unless a field has a problem.
func (m Model) submitSettings() (Model, tea.Cmd) {
	p := m.form.draft
	p.NodePort, p.LoadBalancerIP = 0, "" // unless their fields apply
	m.form.draft = p
	for _, f := range slices.Backward(m.shownSettings()) {
		if m.form = m.form.check(f); m.form.problems[f.id] != "" {
			m.form.focus = f.id
		}
	}
	for _, f := range m.shownSettings() {
		if m.form.problems[f.id] != "" {
			m.note = fmt.Sprintf("%s: %s.", f.Label, m.form.problems[f.id])
			return m, nil
		}
	}
	m.form.draft.Given |= m.form.chosen
	m.wanted = m.form.draft
	m.chose = answers{m.pair, m.wanted}
	m.screen, m.plan = screenPlan, planScreen{pinned: true}
	return m.replan(), nil
}

func (m Model) leaveSettings() (Model, tea.Cmd) {
	if m.fixed {
		return m.toLive()
	}
	m.screen = screenPreflight
	return m.judge(), nil
}

// suggestion says what the clusters make likely for a field, and why.
func (m Model) suggestion(id settingID) string {
	facts := m.facts()
	switch id {
	case settingServer:
		side, why := flows.SuggestServer(facts)
		return fmt.Sprintf("Suggested: %s, because %s.", side, why)
	case settingService:
		kind, why := flows.SuggestServiceType(facts.Side(m.form.draft.Server))
		return fmt.Sprintf("Suggested: %s, because %s.", kind, why)
	default:
		return ""
	}
}

// labelWidth is the room for a field's label.
func (m Model) labelWidth() int {
	if m.width < 60 {
		return 18 // leaves room for the longest word that stands for no text
	}
	return 20
}

func (m Model) settingsBody(height int) []string {
	t := m.theme
	var lines []string
	at := 0
	focus := m.focused()
	for _, f := range m.shownSettings() {
		if f.id == focus.id {
			at = len(lines)
		}
		lines = append(lines, m.settingLine(f, f.id == focus.id))
		if problem := m.form.problems[f.id]; problem != "" {
			for _, text := range t.wrap(t.glyphs[markFail]+" "+problem, m.width-m.labelWidth()-2, 0) {
				lines = append(lines, pad("", m.labelWidth()+2)+t.marks[markFail].Render(text))
			}
		}
	}
	foot := m.settingsFoot(focus)
	if len(lines)+len(foot) > height && !m.form.explain {
		foot = nil
	}
	lines = m.window(lines, at, max(1, height-len(foot)))
	for len(lines)+len(foot) < height {
		lines = append(lines, "")
	}
	return append(lines, foot...)
}

func (m Model) settingLine(f Field, focused bool) string {
	t := m.theme
	label := t.label.Render(pad(f.Label, m.labelWidth()))
	room := m.width - m.labelWidth() - 2
	if f.Options == nil {
		text := m.form.texts[f.id]
		if text.String() == "" && f.Empty != "" {
			return m.cursor(focused, label+t.fit(t.instead(f.Empty, focused), room))
		}
		return m.cursor(focused, label+text.view(t, room, focused))
	}
	chosen := f.choice(m.form.draft)
	words := make([]string, len(f.Options))
	for i, option := range f.Options {
		words[i] = t.radio[0] + " " + t.plain(option)
		if i == chosen {
			words[i] = t.radio[1] + " " + t.plain(option)
		}
	}
	value := strings.Join(words, "  ")
	if len([]rune(value)) > room {
		count := fmt.Sprintf(" (%d/%d)", chosen+1, len(f.Options))
		value = t.fit(t.plain(f.Options[chosen]), room-len(count)) + count
	}
	return m.cursor(focused, label+value)
}

// settingsFoot explains the field, or says what the choices mean.
func (m Model) settingsFoot(f Field) []string {
	t := m.theme
	lines := []string{m.ruleLine(f.Label)}
	if m.form.explain || m.height >= 20 {
		lines = append(lines, t.wrap(f.Explain, m.width, 0)...)
		if why := m.suggestion(f.id); why != "" {
			lines = append(lines, t.wrap(why, m.width, 0)...)
		}
		return lines
	}
	return append(lines, t.faint.Render(called(m.keys.explain)+" explains this field"))
}
