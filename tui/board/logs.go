package board

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

type logsMsg struct {
	id pairID
	session.Logs
}

func (s Screen) gateways(e session.Env, p *peering) (out [2]session.Gateway) {
	for i, end := range p.ends {
		g := session.Gateway{ID: end.ID}
		if objects := s.objectsOf(e, p, flows.Side(i)); objects != nil {
			g.Cluster, g.Pod = e.Fleet.Member(s.Board.speaker(end.ID)).Cluster, objects.Pod
		} else {
			g.Absent = s.Board.absence()
		}
		out[i] = g
	}
	return out
}

// readLogs is a command that reads the logs. It first waits for after, unless
// this is 0.
func (s Screen) readLogs(e session.Env, after time.Duration) tea.Cmd {
	p := s.Subject()
	if p == nil {
		return nil
	}
	ctx, id, gateways := e.Ctx, p.ID, s.gateways(e, p)
	return func() tea.Msg {
		logs, ok := session.ReadLogs(ctx, after, gateways)
		if !ok {
			return nil
		}
		return logsMsg{id, logs}
	}
}

// updateLogs stores logs, and reads them again while the page shows them.
func (s Screen) updateLogs(e session.Env, msg logsMsg) (Screen, tea.Cmd) {
	p := s.Subject()
	if !s.Detail || s.page != pageLogs || p == nil || p.ID != msg.id {
		return s, nil
	}
	if s.paused.IsZero() || s.logs.id != p.ID {
		s.logs = msg
	}
	return s.renewPage(e), s.readLogs(e, session.LogInterval)
}

func (s Screen) logText(e session.Env, p *peering) []string {
	return s.logs.Lines(e.Theme, e.Width, s.gateways(e, p))
}
