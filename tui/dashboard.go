package tui

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/render"
)

// dashboardScreen is the peerings of many clusters: the list of them, and the
// pages about one of them.
type dashboardScreen struct {
	open bool // it was shown, and goes on behind other screens
	// visiting is set while another screen shows the selected peering: back
	// leads here again.
	visiting bool

	chosen    map[flows.ContextRef]bool // contexts that were asked for; nil: all
	board     *board
	list      peeringList
	filter    line
	filtering bool // keys go into the filter

	page page
	text []string // of a page that is not made anew each time
	// earlier are the facts from when the diagnosis was opened: what has changed
	// since then tells which way packets move.
	earlier   flows.Facts
	allChecks bool // those that passed, too

	paused time.Time // since when; zero: it is live
	kept   []news    // that came meanwhile
}

// page is what is shown of the selected peering.
type page uint8

const (
	pageOverview page = iota
	pageEvents        // of this peering
	pageAllEvents
	pageYAML
	pageLogs
	pageDiagnosis
)

func (p page) String() string {
	return [...]string{"details", "events", "all events", "YAML", "logs", "diagnosis"}[p]
}

// newDashboard shows the chosen contexts; none stands for all that there are.
func newDashboard(chosen []flows.ContextRef, now time.Time) dashboardScreen {
	b := newBoard(chosen, now)
	d := dashboardScreen{board: b, list: peeringList{board: b}}
	for _, ref := range chosen {
		if d.chosen == nil {
			d.chosen = map[flows.ContextRef]bool{}
		}
		d.chosen[ref] = true
	}
	return d
}

// dashboardContexts are those that were asked for, or all there are.
func (m Model) dashboardContexts() []flows.ContextRef {
	if len(m.options.Contexts) > 0 {
		return m.options.Contexts
	}
	refs := make([]flows.ContextRef, len(m.fleet.members))
	for i, c := range m.fleet.members {
		refs[i] = c.Ref
	}
	return refs
}

func newsOf(r report) news {
	return news{
		ref: r.ref, problem: r.facts.Problem, id: r.facts.ID, uid: r.facts.UID,
		changed: r.changed, gone: r.gone, complete: r.first, events: r.facts.Events,
	}
}

// tellDashboard takes news in, or keeps them for later while it is paused.
func (m Model) tellDashboard(all []news) Model {
	d := &m.dashboard
	if !d.paused.IsZero() {
		for _, n := range all {
			d.kept = keepNews(d.kept, n)
		}
		return m
	}
	d.board.take(m.clock, all)
	return m
}

// keepNews adds news to those that wait. There is one of each context at most,
// so that a long pause costs no more than a short one.
func keepNews(kept []news, n news) []news {
	i := slices.IndexFunc(kept, func(k news) bool { return k.ref == n.ref })
	if i < 0 {
		return append(slices.Clip(kept), n)
	}
	was := kept[i]
	if n.problem != nil { // what it told before is still to be taken in
		was.problem = n.problem
		n = was
	} else if !n.complete && was.problem == nil {
		n.complete = was.complete
		n.gone = append(slices.DeleteFunc(slices.Clone(was.gone), func(id render.ClusterID) bool { return speaksOf(n.changed, id) }), n.gone...)
		for _, r := range was.changed {
			if !speaksOf(n.changed, r.Peer) && !slices.Contains(n.gone, r.Peer) {
				n.changed = append(slices.Clip(n.changed), r)
			}
		}
	}
	kept = slices.Clone(kept)
	kept[i] = n
	return kept
}

func speaksOf(all []flows.Reading, id render.ClusterID) bool {
	return slices.ContainsFunc(all, func(r flows.Reading) bool { return r.Peer == id })
}

// ages is how long the screen stays true if nothing happens.
func (d dashboardScreen) ages(now time.Time) time.Duration {
	next := now.Truncate(time.Minute).Add(time.Minute)
	if wakes := d.board.wakes(); d.paused.IsZero() && wakes.Before(next) {
		next = wakes
	}
	return max(next.Sub(now), coalesce)
}

// subject is the peering that keys are about: the selected row, or the one that
// the page is of, wherever that is in the list; nil when there is none, or no more.
func (m Model) subject() *peering {
	d := m.dashboard
	if m.screen == screenDashboard || !d.list.held {
		return d.list.current()
	}
	return d.board.rows[d.list.selected]
}

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

// turnTo shows a page about the selected peering, and holds on to it.
func (m Model) turnTo(p page) (Model, tea.Cmd) {
	d := &m.dashboard
	if p := m.subject(); p != nil {
		d.list.held, d.list.selected = true, p.id
	}
	m.screen, d.page, d.text = screenDetail, p, nil
	p2 := m.subject()
	switch {
	case p2 == nil:
	case p == pageYAML:
		d.text = m.yamlText(p2)
	case p == pageDiagnosis:
		d.earlier = m.factsOf(p2)
	case p == pageLogs:
		d.text = []string{"Reading" + m.theme.ellipsis}
		return m, m.readLogs(0)
	}
	return m, nil
}

