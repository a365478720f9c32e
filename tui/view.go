package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// The smallest terminal that the screens are made for.
const (
	minWidth  = 40
	minHeight = 12
)

// frameLines are the lines around the body: title, rule and help.
const (
	frameLines = 3
	headLines  = 2 // those above the body
)

// updateKey gives a key to what is on top.
func (m Model) updateKey(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	k := m.keys
	m.touched, m.note = true, ""
	switch {
	case key.Matches(msg, k.interrupt):
		return m.interrupt()
	case m.tiny():
		// Nobody can see what a key would answer; but to leave is always possible.
		if key.Matches(msg, k.quit) && !m.typing() {
			return m.quitTiny()
		}
		return m, nil
	case m.showHelp:
		switch {
		case key.Matches(msg, k.help), key.Matches(msg, k.back), key.Matches(msg, k.quit):
			m.showHelp = false
			return m, nil
		}
		return m.scroll(msg)
	case m.confirm != nil:
		if key.Matches(msg, k.help) && m.confirm.word == "" {
			m.showHelp = true
			return m, nil
		}
		return m.updateConfirm(msg)
	case m.prompt != nil:
		return m.updatePrompt(msg)
	case m.screen == screenClusters && m.clusters.filtering:
		return m.updateFilter(msg)
	case m.screen == screenDashboard && m.dashboard.filtering:
		return m.updateDashboardFilter(msg)
	}
	if m.screen == screenSettings {
		if next, ok := m.updateSettings(msg); ok {
			return next, nil
		}
	}
	if next, cmd, ok := m.do(msg); ok {
		return next, cmd
	}
	return m.scroll(msg)
}

// typing reports whether keys are a text's.
func (m Model) typing() bool {
	return m.prompt != nil || m.clusters.filtering || m.dashboard.filtering || m.confirm != nil && m.confirm.word != ""
}

// quitTiny is q on a screen that is too small: a run is not left by it.
func (m Model) quitTiny() (Model, tea.Cmd) {
	if m.screen == screenApply {
		return m, nil
	}
	return m.quit(nil)
}

// interrupt takes ctrl+c, wherever it comes.
func (m Model) interrupt() (Model, tea.Cmd) {
	switch m.screen {
	case screenApply:
		return m.interruptApply()
	case screenLive, screenDashboard, screenDetail:
		return m.quit(nil)
	case screenPlan, screenClusters, screenPreflight, screenSettings:
	}
	return m.quit(ErrInterrupted)
}

// scroll moves the pane.
func (m Model) scroll(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	var cmd tea.Cmd
	m.pane, cmd = m.pane.Update(msg)
	return m, cmd
}

// arrange gives the pane its size and what it shows. Something else starts at
// its top; the same with new contents stays where it is.
func (m Model) arrange() Model {
	height := max(0, m.height-frameLines)
	var id string
	var lines []string
	switch {
	case m.tiny():
		return m
	case m.showHelp:
		id, lines = "help", m.helpText()
	case m.screen == screenPreflight && m.preflight.explain:
		id, lines = "explain", m.explainText()
	case m.screen == screenClusters && m.clusters.info:
		id, lines = "info", m.clusterText()
	case m.screen == screenDashboard:
		m.dashboard.list = m.dashboard.list.follow(m.listLayout().rows)
		return m
	case m.screen == screenDetail:
		d := m.dashboard
		id, lines = fmt.Sprint("page ", d.page, d.list.selected), m.pageText()
	case m.screen == screenLive:
		id, lines = "live", m.liveText(m.width)
	case m.screen == screenApply && !m.apply.active():
		id, lines = "ended", m.endedText()
		height = max(1, height-len(m.choiceRows()))
	case m.screen == screenPlan && m.planned() && m.current.Failure() != nil:
		id, lines = "failures", m.failures()
	case m.screen == screenPlan && m.planned():
		id, lines = "step "+string(m.plan.selected), m.paneText()
		if !m.plan.zoom {
			head := len(m.planHead(height))
			_, pane := m.planLayout(height - head)
			height = max(0, pane-1)
		}
	default:
		return m
	}
	if m.screen != screenPlan || m.showHelp {
		for i, line := range lines { // all but diffs are made to fit; those scroll sideways
			lines[i] = m.theme.fit(line, m.width)
		}
	}
	m.pane.SetWidth(m.width)
	m.pane.SetHeight(height)
	m.pane.SetContentLines(lines)
	if id != m.paneKey {
		m.pane.GotoTop()
		m.pane.SetXOffset(0)
		m.paneKey = id
	}
	return m
}

