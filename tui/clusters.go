package tui

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/sahilm/fuzzy"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// clustersScreen lists the contexts of all kubeconfig files, with what is known
// of each cluster, for two of them to be chosen.
type clustersScreen struct {
	selected  flows.ContextRef // by name: rows come and go
	filter    line
	filtering bool // keys go into the filter
	info      bool // the selected cluster has the whole screen
}

// clusterRow is one context on the screen.
type clusterRow struct {
	member
	status
	side    string // "A" or "B" when it is chosen
	refusal string // why it can't be chosen now; "" when it can
}

// keep holds the selection as long as its row is there.
func (s clustersScreen) keep(rows []clusterRow) clustersScreen {
	if len(rows) > 0 && indexOfRow(rows, s.selected) < 0 {
		s.selected = rows[0].Ref
	}
	return s
}

func indexOfRow(rows []clusterRow, ref flows.ContextRef) int {
	return slices.IndexFunc(rows, func(r clusterRow) bool { return r.Ref == ref })
}

// choosing is the side that the next choice is for. The other one may have its
// cluster already.
func (m Model) choosing() flows.Side {
	if m.chosen(flows.A) {
		return flows.B
	}
	return flows.A
}

// clusterRows are the contexts that the filter lets through.
func (m Model) clusterRows() []clusterRow {
	var rows []clusterRow
	for _, known := range m.fleet.members {
		c := *known
		r := clusterRow{member: c, status: m.clusterStatus(c), refusal: m.refusal(c)}
		for _, s := range []flows.Side{flows.A, flows.B} {
			if m.pair[s] == c.Ref {
				r.side = s.String()
			}
		}
		rows = append(rows, r)
	}
	text := strings.TrimSpace(m.clusters.filter.String())
	if text == "" {
		return rows
	}
	words := make([]string, len(rows))
	for i, r := range rows {
		words[i] = strings.Join([]string{r.Ref.Name, string(r.good.ID), r.word, r.Server, r.File}, " ")
	}
	var matching []clusterRow
	for _, match := range fuzzy.FindNoSort(text, words) {
		matching = append(matching, rows[match.Index])
	}
	return matching
}

// clusterStatus is what a probe has told, in a word, with the reason.
func (m Model) clusterStatus(c member) status {
	if c.Problem != "" {
		return status{markFail, "not usable", c.Problem}
	}
	if c.probing() {
		return status{markRunning, "asking", askedText(m.clock.Sub(c.began)) + ", no answer yet"}
	}
	if p := c.latest.Problem; p != nil {
		word := map[flows.ProblemKind]string{flows.Unauthorized: "login refused", flows.Forbidden: "not allowed"}[p.Kind]
		return status{markFail, cmp.Or(word, "no answer"), strings.TrimSuffix(p.Message, ".") + withHint(p.Hint)}
	}
	if why := misplaced(c); why != "" {
		return status{markFail, "elsewhere", why}
	}
	if c.good.Software == flows.NoSoftware {
		why := "It has neither Liqo nor the liqo-tui operator."
		if m.options.Install != nil {
			why += " When you choose it, installing the operator becomes a part of the plan."
		}
		return status{markWarn, "nothing installed", why}
	}
	if m.isProtected(c.Ref) {
		return status{markOK, "ready, protected", "It is protected by your configuration: to change it, you type its name."}
	}
	return status{markOK, "ready", ""}
}

// misplaced says where the installation of a cluster is, "" if that is where it
// was looked for. Only the command line can name another namespace.
func misplaced(c member) string {
	s := flows.InstalledElsewhere(flows.A, c.good)
	if s == nil || c.good.Software != flows.NoSoftware {
		return ""
	}
	return s.Reason + withHint(fmt.Sprintf("start liqo-tui with --context %s --liqo-namespace %s", c.Ref.Name, c.good.Elsewhere.Namespace))
}

func withHint(hint string) string {
	if hint == "" {
		return ""
	}
	return ". To do: " + hint
}

