package tui

import (
	"context"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/board"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// Model is the whole program. The zero value is not usable; see [New].
type Model struct {
	ctx     context.Context // ends when nobody reads messages any more
	options session.Options
	theme   draw.Theme
	keys    keys.Map
	help    help.Model

	width, height int
	clock         time.Time // as of the latest message that told it
	ticks         time.Time // when the next tickMsg comes; zero: none is under way

	fleet session.Fleet
	feed  feed // of the fleet's observers

	wizard    wizard.Wizard // which is away while the dashboard is shown
	dashboard board.Screen
	boarded   bool // the dashboard was shown, and goes on behind other screens

	prompt   *prompt
	adding   *prompt // that named a file which was not read yet
	showHelp bool
	mouse    bool   // the terminal's mouse is ours
	touched  bool   // a key was pressed
	note     string // answers the latest key, until the next one

	pane    viewport.Model // the one part of a screen that scrolls
	paneKey string         // what it shows
	paged   bool           // it has the whole body

	err error
}

// env is what screens know of the program.
func (m Model) env() session.Env {
	return session.Env{
		Ctx: m.ctx, Clock: m.options.Now, Now: m.clock, Theme: m.theme, Keys: m.keys, Width: m.width, Height: m.height, Body: m.bodyHeight(),
		Fleet: m.fleet, Boarded: m.boarded, Pair: m.wizard.Pair(), Verified: m.wizard.Verified(),
	}
}

// onBoard reports whether the dashboard is shown, and not the wizard.
func (m Model) onBoard() bool { return m.wizard.Step == wizard.Away }

// room is what the program asks of the wizard and of the dashboard.
type room interface {
	Commands(session.Env) []keys.Command
	Text(session.Env) session.Text
	View(session.Env) []string
	Heading(session.Env) string
	Title(session.Env) string
	Progress(session.Env) string
	Gist(session.Env) string
	Summary(session.Env) string
	Typing() bool
}

// room is the one that is shown.
func (m Model) room() room {
	if m.onBoard() {
		return m.dashboard
	}
	return m.wizard
}

func (m Model) quit(err error) (Model, tea.Cmd) {
	m.err = err
	return m, tea.Quit
}

// later keeps the clock from going back, unless somebody has set it back: what
// waits for a time that was wrong would wait for as long.
func (m Model) later(t time.Time) time.Time {
	if t.After(m.clock) || m.clock.Sub(t) > session.ClockStep {
		return t
	}
	return m.clock
}

// prompt asks for one line of text, or, without a Submit, for one command: that
// is the palette.
type prompt struct {
	session.PromptMsg
	line     keys.Line
	problem  string   // with the text; it stays until the text changes
	names    []string // that the text can go on as, if it is a path
	selected int
}

func (p prompt) palette() bool { return p.Submit == nil }