func (m Model) paneLines() []string {
	if m.pane.Height() == 0 {
		return nil
	}
	return strings.Split(m.pane.View(), "\n")
}

func (m Model) tiny() bool { return m.width < minWidth || m.height < minHeight }

// View draws the model.
func (m Model) View() tea.View {
	v := tea.NewView(m.content())
	v.AltScreen = true
	if m.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	v.WindowTitle = strings.TrimSpace("liqo-tui " + m.theme.plain(m.pairText()))
	if m.screen == screenApply && m.apply.active() {
		v.ProgressBar = tea.NewProgressBar(tea.ProgressBarIndeterminate, 0)
	}
	return v
}

func (m Model) content() string {
	switch {
	case m.width <= 0 || m.height <= 0:
		return "" // the size is not known yet
	case m.tiny():
		text := fmt.Sprintf("%s (liqo-tui needs %dx%d)", m.gist(), minWidth, minHeight)
		lines := m.theme.wrap(text, m.width, 0)
		return strings.Join(lines[:min(len(lines), m.height)], "\n")
	}
	height := m.bodyHeight()
	body := m.body(height)
	lines := make([]string, 0, m.height)
	rule := m.ruleLine("")
	if m.screen == screenPlan && m.plan.zoom && !m.showHelp {
		rule = m.paneHeading()
	}
	lines = append(lines, m.titleLine(), rule)
	for i := range height {
		lines = append(lines, at(body, i))
	}
	for _, text := range m.noteLines() {
		lines = append(lines, m.theme.marks[markWarn].Render(text))
	}
	m.help.SetWidth(m.width)
	lines = append(lines, m.help.ShortHelpView(m.short()))
	for i, line := range lines {
		lines[i] = strings.TrimRight(m.theme.fit(line, m.width), " ")
	}
	return strings.Join(lines, "\n")
}

// noteLines answer the latest key, below the body.
func (m Model) noteLines() []string {
	if m.note == "" {
		return nil
	}
	lines := m.theme.wrap(m.note, m.width, 0)
	return lines[:max(0, min(len(lines), m.height-frameLines-1))]
}

// bodyHeight is how many lines the body of a screen has.
func (m Model) bodyHeight() int { return max(0, m.height-frameLines-len(m.noteLines())) }

func (m Model) body(height int) []string {
	switch {
	case m.showHelp:
		return m.paneLines()
	case m.confirm != nil:
		return m.confirmBody(height)
	case m.prompt != nil:
		return m.promptBody(height)
	case m.screen == screenClusters:
		return m.clustersBody(height)
	case m.screen == screenPreflight:
		return m.preflightBody(height)
	case m.screen == screenSettings:
		return m.settingsBody(height)
	case m.screen == screenDashboard, m.screen == screenDetail:
		return m.dashboardBody(height)
	case m.screen == screenApply:
		return m.applyBody(height)
	case m.screen == screenLive:
		return m.paneLines()
	}
	return m.planBody(height)
}

// pairText names both clusters, as far as they are chosen.
func (m Model) pairText() string {
	name := func(s flows.Side) string { return s.String() + " " + m.name(s) }
	if !m.chosen(flows.B) {
		return ""
	}
	return name(flows.A) + " " + m.theme.between + " " + name(flows.B)
}

// steps are the screens of the wizard, in order.
var steps = []wizardStep{{screenClusters, "Clusters"}, {screenPreflight, "Preflight"}, {screenSettings, "Gateway"}, {screenPlan, "Plan"}, {screenApply, "Apply"}, {screenLive, "Live"}}

