package tui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// applyRow is the first row of the list: enter on it applies the plan.
const applyRow flows.StepID = "apply"

// planScreen lists what is to do, and what the selected row says of it.
type planScreen struct {
	selected flows.StepID // by ID: the plan may change while it is looked at
	zoom     bool         // the diff has the whole screen
	pinned   bool         // the admin asked for this screen: stay
	note     string       // stays until the next decision
	// localOnly leaves cluster B alone, which does not answer.
	localOnly bool
}

// planIDs are the rows of the list.
func planIDs(p flows.Plan) []flows.StepID {
	var ids []flows.StepID
	if !p.Done() {
		ids = append(ids, applyRow)
	}
	for _, s := range p.Steps {
		ids = append(ids, s.ID)
	}
	return ids
}

// keep holds the selection as long as its row exists.
func (s planScreen) keep(p flows.Plan) planScreen {
	ids := planIDs(p)
	if slices.Contains(ids, s.selected) || len(ids) == 0 {
		return s
	}
	s.selected, s.zoom = ids[0], false
	return s
}

func (s planScreen) index(p flows.Plan) int { return max(0, slices.Index(planIDs(p), s.selected)) }

func (m Model) movePlan(by int) Model {
	if ids := planIDs(m.current); len(ids) > 0 {
		i := m.plan.index(m.current) + by
		m.plan.selected = ids[min(max(i, 0), len(ids)-1)]
	}
	return m
}

func (m Model) planCommands() []command {
	k := m.keys
	back := command{Binding: k.back, do: Model.leavePlan}
	refresh := command{Binding: k.refresh, do: Model.rewatch}
	switch {
	case m.plan.zoom:
		return []command{back, {Binding: named(k.enter, "back"), do: Model.leavePlan, quiet: true}}
	case !m.planned():
		return []command{back}
	case m.current.Failure() != nil && m.goal != Connect && m.on(flows.A).latest.Problem == nil:
		return []command{{Binding: k.localOnly, do: Model.planLocally}, refresh, back}
	case m.current.Failure() != nil:
		return []command{refresh, back}
	}
	open := command{Binding: named(k.enter, "diff"), do: func(m Model) (Model, tea.Cmd) { m.plan.zoom = true; return m, nil }}
	if m.plan.selected == applyRow {
		open = command{Binding: named(k.enter, "apply"), do: Model.askToApply}
	}
	commands := []command{open}
	if !m.current.Done() {
		commands = append(commands, command{Binding: k.apply, do: Model.askToApply})
	}
	commands = append(commands, back, command{Binding: k.copyCommand, do: Model.copyCommandLine})
	if m.goal == Connect {
		commands = append(commands, command{Binding: k.settings, do: Model.openSettings})
	}
	commands = append(commands, refresh)
	return append(commands, moving(k, Model.movePlan)...)
}

// leavePlan goes back: from the diff to the list, from the list to where the
// plan came from.
func (m Model) leavePlan() (Model, tea.Cmd) {
	switch {
	case m.plan.zoom:
		m.plan.zoom = false
		return m, nil
	case m.planned() && (m.goal != Connect || m.fixed):
		return m.toLive()
	case m.planned() && m.current.Failure() == nil:
		return m.openSettings()
	}
	return m.toClusters()
}

// toLive looks at the connection; what was wanted of it and not applied is
// forgotten.
func (m Model) toLive() (Model, tea.Cmd) {
	m.screen, m.goal, m.plan = screenLive, Connect, planScreen{}
	m.wanted = m.options.Params
	return m.replan(), nil
}

// toClusters chooses again; the first choice is kept.
func (m Model) toClusters() (Model, tea.Cmd) {
	if m.dashboard.visiting {
		m.dashboard.visiting, m.screen, m.goal = false, screenDashboard, Connect
		m.pair, m.plan = [2]flows.ContextRef{}, planScreen{}
		return m, nil
	}
	m.screen, m.clusters.selected = screenClusters, m.pair[flows.B]
	m.pair[flows.B], m.plan, m.goal = flows.ContextRef{}, planScreen{}, Connect
	return m, nil
}

