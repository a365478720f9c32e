// Package tui is the program on a terminal: clusters to choose from, a plan to
// look at, its progress, the live connection, and a dashboard of all of them.
// It has one [tea.Model]; the screens are plain structs in it. Update decides,
// commands act, messages report: no command touches the model, and Update does
// no input or output.
package tui

import (
	"cmp"
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

// Start is what the program opens with.
type Start uint8

const (
	// StartWizard connects two clusters, from the first step that the command
	// line has not answered.
	StartWizard Start = iota
	// StartDashboard shows all connections.
	StartDashboard
	// StartAny is the dashboard if there are connections, else the wizard.
	StartAny
)

// Options of [New].
type Options struct {
	Backend Backend
	Start   Start
	// A and B are the local and the remote cluster, if the command line says
	// which; the zero value is for the admin to choose.
	A, B flows.ContextRef
	// Contexts are those of the dashboard; none stands for all.
	Contexts []flows.ContextRef
	// Params are what is wanted where no connection exists. One that exists
	// keeps its own.
	Params flows.Params
	// Command writes the command line that does the same without this program.
	Command func(Request) string
	// InfoCommand writes the command line that tells of one cluster's peering.
	InfoCommand func(of flows.ContextRef, peer render.ClusterID) string
	// Install says how our operator is brought to a cluster where nothing manages
	// connections, under an ID; nil means not at all. The admin's "" for the ID
	// is for it to choose.
	Install func(flows.ClusterFacts, render.ClusterID) (*flows.Installation, error)
	// Answers completes parameters by what the admin chose in an earlier program for
	// the same clusters; ok is false where that was nothing. nil: nobody knows.
	Answers func(a, b flows.ContextRef, p flows.Params) (_ flows.Params, ok bool)
	// Timeout bounds the waiting of one run; 0 means 5 minutes.
	Timeout time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// ASCII is for terminals and fonts that can't show more.
	ASCII bool
	// Keys are the admin's own; they have to be valid.
	Keys Keys
	// Protected reports whether a context's name has to be typed before its cluster
	// is changed; nil: a yes is enough for all.
	Protected func(flows.ContextRef) bool
}

// Request is something to be done to two clusters, as a command does it.
type Request struct {
	Goal   Goal
	A, B   flows.ContextRef
	Params flows.Params
	// Removal says how much a Disconnect or a Reset takes away.
	Removal flows.RemoveOptions
}

// Goal is what a plan is for.
type Goal uint8

// The goals; each is a command of the same name.
const (
	Connect Goal = iota
	Disconnect
	Reset
)

func (g Goal) String() string { return [...]string{"connect", "disconnect", "reset"}[g] }

// FramesPerSecond is how often the terminal is written to at most. Bubble Tea
// looks that often whether there is something to write, which is half of what an
// idle dashboard costs: measured, 0.1 % of a core for each ten. But the first
// frame, and what is typed, waits for the next one.
const FramesPerSecond = 25

const defaultTimeout = 5 * time.Minute

// ErrInterrupted is what [Model.Err] returns after ctrl+c or a [StopMsg] kept
// the plan from being done.
var ErrInterrupted = errors.New("interrupted")

// StopMsg is a signal from outside: a run stops after the requests that are
// under way, then the program ends.
type StopMsg struct{}

type screen uint8

const (
	screenClusters screen = iota
	screenPreflight
	screenSettings
	screenPlan
	screenApply
	screenLive
	screenDashboard
	screenDetail
)

// Model is the whole program. The zero value is not usable; see [New].
type Model struct {
	ctx     context.Context // ends when nobody reads messages any more
	options Options
	theme   theme
	keys    keyMap
	help    help.Model

	width, height int
	clock         time.Time // as of the latest message that told it
	ticks         time.Time // when the next tickMsg comes; zero: none is under way

	fleet  fleet
	feed   feed                // of the fleet's observers
	pair   [2]flows.ContextRef // the clusters that are worked on; zero: not chosen
	met    [2]flows.ContextRef // the pair that wanted is for
	goal   Goal
	wanted flows.Params // by the admin
	params flows.Params // wanted, unless gateways exist
	fixed  bool         // gateways exist
	chose  answers      // in the form

	current flows.Plan // what is to do by the latest facts

	screen    screen
	clusters  clustersScreen
	preflight preflightScreen
	form      settingsScreen
	plan      planScreen
	apply     applyScreen
	live      liveScreen
	dashboard dashboardScreen
	confirm   *confirm
	prompt    *prompt
	showHelp  bool
	mouse     bool   // the terminal's mouse is ours
	touched   bool   // a key was pressed
	note      string // answers the latest key, until the next one
	copied    string // by the dashboard, to be printed at the end

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
	t := newTheme(o.ASCII, false)
	keys, _ := newKeyMap(o.ASCII).rebound(o.Keys)
	m := Model{
		ctx: ctx, options: o, theme: t, keys: keys, help: newHelp(t),
		wanted: o.Params, params: o.Params, clock: o.Now(), pane: newPane(keys), feed: make(feed, feedSize),
	}
	var none flows.ContextRef
	for s, ref := range [...]flows.ContextRef{flows.A: o.A, flows.B: o.B} {
		if ref != none {
			m.pair[s] = ref
			m.fleet = m.fleet.with(member{Context: Context{Ref: ref}})
		}
	}
	switch {
	case o.Start == StartDashboard:
		m.screen = screenDashboard
	case o.A != none && o.B != none:
		m.screen = screenPlan
	}
	for _, ref := range o.Contexts {
		m.fleet = m.fleet.with(m.fleet.member(ref))
	}
	m.dashboard = newDashboard(o.Contexts, m.clock)
	m.dashboard.board.choose(m.dashboardContexts())
	return m
}

// startMsg makes the first Update start what the first screen needs.
type startMsg struct{}

// Init lets Update begin.
func (m Model) Init() tea.Cmd {
	return tea.Batch(func() tea.Msg { return startMsg{} }, tea.RequestBackgroundColor)
}

// Update takes one message.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	was := m.screen
	m, cmd := m.update(msg)
	if m.screen != was {
		cmd = tea.Batch(cmd, tick(m.ctx, m.options.Now, 0)) // the last one had no need to know the time
	}
	m, steering := m.steer()
	m, asking := m.askRights()
	m = m.arrange()
	m, ticking := m.wake()
	return m, tea.Batch(cmd, steering, asking, ticking)
}

