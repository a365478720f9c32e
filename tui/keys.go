package tui

import (
	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
)

// command is something that the admin can do on a screen: with its key, or
// from the palette. Keys, help and palette are all made from these.
type command struct {
	key.Binding
	do func(Model) (Model, tea.Cmd)
	// quiet is for moving about: it is in help, not in the palette.
	quiet bool
}

// keyMap is every key of the program.
type keyMap struct {
	up, down, pageUp, pageDown, top, bottom    key.Binding
	enter, back, next, previous, left, right   key.Binding
	apply, plan, retry, refresh, resume, leave key.Binding
	settings, disconnect, reset, swap          key.Binding
	localOnly                                  key.Binding
	addFile, filter, info, dashboard, connect  key.Binding
	explain, problems, verify                  key.Binding
	copyCommand, mouse, palette                key.Binding
	events, allEvents, yaml, pause, save       key.Binding
	change, diagnose, logs, wide               key.Binding
	sortName, sortStatus, sortLatency          key.Binding
	sortTraffic, sortAge                       key.Binding
	yes, no, choose                            key.Binding
	help, quit, interrupt                      key.Binding
}

func newKeyMap(ascii bool) keyMap {
	arrow := func(fancy, plain string) string {
		if ascii {
			return plain
		}
		return fancy
	}
	bind := func(label, text string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, text))
	}
	return keyMap{
		up: bind(arrow("↑/k", "up/k"), "up", "up", "k"), down: bind(arrow("↓/j", "down/j"), "down", "down", "j"),
		pageUp: bind("pgup", "scroll up", "pgup", "ctrl+u"), pageDown: bind("pgdn", "scroll down", "pgdown", "ctrl+d"),
		top: bind("g", "to the top", "g", "home"), bottom: bind("G", "to the end", "G", "end"),
		enter: bind("enter", "open", "enter"), back: bind("esc", "back", "esc"),
		next: bind("tab", "next field", "tab", "down"), previous: bind("shift+tab", "field before", "shift+tab", "up"),
		left: bind(arrow("←", "left"), "choice before", "left"), right: bind(arrow("→", "right"), "next choice", "right"),
		apply: bind("a", "apply", "a"), plan: bind("p", "plan", "p"), retry: bind("r", "run again", "r"),
		refresh: bind("r", "look again", "r"), resume: bind("c", "continue", "c"), leave: bind("l", "keep and leave", "l"),
		settings: bind("e", "change settings", "e"), disconnect: bind("x", "disconnect", "x"), reset: bind("X", "reset", "X"),
		localOnly: bind("l", "take away on A only", "l"),
		swap:      bind("w", "swap server and client", "w"),
		addFile:   bind("a", "add a kubeconfig file", "a"), filter: bind("/", "filter", "/"), info: bind("i", "all that is known", "i"),
		dashboard: bind("d", "dashboard", "d"), connect: bind("n", "new connection", "n"),
		explain: bind("ctrl+e", "explain", "ctrl+e"), problems: bind("f", "only problems", "f"), verify: bind("v", "verify with packets", "v"),
		copyCommand: bind("c", "copy command", "c"), mouse: bind("m", "mouse on or off", "m"), palette: bind(":", "commands", ":"),
		events: bind("e", "events", "e"), allEvents: bind("E", "events of all", "E"), yaml: bind("y", "YAML of its objects", "y"),
		wide:     bind("w", "more columns or fewer", "w"),
		diagnose: bind("D", "diagnose", "D"), logs: bind("l", "gateways' logs", "l"),
		change: bind("C", "change the connection", "C"), pause: bind("p", "pause", "p"), save: bind("s", "save this screen", "s"),
		sortName: bind("N", "sort by name", "N"), sortStatus: bind("S", "sort by status", "S"),
		sortLatency: bind("L", "sort by latency", "L"), sortTraffic: bind("T", "sort by traffic", "T"), sortAge: bind("A", "sort by age", "A"),
		yes: bind("y", "yes", "y"), no: bind("n", "no", "n", "esc"),
		choose: bind("tab", "choose", "tab", "left", "right", "up", "down", "h", "j", "k", "l"),
		help:   bind("?", "help", "?"), quit: bind("q", "quit", "q"), interrupt: bind("ctrl+c", "stop", "ctrl+c"),
	}
}

// newPane is the part of a screen that scrolls, by the keys of all screens.
func newPane(k keyMap) viewport.Model {
	pane := viewport.New()
	pane.KeyMap = viewport.KeyMap{
		Up: k.up, Down: k.down, PageUp: k.pageUp, PageDown: k.pageDown,
		Left: key.NewBinding(key.WithKeys("left")), Right: key.NewBinding(key.WithKeys("right")),
	}
	return pane
}

