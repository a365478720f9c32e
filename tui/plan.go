package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
)

// planScreen lists what is to do, and the diff of the selected step.
type planScreen struct {
	selected flows.StepID // by ID: the plan may change while it is looked at
	zoom     bool         // the diff has the whole screen
	pinned   bool         // the admin asked for this screen: stay
	note     string
}

// keep holds the selection as long as its step exists.
func (s planScreen) keep(p flows.Plan) planScreen {
	if _, ok := p.Step(s.selected); ok || len(p.Steps) == 0 {
		return s
	}
	// The first that changes something is worth the first look.
	i := max(0, slices.IndexFunc(p.Steps, func(s flows.Step) bool { return s.Diff != "" }))
	s.selected, s.zoom = p.Steps[i].ID, false
	return s
}

func (s planScreen) move(p flows.Plan, by int) planScreen {
	if len(p.Steps) == 0 {
		return s
	}
	i := s.index(p) + by
	s.selected = p.Steps[min(max(i, 0), len(p.Steps)-1)].ID
	return s
}

func (s planScreen) index(p flows.Plan) int {
	return max(0, slices.IndexFunc(p.Steps, func(step flows.Step) bool { return step.ID == s.selected }))
}

// updatePlan takes a key on the plan screen.
func (m Model) updatePlan(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	k := m.keys
	switch {
	case key.Matches(msg, k.quit):
		return m.quit(nil)
	case key.Matches(msg, k.back) && m.plan.zoom, key.Matches(msg, k.open) && m.plan.zoom:
		m.plan.zoom = false
	case key.Matches(msg, k.back) && m.plan.pinned:
		m.screen, m.plan.pinned, m.plan.note = screenLive, false, ""
	case key.Matches(msg, k.copyCommand):
		m.plan.note = "Copied, if the terminal allows it; it is printed at the end, too."
		return m, tea.SetClipboard(m.command())
	case !m.planned():
	case key.Matches(msg, k.retry):
		return m.rewatch()
	case m.current.Failure() != nil:
		return m.scroll(msg)
	case key.Matches(msg, k.apply):
		return m.askToApply()
	case key.Matches(msg, k.open):
		m.plan.zoom = true
	case m.plan.zoom:
		return m.scroll(msg)
	case key.Matches(msg, k.up):
		m.plan = m.plan.move(m.current, -1)
	case key.Matches(msg, k.down):
		m.plan = m.plan.move(m.current, +1)
	default:
		return m.changeParams(msg).scroll(msg)
	}
	return m, nil
}

func (m Model) askToApply() (Model, tea.Cmd) {
	m.plan.note = ""
	switch {
	case m.current.Done():
		return m, nil
	case m.current.Empty(): // only things to wait for
		return m.startRun(m.current)
	}
	m.confirm = &confirm{plan: m.current}
	return m, nil
}

// changeParams swaps the server side or takes the next type of Service; gateways
// that exist keep theirs.
func (m Model) changeParams(msg tea.KeyPressMsg) Model {
	types := []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP}
	switch {
	case m.fixed:
		return m
	case key.Matches(msg, m.keys.swap):
		m.wanted.Server = m.wanted.Server.Other()
	case key.Matches(msg, m.keys.service):
		next := (slices.Index(types, m.wanted.ServiceType) + 1) % len(types)
		// Both belong to the type that is left.
		m.wanted.ServiceType, m.wanted.NodePort, m.wanted.LoadBalancerIP = types[next], 0, ""
	default:
		return m
	}
	m.plan.note = ""
	return m.replan()
}

// Heights of parts of the plan screen, in lines.
const (
	minPane    = 5 // its heading and four lines of a diff
	maxCommand = 3 // help shows all of it
)

// planLayout divides the body between the head, the list and the pane.
func (m Model) planLayout(height int) (list, pane int) {
	n := len(m.current.Steps)
	if rest := height - n; rest >= minPane {
		return n, rest
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
	where := fmt.Sprintf("%d/%d  ", m.plan.index(m.current)+1, len(m.current.Steps))
	return append(lines, m.theme.faint.Render(where+m.theme.plain(cmp.Or(step.Reason, "enter shows the diff"))))
}

// asking is the plan screen before both clusters have answered.
func (m Model) asking() []string {
	lines := []string{"Looking at both clusters" + m.theme.ellipsis, ""}
	for _, s := range []flows.Side{flows.A, flows.B} {
		mark, word := markRunning, fmt.Sprintf("asked %s ago", age(m.clock.Sub(m.began)))
		if state := m.sides[s]; state.asked {
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

// card says what failed, why, and what to do.
func (m Model) card(s flows.Step) []string {
	where := cmp.Or(string(m.id(s.Side)), m.sides[s.Side].latest.Context.String())
	title := m.theme.marks[markFail].Render(m.theme.glyphs[markFail]+" failed: "+m.theme.plain(s.Title)) + "  " + m.theme.side(s.Side, where, 0)
	lines := []string{title, ""}
	lines = append(lines, m.theme.field("Why   ", s.Reason, m.width)...)
	return append(lines, m.theme.field("Fix   ", s.Hint, m.width)...)
}

// planHead counts the changes and names the command that does the same.
func (m Model) planHead(height int) []string {
	create, update, del := m.current.Changes()
	counts := fmt.Sprintf("%d to create%s%d to update%s%d to delete", create, m.theme.dot, update, m.theme.dot, del)
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
	rows := make([]string, len(m.current.Steps))
	for i, s := range m.current.Steps {
		cursor := "  "
		if s.ID == m.plan.selected {
			cursor = "> "
		}
		row := cursor + m.stepLine(s, true)
		if s.ID == m.plan.selected {
			row = m.theme.selected.Render(row)
		}
		rows[i] = row
	}
	return rows
}

// stepLine is one step as a line: state, side, action, title and reason.
func (m Model) stepLine(s flows.Step, withAction bool) string {
	t := m.theme
	line := t.state(stepMark(s.Status), s.Status.String(), t.stateWidth()) + " " +
		t.side(s.Side, string(m.id(s.Side)), m.sideWidth()) + " "
	if withAction && m.width >= 60 {
		action := s.Action.String()
		if s.Status == flows.Done && s.Action != flows.Wait {
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
	longest := max(ansi.StringWidth(string(m.id(flows.A))), ansi.StringWidth(string(m.id(flows.B))))
	return min(2+longest, max(8, m.width/4))
}

// paneText is what the pane below the list shows of the selected step.
func (m Model) paneText() []string {
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

func (m Model) paneHeading() string {
	s, ok := m.current.Step(m.plan.selected)
	if !ok {
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
	return m.theme.faint.Render(heading + strings.Repeat(m.theme.rule, max(0, m.width-ansi.StringWidth(heading))))
}

// window is the part of rows, at most height, that shows the one at index.
func (m Model) window(rows []string, index, height int) []string {
	if len(rows) <= height {
		return rows
	}
	top := min(max(0, index-height/2), len(rows)-height)
	return rows[top : top+height]
}

// seconds writes how long something takes: short ones to a tenth of a second.
func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", max(0, d).Seconds())
	}
	return age(d)
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
