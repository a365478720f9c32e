// Package tui is the program on a terminal: a list of clusters to choose from, a plan to
// read, its progress, the live connection, and a dashboard of all connections.
//
// It has one [tea.Model] with two rooms: [wizard.Wizard] and the dashboard, [board.Screen].
// Update decides, commands act, messages report: no command touches the model, and Update
// does no input or output. These are the ways of messages:
//
//   - A key: Update in tui.go, updateKey in view.go. A key that has a command of [keys.Map]
//     becomes the message of that command. commands.go has the commands of every screen; a
//     room has its own (wizard/moves.go, board/commands.go).
//   - A change of a cluster: observe.go reads it and updateNews stores it in the
//     [session.Fleet]; both rooms are drawn from the fleet. steer.go decides which clusters
//     are watched.
//   - A run of a plan: wizard/engine.go turns events of the engine into [wizard.RunMsg].
//   - An action that a room needs from the program, such as a prompt or a saved file: the room
//     posts a message of package session by [session.Env].
//
// To draw a frame, View in view.go asks the shown room for its title and lines. The rooms
// build lines with package draw, which knows no clusters.
package tui

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui/board"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

type (
	// Options of [New].
	Options = session.Options
	// Start is the first screen of the program.
	Start = session.Start
	// Request is a change of two clusters that a command can also make.
	Request = session.Request
	// Backend gives the program its clusters.
	Backend = session.Backend
	// Context is one entry of a kubeconfig.
	Context = session.Context
)

// The first screens, and the purposes of a [Request].
const (
	StartWizard    = session.StartWizard
	StartDashboard = session.StartDashboard
	StartAny       = session.StartAny
	Connect        = session.Connect
	Reset          = session.Reset
)

// FramesPerSecond limits how often the terminal is written. At this rate, Bubble Tea checks
// whether there is a frame to write, which is nearly the only cost of an idle dashboard:
// 0.65 % of a core at 25 a second, 0.02 % at 1 (measured). The first frame, and the answer
// to a key, wait for the next check: 67 ms at most.
const FramesPerSecond = 15

const defaultTimeout = 5 * time.Minute

// ErrInterrupted is the result of [Model.Err] if ctrl+c or a [StopMsg] ended the program
// before the plan was done.
var ErrInterrupted = session.ErrInterrupted

// StopMsg stands for a signal: a run stops after the requests that have begun, then the
// program ends.
type StopMsg = session.StopMsg

// New returns the program before its first message. ctx limits all commands. It must
// outlive the [tea.Program].
func New(ctx context.Context, o session.Options) Model {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	t := o.Theme(false)
	k, _ := keys.NewMap(o.ASCII).Rebound(o.Keys)
	m := Model{
		ctx: ctx, options: o, theme: t, keys: k, help: newHelp(t), wizard: wizard.New(o),
		clock: o.Now(), pane: newPane(k), feed: make(feed, feedSize),
	}
	for _, ref := range m.wizard.Pair() {
		if ref != (flows.ContextRef{}) {
			m.fleet = m.fleet.With(session.Member{Context: session.Context{Ref: ref}})
		}
	}
	for _, ref := range o.Contexts {
		m.fleet = m.fleet.With(m.fleet.Member(ref))
	}
	m.dashboard = board.New(o, m.env())
	if o.Past != nil {
		return m.recall()
	}
	return m
}

// startMsg makes the first Update start the commands that the first screen needs.
type startMsg struct{}

// Init requests the first Update.
func (m Model) Init() tea.Cmd {
	return tea.Batch(func() tea.Msg { return startMsg{} }, tea.RequestBackgroundColor)
}