// refusal says why a cluster can't be chosen for the side that is next.
func (m Model) refusal(c member) string {
	other := m.choosing().Other()
	taken := m.on(other).good
	switch {
	case m.paired(c.Ref):
		return fmt.Sprintf("it is %s already", other)
	case c.Problem != "":
		return c.Problem
	case c.probing():
		return "it has not answered yet"
	case c.latest.Problem != nil:
		return c.latest.Problem.Message
	case misplaced(c) != "":
		return misplaced(c)
	case m.chosen(other) && taken.UID == c.good.UID:
		return fmt.Sprintf("it is the same cluster as %s, seen through another context: both have the UID %s", other, c.good.UID)
	case m.chosen(other) && c.good.ID != "" && taken.ID == c.good.ID:
		return fmt.Sprintf("it calls itself %q, as %s does: one of them needs another cluster ID", c.good.ID, other)
	case c.good.Software == flows.NoSoftware && c.good.ID == "" && m.options.Install == nil:
		return fmt.Sprintf("it has neither Liqo nor the liqo-tui operator. To do: liqo-tui install --context %s", c.Ref.Name)
	}
	return ""
}

// twins are other contexts that lead to the same cluster.
func (m Model) twins(c member) []string {
	var names []string
	for _, other := range m.fleet.members {
		if other.Ref != c.Ref && c.good.UID != "" && other.good.UID == c.good.UID {
			names = append(names, m.contextName(*other))
		}
	}
	return names
}

// contextName names a context, with its file where another file has the same.
func (m Model) contextName(c member) string {
	name := cmp.Or(c.Ref.Name, "current context")
	same := slices.ContainsFunc(m.fleet.members, func(o *member) bool { return o.Ref != c.Ref && o.Ref.Name == c.Ref.Name })
	if same {
		name += " (" + filepath.Base(c.File) + ")"
	}
	return name
}

func (m Model) clusterCommands() []command {
	k := m.keys
	if m.clusters.info {
		return []command{{Binding: k.back, do: func(m Model) (Model, tea.Cmd) { m.clusters.info = false; return m, nil }}}
	}
	choose := command{Binding: named(k.enter, "choose "+m.choosing().String()), do: Model.chooseCluster}
	commands := []command{choose, {Binding: k.filter, do: func(m Model) (Model, tea.Cmd) { m.clusters.filtering = true; return m, nil }}}
	if m.chosen(flows.A) || m.clusters.filter.String() != "" || m.dashboard.open {
		commands = append(commands, command{Binding: k.back, do: Model.leaveClusters})
	}
	commands = append(commands,
		command{Binding: k.addFile, do: func(m Model) (Model, tea.Cmd) { return m.askForFile(), nil }},
		command{Binding: k.info, do: func(m Model) (Model, tea.Cmd) { m.clusters.info = true; return m, nil }},
		command{Binding: k.refresh, do: Model.rewatch},
		command{Binding: k.dashboard, do: Model.toDashboard},
	)
	return append(commands, moving(k, Model.moveCluster)...)
}

func (m Model) moveCluster(by int) Model {
	rows := m.clusterRows()
	if len(rows) > 0 {
		i := max(0, indexOfRow(rows, m.clusters.selected)) + by
		m.clusters.selected = rows[min(max(i, 0), len(rows)-1)].Ref
	}
	return m
}

// chooseCluster takes the selected one as A, or as B when there is an A. What
// can't be chosen says why.
func (m Model) chooseCluster() (Model, tea.Cmd) {
	rows := m.clusterRows()
	i := indexOfRow(rows, m.clusters.selected)
	if i < 0 {
		return m, nil
	}
	side := m.choosing()
	if r := rows[i]; r.refusal != "" {
		m.note = fmt.Sprintf("%s can't be %s: %s.", m.contextName(r.member), side, strings.TrimSuffix(r.refusal, "."))
		return m, nil
	}
	m.clusters.filter = line{}
	m.pair[side] = rows[i].Ref
	if m.chosen(side.Other()) {
		return m.meet()
	}
	return m, nil
}

// toDashboard shows the connections of all clusters.
func (m Model) toDashboard() (Model, tea.Cmd) {
	m.pair, m.plan, m.goal = [2]flows.ContextRef{}, planScreen{}, Connect
	m.screen, m.dashboard.open, m.dashboard.visiting = screenDashboard, true, false
	return m, nil
}

// leaveClusters takes back, one thing at a time.
func (m Model) leaveClusters() (Model, tea.Cmd) {
	var none flows.ContextRef
	switch {
	case m.clusters.filter.String() != "":
		m.clusters.filter = line{}
	case m.chosen(flows.A):
		m.clusters.selected, m.pair[flows.A] = m.pair[flows.A], none
	case m.dashboard.open:
		m.screen = screenDashboard
	}
	return m, nil
}

