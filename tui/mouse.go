package tui

import (
	tea "charm.land/bubbletea/v2"
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
	if !m.mouse || msg.Button != tea.MouseLeft || m.tiny() || m.showHelp || m.confirm != nil || m.prompt != nil {
		return m, nil
	}
	m.touched, m.note = true, ""
	y := msg.Y - headLines
	if y < 0 || y >= m.bodyHeight() {
		return m, nil
	}
	switch m.screen {
	case screenDashboard:
		return m.clickDashboard(msg.X, y)
	case screenClusters:
		return m.clickClusters(y)
	case screenPreflight, screenSettings, screenPlan, screenApply, screenLive, screenDetail:
	}
	return m, nil
}

// clickDashboard takes a click on a line of the body.
func (m Model) clickDashboard(x, y int) (Model, tea.Cmd) {
	m.dashboard.filtering = false
	if x >= m.listWidth() {
		return m.turnTo(pageOverview) // the pane beside the list is its beginning
	}
	parts, list := m.listLayout(), m.dashboard.list
	y -= len(m.dashboardTop())
	row := y - len(parts.top)
	switch {
	case row == -1 && parts.table != nil:
		if c, ok := parts.table.at(x); ok && c.sorts {
			m.dashboard.board.sortBy(c.by)
		}
		return m, nil
	case row < 0, row >= parts.rows, list.top+row >= len(list.board.list):
		return m, nil
	case list.held && list.position() == list.top+row:
		return m.turnTo(pageOverview)
	}
	m.dashboard.list = list.pick(list.top+row, parts.rows)
	return m, nil
}

// clickClusters takes a click on a line of the body.
func (m Model) clickClusters(y int) (Model, tea.Cmd) {
	if m.clusters.info {
		return m, nil
	}
	m.clusters.filtering = false
	parts := m.clustersLayout(m.bodyHeight())
	row := y - len(parts.head)
	if row < 0 || row >= parts.list || parts.top+row >= len(parts.rows) {
		return m, nil
	}
	clicked := parts.rows[parts.top+row].Ref
	if clicked == m.clusters.selected {
		return m.chooseCluster()
	}
	m.clusters.selected = clicked
	return m, nil
}