// Update handles one message.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	step, detail := m.wizard.Step, m.dashboard.Detail
	m, cmd := m.update(msg)
	m.boarded = m.boarded || m.onBoard()
	if m.wizard.Step != step || m.dashboard.Detail != detail {
		cmd = tea.Batch(cmd, tick(m.ctx, m.options.Now, 0)) // the last screen did not need the time
	}
	m, steering := m.steer()
	var asking tea.Cmd
	m.wizard, asking = m.wizard.Ask(m.env())
	m = m.arrange()
	m, ticking := m.wake()
	return m, tea.Batch(cmd, steering, asking, ticking)
}

func (m Model) update(msg tea.Msg) (Model, tea.Cmd) {
	switch msg := msg.(type) {
	case startMsg:
		return m.start()
	case tea.WindowSizeMsg:
		m.low = msg.Height == minHeight
		msg.Height -= m.bannerHeight()
		m.width, m.height = msg.Width, msg.Height
		return m.tell(msg)
	case tickMsg:
		m.clock = m.later(time.Time(msg))
		if !m.clock.Before(m.ticks) {
			m.ticks = time.Time{}
		}
		m.dashboard = m.dashboard.Take(m.env(), nil)
		if m.wizard.Step == wizard.Plan || m.wizard.Step == wizard.Live {
			m.wizard = m.wizard.Replan(m.env()) // reports get older, and the plan depends on their age
		}
	case contextsMsg:
		return m.updateContexts(msg)
	case newsMsg:
		return m.updateNews(msg)
	case wizard.RunMsg:
		return m.updateRun(msg)
	case session.VerifiedMsg:
		m.clock = m.later(msg.At)
		m.dashboard = m.dashboard.Tested(m.env(), msg)
		return m.tell(msg)
	case savedMsg:
		return m.updateSaved(msg), nil
	case session.NoteMsg:
		m.note = string(msg)
	case session.QuitMsg:
		return m.quit(msg.Err)
	case session.CopyMsg:
		m.note = "Copied, if the terminal allows it, and printed at the end: " + string(msg)
		return m, tea.SetClipboard(string(msg))
	case session.RewatchMsg:
		return m.rewatch()
	case session.SaveMsg:
		return m.save(msg)
	case session.PromptMsg:
		m.prompt = &prompt{PromptMsg: msg}
	case completedMsg:
		m = m.completed(msg)
	case session.AddFileMsg:
		m.fleet.Added = append(slices.Clip(m.fleet.Added), string(msg))
		m.fleet.Listing = true
		return m, m.list(0)
	case globalMsg:
		return m.act(msg)
	case session.Trick:
		return m, m.play(msg)
	case tea.PasteMsg:
		return m.paste(msg)
	case tea.BackgroundColorMsg:
		m.light = !msg.IsDark()
		return m.themed(), nil
	case tea.ColorProfileMsg:
		m.fewColours = msg.Profile < colorprofile.ANSI256
		return m.themed(), nil
	case tea.MouseClickMsg:
		return m.updateClick(msg)
	case tea.MouseWheelMsg:
		return m.updateWheel(msg)
	case tea.KeyPressMsg:
		m.clock = m.later(m.options.Now())
		return m.updateKey(msg)
	default:
		return m.tell(msg)
	}
	return m, nil
}

// themed sets the theme for what is known of the terminal.
func (m Model) themed() Model {
	m.theme = m.options.Theme(m.light)
	if m.fewColours {
		m.theme = m.theme.Reversing()
	}
	m.help = newHelp(m.theme)
	return m
}

// tell passes a message to the room that handles it, and then handles the messages that the
// room has posted. Messages of commands and keys go to the shown room. Each room knows its
// own other messages.
func (m Model) tell(msg tea.Msg) (Model, tea.Cmd) {
	var posted []tea.Msg
	e := m.env()
	e.Post = func(msg tea.Msg) { posted = append(posted, msg) }
	shown := false
	switch msg.(type) {
	case keys.MoveMsg, session.ClickMsg, tea.PasteMsg:
		shown = true
	}
	onBoard := m.onBoard()
	cmds := make([]tea.Cmd, 2)
	if onBoard || !shown {
		m.dashboard, cmds[0] = m.dashboard.Update(e, msg)
	}
	if !onBoard || !shown {
		m.wizard, cmds[1] = m.wizard.Update(e, msg)
	}
	return m.take(posted, cmds...)
}

