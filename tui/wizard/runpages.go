package wizard

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// runPage is a page that the admin can read while a plan runs. It is closed when the
// run ends, because the result matters more.
type runPage uint8

const (
	pageSteps runPage = iota
	pageEvents
	pageLogs
)

// Messages of the pages.
type (
	turnMsg runPage // shows a page
	logsMsg struct {
		run int
		session.Logs
	}
)

// pageCommands returns the commands that show a page, or close it.
func (s applyScreen) pageCommands(k keys.Map) []keys.Command {
	pages := []keys.Command{
		pageEvents: {Binding: keys.Named(k.Events, "events"), Msg: turnMsg(pageEvents)},
		pageLogs:   {Binding: k.Logs, Msg: turnMsg(pageLogs)},
	}
	if s.page == pageSteps {
		return pages[pageEvents:]
	}
	pages[pageSteps] = keys.Command{Binding: k.Back, Msg: turnMsg(pageSteps)}
	return slices.Delete(pages, int(s.page), int(s.page)+1)
}

func (s applyScreen) turn(c scene, to runPage) (applyScreen, tea.Cmd) {
	s.page, s.logs = to, nil
	if to != pageLogs {
		return s, nil
	}
	return s, s.readLogs(c, 0)
}

func (s applyScreen) readLogs(c scene, after time.Duration) tea.Cmd {
	ctx, id, gateways := c.Ctx, s.run.id, c.gateways()
	return func() tea.Msg {
		logs, ok := session.ReadLogs(ctx, after, gateways)
		if !ok {
			return nil
		}
		return logsMsg{id, logs}
	}
}

// takeLogs stores logs, and reads them again while the page is shown.
func (s applyScreen) takeLogs(c scene, msg logsMsg) (applyScreen, tea.Cmd) {
	if msg.run != s.run.id || s.reading() != pageLogs {
		return s, nil
	}
	s.logs = &msg.Logs
	return s, s.readLogs(c, session.LogInterval)
}

func (c scene) gateways() (out [2]session.Gateway) {
	for _, s := range []flows.Side{flows.A, flows.B} {
		out[s] = session.Gateway{ID: c.id(s), Cluster: c.on(s).Cluster, Pod: c.peer(s).Pod}
	}
	return out
}

func (s applyScreen) reading() runPage {
	if !s.active() {
		return pageSteps
	}
	return s.page
}

func (s applyScreen) pageText(c scene) session.Text {
	if s.reading() == pageEvents {
		var lines []string
		for _, h := range s.happened(c) {
			lines = append(lines, h.lines(c)...)
		}
		if len(lines) == 0 {
			lines = []string{"Nothing has happened yet."}
		}
		return session.Text{ID: "events", Lines: lines, Height: c.Room(), Tail: true}
	}
	lines := []string{"Reading" + c.Theme.Ellipsis}
	if s.logs != nil {
		lines = s.logs.Lines(c.Theme, c.Width, c.gateways())
	}
	return session.Text{ID: "logs", Lines: lines, Height: c.Room(), Tail: true}
}