// greet opens the dashboard, if the admin has not begun with anything else and
// one of the clusters has a connection.
func (m Model) greet() Model {
	m.clusters = m.clusters.keep(m.clusterRows())
	connected := slices.ContainsFunc(m.fleet.members, func(c *member) bool { return len(c.good.Connections) > 0 })
	if m.options.Start == StartAny && !m.touched && connected {
		m.screen, m.dashboard.open = screenDashboard, true
	}
	return m
}

// updateFilter takes a key while the filter is typed.
func (m Model) updateFilter(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	k := m.keys
	switch {
	case key.Matches(msg, k.enter):
		m.clusters.filtering = false
	case key.Matches(msg, k.back):
		m.clusters.filtering, m.clusters.filter = false, line{}
	case msg.String() == "up":
		return m.moveCluster(-1), nil
	case msg.String() == "down":
		return m.moveCluster(+1), nil
	default:
		m.clusters.filter, _ = m.clusters.filter.update(msg)
	}
	m.clusters = m.clusters.keep(m.clusterRows())
	return m, nil
}

// askForFile adds a kubeconfig to the list.
func (m Model) askForFile() Model {
	m.prompt = &prompt{
		title:   "Which kubeconfig file?",
		explain: "Its contexts join the list, until the program ends. Your own kubeconfig is not changed. ~ stands for your home directory.",
		submit: func(m Model, text string) (Model, tea.Cmd) {
			text = strings.TrimSpace(text)
			if text == "" {
				p := *m.prompt
				p.problem = "type the path of a file"
				m.prompt = &p
				return m, nil
			}
			m.prompt = nil
			m.fleet.added = append(slices.Clip(m.fleet.added), text)
			m.fleet.listing = true
			return m, m.list(false)
		},
	}
	return m
}

// Widths of the list's columns, in cells.
const (
	contextWidth  = 24
	stateWidth    = 21
	versionWidth  = 9
	softwareWidth = 18
	idWidth       = 14
	roomForServer = 118 // an address of a usual length has room after the other columns
)

func (m Model) clustersBody(height int) []string {
	if m.clusters.info {
		return m.paneLines()
	}
	parts := m.clustersLayout(height)
	lines := parts.head
	for i := parts.top; i < min(parts.top+parts.list, len(parts.rows)); i++ {
		lines = append(lines, m.clusterLine(parts.rows[i], i == parts.selected))
	}
	for len(lines) < height-len(parts.detail) {
		lines = append(lines, "")
	}
	return append(lines, parts.detail...)
}

// clustersLayout is where the list of clusters has its parts.
type clustersLayout struct {
	head      []string
	rows      []clusterRow // all of them
	selected  int
	top, list int // the first row in sight, and how many there can be
	detail    []string
}

func (m Model) clustersLayout(height int) clustersLayout {
	l := clustersLayout{rows: m.clusterRows(), detail: m.clusterDetail()}
	l.head = m.clustersHead(l.rows)
	l.list = height - len(l.head) - 1
	if room := l.list - len(l.detail); room >= min(len(l.rows), 3) {
		l.list = room
	} else {
		l.detail = nil
	}
	l.list = max(1, l.list)
	l.selected = max(0, indexOfRow(l.rows, m.clusters.selected))
	l.top = windowTop(l.selected, len(l.rows), l.list)
	return l
}

// clustersHead says what is to choose, and what could not be read.
func (m Model) clustersHead(rows []clusterRow) []string {
	t := m.theme
	side := m.choosing()
	question := "Choose the first of the two clusters: A."
	if m.chosen(side.Other()) {
		question = fmt.Sprintf("%s is %s. Choose the other cluster: %s.", side.Other(), m.contextName(m.on(side.Other())), side)
	}
	if cells(question) > m.width {
		question = fmt.Sprintf("Choose cluster %s.", side)
	}
	lines := []string{t.title.Render(t.plain(question))}
	for _, p := range m.fleet.problems {
		lines = append(lines, t.marks[markFail].Render(t.glyphs[markFail])+" "+t.plain(p.Error()))
	}
	if m.clusters.filtering || m.clusters.filter.String() != "" {
		lines = append(lines, t.label.Render("filter: ")+m.clusters.filter.view(t, m.width-8, m.clusters.filtering))
	}
	switch {
	case !m.fleet.listed:
		return append(lines, "Reading the kubeconfig files"+t.ellipsis)
	case len(m.fleet.members) == 0:
		lines = append(lines, "")
		return append(lines, t.wrap("There are no contexts in your kubeconfig. Press "+called(m.keys.addFile)+" to add a file, or set KUBECONFIG before the start.", m.width, 0)...)
	case len(rows) == 0:
		return append(lines, "No context matches the filter; esc clears it.")
	}
	head := "    " + pad("CONTEXT", contextWidth) + pad("STATE", stateWidth+cells(t.glyphs[markOK])-1)
	if m.width >= 70 {
		head += pad("KUBERNETES", versionWidth+2) + pad("CLUSTER ID", idWidth)
	}
	if m.width >= 100 {
		head += pad("SOFTWARE", softwareWidth)
	}
	if m.width >= roomForServer {
		head += "SERVER"
	}
	return append(lines, t.faint.Render(head))
}

