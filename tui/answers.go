package tui

import (
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
)

// answers are what was chosen in the form for two clusters.
type answers struct {
	pair   [2]flows.ContextRef
	params flows.Params
}

// Answers are what the admin has chosen in the form, for the next program to
// offer: also a form that was left half filled, as far as it has values. ok is
// false where that is nothing.
func (m Model) Answers() (a, b flows.ContextRef, p flows.Params, ok bool) {
	last := m.chose
	if m.screen == screenSettings {
		draft, given := m.form.draft, m.form.chosen
		for _, f := range m.shownSettings() {
			if f.set == nil {
				continue
			}
			before := draft
			if f.set(&draft, strings.TrimSpace(m.form.texts[f.id].String())) != nil {
				draft, given = before, given&^f.Sets
			}
		}
		draft.Given |= given
		last = answers{m.pair, draft}
	}
	ok = last.params.Given != m.options.Params.Given || last.params.Wait != m.options.Params.Wait
	return last.pair[flows.A], last.pair[flows.B], last.params, ok && last.pair != [2]flows.ContextRef{}
}

// remember offers what was chosen for the pair in an earlier program, unless
// there are gateways: those know it better.
func (m Model) remember() Model {
	if m.options.Answers == nil {
		return m
	}
	if _, exists := flows.Adopt(m.wanted, m.facts()); exists {
		return m
	}
	p, ok := m.options.Answers(m.pair[flows.A], m.pair[flows.B], m.wanted)
	if ok {
		m.wanted = p
		m.note = "The form has what you chose for these clusters the last time."
	}
	return m
}
