package tui

import (
	"fmt"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// dashboardCommands are those of the list and of all pages: what they do, they
// do to the selected peering.
func (m Model) dashboardCommands() []command {
	var commands []command
	if m.screen == screenDetail {
		commands = append(commands, m.pageCommands()...)
	} else {
		commands = append(commands, m.openingCommands()...)
	}
	if m.subject() != nil {
		commands = append(commands, m.peeringCommands()...)
	}
	if m.screen == screenDashboard {
		commands = append(commands, m.arrangingCommands()...)
	}
	k := m.keys
	pause := k.pause
	if !m.dashboard.paused.IsZero() {
		pause = named(k.pause, "go on")
	}
	commands = append(
		commands,
		opening(k.allEvents, pageAllEvents),
		command{Binding: pause, do: func(m Model) (Model, tea.Cmd) { return m.pauseDashboard(), nil }},
		command{Binding: k.save, do: Model.saveScreen},
		command{Binding: k.copyCommand, do: Model.copyDashboardCommand},
		command{Binding: k.refresh, do: Model.rewatch},
	)
	if m.screen == screenDashboard {
		commands = append(commands, m.movingCommands()...)
	}
	return commands
}

// opening is a command that shows a page.
func opening(b key.Binding, p page) command {
	return command{Binding: b, do: func(m Model) (Model, tea.Cmd) { return m.turnTo(p) }}
}

// pageCommands lead back from a page.
func (m Model) pageCommands() []command {
	return []command{
		{Binding: m.keys.back, do: Model.leavePage},
		{Binding: named(m.keys.quit, "back"), quiet: true, do: Model.leavePage},
	}
}

// openingCommands are what is done most on the list.
func (m Model) openingCommands() []command {
	k := m.keys
	var commands []command
	if m.subject() != nil {
		commands = append(commands, opening(named(k.enter, "details"), pageOverview))
	}
	if m.dashboard.filter.String() != "" {
		commands = append(commands, command{Binding: named(k.back, "clear the filter"), do: func(m Model) (Model, tea.Cmd) { return m.filterBy(line{}), nil }})
	}
	return append(commands, command{Binding: k.filter, do: func(m Model) (Model, tea.Cmd) { m.dashboard.filtering = true; return m, nil }})
}

// peeringCommands are about the selected peering.
func (m Model) peeringCommands() []command {
	k := m.keys
	commands := []command{opening(k.diagnose, pageDiagnosis)}
	if m.screen == screenDetail && m.dashboard.page == pageDiagnosis {
		commands = append(commands, command{Binding: named(k.problems, "all or only problems"), do: func(m Model) (Model, tea.Cmd) {
			m.dashboard.allChecks = !m.dashboard.allChecks
			return m, nil
		}})
	}
	visiting := func(b key.Binding, show func(Model) Model) command {
		return command{Binding: b, do: func(m Model) (Model, tea.Cmd) { return m.visit(show), nil }}
	}
	return append(
		commands,
		command{Binding: k.verify, do: Model.verifyPeering},
		opening(k.events, pageEvents), opening(k.logs, pageLogs), opening(k.yaml, pageYAML),
		visiting(k.disconnect, func(m Model) Model { return m.takeAway(Disconnect) }),
		visiting(k.reset, func(m Model) Model { return m.takeAway(Reset) }),
		visiting(k.change, func(m Model) Model {
			m, _ = m.begin(Connect).openSettings()
			return m
		}),
	)
}

// arrangingCommands change what the list shows, and in which order.
func (m Model) arrangingCommands() []command {
	k := m.keys
	commands := []command{
		{Binding: k.connect, do: func(m Model) (Model, tea.Cmd) {
			m.dashboard.open, m.dashboard.visiting, m.pair = true, false, [2]flows.ContextRef{}
			return m.toClusters()
		}},
		{Binding: k.wide, do: func(m Model) (Model, tea.Cmd) { return m.widen(), nil }},
	}
	for _, s := range []struct {
		key.Binding
		column
	}{{k.sortName, byName}, {k.sortStatus, byStatus}, {k.sortLatency, byLatency}, {k.sortTraffic, byThroughput}, {k.sortAge, byAge}} {
		commands = append(commands, command{Binding: s.Binding, do: func(m Model) (Model, tea.Cmd) {
			m.dashboard.board.sortBy(s.column)
			return m, nil
		}})
	}
	return commands
}

// movingCommands select another row.
func (m Model) movingCommands() []command {
	page := func(pages int) func(Model) (Model, tea.Cmd) {
		return func(m Model) (Model, tea.Cmd) { return m.movePeering(pages * max(1, m.listLayout().rows-1)), nil }
	}
	return append(
		moving(m.keys, Model.movePeering),
		command{Binding: m.keys.pageUp, do: page(-1), quiet: true}, command{Binding: m.keys.pageDown, do: page(+1), quiet: true},
	)
}

// widen gives the list all of the screen, for more columns, or takes that back.
func (m Model) widen() Model {
	before := len(m.listLayout().table)
	m.dashboard.wide = !m.dashboard.wide
	if m.dashboard.wide && len(m.listLayout().table) <= before && before > 0 {
		m.note = fmt.Sprintf("There is no room for more columns in %d.", m.width)
	}
	return m
}

func (m Model) movePeering(by int) Model {
	m.dashboard.list = m.dashboard.list.move(by, m.listLayout().rows)
	return m
}

func (m Model) filterBy(text line) Model {
	m.dashboard.filter = text
	m.dashboard.board.filterBy(text.String())
	return m
}

// updateDashboardFilter takes a key while the filter is typed.
func (m Model) updateDashboardFilter(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	k := m.keys
	switch {
	case key.Matches(msg, k.enter):
		m.dashboard.filtering = false
	case key.Matches(msg, k.back):
		m.dashboard.filtering = false
		return m.filterBy(line{}), nil
	case msg.String() == "up":
		return m.movePeering(-1), nil
	case msg.String() == "down":
		return m.movePeering(+1), nil
	default:
		if edited, ok := m.dashboard.filter.update(msg); ok {
			return m.filterBy(edited), nil
		}
	}
	return m, nil
}

// copyDashboardCommand copies the command that says the same as text.
func (m Model) copyDashboardCommand() (Model, tea.Cmd) {
	d := m.dashboard
	p := m.subject()
	if p == nil || m.options.InfoCommand == nil {
		m.note = "There is nothing selected that a command could tell of."
		return m, nil
	}
	for i, e := range p.ends {
		if e.chosen {
			m.note = "Copied, if the terminal allows it; it is printed at the end, too."
			m.copied = m.options.InfoCommand(d.board.sources[d.board.owner[e.id]].ref, p.ends[1-i].id)
			return m, tea.SetClipboard(m.copied)
		}
	}
	return m, nil
}