func (m Model) update(msg tea.Msg) (Model, tea.Cmd) {
	switch msg := msg.(type) {
	case startMsg:
		return m.start()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m = m.renewPage()
	case tickMsg:
		m.clock = m.later(time.Time(msg))
		if !m.clock.Before(m.ticks) {
			m.ticks = time.Time{}
		}
		m = m.tellDashboard(nil)
		if m.planned() && (m.screen == screenPlan || m.screen == screenLive) {
			m = m.replan() // what was reported ages
		}
	case contextsMsg:
		return m.updateContexts(msg)
	case newsMsg:
		return m.updateNews(msg)
	case runMsg:
		return m.updateRun(msg)
	case reviewMsg:
		return m.updateReview(msg), nil
	case verifiedMsg:
		return m.updateVerified(msg), nil
	case StopMsg:
		if m.apply.active() && m.screen == screenApply {
			m.apply.phase, m.apply.leave = phaseStopping, true
			return m, m.apply.run.stop
		}
		return m.quit(ErrInterrupted)
	case logsMsg:
		return m.updateLogs(msg)
	case savedMsg:
		return m.updateSaved(msg), nil
	case tea.PasteMsg:
		return m.paste(msg.Content), nil
	case tea.BackgroundColorMsg:
		m.theme = newTheme(m.options.ASCII, !msg.IsDark())
		m.help = newHelp(m.theme)
	case tea.MouseClickMsg:
		return m.updateClick(msg)
	case tea.MouseWheelMsg:
		return m.updateWheel(msg)
	case tea.KeyPressMsg:
		return m.updateKey(msg)
	}
	return m, nil
}

// start reads the kubeconfig files for whatever is shown first: the list of
// clusters needs them now, other screens when the admin goes back to it.
func (m Model) start() (Model, tea.Cmd) {
	next := m.feed.next(m.ctx, m.options.Now, true)
	if m.screen == screenClusters || m.fleet.listing {
		return m, next // steer reads them
	}
	m.fleet.listing = true
	return m, tea.Batch(next, m.list(false))
}

// clockStep is how far back the time has to be for the clock to have been set:
// messages overtake each other by much less.
const clockStep = time.Minute

// later keeps the clock from going back, unless somebody has set it back: what
// waits for a time that was wrong would wait for as long.
func (m Model) later(t time.Time) time.Time {
	if t.After(m.clock) || m.clock.Sub(t) > clockStep {
		return t
	}
	return m.clock
}

// ages is how long what the screen shows stays true if nothing happens; 0 means
// for ever.
func (m Model) ages() time.Duration {
	switch m.screen {
	case screenApply:
		if !m.apply.active() {
			return 0
		}
	case screenDashboard, screenDetail:
		return m.dashboard.ages(m.clock)
	case screenClusters, screenPreflight, screenSettings, screenPlan, screenLive:
	}
	return tickInterval
}

// wake asks for the time when the screen needs it next, unless it was asked for
// already.
func (m Model) wake() (Model, tea.Cmd) {
	d := m.ages()
	next := m.clock.Add(d)
	if d == 0 || !m.ticks.IsZero() && !next.Before(m.ticks) {
		return m, nil
	}
	m.ticks = next
	return m, tick(m.ctx, m.options.Now, d)
}

func (m Model) quit(err error) (Model, tea.Cmd) {
	m.err = err
	return m, tea.Quit
}

// chosen reports whether a side has its cluster.
func (m Model) chosen(s flows.Side) bool { return m.pair[s] != flows.ContextRef{} }

