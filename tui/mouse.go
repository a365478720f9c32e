package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/session"
)

// updateWheel moves as the arrows do.
func (m Model) updateWheel(msg tea.MouseWheelMsg) (Model, tea.Cmd) {
	if !m.mouse {
		return m, nil
	}
	switch msg.Button {
	case tea.MouseWheelUp:
		return m.updateKey(tea.KeyPressMsg{Code: tea.KeyUp})
	case tea.MouseWheelDown:
		return m.updateKey(tea.KeyPressMsg{Code: tea.KeyDown})
	default:
		return m, nil
	}
}

// updateClick selects what is under the pointer. What is selected already is
// opened, as enter does; a column's title sorts. Questions are not answered by
// clicks: a window that comes to the front must not change a cluster.
func (m Model) updateClick(msg tea.MouseClickMsg) (Model, tea.Cmd) {
	if !m.mouse || msg.Button != tea.MouseLeft || m.tiny() || m.showHelp || m.wizard.Answering(m.keys) != nil || m.prompt != nil {
		return m, nil
	}
	m.touched, m.note = true, ""
	y := msg.Y - headLines - m.bannerHeight()
	if y < 0 || y >= m.bodyHeight() {
		return m, nil
	}
	return m.tell(session.ClickMsg{X: msg.X, Y: y})
}