// meet is the step after both clusters were chosen: the connection if there is
// one, else how it is to be.
func (m Model) meet() (Model, tea.Cmd) {
	m.goal, m.plan = Connect, planScreen{}
	if m.pair != m.met {
		m.met, m.wanted = m.pair, m.options.Params
		m = m.remember().suggest()
	}
	m.screen = screenPlan
	if m = m.replan(); m.screen == screenPlan {
		m.screen, m.preflight.selected = screenPreflight, checkKey{}
		m = m.judge()
	}
	return m, nil
}

// suggest takes what the clusters themselves make likely, unless the command
// line says otherwise.
func (m Model) suggest() Model {
	facts, p := m.facts(), &m.wanted
	if !p.Given.Has(flows.FieldServer) {
		p.Server, _ = flows.SuggestServer(facts)
	}
	if !p.Given.Has(flows.FieldServiceType) {
		p.ServiceType, _ = flows.SuggestServiceType(facts.Side(p.Server))
	}
	return m
}

// begin shows the plan that takes a connection away.
func (m Model) begin(g Goal) Model {
	m.goal, m.screen, m.plan = g, screenPlan, planScreen{}
	if m.planned() {
		m = m.replan()
	}
	return m
}

// planLocally takes away what cluster A has: the other one may be gone for good.
func (m Model) planLocally() (Model, tea.Cmd) {
	m.plan = planScreen{localOnly: true}
	return m.replan(), nil
}

func (m Model) copyCommandLine() (Model, tea.Cmd) {
	m.note = "Copied, if the terminal allows it; it is printed at the end, too."
	return m, tea.SetClipboard(m.command())
}

func (m Model) askToApply() (Model, tea.Cmd) {
	m.plan.note = ""
	switch {
	case m.current.Done():
		return m, nil
	case m.current.Empty(): // only things to wait for
		return m.startRun(m.current)
	}
	m.confirm = m.askFor(m.current)
	return m, nil
}

// Heights of parts of the plan screen, in lines.
const (
	wantPane   = 7 // its heading, and enough to say what the plan means
	minList    = 5 // rows beside a pane
	maxCommand = 3 // help shows all of it
)

// planLayout divides what is left of the body between the list and the pane.
func (m Model) planLayout(height int) (list, pane int) {
	n := len(planIDs(m.current))
	switch {
	case height-n >= wantPane:
		return n, height - n
	case height-wantPane >= minList:
		return height - wantPane, wantPane
	}
	return min(n, max(1, height-1)), 0
}

func (m Model) planBody(height int) []string {
	if !m.planned() {
		return m.asking()
	}
	if m.current.Failure() != nil {
		return m.paneLines()
	}
	if m.plan.zoom {
		return m.paneLines()
	}
	head := m.planHead(height)
	list, pane := m.planLayout(height - len(head))
	lines := append(head, m.window(m.planRows(), m.plan.index(m.current), list)...)
	if pane > 0 {
		return append(append(lines, m.paneHeading()), m.paneLines()...)
	}
	step, _ := m.current.Step(m.plan.selected)
	where := fmt.Sprintf("%d/%d  ", m.plan.index(m.current)+1, len(planIDs(m.current)))
	hint := "enter shows the diff"
	if m.plan.selected == applyRow {
		hint = "enter asks once more, then applies"
	}
	return append(lines, m.theme.faint.Render(where+m.theme.plain(cmp.Or(step.Reason, hint))))
}

// asking is the plan screen before both clusters have answered.
func (m Model) asking() []string {
	lines := []string{"Looking at both clusters" + m.theme.ellipsis, ""}
	for _, s := range []flows.Side{flows.A, flows.B} {
		state := m.on(s)
		mark, word := markRunning, askedText(m.clock.Sub(state.began))
		if state.asked {
			mark, word = markOK, "answers"
			if state.latest.Problem != nil {
				mark, word = markFail, state.latest.Problem.Message
			}
		}
		lines = append(lines, m.theme.side(s, string(m.id(s)), 0)+"  "+m.theme.state(mark, word, 0))
	}
	return lines
}