// take handles messages that rooms have posted.
func (m Model) take(posted []tea.Msg, cmds ...tea.Cmd) (Model, tea.Cmd) {
	for _, msg := range posted {
		next, cmd := m.update(msg)
		m, cmds = next, append(cmds, cmd)
	}
	return m, tea.Batch(cmds...)
}

// updateRun stores the news of a run.
func (m Model) updateRun(msg wizard.RunMsg) (Model, tea.Cmd) {
	if !m.wizard.Follows(msg) {
		return m, nil
	}
	pair := m.wizard.Pair()
	for _, e := range msg.Events {
		m.clock = m.later(e.At)
		m = m.learn(pair[flows.A], e.Facts.Sides[flows.A]).learn(pair[flows.B], e.Facts.Sides[flows.B])
	}
	m.clock = m.later(msg.At)
	if n := len(msg.Events); n > 0 && m.boarded { // no watch observes these two clusters now
		var all []board.News
		for side, ref := range pair {
			if f := msg.Events[n-1].Facts.Sides[flows.Side(side)]; f.Context == ref { // the run has observed this cluster
				all = append(all, seenByRun(ref, f))
			}
		}
		m.dashboard = m.dashboard.Take(m.env(), all)
	}
	return m.tell(msg)
}

// start reads the kubeconfig files. The list of clusters needs them at once. Other screens
// need them only when the admin goes back to the list.
func (m Model) start() (Model, tea.Cmd) {
	next := m.feed.next(m.ctx, m.options.Now, true)
	if m.wizard.Step == wizard.Clusters || m.fleet.Listing {
		return m, next // steer reads them
	}
	m.fleet.Listing = true
	return m, tea.Batch(next, m.list(0))
}

// ages returns the time after which the screen has to change although nothing happens; 0
// means never.
func (m Model) ages() time.Duration {
	switch {
	case m.onBoard():
		return m.dashboard.Ages(m.clock)
	case m.wizard.Step == wizard.Apply && !m.wizard.Running():
		return 0
	}
	return tickInterval
}

// wake requests the next tick when the screen needs it, unless it was already requested.
func (m Model) wake() (Model, tea.Cmd) {
	d := m.ages()
	next := m.clock.Add(d)
	if d == 0 || !m.ticks.IsZero() && !next.Before(m.ticks) {
		return m, nil
	}
	m.ticks = next
	return m, tick(m.ctx, m.options.Now, d)
}

// Err returns the reason that the program ended before the plan was done: [ErrInterrupted],
// or the error of the run on which the admin gave up; nil if there is none.
func (m Model) Err() error { return m.err }

// Changed reports whether the program changed anything on a cluster.
func (m Model) Changed() bool { return m.wizard.Changed() }

// Answers returns the settings that the admin has chosen and begun to apply, as a
// suggestion for the next program. ok is false if there are none.
func (m Model) Answers() (a, b flows.ContextRef, p flows.Params, ok bool) {
	return m.wizard.Answers()
}

// Summary returns the text for the terminal after the end of the program. A command has its
// own line, so that it can be copied.
func (m Model) Summary() string {
	lines := strings.Split(m.room().Summary(m.env()), "\n")
	for i, line := range lines {
		lines[i] = m.theme.Plain(line)
	}
	if m.wizard.Measures() { // no time is left to remove the test pods
		lines = append(lines, "A measurement was under way: Kubernetes deletes its test pods within 3 minutes.")
	}
	if m.options.Demo != nil { // real contexts may have the same names
		lines = append([]string{"This was a demonstration: nothing is real, and commands are examples."}, lines...)
	}
	return strings.Join(lines, "\n")
}