// paired reports whether a cluster is one of the two that are worked on.
func (m Model) paired(ref flows.ContextRef) bool {
	return ref != flows.ContextRef{} && (m.pair[flows.A] == ref || m.pair[flows.B] == ref)
}

// on is the cluster of a side.
func (m Model) on(s flows.Side) member { return m.fleet.member(m.pair[s]) }

// planned reports whether both clusters have been asked.
func (m Model) planned() bool { return m.on(flows.A).asked && m.on(flows.B).asked }

// facts are the latest of both sides.
func (m Model) facts() flows.Facts {
	return flows.Facts{Local: m.on(flows.A).latest, Remote: m.on(flows.B).latest, At: m.clock}
}

// id is the side's cluster ID, if it was ever known, or the one that it will have.
func (m Model) id(s flows.Side) render.ClusterID {
	if id := m.on(s).good.ID; id != "" || m.wanted.Install[s] == nil {
		return id
	}
	return m.wanted.Install[s].ClusterID()
}

// name is what an admin calls a cluster: its ID, or its context while no ID is
// known.
func (m Model) name(s flows.Side) string {
	return cmp.Or(string(m.id(s)), m.contextName(m.on(s)))
}

// peer is the side's view of the connection when it last answered.
func (m Model) peer(s flows.Side) flows.Peer { return m.on(s).good.Peer(m.id(s.Other())) }

// planFor is what the goal takes, by the facts.
func (m Model) planFor(f flows.Facts) flows.Plan {
	switch m.goal {
	case Disconnect:
		return flows.PlanDisconnect(m.removal(), f)
	case Reset:
		return flows.PlanReset(m.removal(), f)
	case Connect:
	}
	return flows.PlanConnect(m.params, f)
}

// removal says how much is to be taken away.
func (m Model) removal() flows.RemoveOptions {
	if !m.plan.localOnly {
		return flows.RemoveOptions{}
	}
	return flows.RemoveOptions{LocalOnly: true, Peer: m.on(flows.B).good.ID}
}

// replan makes the plan of the latest facts. A connection that exists already
// is shown live: to look at it is what most starts of the program are for.
func (m Model) replan() Model {
	facts := m.facts()
	m = m.offerInstallation(facts)
	m.params, m.fixed = flows.Adopt(m.wanted, facts)
	m.current = m.planFor(facts)
	m.plan = m.plan.keep(m.current)
	exists := m.peer(flows.A).Connection != nil && m.peer(flows.B).Connection != nil
	if m.screen == screenPlan && m.goal == Connect && !m.plan.pinned && m.confirm == nil && m.current.Failure() == nil && (m.current.Done() || exists) {
		m.screen = screenLive
	}
	if m.screen == screenPlan && m.goal == Connect && !m.plan.pinned && m.current.Failure() != nil {
		m.screen = screenPreflight // which says why there can be no plan
	}
	if m.screen == screenPreflight {
		m = m.judge()
	}
	return m
}

// offerInstallation makes installing our operator a part of the plan for the
// clusters that need it.
func (m Model) offerInstallation(f flows.Facts) Model {
	if m.options.Install == nil {
		return m
	}
	for _, s := range []flows.Side{flows.A, flows.B} {
		facts := f.Side(s)
		if m.wanted.Install[s] != nil || !facts.Installable() {
			continue
		}
		if i, err := m.options.Install(facts, facts.ID); err == nil {
			m.wanted.Install[s] = i // otherwise the plan says that nothing is installed
		}
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
	case m.screen == screenDashboard || m.screen == screenDetail:
		return cmp.Or(m.copied, m.dashboardGist()+" of "+counted(len(m.dashboard.board.rows), "peering"))
	case m.apply.phase == phaseDone && m.apply.goal != Connect && m.screen == screenLive:
		return fmt.Sprintf("%s and %s are no longer connected. connect again: %s", a, b, m.commandFor(Connect))
	case m.screen == screenLive, m.plan.pinned && m.screen == screenPlan && m.goal == Connect && m.current.Done():
		sideA, sideB := m.status(flows.A), m.status(flows.B)
		return fmt.Sprintf("%s says: %s; %s says: %s. undo: %s", a, sideA.word, b, sideB.word, m.commandFor(Reset))
	case m.apply.changed:
		return "What was applied stays. continue: " + m.command() + "  undo: " + m.commandFor(Reset)
	case m.screen == screenPlan && m.planned() && m.current.Failure() == nil:
		return "Nothing was changed. The same without the program: " + m.command()
	}
	return "Nothing was changed."
}

// command is the command line that reaches the goal.
func (m Model) command() string { return m.commandFor(m.goal) }

func (m Model) commandFor(g Goal) string {
	if m.options.Command == nil {
		return "liqo-tui network " + g.String()
	}
	return m.options.Command(Request{Goal: g, A: m.pair[flows.A], B: m.pair[flows.B], Params: m.params, Removal: m.removal()})
}
