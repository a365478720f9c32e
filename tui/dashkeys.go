package tui

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// dashboardCommands are those of the list and of all pages: what they do, they
// do to the selected peering.
func (m Model) dashboardCommands() []command {
	k, d := m.keys, m.dashboard
	var commands []command
	add := func(b key.Binding, do func(Model) (Model, tea.Cmd)) {
		commands = append(commands, command{Binding: b, do: do})
	}
	if m.screen == screenDetail {
		add(k.back, Model.leavePage)
		commands = append(commands, command{Binding: named(k.quit, "back"), quiet: true, do: Model.leavePage})
	}
	if m.screen == screenDashboard && m.subject() != nil {
		add(named(k.enter, "details"), func(m Model) (Model, tea.Cmd) { return m.turnTo(pageOverview) })
	}
	if m.screen == screenDashboard {
		if d.filter.String() != "" {
			add(named(k.back, "clear the filter"), func(m Model) (Model, tea.Cmd) { return m.filterBy(line{}), nil })
		}
		add(k.filter, func(m Model) (Model, tea.Cmd) { m.dashboard.filtering = true; return m, nil })
	}
	if m.subject() != nil {
		add(k.diagnose, func(m Model) (Model, tea.Cmd) { return m.turnTo(pageDiagnosis) })
		if m.screen == screenDetail && d.page == pageDiagnosis {
			add(named(k.problems, "all or only problems"), func(m Model) (Model, tea.Cmd) {
				m.dashboard.allChecks = !m.dashboard.allChecks
				return m, nil
			})
		}
		add(k.verify, Model.verifyPeering)
		add(k.events, func(m Model) (Model, tea.Cmd) { return m.turnTo(pageEvents) })
		add(k.logs, func(m Model) (Model, tea.Cmd) { return m.turnTo(pageLogs) })
		add(k.yaml, func(m Model) (Model, tea.Cmd) { return m.turnTo(pageYAML) })
		add(k.disconnect, func(m Model) (Model, tea.Cmd) {
			return m.visit(func(m Model) Model { return m.takeAway(Disconnect) }), nil
		})
		add(k.reset, func(m Model) (Model, tea.Cmd) { return m.visit(func(m Model) Model { return m.takeAway(Reset) }), nil })
		add(k.change, func(m Model) (Model, tea.Cmd) {
			return m.visit(func(m Model) Model {
				m, _ = m.begin(Connect).openSettings()
				return m
			}), nil
		})
	}
	if m.screen == screenDashboard {
		add(k.connect, func(m Model) (Model, tea.Cmd) {
			m.dashboard.open, m.dashboard.visiting, m.pair = true, false, [2]flows.ContextRef{}
			return m.toClusters()
		})
		for _, s := range []struct {
			key.Binding
			column
		}{{k.sortName, byName}, {k.sortStatus, byStatus}, {k.sortLatency, byLatency}, {k.sortTraffic, byThroughput}, {k.sortAge, byAge}} {
			add(s.Binding, func(m Model) (Model, tea.Cmd) { m.dashboard.board.sortBy(s.column); return m, nil })
		}
	}
	add(k.allEvents, func(m Model) (Model, tea.Cmd) { return m.turnTo(pageAllEvents) })
	pause := k.pause
	if !d.paused.IsZero() {
		pause = named(k.pause, "go on")
	}
	add(pause, func(m Model) (Model, tea.Cmd) { return m.pauseDashboard(), nil })
	add(k.save, Model.saveScreen)
	add(k.copyCommand, Model.copyDashboardCommand)
	add(k.refresh, Model.rewatch)
	if m.screen == screenDashboard {
		page := func(pages int) func(Model) (Model, tea.Cmd) {
			return func(m Model) (Model, tea.Cmd) { return m.movePeering(pages * max(1, m.listRows()-1)), nil }
		}
		commands = append(commands, moving(k, Model.movePeering)...)
		commands = append(commands, command{Binding: k.pageUp, do: page(-1), quiet: true}, command{Binding: k.pageDown, do: page(+1), quiet: true})
	}
	return commands
}

func (m Model) movePeering(by int) Model {
	m.dashboard.list = m.dashboard.list.move(by, m.listRows())
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