// failures is a card for each reason why there can be no plan.
func (m Model) failures() []string {
	var lines []string
	for _, s := range m.current.Steps {
		if s.Status != flows.Failed {
			continue
		}
		lines = append(lines, m.card(s)...)
		lines = append(lines, "")
	}
	return append(lines, m.theme.wrap("This screen follows the clusters: it goes on when this is fixed.", m.width, 0)...)
}

// card says what failed, why, what to do, and what that is known from.
func (m Model) card(s flows.Step) []string {
	t := m.theme
	title, side := t.marks[markFail].Render(t.glyphs[markFail]+" failed: "+t.plain(s.Title)), t.side(s.Side, m.name(s.Side), 0)
	if s.Code != "" {
		side += "  " + t.faint.Render(string(s.Code))
	}
	lines := []string{title + "  " + side, ""}
	if cells(lines[0]) > m.width { // where it failed matters more than an empty line
		lines = []string{title, "  " + side}
	}
	column := 9
	if m.width < 60 {
		column = 6
	}
	add := func(label, text string) { lines = append(lines, t.field(pad(label, column), text, m.width)...) }
	add("Why", s.Reason)
	add("Fix", s.Hint)
	for _, name := range slices.Sorted(maps.Keys(s.Evidence)) {
		// The reason says what was seen last, and for how long.
		if text := s.Evidence[name]; name != flows.EvidenceSince && !strings.Contains(s.Reason, text) {
			add("Seen", name+": "+text)
		}
	}
	for _, e := range s.Events[:min(len(s.Events), 3)] {
		if !strings.Contains(s.Reason, e.Message) {
			add("Event", fmt.Sprintf("%s %s: %s", e.Object, e.Reason, e.Message))
		}
	}
	return lines
}

// planHead counts the changes and names the command that does the same.
func (m Model) planHead(height int) []string {
	counts := strings.ReplaceAll(m.current.Changes().String(), ", ", m.theme.dot)
	if m.current.Done() {
		counts = "Nothing is left to do."
	}
	p := m.params
	counts += fmt.Sprintf("%sserver %s, %s", m.theme.dot, p.Server, p.ServiceType)
	lines := []string{m.theme.title.Render(counts)}
	if m.plan.note != "" {
		note := m.theme.wrap(m.plan.note, m.width, 0)
		for _, line := range note {
			lines = append(lines, m.theme.marks[markWarn].Render(line))
		}
	}
	if height < 12 {
		return lines
	}
	command := m.theme.command("same: ", m.command(), m.width)
	for _, line := range command[:min(len(command), maxCommand)] {
		lines = append(lines, m.theme.faint.Render(line))
	}
	if height > 24 {
		lines = append(lines, m.ruleLine(""))
	}
	return lines
}

func (m Model) planRows() []string {
	var rows []string
	if !m.current.Done() {
		text := "Apply: " + counted(m.current.Changes().Total(), "change")
		if m.current.Empty() {
			text = "Wait for what is left"
		}
		rows = append(rows, m.cursor(m.plan.selected == applyRow, text))
	}
	for _, s := range m.current.Steps {
		rows = append(rows, m.cursor(s.ID == m.plan.selected, m.stepLine(s, true)))
	}
	return rows
}

// stepLine is one step as a line: state, side, action, title and reason.
func (m Model) stepLine(s flows.Step, withAction bool) string {
	t := m.theme
	line := t.state(stepMark(s.Status), stepWord(s.Status), t.stateWidth()) + " " +
		t.side(s.Side, string(m.id(s.Side)), m.sideWidth()) + " "
	if withAction && m.width >= 60 {
		action := s.Action.String()
		if s.Status == flows.Done && s.Action.Changes() {
			action = "-"
		}
		line += pad(action, len("create")+1)
	}
	line += t.plain(s.Title)
	if s.Reason != "" && m.width >= 60 {
		line += "  " + t.faint.Render(t.plain(s.Reason))
	}
	return line
}

