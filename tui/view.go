package tui

import (
	"fmt"
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
const frameLines = 3

// updateKey gives a key to what is on top.
func (m Model) updateKey(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	k := m.keys
	switch {
	case key.Matches(msg, k.interrupt):
		return m.interrupt()
	case m.tiny() && !key.Matches(msg, k.quit):
		return m, nil // nobody can see what a key would answer
	case m.showHelp:
		switch {
		case key.Matches(msg, k.help), key.Matches(msg, k.back), key.Matches(msg, k.quit):
			m.showHelp = false
			return m, nil
		}
		return m.scroll(msg)
	case key.Matches(msg, k.help):
		m.showHelp = true
		return m, nil
	case m.confirm != nil:
		return m.updateConfirm(msg)
	}
	switch m.screen {
	case screenApply:
		return m.updateApply(msg)
	case screenLive:
		return m.updateLive(msg)
	case screenPlan:
	}
	return m.updatePlan(msg)
}

// interrupt takes ctrl+c, wherever it comes.
func (m Model) interrupt() (Model, tea.Cmd) {
	switch m.screen {
	case screenApply:
		return m.interruptApply()
	case screenLive:
		return m.quit(nil)
	case screenPlan:
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
	case m.screen == screenLive:
		id, lines = "live", m.liveText(m.width)
	case m.screen == screenApply && !m.apply.active():
		id, lines = "ended", m.endedText()
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
	v.WindowTitle = strings.TrimSpace("liqo-tui " + m.theme.plain(m.pair()))
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
		text := fmt.Sprintf("liqo-tui needs %dx%d: %s", minWidth, minHeight, m.gist())
		return m.theme.fit(m.theme.plain(text), m.width)
	}
	height := m.height - frameLines
	body := m.body(height)
	lines := make([]string, 0, m.height)
	lines = append(lines, m.titleLine(), m.ruleLine(""))
	for i := range height {
		lines = append(lines, at(body, i))
	}
	m.help.SetWidth(m.width)
	lines = append(lines, m.help.ShortHelpView(m.short()))
	for i, line := range lines {
		lines[i] = strings.TrimRight(m.theme.fit(line, m.width), " ")
	}
	return strings.Join(lines, "\n")
}

func (m Model) body(height int) []string {
	switch {
	case m.showHelp:
		return m.paneLines()
	case m.confirm != nil:
		return m.confirmBody(height)
	case m.screen == screenApply:
		return m.applyBody(height)
	case m.screen == screenLive:
		return m.paneLines()
	}
	return m.planBody(height)
}

// pair names both clusters.
func (m Model) pair() string {
	name := func(s flows.Side) string {
		return strings.TrimSpace(s.String() + " " + string(m.id(s)))
	}
	return name(flows.A) + " " + m.theme.between + " " + name(flows.B)
}

// titleLine says where we are, and when.
func (m Model) titleLine() string {
	t := m.theme
	where := map[screen]string{screenPlan: "Plan", screenApply: "Apply", screenLive: "Live"}[m.screen]
	if m.showHelp {
		where = "Help"
	}
	now := m.clock.Format(time.TimeOnly)
	left := t.title.Render("liqo-tui") + "  " + t.side(flows.A, string(m.id(flows.A)), 0) + " " + t.between + " " +
		t.side(flows.B, string(m.id(flows.B)), 0) + "  " + t.title.Render(where)
	left = t.fit(left, m.width-len(now)-1)
	return pad(left, m.width-len(now)) + t.faint.Render(now)
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
	case m.screen == screenLive:
		return "A " + m.status(flows.A).word + ", B " + m.status(flows.B).word
	case !m.planned():
		return "looking at both clusters"
	case m.current.Failure() != nil:
		return "can't connect yet"
	}
	return "plan to look at"
}

func (m Model) helpText() []string {
	t := m.theme
	var lines []string
	for _, group := range m.keys.full() {
		for _, b := range group {
			lines = append(lines, "  "+t.title.Render(pad(b.Help().Key, 9))+b.Help().Desc)
		}
		lines = append(lines, "")
	}
	lines = append(lines, t.wrap("A is the local cluster, B the remote one. \"Connected\" is what a gateway says when the other one answers its pings.", m.width, 0)...)
	lines = append(lines, "", "The same without this program:")
	return append(lines, t.command("  ", m.command(), m.width)...)
}
