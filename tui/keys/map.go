// Package keys has all keys of the program, the admin's own choices of keys in
// the configuration file, and lines of text that are typed.
package keys

import (
	"charm.land/bubbles/v2/key"
)

// Map has all keys of the program.
type Map struct {
	Up, Down, PageUp, PageDown, Top, Bottom   key.Binding
	Enter, Back, Next, Previous, Left, Right  key.Binding
	Apply, Plan, Retry, Refresh               key.Binding
	Settings, Disconnect, Reset, Swap         key.Binding
	LocalOnly                                 key.Binding
	AddFile, Filter, Info, Dashboard, Connect key.Binding
	Explain, Problems, Verify                 key.Binding
	CopyCommand, Mouse, Palette               key.Binding
	Address                                   key.Binding
	Events, AllEvents, YAML, Pause, Save      key.Binding
	Diagnose, Logs, Wide                      key.Binding
	SortName, SortStatus, SortLatency         key.Binding
	HandOver, Services                        key.Binding
	SortTraffic, SortAge                      key.Binding
	Grow, Shrink, Hide, Matrix                key.Binding
	Yes, No, Choose                           key.Binding
	CutUDP, SlowLink, KillGateway, AddCluster key.Binding // only in a demonstration
	Help, Quit, Interrupt                     key.Binding
}

// NewMap returns the usual keys, with names that the terminal can show.
func NewMap(ascii bool) Map {
	arrow := func(fancy, plain string) string {
		if ascii {
			return plain
		}
		return fancy
	}
	bind := func(label, text string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, text))
	}
	return Map{
		Up: bind(arrow("↑/k", "up/k"), "up", "up", "k"), Down: bind(arrow("↓/j", "down/j"), "down", "down", "j"),
		PageUp: bind("pgup", "scroll up", "pgup", "ctrl+u"), PageDown: bind("pgdn", "scroll down", "pgdown", "ctrl+d"),
		Top: bind("g", "to the top", "g", "home"), Bottom: bind("G", "to the end", "G", "end"),
		Enter: bind("enter", "open", "enter"), Back: bind("esc", "back", "esc"),
		Next: bind("tab", "next field", "tab", "down"), Previous: bind("shift+tab", "previous field", "shift+tab", "up"),
		Left: bind(arrow("←", "left"), "previous choice", "left"), Right: bind(arrow("→", "right"), "next choice", "right"),
		Apply: bind("a", "apply", "a"), Plan: bind("p", "plan", "p"), Retry: bind("r", "run again", "r"),
		Refresh:  bind("r", "refresh", "r"),
		Settings: bind("C", "change settings", "C"), Disconnect: bind("x", "disconnect", "x"), Reset: bind("X", "reset", "X"),
		LocalOnly: bind("O", "remove on one cluster only", "O"),
		Swap:      bind("R", "swap server and client", "R"),
		AddFile:   bind("F", "add a kubeconfig file", "F"), Filter: bind("/", "filter", "/"), Info: bind("i", "details", "i"),
		Dashboard: bind("d", "dashboard", "d"), Connect: bind("n", "new connection", "n"),
		Explain: bind("ctrl+e", "explain", "ctrl+e"), Problems: bind("f", "only problems", "f"), Verify: bind("v", "verify with packets", "v"),
		Address:     bind("u", "address to use", "u"),
		CopyCommand: bind("c", "copy command", "c"), Mouse: bind("m", "mouse on or off", "m"), Palette: bind(":", "commands", ":"),
		Events: bind("e", "timeline", "e"), AllEvents: bind("E", "timelines of all", "E"), YAML: bind("y", "YAML of its objects", "y"),
		Wide: bind("w", "list alone, more columns", "w"), Grow: bind("+", "more of the list", "+"), Shrink: bind("-", "more of the detail", "-"),
		Matrix:   bind("t", "matrix of clusters", "t"),
		Services: bind("b", "Services by name", "b"),
		Hide:     bind("h", "hide unreachable clusters", "h"),
		Diagnose: bind("D", "diagnose", "D"), Logs: bind("l", "gateways' logs", "l"),
		Pause: bind("z", "pause", "z"), Save: bind("s", "save this screen", "s"), HandOver: bind("o", "report for a colleague", "o"),
		SortName: bind("N", "sort by name", "N"), SortStatus: bind("S", "sort by status", "S"),
		SortLatency: bind("L", "sort by latency", "L"), SortTraffic: bind("T", "sort by traffic", "T"), SortAge: bind("A", "sort by age", "A"),
		CutUDP: bind("1", "cut UDP", "1"), SlowLink: bind("2", "slow link", "2"),
		KillGateway: bind("3", "kill a gateway", "3"), AddCluster: bind("4", "new cluster", "4"),
		Yes: bind("y", "yes", "y"), No: bind("n", "no", "n", "esc"),
		Choose: bind("tab", "choose", "tab", "left", "right", "up", "down", "h", "j", "k", "l"),
		Help:   bind("?", "help", "?"), Quit: bind("q", "quit", "q"), Interrupt: bind("ctrl+c", "stop", "ctrl+c"),
	}
}

// Called returns the name of a key for sentences.
func Called(b key.Binding) string { return b.Help().Key }

// Named returns a key with the text for its action on this screen.
func Named(b key.Binding, text string) key.Binding {
	b.SetHelp(b.Help().Key, text)
	return b
}