type wizardStep struct {
	screen screen
	name   string
}

// progressText is where the wizard is: done steps with a mark, the present one
// with its name.
func (m Model) progressText() string {
	present := slices.IndexFunc(steps, func(s wizardStep) bool { return s.screen == m.screen })
	words := make([]string, len(steps))
	for i, s := range steps {
		switch number := fmt.Sprint(i + 1); {
		case i == present:
			words[i] = m.theme.title.Render(number + " " + s.name)
		case i < present:
			words[i] = m.theme.faint.Render(number + m.theme.done)
		default:
			words[i] = m.theme.faint.Render(number)
		}
	}
	return strings.Join(words, " ")
}

// titleLine says what it is about, where we are, and when.
func (m Model) titleLine() string {
	t := m.theme
	what := ""
	switch {
	case m.showHelp:
		what = t.title.Render("Help")
	case m.screen == screenDashboard || m.screen == screenDetail:
		what = m.dashboardTitle()
	case m.chosen(flows.B):
		what = t.side(flows.A, m.name(flows.A), 0) + " " + t.between + " " + t.side(flows.B, m.name(flows.B), 0)
		if m.goal != Connect {
			what += "  " + t.marks[markWarn].Render(m.goal.String())
		}
	default:
		what = t.title.Render("Connect two clusters")
	}
	right := m.clock.Format(time.TimeOnly)
	if m.screen == screenDashboard || m.screen == screenDetail {
		right = m.clock.Format("15:04") // so that only the minute draws the screen anew
	}
	if m.screen <= screenLive && !m.showHelp {
		right = m.progressText() + "  " + t.faint.Render(right)
	} else {
		right = t.faint.Render(right)
	}
	left := t.title.Render("liqo-tui") + "  " + what
	if room := m.width - cells(right) - 2; cells(left) > room {
		left = t.fit(what, max(0, room))
	}
	return pad(left, m.width-cells(right)) + right
}

// gist is the state of all in a few words.
func (m Model) gist() string {
	switch {
	case m.confirm != nil:
		return "asks whether to apply"
	case m.screen == screenApply:
		return map[phase]string{
			phaseRunning: "applying", phaseStopping: "stopping", phaseStopped: "stopped", phaseFailed: "failed", phaseDone: "done",
		}[m.apply.phase]
	case m.screen == screenClusters:
		return "asks for a cluster"
	case m.screen == screenPreflight:
		return m.tally()
	case m.screen == screenSettings:
		return "asks how to connect"
	case m.screen == screenDashboard, m.screen == screenDetail:
		return m.dashboardGist()
	case m.screen == screenLive:
		return "A " + m.status(flows.A).word + ", B " + m.status(flows.B).word
	case !m.planned():
		return "looking at both clusters"
	case m.current.Failure() != nil:
		return "can't connect yet"
	}
	return "plan to look at"
}

// helpText is made from what can be done on the screen.
func (m Model) helpText() []string {
	t := m.theme
	lines := []string{t.title.Render("Keys on this screen"), ""}
	commands := m.commands()
	for _, b := range []key.Binding{m.keys.pageUp, m.keys.pageDown, m.keys.interrupt} {
		if !slices.ContainsFunc(commands, func(c command) bool { return slices.Equal(c.Keys(), b.Keys()) }) {
			commands = append(commands, command{Binding: b})
		}
	}
	column := keyColumn(commands, 8)
	for _, c := range commands {
		lines = append(lines, "  "+t.title.Render(pad(called(c.Binding), column))+c.Help().Desc)
	}
	lines = append(lines, "")
	lines = append(lines, t.wrap("A is the local cluster, B the remote one. \"Connected\" is what a gateway says when the other one answers its pings.", m.width, 0)...)
	if !m.chosen(flows.B) {
		return lines
	}
	lines = append(lines, "", "The same without this program:")
	return append(lines, t.command("  ", m.command(), m.width)...)
}