// called is how a key is called in a sentence.
func called(b key.Binding) string { return b.Help().Key }

// keyColumn is the width of a column with the keys of commands.
func keyColumn(commands []command, least int) int {
	for _, c := range commands {
		least = max(least, cells(called(c.Binding)))
	}
	return least + 2
}

// named is a key with the words for what it does here.
func named(b key.Binding, text string) key.Binding {
	b.SetHelp(b.Help().Key, text)
	return b
}

// commands are what can be done on the screen now, the most likely first.
func (m Model) commands() []command {
	var own []command
	switch m.screen {
	case screenClusters:
		own = m.clusterCommands()
	case screenPreflight:
		own = m.preflightCommands()
	case screenSettings:
		own = m.settingsCommands()
	case screenPlan:
		own = m.planCommands()
	case screenApply:
		own = m.applyCommands()
	case screenLive:
		own = m.liveCommands()
	case screenDashboard, screenDetail:
		own = m.dashboardCommands()
	}
	return append(own, m.globalCommands()...)
}

// globalCommands can be done everywhere, but for a run: that wants one thing.
func (m Model) globalCommands() []command {
	k := m.keys
	commands := []command{
		{Binding: k.help, do: func(m Model) (Model, tea.Cmd) { m.showHelp = true; return m, nil }},
	}
	if m.screen == screenApply {
		return commands
	}
	if m.screen == screenDetail {
		k.quit.SetEnabled(false) // q leads back to the list
	}
	return append(commands,
		command{Binding: k.quit, do: func(m Model) (Model, tea.Cmd) { return m.quit(nil) }},
		command{Binding: k.mouse, do: func(m Model) (Model, tea.Cmd) { m.mouse = !m.mouse; return m, nil }},
		command{Binding: k.palette, do: func(m Model) (Model, tea.Cmd) { return m.openPalette(), nil }, quiet: true},
	)
}

// do runs the command of a key, if there is one.
func (m Model) do(msg tea.KeyPressMsg) (_ Model, _ tea.Cmd, ok bool) {
	for _, c := range m.commands() {
		if key.Matches(msg, c.Binding) {
			next, cmd := c.do(m)
			return next, cmd, true
		}
	}
	return m, nil, false
}

// moving are the keys of a list; move changes what is selected.
func moving(k keyMap, move func(m Model, by int) Model) []command {
	by := func(n int) func(Model) (Model, tea.Cmd) {
		return func(m Model) (Model, tea.Cmd) { return move(m, n), nil }
	}
	const far = 1 << 20
	return []command{
		{Binding: k.up, do: by(-1), quiet: true},
		{Binding: k.down, do: by(+1), quiet: true},
		{Binding: k.top, do: by(-far), quiet: true},
		{Binding: k.bottom, do: by(+far), quiet: true},
	}
}

// short is the help on the screen's last line.
func (m Model) short() []key.Binding {
	k := m.keys
	switch {
	case m.showHelp:
		return []key.Binding{k.back, k.up, k.down, k.quit}
	case m.confirm != nil && m.confirm.word != "":
		return []key.Binding{named(k.enter, "apply, if the name is right"), named(k.back, "no")}
	case m.confirm != nil:
		return []key.Binding{named(k.enter, "take the choice"), k.choose, k.yes, k.no}
	case m.prompt != nil:
		return []key.Binding{named(k.enter, "ok"), named(k.back, "cancel")}
	}
	var own, global []key.Binding
	for _, c := range m.commands() {
		switch {
		case m.screen == screenDetail && c.Help().Key == k.quit.Help().Key:
		case c.quiet, c.Help().Key == k.mouse.Help().Key: // the palette and help have it
		case c.Help().Key == k.help.Help().Key, c.Help().Key == k.quit.Help().Key:
			global = append(global, c.Binding)
		default:
			own = append(own, c.Binding)
		}
	}
	// Help and quit stay in sight when there is room for little else.
	first := min(len(own), 2)
	if m.width < 60 {
		first = min(len(own), 1)
	}
	out := append(append([]key.Binding{}, own[:first]...), global...)
	return append(out, own[first:]...)
}

func newHelp(t theme) help.Model {
	h := help.New()
	h.Ellipsis, h.ShortSeparator, h.FullSeparator = t.ellipsis, t.dot, "   "
	h.Styles = help.Styles{
		Ellipsis: t.faint.Style, ShortKey: t.title.Style, ShortDesc: t.faint.Style, ShortSeparator: t.faint.Style,
		FullKey: t.title.Style, FullDesc: t.faint.Style, FullSeparator: t.faint.Style,
	}
	return h
}