func (m Model) clusterLine(r clusterRow, selected bool) string {
	t := m.theme
	column := func(text string, width int) string { return pad(t.fit(t.plain(text), width-1), width) }
	side := " "
	if r.side != "" {
		side = t.sides[map[string]flows.Side{"A": flows.A, "B": flows.B}[r.side]].Render(r.side)
	}
	name := column(m.contextName(r.member), contextWidth)
	if r.refusal != "" && r.side == "" {
		name = t.faint.Render(name)
	}
	line := side + " " + name + t.state(r.mark, r.word, stateWidth+cells(t.glyphs[markOK])-1)
	if m.width >= 70 {
		line += column(r.good.Version, versionWidth+2) + column(string(r.good.ID), idWidth)
	}
	if m.width >= 100 {
		software := ""
		if r.good.Version != "" {
			software = r.good.Software.String()
		}
		line += column(software, softwareWidth)
	}
	if m.width >= roomForServer {
		line += t.plain(cmp.Or(r.Server, r.good.Server))
	}
	return m.cursor(selected, line)
}

// clusterDetail is what is to be said of the selected cluster, below the list.
func (m Model) clusterDetail() []string {
	rows := m.clusterRows()
	i := indexOfRow(rows, m.clusters.selected)
	if i < 0 {
		return nil
	}
	r := rows[i]
	lines := []string{m.ruleLine(m.contextName(r.member))}
	lines = append(lines, m.theme.plain(cmp.Or(r.Server, r.latest.Server)))
	switch {
	case r.why != "":
		lines = append(lines, m.theme.wrap(r.why, m.width, 0)...)
	case r.refusal != "":
		lines = append(lines, m.theme.wrap(r.refusal, m.width, 0)...)
	}
	switch peers := len(r.good.Connections); {
	case peers == 1:
		lines = append(lines, "It has a connection with another cluster.")
	case peers > 1:
		lines = append(lines, fmt.Sprintf("It has %d connections with other clusters.", peers))
	}
	if twins := m.twins(r.member); len(twins) > 0 {
		lines = append(lines, m.theme.wrap("The same cluster as "+strings.Join(twins, ", ")+".", m.width, 0)...)
	}
	return lines
}

// clusterText is all that is known of the selected cluster.
func (m Model) clusterText() []string {
	rows := m.clusterRows()
	i := indexOfRow(rows, m.clusters.selected)
	if i < 0 {
		return nil
	}
	t, r := m.theme, rows[i]
	lines := []string{t.title.Render(t.plain(m.contextName(r.member))) + "  " + t.state(r.mark, r.word, 0), ""}
	add := func(label, text string) { lines = append(lines, t.field(pad(label, 14), text, m.width)...) }
	add("file", r.File)
	add("user", r.User)
	add("server", cmp.Or(r.Server, r.latest.Server))
	add("what is wrong", r.why)
	add("kubernetes", r.good.Version)
	add("cluster ID", string(r.good.ID))
	add("UID", r.good.UID)
	if r.good.Version != "" {
		add("software", r.good.Software.String()+", in namespace "+r.good.Namespace)
	}
	add("pods", join(r.good.Networks.Pod))
	add("external", join(r.good.Networks.External))
	for _, c := range r.good.Connections {
		add("connection", fmt.Sprintf("%s: %s", c.Labels[render.LabelRemoteCluster], cmp.Or(string(c.Status.Value), "nothing said yet")))
	}
	if twins := m.twins(r.member); len(twins) > 0 {
		add("same cluster", strings.Join(twins, ", "))
	}
	return lines
}
