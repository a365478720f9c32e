package tui

import (
	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// globalMsg is the action of a command that every screen has.
type globalMsg uint8

const (
	showHelp globalMsg = iota
	quit
	switchMouse
	openPalette
)

func (m Model) act(msg globalMsg) (Model, tea.Cmd) {
	switch msg {
	case showHelp:
		m.showHelp = true
	case quit:
		return m.quit(nil)
	case switchMouse:
		m.mouse, m.note = !m.mouse, "The terminal has its mouse back."
		if m.mouse {
			m.note = "The mouse selects and scrolls; " + keys.Called(m.keys.Mouse) + " ends that."
		}
	case openPalette:
		m.prompt = &prompt{PromptMsg: session.PromptMsg{Title: "What to do?"}}
	}
	return m, nil
}

// newPane returns the part of a screen that scrolls, with the keys of all
// screens.
func newPane(k keys.Map) viewport.Model {
	pane := viewport.New()
	pane.KeyMap = viewport.KeyMap{
		Up: k.Up, Down: k.Down, PageUp: k.PageUp, PageDown: k.PageDown,
		Left: key.NewBinding(key.WithKeys("left")), Right: key.NewBinding(key.WithKeys("right")),
	}
	return pane
}

// commands returns the commands of the present screen, the most likely first.
// During a run, the commands of every screen are left out.
func (m Model) commands() []keys.Command {
	k := m.keys
	commands := append(m.room().Commands(m.env()), m.tricks()...)
	commands = append(commands, keys.Command{Binding: k.Help, Msg: showHelp, Group: keys.Everywhere})
	if m.wizard.Step == wizard.Apply {
		return commands
	}
	if m.onBoard() && m.dashboard.Detail {
		k.Quit.SetEnabled(false) // there q goes back to the list
	}
	return append(commands, keys.In(keys.Everywhere,
		keys.Command{Binding: k.Quit, Msg: quit},
		keys.Command{Binding: k.Mouse, Msg: switchMouse},
		keys.Command{Binding: k.Palette, Msg: openPalette, Quiet: true},
	)...)
}

// do runs the command of a key. ok is false if the key has no command.
func (m Model) do(msg tea.KeyPressMsg) (_ Model, _ tea.Cmd, ok bool) {
	for _, c := range m.commands() {
		if key.Matches(msg, c.Binding) {
			next, cmd := m.update(c.Msg)
			return next, cmd, true
		}
	}
	return m, nil, false
}

// short returns the keys in the help on the screen's last line.
func (m Model) short() []key.Binding {
	k := m.keys
	switch {
	case m.showHelp:
		return []key.Binding{k.Back, k.Up, k.Down, keys.Named(k.Quit, "close help")}
	case m.wizard.Answering(k) != nil:
		return m.wizard.Answering(k)
	case m.prompt != nil && m.prompt.Path:
		return []key.Binding{keys.Named(k.Enter, "ok"), keys.Named(k.Next, "complete the path"), keys.Named(k.Back, "cancel")}
	case m.prompt != nil:
		return []key.Binding{keys.Named(k.Enter, "ok"), keys.Named(k.Back, "cancel")}
	case m.onBoard() && m.dashboard.Typing(), !m.onBoard() && m.wizard.Typing():
		return []key.Binding{keys.Named(k.Enter, "end typing"), keys.Named(k.Back, "clear it")}
	}
	var own, global []key.Binding
	for _, c := range m.commands() {
		switch {
		case m.onBoard() && m.dashboard.Detail && c.Help().Key == k.Quit.Help().Key:
		case c.Quiet, c.Shown, c.Help().Key == k.Mouse.Help().Key: // only the palette and the help show these
		case !m.onBoard() && m.wizard.Writes(m.env()) && c.Help().Key == k.Quit.Help().Key: // there the key would be written into a text
		case c.Help().Key == k.Help.Help().Key, c.Help().Key == k.Quit.Help().Key:
			global = append(global, c.Binding)
		default:
			own = append(own, c.Binding)
		}
	}
	// The keys for help and for the end stay visible if there is little room.
	first := min(len(own), 2)
	if m.width < 60 {
		first = min(len(own), 1)
	}
	out := append(append([]key.Binding{}, own[:first]...), global...)
	return append(out, own[first:]...)
}

func newHelp(t draw.Theme) help.Model {
	h := help.New()
	h.Ellipsis, h.ShortSeparator, h.FullSeparator = t.Ellipsis, t.Dot, "   "
	h.Styles = help.Styles{
		Ellipsis: t.Faint.Style, ShortKey: t.Title.Style, ShortDesc: t.Faint.Style, ShortSeparator: t.Faint.Style,
		FullKey: t.Title.Style, FullDesc: t.Faint.Style, FullSeparator: t.Faint.Style,
	}
	return h
}
