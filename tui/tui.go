// Package tui is the program on a terminal: a plan to look at, its progress,
// and the live connection of two clusters. It has one [tea.Model]; the screens
// are plain structs in it. Update decides, commands act, messages report: no
// command touches the model, and Update does no input or output.
package tui

import (
	"context"
	"errors"
	"fmt"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// Options of [New].
type Options struct {
	// A and B are the local and the remote cluster.
	A, B flows.Cluster
	// Params are what is wanted where no connection exists. One that exists
	// keeps its own.
	Params flows.Params
	// Command writes the command line that does the same without this program.
	Command func(flows.Params) string
	// Timeout bounds the waiting of one run; 0 means 5 minutes.
	Timeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// ASCII is for terminals and fonts that can't show more.
	ASCII bool
}

const defaultTimeout = 5 * time.Minute

// ErrInterrupted is what [Model.Err] returns after ctrl+c or a [StopMsg] kept
// the plan from being done.
var ErrInterrupted = errors.New("interrupted")

// StopMsg is a signal from outside: a run stops after the requests that are
// under way, then the program ends.
type StopMsg struct{}

type screen uint8

const (
	screenPlan screen = iota
	screenApply
	screenLive
)

// sideState is what is known of one cluster.
type sideState struct {
	latest flows.ClusterFacts // the latest answer, which may be a Problem
	good   flows.ClusterFacts // the latest one without a Problem
	asked  bool               // there was an answer
	since  time.Time          // when the Problem began
}

// Model is the whole program. The zero value is not usable; see [New].
type Model struct {
	ctx     context.Context // ends when nobody reads messages any more
	options Options
	theme   theme
	keys    keyMap
	help    help.Model

	width, height int
	began         time.Time
	clock         time.Time // as of the latest message that told it
	ticking       bool      // a tickMsg is under way

	watching watch
	sides    [2]sideState
	wanted   flows.Params // by the admin
	params   flows.Params // wanted, unless gateways exist
	fixed    bool         // gateways exist
	current  flows.Plan   // what is to do by the latest facts

	screen   screen
	plan     planScreen
	apply    applyScreen
	live     liveScreen
	confirm  *confirm
	showHelp bool

	pane    viewport.Model // the one part of a screen that scrolls
	paneKey string         // what it shows

	err error
}

// New is the program before its first message. ctx bounds all that its
// commands do; it must outlive the [tea.Program].
func New(ctx context.Context, o Options) Model {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	t := newTheme(o.ASCII)
	m := Model{
		ctx: ctx, options: o, theme: t, keys: newKeyMap(o.ASCII), help: newHelp(t),
		wanted: o.Params, params: o.Params, clock: o.Now(), pane: viewport.New(),
	}
	m.began = m.clock
	m.watching = newWatch(ctx, 1)
	return m
}

// Init starts to watch both clusters.
func (m Model) Init() tea.Cmd { return m.watchBoth() }

// Update takes one message.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m, cmd := m.update(msg)
	m = m.arrange()
	if m.ages() && !m.ticking {
		m.ticking = true
		cmd = tea.Batch(cmd, tick(m.ctx, m.options.Now))
	}
	return m, cmd
}

func (m Model) update(msg tea.Msg) (Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		m.clock, m.ticking = m.later(time.Time(msg)), false
	case factsMsg:
		return m.updateFacts(msg)
	case runMsg:
		return m.updateRun(msg)
	case StopMsg:
		if m.apply.active() && m.screen == screenApply {
			m.apply.phase, m.apply.leave = phaseStopping, true
			return m, m.apply.run.stop
		}
		return m.quit(ErrInterrupted)
	case tea.KeyPressMsg:
		return m.updateKey(msg)
	}
	return m, nil
}

// later keeps the clock from going back: messages may overtake each other.
func (m Model) later(t time.Time) time.Time {
	if t.After(m.clock) {
		return t
	}
	return m.clock
}

// ages reports whether something on the screen changes only because time passes.
func (m Model) ages() bool {
	return !m.planned() || m.screen == screenLive || m.screen == screenApply && m.apply.active()
}

func (m Model) quit(err error) (Model, tea.Cmd) {
	m.err = err
	return m, tea.Quit
}

// planned reports whether both clusters have been asked.
func (m Model) planned() bool { return m.sides[flows.A].asked && m.sides[flows.B].asked }

// facts are the latest of both sides.
func (m Model) facts() flows.Facts {
	return flows.Facts{Local: m.sides[flows.A].latest, Remote: m.sides[flows.B].latest, At: m.clock}
}

// id is the side's cluster ID, as long as it was ever known.
func (m Model) id(s flows.Side) render.ClusterID { return m.sides[s].good.ID }

// peer is the side's view of the connection when it last answered.
func (m Model) peer(s flows.Side) flows.Peer { return m.sides[s].good.Peer(m.id(s.Other())) }

// learn takes a side's facts in.
func (m Model) learn(s flows.Side, f flows.ClusterFacts) Model {
	state := m.sides[s]
	switch {
	case f.Problem == nil:
		state.good, state.since = f, time.Time{}
	case state.since.IsZero():
		state.since = m.clock
	}
	state.latest, state.asked = f, true
	m.sides[s] = state
	m.live.history[s] = sample(m.live.history[s], m.peer(s).Connection)
	return m
}

func (m Model) updateFacts(msg factsMsg) (Model, tea.Cmd) {
	if msg.watch != m.watching.id {
		return m, nil // from before a run, which observes by itself
	}
	m.clock = m.later(msg.at)
	m = m.learn(msg.side, msg.facts)
	if m.planned() {
		m = m.replan()
	}
	return m, m.watchSide(msg.side, false)
}

// replan makes the plan of the latest facts. A connection that exists already
// is shown live: to look at it is what most starts of the program are for.
func (m Model) replan() Model {
	facts := m.facts()
	m.params, m.fixed = adopt(m.wanted, facts)
	m.current = flows.PlanConnect(m.params, facts)
	m.plan = m.plan.keep(m.current)
	exists := m.peer(flows.A).Connection != nil && m.peer(flows.B).Connection != nil
	if m.screen == screenPlan && !m.plan.pinned && m.confirm == nil && m.current.Failure() == nil && (m.current.Done() || exists) {
		m.screen = screenLive
	}
	return m
}

// Err is why the program ended before the plan was done: [ErrInterrupted], the
// error of the run that was given up, or nil.
func (m Model) Err() error { return m.err }

// Changed reports whether the program changed anything on a cluster.
func (m Model) Changed() bool { return m.apply.changed }

// Summary is one line for the terminal after the program has ended.
func (m Model) Summary() string { return m.theme.plain(m.summary()) }

func (m Model) summary() string {
	a, b := string(m.id(flows.A)), string(m.id(flows.B))
	switch {
	case m.screen == screenLive, m.plan.pinned && m.screen == screenPlan && m.current.Done():
		sideA, sideB := m.status(flows.A), m.status(flows.B)
		return fmt.Sprintf("%s says: %s; %s says: %s. undo: liqo-tui network reset, with the same contexts", a, sideA.word, b, sideB.word)
	case m.apply.changed:
		return "What was applied stays. continue: " + m.command() + "  undo: liqo-tui network reset, with the same contexts"
	case m.planned() && m.current.Failure() == nil:
		return "Nothing was changed. The same without the program: " + m.command()
	}
	return "Nothing was changed."
}

func (m Model) command() string {
	if m.options.Command == nil {
		return "liqo-tui network connect"
	}
	return m.options.Command(m.params)
}
