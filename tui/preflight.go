package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sync/errgroup"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
)

// preflightScreen is what is judged before anything is planned.
type preflightScreen struct {
	results  []check.Result
	selected checkKey
	problems bool // only what did not pass
	explain  bool // the selected check has the whole screen

	asked   int    // number of the latest review
	watches [2]int // of the clusters that it was about
	reviews [2]*flows.Review
	errs    [2]error
}

// checkKey names a result: a check is made once, for each side, or each way.
type checkKey struct {
	id    flows.Code
	where string
}

func keyOf(r check.Result) checkKey { return checkKey{r.ID, r.Where()} }

// reviewMsg is what the clusters say of the user's rights.
type reviewMsg struct {
	asked   int
	reviews [2]*flows.Review
	errs    [2]error
}

// judge makes the checks with the latest facts.
func (m Model) judge() Model {
	m.preflight.results = check.Preflight(m.wanted, m.facts(), m.preflight.reviews)
	if shown := m.shownChecks(); m.selectedCheck() < 0 && len(shown) > 0 {
		// What has failed is worth the first look.
		i := slices.IndexFunc(shown, func(r check.Result) bool { return r.State == check.Fail })
		m.preflight.selected = keyOf(shown[max(0, i)])
	}
	return m
}

// askRights asks both clusters whether the user may do what the plan does, as
// soon as the checks are shown, and again for clusters that were opened anew.
func (m Model) askRights() (Model, tea.Cmd) {
	clusters := [2]flows.Cluster{m.on(flows.A).cluster, m.on(flows.B).cluster}
	watches := [2]int{m.on(flows.A).watch.id, m.on(flows.B).watch.id}
	if m.screen != screenPreflight || !m.planned() || clusters[flows.A] == nil || clusters[flows.B] == nil || watches == m.preflight.watches {
		return m, nil
	}
	m.preflight.asked++
	m.preflight.watches, m.preflight.reviews, m.preflight.errs = watches, [2]*flows.Review{}, [2]error{}
	id, ctx := m.preflight.asked, m.ctx
	needs := [2][]flows.Permission{m.current.Permissions(flows.A), m.current.Permissions(flows.B)}
	return m.judge(), func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, observeTimeout)
		defer cancel()
		msg := reviewMsg{asked: id}
		var g errgroup.Group
		for side, c := range clusters {
			reviewer, ok := c.(flows.Reviewer)
			if !ok {
				continue
			}
			g.Go(func() error {
				review, err := reviewer.Review(ctx, needs[side])
				if msg.errs[side] = err; err == nil {
					msg.reviews[side] = &review
				}
				return nil // one that does not answer hides nothing of the other
			})
		}
		_ = g.Wait()
		return msg
	}
}

func (m Model) updateReview(msg reviewMsg) Model {
	if msg.asked != m.preflight.asked {
		return m
	}
	m.preflight.reviews, m.preflight.errs = msg.reviews, msg.errs
	return m.judge()
}

// shownChecks are those that the filter lets through.
func (m Model) shownChecks() []check.Result {
	return slices.DeleteFunc(slices.Clone(m.preflight.results), func(r check.Result) bool {
		return m.preflight.problems && r.State == check.Pass
	})
}

func (m Model) selectedCheck() int {
	return slices.IndexFunc(m.shownChecks(), func(r check.Result) bool { return keyOf(r) == m.preflight.selected })
}

func (m Model) moveCheck(by int) Model {
	if shown := m.shownChecks(); len(shown) > 0 {
		i := max(0, m.selectedCheck()) + by
		m.preflight.selected = keyOf(shown[min(max(i, 0), len(shown)-1)])
	}
	return m
}

func (m Model) preflightCommands() []command {
	k := m.keys
	unexplain := func(m Model) (Model, tea.Cmd) { m.preflight.explain = false; return m, nil }
	if m.preflight.explain {
		return []command{{Binding: k.back, do: unexplain}, {Binding: named(k.enter, "back"), do: unexplain, quiet: true}}
	}
	commands := []command{
		{Binding: named(k.enter, "continue"), do: Model.passPreflight},
		{Binding: named(k.settings, "explain"), do: func(m Model) (Model, tea.Cmd) { m.preflight.explain = true; return m, nil }},
		{Binding: k.back, do: Model.toClusters},
		{Binding: k.refresh, do: Model.rewatch},
		{Binding: k.problems, do: func(m Model) (Model, tea.Cmd) {
			m.preflight.problems = !m.preflight.problems
			return m.judge(), nil
		}},
	}
	return append(commands, moving(k, Model.moveCheck)...)
}

// passPreflight goes on, unless a check has failed.
func (m Model) passPreflight() (Model, tea.Cmd) {
	for _, r := range m.preflight.results {
		if r.State == check.Fail {
			m.preflight.selected = keyOf(r)
			m.note = fmt.Sprintf("%s %s has failed: nothing can be planned before that is mended. This screen follows the clusters.", r.ID, r.Title)
			return m, nil
		}
	}
	return m.openSettings()
}

// checkMark is how a state of a check looks.
func checkMark(s check.State) mark {
	switch s {
	case check.Pass:
		return markOK
	case check.Warn:
		return markWarn
	case check.Fail:
		return markFail
	case check.Inconclusive:
		return markUnknown
	case check.Skipped:
	}
	return markPending
}