func (m Model) leavePage() (Model, tea.Cmd) {
	if m.dashboard.page != pageOverview && m.dashboard.page != pageAllEvents {
		return m.turnTo(pageOverview)
	}
	m.screen = screenDashboard
	return m, nil
}

// contextsOf are those of both sides; missing is the cluster that has none.
func (m Model) contextsOf(p *peering) (refs [2]flows.ContextRef, missing render.ClusterID) {
	b := m.dashboard.board
	for i, e := range p.ends {
		if !e.chosen {
			missing = e.id
			continue
		}
		refs[i] = b.sources[b.owner[e.id]].ref
	}
	return refs, missing
}

// take makes the selected peering the pair that is worked on; ok is false if
// one of its clusters is not at hand.
func (m Model) take() (_ Model, ok bool) {
	refs, missing := m.contextsOf(m.subject())
	if missing != "" {
		m.note = fmt.Sprintf("This needs both clusters, and %s is not among the dashboard's contexts.", missing)
		return m, false
	}
	m.pair = refs
	return m, true
}

// visit shows the selected peering on a screen for two clusters.
func (m Model) visit(show func(Model) Model) Model {
	m, ok := m.take()
	if !ok {
		return m
	}
	m.dashboard.visiting, m.dashboard.open = true, true
	return show(m)
}

// verifyPeering sends packets from pod to pod, and shows what comes of it.
func (m Model) verifyPeering() (Model, tea.Cmd) {
	m, ok := m.take()
	if !ok {
		return m, nil
	}
	m, turning := m.turnTo(pageOverview)
	m, measuring := m.verify()
	return m, tea.Batch(turning, measuring)
}

// factsOf are those of both clusters of a peering, as a diagnosis needs them.
func (m Model) factsOf(p *peering) flows.Facts {
	refs, _ := m.contextsOf(p)
	return flows.Facts{Local: m.fleet.member(refs[0]).latest, Remote: m.fleet.member(refs[1]).latest, At: m.clock}
}

func (m Model) diagnosisText(p *peering) []string {
	_, missing := m.contextsOf(p)
	ids := [2]render.ClusterID{p.ends[0].id, p.ends[1].id}
	results := diagnosed(m.factsOf(p), m.dashboard.earlier)
	if missing == "" {
		return m.theme.diagnosisLines(results, ids, m.dashboard.allChecks, m.width)
	}
	results = slices.DeleteFunc(results, func(r check.Result) bool {
		return len(r.Sides) != 1 || ids[r.Sides[0]] == missing
	})
	lines := m.theme.wrap(fmt.Sprintf("%s is not among the contexts: only what the other side knows by itself could be checked.", missing), m.width, 0)
	return append(append(lines, ""), m.theme.diagnosisLines(results, ids, m.dashboard.allChecks, m.width)...)
}

// pauseDashboard holds everything still, to be read or copied; news wait.
func (m Model) pauseDashboard() Model {
	d := &m.dashboard
	if d.paused.IsZero() {
		d.paused = m.clock
		return m
	}
	kept := d.kept
	d.paused, d.kept = time.Time{}, nil
	return m.tellDashboard(kept)
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

// savedMsg tells what became of a screen that was to be saved.
type savedMsg struct {
	file string
	err  error
}

// saveScreen writes the screen as text into a new file of the working directory.
func (m Model) saveScreen() (Model, tea.Cmd) {
	text := ansi.Strip(m.content()) + "\n"
	file := "liqo-tui-" + m.clock.Format("20060102-150405") + ".txt"
	return m, func() tea.Msg {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return savedMsg{file, err}
		}
		_, err = f.WriteString(text)
		if closed := f.Close(); err == nil {
			err = closed
		}
		return savedMsg{file, err}
	}
}

