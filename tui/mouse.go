package tui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/session"
)

// updateWheel moves the selection as the arrow keys do.
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

// updateClick selects the row under the pointer. If the row is already
// selected, it opens the row as enter does. A click on a column's title sorts.
// Clicks do not answer questions, because a click that only brings the window
// to the front must not change a cluster.
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
