package tui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// tricks returns the commands that a demonstration has on every screen.
func (m Model) tricks() []keys.Command {
	if m.options.Demo == nil {
		return nil
	}
	k := m.keys
	return []keys.Command{
		{Binding: k.CutUDP, Msg: session.CutUDP, Quiet: true},
		{Binding: k.SlowLink, Msg: session.SlowLink, Quiet: true},
		{Binding: k.KillGateway, Msg: session.KillGateway, Quiet: true},
		{Binding: k.AddCluster, Msg: session.AddCluster, Quiet: true},
	}
}

// play is a command that breaks something between the clusters on the screen.
func (m Model) play(trick session.Trick) tea.Cmd {
	demo, pair := m.options.Demo, m.wizard.Pair()
	if m.onBoard() {
		pair = m.dashboard.Selected()
	}
	return func() tea.Msg { return session.NoteMsg(demo.Play(trick, pair)) }
}

// bannerHeight is the number of lines that the demonstration's banner takes on every screen. The lowest terminal
// has no line for it: there, the title begins with the mark.
func (m Model) bannerHeight() int {
	if m.options.Demo == nil || m.low {
		return 0
	}
	return 1
}

// demoMark is on each screen of a demonstration.
const demoMark = " DEMO "

// bannered returns a screen with the banner above it.
func (m Model) bannered(content string) string {
	if m.bannerHeight() == 0 || m.width <= 0 {
		return content
	}
	t := m.theme
	parts := []string{demoMark, "nothing is real"}
	for _, c := range m.tricks() {
		parts = append(parts, keys.Called(c.Binding)+" "+c.Help().Desc)
	}
	line := t.Cursor.Render(parts[0])
	for i, text := range parts[1:] {
		next := line + strings.Repeat(" ", min(i+1, 2)) + t.Plain(text)
		if draw.Cells(next) > m.width {
			line = t.Fit(line+"  "+t.Ellipsis, m.width)
			break
		}
		line = next
	}
	line = t.Fit(line, m.width)
	if content == "" {
		return line
	}
	return line + "\n" + content
}

// demonstration returns the text about the demonstration in the terminal's title.
func (m Model) demonstration() string {
	if m.options.Demo == nil {
		return ""
	}
	return "DEMO "
}
