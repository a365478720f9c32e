package tui

import (
	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
)

// keyMap is every key of the program. Help is made from it.
type keyMap struct {
	up, down, pageUp, pageDown, open, back key.Binding
	apply, swap, service, copyCommand      key.Binding
	plan, retry, resume, leave             key.Binding
	yes, no, choose, take                  key.Binding
	help, quit, interrupt                  key.Binding
}

func newKeyMap(ascii bool) keyMap {
	upDown := [2]string{"↑/k", "↓/j"}
	if ascii {
		upDown = [2]string{"up/k", "down/j"}
	}
	bind := func(label, text string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, text))
	}
	return keyMap{
		up: bind(upDown[0], "up", "up", "k"), down: bind(upDown[1], "down", "down", "j"),
		pageUp: bind("pgup", "scroll up", "pgup", "ctrl+u"), pageDown: bind("pgdn", "scroll down", "pgdown", "ctrl+d"),
		open: bind("enter", "diff", "enter"), back: bind("esc", "back", "esc"),
		apply: bind("a", "apply", "a"), swap: bind("s", "swap server", "s"),
		service: bind("t", "service type", "t"), copyCommand: bind("c", "copy command", "c"),
		plan: bind("p", "plan", "p"), retry: bind("r", "run again", "r"),
		resume: bind("c", "continue", "c"), leave: bind("k", "keep and leave", "k"),
		yes: bind("y", "yes", "y"), no: bind("n", "no", "n", "esc"), choose: bind("tab", "choose", "tab", "left", "right"),
		take: bind("enter", "take the choice", "enter"),
		help: bind("?", "help", "?"), quit: bind("q", "quit", "q"), interrupt: bind("ctrl+c", "stop", "ctrl+c"),
	}
}

// short is the help on the screen's last line.
func (m Model) short() []key.Binding {
	k := m.keys
	stop := k.interrupt
	switch {
	case m.showHelp:
		return []key.Binding{k.back, k.up, k.down, k.quit}
	case m.confirm != nil:
		return []key.Binding{k.yes, k.no, k.choose, k.take}
	case m.screen == screenApply:
		return m.apply.short(k)
	case m.screen == screenLive:
		if m.pane.TotalLineCount() > m.pane.Height() {
			return []key.Binding{k.help, k.quit, k.plan, k.pageDown}
		}
		return []key.Binding{k.help, k.quit, k.plan}
	case m.plan.zoom:
		return []key.Binding{k.back, k.up, k.down, k.quit}
	case !m.planned():
		return []key.Binding{k.quit, k.help, stop}
	case m.current.Failure() != nil:
		return []key.Binding{k.retry, k.quit, k.help}
	case m.current.Done():
		return []key.Binding{k.help, k.quit, k.back}
	}
	return append([]key.Binding{k.apply, k.help, k.quit, k.open, k.copyCommand}, m.choices()...)
}

// choices are the parameters that can be changed on the plan screen.
func (m Model) choices() []key.Binding {
	if m.fixed {
		return nil
	}
	return []key.Binding{m.keys.swap, m.keys.service}
}

// full is the help overlay, a group for each screen.
func (k keyMap) full() [][]key.Binding {
	return [][]key.Binding{
		{k.up, k.down, k.pageUp, k.pageDown, k.open, k.back},
		{k.apply, k.swap, k.service, k.copyCommand, k.plan, k.retry},
		{k.resume, k.leave, k.help, k.quit, k.interrupt},
	}
}

func newHelp(t theme) help.Model {
	h := help.New()
	h.Ellipsis, h.ShortSeparator, h.FullSeparator = t.ellipsis, t.dot, "   "
	h.Styles = help.Styles{
		Ellipsis: t.faint, ShortKey: t.title, ShortDesc: t.faint, ShortSeparator: t.faint,
		FullKey: t.title, FullDesc: t.faint, FullSeparator: t.faint,
	}
	return h
}