func (m Model) updateSaved(msg savedMsg) Model {
	m.note = "The screen is in " + msg.file + "."
	if msg.err != nil {
		m.note = fmt.Sprintf("The screen was not saved: %v.", msg.err)
	}
	return m
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

// From this size on the detail stands beside the list.
const (
	twoPanesWidth  = 120
	twoPanesHeight = 30
)

func (m Model) twoPanes() bool {
	return m.screen == screenDashboard && m.width >= twoPanesWidth && m.height >= twoPanesHeight && m.dashboard.list.current() != nil
}

func (m Model) listWidth() int {
	if m.twoPanes() {
		return m.width * 52 / 100
	}
	return m.width
}

// listRows is how many rows are in sight.
func (m Model) listRows() int {
	return m.dashboard.list.rows(m.theme, m.listWidth(), m.listHeight())
}

func (m Model) listHeight() int {
	height := max(0, m.height-frameLines)
	if m.dashboard.filtering {
		height--
	}
	return max(0, height-len(m.fleet.problems))
}

func (m Model) dashboardBody(height int) []string {
	if m.screen == screenDetail {
		return m.paneLines()
	}
	d, t := m.dashboard, m.theme
	var top []string
	if d.filtering {
		const label = "filter: "
		top = append(top, t.label.Render(label)+d.filter.view(t, m.width-len(label), true))
	}
	for _, err := range m.fleet.problems {
		top = append(top, t.marks[markFail].Render(t.plain(t.glyphs[markFail]+" "+err.Error())))
	}
	left := d.list.view(t, m.listWidth(), height-len(top))
	if !m.twoPanes() {
		return append(top, left...)
	}
	width := m.listWidth()
	right := m.detailOf(d.list.current()).lines(m.width - width - 3)
	lines := top
	for i := range height - len(top) {
		lines = append(lines, pad(t.fit(at(left, i), width), width)+" "+t.faint.Render(t.bar)+" "+at(right, i))
	}
	return lines
}

func (m Model) detailOf(p *peering) detail {
	d := detail{t: m.theme, now: m.dashboard.board.now, p: p, log: &m.dashboard.board.log, names: m.dashboard.board.names(p.id)}
	for i := range p.ends {
		d.peers[i] = m.objectsOf(p, flows.Side(i))
	}
	if refs, _ := m.contextsOf(p); m.live.verify.pair == refs && m.pair == refs {
		d.measured = m.verifyText
	}
	return d
}

// objectsOf are what a side has of a peering; nil if its cluster is not one of
// the dashboard's.
func (m Model) objectsOf(p *peering, s flows.Side) *flows.Peer {
	e := p.ends[s]
	if !e.chosen {
		return nil
	}
	b := m.dashboard.board
	peer := m.fleet.member(b.sources[b.owner[e.id]].ref).good.Peer(p.ends[s.Other()].id)
	return &peer
}

// pageText is what the pane shows.
func (m Model) pageText() []string {
	d, t := m.dashboard, m.theme
	p := m.subject()
	switch {
	case d.page == pageAllEvents:
		return m.eventsText(func(event) bool { return true })
	case p == nil:
		return t.wrap("This peering is gone.", m.width, 0)
	case d.page == pageEvents:
		return m.eventsText(func(e event) bool { return e.id == p.id })
	case d.page == pageYAML, d.page == pageLogs:
		return d.text
	case d.page == pageDiagnosis:
		return m.diagnosisText(p)
	}
	return m.detailOf(p).lines(m.width)
}

// eventsText are the latest events first.
func (m Model) eventsText(keep func(event) bool) []string {
	b := m.dashboard.board
	all := b.log.all(keep)
	if len(all) == 0 {
		return m.theme.wrap("Nothing has happened since the dashboard began to watch, at "+b.began.Format(time.DateTime)+".", m.width, 0)
	}
	var lines []string
	for _, e := range slices.Backward(all) {
		lines = append(lines, m.theme.eventLines(e, b.names(e.id), m.width)...)
	}
	return append(lines, "", m.theme.faint.Render("watching since "+b.began.Format(time.DateTime)))
}

// yamlText is every object of the peering, as each cluster has it.
func (m Model) yamlText(p *peering) []string {
	var lines []string
	for _, s := range []flows.Side{flows.A, flows.B} {
		peer := m.objectsOf(p, s)
		heading := m.theme.title.Render(m.theme.side(s, string(p.ends[s].id), 0))
		if peer == nil {
			lines = append(lines, heading+"  not among the contexts", "")
			continue
		}
		text, err := render.LiveYAML(peer.Objects()...)
		if err != nil {
			text = []byte(err.Error())
		}
		lines = append(lines, heading)
		for line := range strings.Lines(string(text)) {
			lines = append(lines, m.theme.wrap(strings.TrimRight(line, "\n"), m.width, 6)...)
		}
		lines = append(lines, "")
	}
	return lines
}

// dashboardTitle says what is shown, and whether it is live.
func (m Model) dashboardTitle() string {
	t, d := m.theme, m.dashboard
	title := t.title.Render("Peerings")
	if p := m.subject(); m.screen == screenDetail && p != nil && d.page != pageAllEvents {
		title += t.faint.Render(" "+t.into+" ") + t.side(flows.A, string(p.ends[0].id), 0) + " " + t.between + " " + t.side(flows.B, string(p.ends[1].id), 0)
	}
	if m.screen == screenDetail && d.page != pageOverview {
		title += t.faint.Render(" "+t.into+" ") + d.page.String()
	}
	if !d.paused.IsZero() {
		return title + "  " + t.marks[markWarn].Render("paused at "+d.paused.Format(time.TimeOnly))
	}
	if m.screen == screenDetail {
		return title
	}
	contexts := fmt.Sprintf("%d contexts", len(d.board.sources))
	if len(d.board.sources) == 1 {
		contexts = "1 context"
	}
	return title + "  " + t.faint.Render(contexts+", by "+d.board.order.by.String()+t.sorted[map[bool]int{false: 0, true: 1}[d.board.order.reverse]])
}

// dashboardGist is the state of all peerings in a few words.
func (m Model) dashboardGist() string {
	var n [markUnknown + 1]int
	for s, count := range m.dashboard.board.counts {
		n[peeringState(s).mark()] += count
	}
	return fmt.Sprintf("%d ok %d warn %d fail %d other", n[markOK], n[markWarn], n[markFail], n[markPending]+n[markRunning]+n[markUnknown])
}
