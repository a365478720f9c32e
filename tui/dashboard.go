package tui

import (
	"fmt"
	"slices"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// dashboardScreen is the connections of many clusters.
type dashboardScreen struct {
	open bool // it was shown, and goes on behind other screens
}

// shows reports whether a cluster is one of the dashboard's.
func (d dashboardScreen) shows(m Model, ref flows.ContextRef) bool {
	if !d.open && m.screen != screenDashboard && m.screen != screenDetail {
		return false
	}
	return len(m.options.Contexts) == 0 || slices.Contains(m.options.Contexts, ref)
}

func (m Model) dashboardBody(int) []string {
	var lines []string
	for _, c := range m.fleet.members {
		for _, conn := range c.good.Connections {
			lines = append(lines, m.theme.plain(fmt.Sprintf("%s: %s %s", c.good.ID, conn.Labels[render.LabelRemoteCluster], connectionStatus(&conn, m.clock).word)))
		}
	}
	return lines
}