// sideWidth is the room for a side's letter and ID.
func (m Model) sideWidth() int {
	longest := max(cells(string(m.id(flows.A))), cells(string(m.id(flows.B))))
	return min(2+longest, max(8, m.width/4))
}

// paneText is what the pane below the list shows of the selected row.
func (m Model) paneText() []string {
	if m.plan.selected == applyRow {
		return m.outlook()
	}
	s, ok := m.current.Step(m.plan.selected)
	if !ok {
		return nil
	}
	var lines []string
	if s.Reason != "" {
		lines = append(lines, m.theme.wrap(s.Reason, m.width, 0)...)
	}
	switch {
	case s.Diff != "":
		lines = append(lines, m.theme.diff(s.Diff)...)
	case s.Status == flows.Done && s.Reason == "":
		lines = append(lines, "It is there as wanted: nothing to change.")
	case s.Status == flows.Blocked:
		lines = append(lines, "What it says is known only after that.")
	}
	return lines
}

// outlook says what applying the plan means for who uses the clusters.
func (m Model) outlook() []string {
	t := m.theme
	var lines []string
	add := func(mark mark, text string) {
		wrapped := t.wrap(text, m.width, 2)
		lines = append(lines, t.marks[mark].Render(t.bullets[mark])+" "+wrapped[0])
		lines = append(lines, wrapped[1:]...)
	}
	a, b := m.id(flows.A), m.id(flows.B)
	for _, text := range m.current.Interrupts() {
		add(markWarn, text)
	}
	switch {
	case m.goal == Disconnect:
		add(markPending, fmt.Sprintf("%s and %s keep the addresses that they have for each other, for the next connection.", a, b))
	case m.goal == Reset:
		add(markPending, fmt.Sprintf("%s and %s forget each other: a later connection may have other addresses.", a, b))
	case len(m.current.Interrupts()) == 0:
		add(markPending, fmt.Sprintf("Pods of %s and %s will reach each other through an encrypted tunnel. No traffic is interrupted.", a, b))
	}
	if m.goal == Connect && !m.current.Done() {
		add(markPending, "When it is connected, a pod on each side sends the other some packets, and goes again.")
	}
	if m.goal == Connect {
		for _, s := range []flows.Side{flows.A, flows.B} {
			add(markPending, m.sees(s))
		}
	}
	for _, text := range m.current.Kept {
		add(markPending, text)
	}
	for _, command := range m.current.Owed {
		add(markWarn, "to be run by the other cluster's admin: "+command)
	}
	return lines
}

func (m Model) paneHeading() string {
	s, ok := m.current.Step(m.plan.selected)
	switch {
	case m.plan.selected == applyRow:
		return m.ruleLine("what it means")
	case !ok:
		return m.ruleLine("")
	}
	return m.ruleLine(fmt.Sprintf("%s of %s %s", s.Title, s.Side, m.id(s.Side)))
}

// ruleLine is a line across the screen, with a heading in it.
func (m Model) ruleLine(heading string) string {
	if heading != "" {
		heading = strings.Repeat(m.theme.rule, 2) + " " + m.theme.plain(heading) + " "
	}
	heading = m.theme.fit(heading, m.width)
	return m.theme.faint.Render(heading + strings.Repeat(m.theme.rule, max(0, m.width-cells(heading))))
}

// window is the part of rows, at most height, that shows the one at index.
func (m Model) window(rows []string, index, height int) []string {
	top := windowTop(index, len(rows), height)
	return rows[top:min(top+height, len(rows))]
}

// windowTop is the first of n rows in sight, with the one of an index among them.
func windowTop(index, n, height int) int {
	return max(0, min(index-height/2, n-height))
}

// seconds writes how long something takes: short ones to a tenth of a second.
func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", max(0, d).Seconds())
	}
	return age(d)
}

// askedText says how long ago a cluster was asked that has not answered yet.
func askedText(d time.Duration) string {
	if d < time.Second {
		return "asked just now"
	}
	return fmt.Sprintf("asked %s ago", age(d))
}

// age writes how long ago something was, in whole units.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
