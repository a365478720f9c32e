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
	light         bool      // the terminal's background
	fewColours    bool      // it has at most 16
	low           bool      // the terminal has no line for the banner of a demonstration
	clock         time.Time // the time in the latest message that has a time
	ticks         time.Time // when the next tickMsg comes; zero: no tick was requested

	fleet session.Fleet
	feed  feed // of the fleet's observers

	wizard    wizard.Wizard // its Step is Away while the dashboard is shown
	dashboard board.Screen
	boarded   bool // the dashboard was shown, and is kept while other screens are shown

	prompt   *prompt
	adding   *prompt // the prompt with a file that was not read yet
	showHelp bool
	mouse    bool   // the program receives the terminal's mouse events
	touched  bool   // a key was pressed
	note     string // the answer to the latest key, until the next key

	pane    viewport.Model // the only part of a screen that scrolls
	paneKey string         // names the content of the pane
	paged   bool           // the pane takes the whole body

	err error
}

// env returns the program's state that screens need.
func (m Model) env() session.Env {
	return session.Env{
		Ctx: m.ctx, Clock: m.options.Now, Now: m.clock, Theme: m.theme, Keys: m.keys, Width: m.width, Height: m.height, Body: m.bodyHeight(),
		Fleet: m.fleet, Boarded: m.boarded, Pair: m.wizard.Pair(), Verified: m.wizard.Verified(),
	}
}

// onBoard reports whether the dashboard is shown, and not the wizard.
func (m Model) onBoard() bool { return m.wizard.Step == wizard.Away }

// room has the methods of the wizard and of the dashboard that the program
// calls.
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

// later returns the new time of the clock. It does not go back, unless somebody
// has set the system's clock back: then waits for a later time would take too
// long.
func (m Model) later(t time.Time) time.Time {
	if t.After(m.clock) || m.clock.Sub(t) > session.ClockStep {
		return t
	}
	return m.clock
}

// prompt asks for one line of text. Without a Submit, it is the palette, and
// asks for one command.
type prompt struct {
	session.PromptMsg
	line     keys.Line
	problem  string   // the problem of the text; it stays until the text changes
	names    []string // possible continuations of the text, if it is a path
	selected int
}

func (p prompt) palette() bool { return p.Submit == nil }