func (m Model) preflightBody(height int) []string {
	switch {
	case !m.planned():
		return m.asking()
	case m.preflight.explain:
		return m.paneLines()
	}
	t := m.theme
	lines, few := []string{t.title.Render(m.tally()), ""}, 5
	if m.height < 16 { // the evidence matters more than the checks around it
		lines, few = lines[:1], 4
	}
	shown, selected := m.shownChecks(), max(0, m.selectedCheck())
	rows := make([]string, len(shown))
	for i, r := range shown {
		rows[i] = m.checkLine(r, i == selected)
	}
	if len(rows) == 0 {
		rows = []string{"All checks have passed; " + called(m.keys.problems) + " shows them."}
	}
	detail := m.checkDetail(shown, selected)
	room := height - len(lines)
	if len(rows)+len(detail) > room {
		detail = detail[:min(len(detail), max(0, room-min(len(rows), few)))]
	}
	lines = append(lines, m.window(rows, selected, max(1, room-len(detail)))...)
	for len(lines) < height-len(detail) {
		lines = append(lines, "")
	}
	return append(lines, detail...)
}

// tally counts the checks by how they ended.
func (m Model) tally() string {
	var count [check.Skipped + 1]int
	for _, r := range m.preflight.results {
		count[r.State]++
	}
	parts := []string{fmt.Sprintf("%d passed", count[check.Pass])}
	for _, s := range []struct {
		state check.State
		word  string
	}{{check.Warn, "to know"}, {check.Fail, "failed"}, {check.Inconclusive, "can't be told"}, {check.Skipped, "skipped"}} {
		if count[s.state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s.state], s.word))
		}
	}
	return strings.Join(parts, m.theme.dot)
}

func (m Model) checkLine(r check.Result, selected bool) string {
	t := m.theme
	word := map[check.State]string{
		check.Pass: "pass", check.Warn: "warn", check.Fail: "FAIL", check.Inconclusive: "unknown", check.Skipped: "skipped",
	}[r.State]
	line := t.state(checkMark(r.State), word, t.stateWidth()) + " " + pad(t.plain(r.Where()), 4)
	if m.width >= 70 {
		line += t.faint.Render(string(r.ID)) + " "
	}
	line += t.plain(r.Title)
	if m.width >= 60 {
		line += "  " + t.faint.Render(t.plain(r.Summary))
	}
	return m.cursor(selected, line)
}

// checkDetail is what is to be said of the selected check, below the list.
func (m Model) checkDetail(shown []check.Result, selected int) []string {
	if selected >= len(shown) {
		return nil
	}
	r := shown[selected]
	lines := []string{m.ruleLine(string(r.ID) + " " + r.Title)}
	return append(lines, m.checkFacts(r)...)
}

func (m Model) checkFacts(r check.Result) []string {
	t := m.theme
	lines := t.wrap(r.Summary, m.width, 0)
	for _, s := range r.Sides {
		if err := m.preflight.errs[s]; err != nil && r.ID == flows.CodePermission {
			lines = append(lines, t.wrap(s.String()+" was asked and answered: "+err.Error(), m.width, 0)...)
		}
	}
	for _, text := range r.Evidence {
		lines = append(lines, t.field("Seen  ", text, m.width)...)
	}
	for i, text := range r.Fix {
		label := "Fix   "
		if i > 0 {
			label = "or    "
		}
		lines = append(lines, t.field(label, text, m.width)...)
	}
	return lines
}

// explainText is all about the selected check, also for who never heard of it.
func (m Model) explainText() []string {
	shown := m.shownChecks()
	i := m.selectedCheck()
	if i < 0 {
		return nil
	}
	t, r := m.theme, shown[i]
	lines := []string{t.title.Render(fmt.Sprintf("%s  %s", r.ID, t.plain(r.Title))), ""}
	lines = append(lines, m.checkFacts(r)...)
	text, ok := check.Explain(r.ID)
	if !ok {
		return lines
	}
	lines = append(lines, "")
	lines = append(lines, t.wrap(text.Meaning, m.width, 0)...)
	lines = append(lines, "")
	for _, fix := range text.Fix {
		lines = append(lines, t.field(t.bullets[markPending]+" ", fix, m.width)...)
	}
	return lines
}

// sees says as which addresses a side sees, or will see, the other's pods.
func (m Model) sees(s flows.Side) string {
	other := m.id(s.Other())
	if f := m.on(s).good; f.Installable() && m.wanted.Install[s] != nil {
		return fmt.Sprintf("As which addresses %s will see %s's pods is known after the installation.", m.id(s), other)
	}
	views, err := check.Views(flows.Expected(m.wanted, m.facts()), s)
	if err != nil {
		return fmt.Sprintf("%s has no addresses left for %s: %v.", m.id(s), other, err)
	}
	var parts []string
	verb := "sees"
	for _, v := range views {
		if v.Use == "pods" {
			parts = append(parts, v.String())
		}
		if v.Predicted {
			verb = "will see"
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("As which addresses %s will see %s's pods is known after the installation.", m.id(s), other)
	}
	return fmt.Sprintf("%s %s %s's %s.", m.id(s), verb, other, strings.Join(parts, ", "))
}
