package wizard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/sahilm/fuzzy"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// clustersScreen lists the contexts of all kubeconfig files, with facts about each cluster,
// so that the admin can choose two of them.
type clustersScreen struct {
	selected  flows.ContextRef // by name, because rows come and go
	filter    keys.Line
	filtering bool // keys are text for the filter
	info      bool // the selected cluster is shown on the whole screen
	used      bool // the admin has begun to choose
}

// clusterRow is one context in the list.
type clusterRow struct {
	session.Member
	status
	side    string // "A" or "B" if it is chosen
	refusal string // the reason that it can't be chosen now; "" if it can
}

// keep keeps the selection while its row exists.
func (s clustersScreen) keep(rows []clusterRow) clustersScreen {
	if i := s.index(rows); i >= 0 {
		s.selected = rows[i].Ref
	}
	return s
}

// index returns the index of the selected row. It returns the first row if no row is
// selected, or if the selected row is gone; -1 if there are no rows.
func (s clustersScreen) index(rows []clusterRow) int {
	i := slices.IndexFunc(rows, func(r clusterRow) bool { return r.Ref == s.selected })
	return min(max(i, 0), len(rows)-1)
}

func (s clustersScreen) rows(c scene) []clusterRow {
	var rows []clusterRow
	for _, known := range c.Fleet.Members {
		r := clusterRow{Member: *known, status: c.clusterStatus(*known), refusal: c.refusal(*known)}
		for _, s := range []flows.Side{flows.A, flows.B} {
			if c.pair[s] == known.Ref {
				r.side = s.String()
			}
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b clusterRow) int { return cmp.Compare(a.rank(), b.rank()) })
	return matchingRows(rows, s.filter.String())
}

// rank sorts contexts for the choice: first the current context, then clusters that can be
// used, clusters that have not answered, and clusters that can't be used.
func (r clusterRow) rank() int {
	usable := map[draw.Mark]int{draw.OK: 0, draw.Warn: 0, draw.Running: 1}
	rank, ok := usable[r.mark]
	switch {
	case !ok:
		return 3
	case r.Current:
		return 0
	}
	return 1 + rank
}

// matchingRows returns the rows that have all words of a filter; names that begin with the
// filter come first. If there are none, it returns names that contain the letters of the
// filter in the same order.
func matchingRows(rows []clusterRow, filter string) []clusterRow {
	words := strings.Fields(strings.ToLower(filter))
	if len(words) == 0 {
		return rows
	}
	var matching []clusterRow
	var names []string
	for _, r := range rows {
		names = append(names, r.Ref.Name)
		all := strings.ToLower(strings.Join([]string{r.Ref.Name, string(r.Good.ID), r.word, r.Server, r.File}, " "))
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(all, word) }) {
			matching = append(matching, r)
		}
	}
	where := func(r clusterRow) int {
		name := strings.ToLower(r.Ref.Name)
		switch {
		case strings.HasPrefix(name, words[0]), strings.HasPrefix(string(r.Good.ID), words[0]):
			return 0
		case strings.Contains(name, words[0]):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(matching, func(a, b clusterRow) int { return cmp.Compare(where(a), where(b)) })
	if len(matching) == 0 {
		for _, match := range fuzzy.Find(strings.Join(words, ""), names) {
			matching = append(matching, rows[match.Index])
		}
	}
	return matching
}

// offer moves the selection to the next context that can be chosen, if the selected one was
// chosen. Clusters that are already connected with it come last.
func (s clustersScreen) offer(c scene) clustersScreen {
	rows := s.rows(c)
	peers := c.on(c.choosing().Other()).Good.Peers()
	free := slices.IndexFunc(rows, func(r clusterRow) bool { return r.refusal == "" && peers[r.Good.ID] == nil })
	if free < 0 {
		free = slices.IndexFunc(rows, func(r clusterRow) bool { return r.refusal == "" })
	}
	if c.paired(s.selected) && free >= 0 {
		s.selected = rows[free].Ref
	}
	return s
}

// onlyPair returns the two clusters that can be connected and have no gateways for each other. ok is false if there are
// more such pairs, a cluster has not answered yet, or the files may have other contexts by now.
func (c scene) onlyPair() (pair [2]flows.ContextRef, ok bool) {
	rows := clustersScreen{}.rows(c)
	if c.Now.Sub(c.Fleet.Listed) > session.RelistInterval || slices.ContainsFunc(rows, func(r clusterRow) bool { return r.Probing() }) {
		return pair, false
	}
	rows = slices.DeleteFunc(rows, func(r clusterRow) bool { return r.refusal != "" })
	for i, a := range rows {
		c.pair[flows.A] = a.Ref
		for _, b := range rows[i+1:] {
			connected := a.Good.End(b.Good.ID).Gateway() != nil || b.Good.End(a.Good.ID).Gateway() != nil
			if connected || c.refusal(b.Member) != "" {
				continue
			}
			if ok {
				return pair, false
			}
			pair, ok = [2]flows.ContextRef{a.Ref, b.Ref}, true
		}
	}
	return pair, ok
}

// clusterStatus returns the state of a cluster in a word, with the reason.
func (c scene) clusterStatus(k session.Member) status {
	if k.Problem != "" {
		return status{draw.Fail, "not usable", k.Problem}
	}
	if k.Probing() {
		return status{draw.Running, "asking", draw.AskedText(c.Now.Sub(k.Began)) + ", no answer yet"}
	}
	if p := k.Latest.Problem; p != nil {
		return status{draw.Fail, p.InShort(), strings.TrimSuffix(p.Message, ".") + withHint(p.Fix)}
	}
	if why := misplaced(k); why != "" {
		return status{draw.Fail, "elsewhere", why}
	}
	if why := k.Good.Unseen(); why != "" {
		return status{draw.Warn, "not known", "Whether Liqo or the liqo-tui operator is installed is not known: " + why + withHint(k.Good.Alone().SeeManagers())}
	}
	if !k.Good.Can().Connect {
		why := "It has neither Liqo nor the liqo-tui operator."
		if c.options.Install != nil {
			why += " When you choose it, installing the operator becomes a part of the plan."
		}
		return status{draw.Warn, "nothing installed", why}
	}
	if why := k.Good.Operator.Problem; why != "" {
		why += ". Connections can be planned once it runs"
		return status{draw.Warn, "operator not ready", why + cmp.Or(withHint(k.Good.OperatorFix(command.Hint{})), ".")}
	}
	if c.isProtected(k.Ref) {
		return status{draw.OK, "ready, protected", "It is protected by your configuration: to change it, you type its name."}
	}
	return status{draw.OK, "ready", ""}
}

// misplaced returns the namespace of a cluster's installation; "" if it is the expected
// namespace. Only the command line can name another namespace.
func misplaced(c session.Member) string {
	s := flows.InstalledElsewhere(flows.A, c.Good)
	if s == nil || c.Good.Can().Connect {
		return ""
	}
	where := c.Good.Flags()
	where.Namespace = c.Good.Elsewhere.Namespace
	return s.Reason + withHint(command.Hintf("start %s", command.Ours().On(where)))
}

func withHint(hint command.Hint) string {
	if hint.IsZero() {
		return ""
	}
	return ". To do: " + hint.String()
}

// refusal returns the reason that a cluster can't be chosen for the next side.
func (c scene) refusal(k session.Member) string {
	other := c.choosing().Other()
	taken := c.on(other).Good
	same, _ := flows.SameCluster(taken, k.Good)
	switch {
	case c.paired(k.Ref):
		return "it is chosen already"
	case k.Problem != "":
		return k.Problem
	case k.Probing():
		return "it has not answered yet"
	case k.Latest.Problem != nil:
		return k.Latest.Problem.Message
	case misplaced(k) != "":
		return misplaced(k)
	case c.chosen(other) && same:
		return fmt.Sprintf("it is the same cluster as %s, seen through another context: both have the UID %s", c.name(other), k.Good.UID)
	case c.chosen(other) && k.Good.ID != "" && taken.ID == k.Good.ID:
		return fmt.Sprintf("it calls itself %q, as %s does: one of them needs another cluster ID", k.Good.ID, c.Fleet.Call(c.on(other)))
	case !k.Good.Can().Connect && k.Good.ID == "" && c.options.Install == nil:
		return fmt.Sprintf("it has neither Liqo nor the liqo-tui operator. To do: %s", command.Ours("install").On(k.Ref.Flags()))
	}
	return ""
}

// sameCluster returns other contexts that lead to the same cluster.
func (c scene) sameCluster(k session.Member) []string {
	var names []string
	for _, other := range c.Fleet.Members {
		if other.Ref != k.Ref && k.Good.UID != "" && other.Good.UID == k.Good.UID {
			names = append(names, c.Fleet.Call(*other))
		}
	}
	return names
}

func (s clustersScreen) commands(c scene) []keys.Command {
	k := c.Keys
	if s.info {
		return []keys.Command{{Binding: k.Back, Msg: actInfo}}
	}
	var commands []keys.Command
	switch {
	case s.filtering:
		return []keys.Command{{Binding: keys.Named(k.Enter, "end typing"), Msg: actFilter}, {Binding: keys.Named(k.Back, "clear the filter"), Msg: actLeave}}
	case len(c.Fleet.Members) > 0:
		commands = []keys.Command{{Binding: keys.Named(k.Enter, "choose"), Msg: actChoose}, {Binding: k.Filter, Msg: actFilter}}
	}
	if c.chosen(flows.A) || s.filter.String() != "" || c.Boarded {
		commands = append(commands, keys.Command{Binding: k.Back, Msg: actLeave})
	}
	commands = append(commands, keys.Command{Binding: k.AddFile, Msg: actAddFile})
	if len(c.Fleet.Members) > 0 {
		commands = append(commands, keys.Command{Binding: k.Info, Msg: actInfo})
	}
	commands = append(
		commands,
		keys.Command{Binding: k.Refresh, Msg: session.RewatchMsg{}},
		keys.Command{Binding: k.Dashboard, Msg: goBoard},
	)
	return append(commands, k.Moving()...)
}

func (s clustersScreen) update(c scene, msg tea.Msg) clustersScreen {
	switch msg := msg.(type) {
	case keys.MoveMsg:
		s = s.move(c, int(msg))
	case session.ClickMsg:
		s.used = true
		return s.click(c, msg.Y)
	case tea.PasteMsg:
		if s.filtering {
			s.filter = s.filter.Insert(msg.Content)
			s = s.keep(s.rows(c))
		}
	case action:
		s.used = true
		switch msg {
		case actInfo:
			s.info = !s.info
		case actFilter:
			s.filtering = true
		case actChoose:
			return s.choose(c)
		case actLeave: // undoes one thing at a time
			if s.filter.String() == "" {
				c.Post(goBack)
			}
			s.filter = keys.Line{}
		case actAddFile:
			askForFile(c)
		default:
		}
	}
	return s
}

func (s clustersScreen) move(c scene, by int) clustersScreen {
	rows := s.rows(c)
	s.used = true
	if len(rows) > 0 {
		s.selected = rows[min(max(s.index(rows)+by, 0), len(rows)-1)].Ref
	}
	return s
}

// choose chooses the selected cluster as A, or as B if A is chosen already. If it can't be
// chosen, the screen shows the reason.
func (s clustersScreen) choose(c scene) clustersScreen {
	rows := s.rows(c)
	i := s.index(rows)
	if i < 0 {
		return s
	}
	if r := rows[i]; r.refusal != "" {
		c.Post(session.NoteMsg(fmt.Sprintf("%s can't be chosen: %s.", c.Fleet.Call(r.Member), strings.TrimSuffix(r.refusal, "."))))
		return s
	}
	s.filter, s.selected = keys.Line{}, rows[i].Ref
	c.Post(chosenMsg(rows[i].Ref))
	return s
}

// key handles a key while the admin types a filter; ok is false at all other times.
func (s clustersScreen) key(c scene, msg tea.KeyPressMsg) (_ clustersScreen, ok bool) {
	switch {
	case !s.filtering:
		return s, false
	case key.Matches(msg, c.Keys.Enter):
		s.filtering = false
	case key.Matches(msg, c.Keys.Back):
		s.filtering, s.filter = false, keys.Line{}
	case msg.String() == "up":
		return s.move(c, -1), true
	case msg.String() == "down":
		return s.move(c, +1), true
	default:
		s.filter, _ = s.filter.Update(msg)
	}
	return s.keep(s.rows(c)), true
}

// click selects the cluster on a line of the body. If it is already selected, click chooses
// it.
func (s clustersScreen) click(c scene, y int) clustersScreen {
	if s.info {
		return s
	}
	s.filtering = false
	parts := s.layout(c.framed())
	row := y - len(parts.head)
	if row < 0 || row >= parts.list || parts.top+row >= len(parts.rows) {
		return s
	}
	clicked := parts.rows[parts.top+row].Ref
	if clicked == s.selected {
		return s.choose(c)
	}
	s.selected = clicked
	return s
}

// askForFile asks for a kubeconfig file to add to the list.
func askForFile(c scene) {
	c.Post(session.PromptMsg{
		Title:   "Which kubeconfig file?",
		Path:    true,
		Explain: "Its contexts join the list, until the program ends. Your own kubeconfig is not changed. ~ stands for your home directory.",
		Submit: func(text string) (_ tea.Msg, problem string) {
			if text = strings.TrimSpace(text); text == "" {
				return nil, "type the path of a file"
			}
			return session.AddFileMsg(text), ""
		},
	})
}

// Widths of the list's columns, in cells.
const (
	contextWidth  = 24 // at least
	stateWidth    = 21
	versionWidth  = 9
	softwareWidth = 18
	idWidth       = 14
	roomForServer = 118 // after the other columns, an address of usual length still fits
	serverRoom    = 34
)

// contextWidth returns the width of the column with names of contexts. It depends on the
// names and on the room.
func (c scene) contextWidth(rows []clusterRow) int {
	longest := 0
	for _, r := range rows {
		longest = max(longest, draw.Cells(c.Fleet.Call(r.Member)))
	}
	room := c.Width - 4 - stateWidth
	if c.Width >= 70 {
		room -= versionWidth + 2 + idWidth
	}
	if c.Width >= 100 {
		room -= softwareWidth
	}
	if c.Width >= roomForServer {
		room -= serverRoom
	}
	return max(contextWidth, min(longest+1, room))
}

func (s clustersScreen) view(c scene) []string {
	if s.info {
		return c.Pane()
	}
	outer := c.Width
	c = c.framed()
	t, parts := c.Theme, s.layout(c)
	lines := parts.head
	for i := parts.top; i < min(parts.top+parts.list, len(parts.rows)); i++ {
		lines = append(lines, c.clusterLine(parts.rows[i], c.contextWidth(parts.rows), i == parts.selected))
	}
	if !t.Frames() {
		return c.below(lines, parts.detail)
	}
	list := draw.Panel{Title: lines[0], Lines: append(lines[1:len(lines):len(lines)], ""), Grows: true}
	if len(parts.rows) > parts.list {
		list.Right = t.Faint.Render(fmt.Sprintf("%d of %d", parts.selected+1, len(parts.rows)))
	}
	if len(parts.detail) == 0 {
		return t.Stack(outer, c.Body, []draw.Panel{list})
	}
	r := parts.rows[parts.selected]
	detail := draw.Panel{Title: t.Title.Render(t.Plain(c.Fleet.Call(r.Member))), Lines: parts.detail[1:], Mark: r.mark}
	return t.Stack(outer, c.Body, []draw.Panel{list}, []draw.Panel{detail})
}

// clustersLayout has the parts of the screen with the list of clusters.
type clustersLayout struct {
	head      []string
	rows      []clusterRow // all rows
	selected  int
	top, list int // the index of the first visible row, and the largest number of visible rows
	detail    []string
}

func (s clustersScreen) layout(c scene) clustersLayout {
	l := clustersLayout{rows: s.rows(c), detail: s.detail(c)}
	l.head = s.head(c, l.rows)
	if frames := c.Theme.Frames(); frames && len(l.detail) > 0 {
		l.detail = append(l.detail[:1:1], s.text(c)[2:]...)
	} else if c.Body > largeBody && len(l.detail) > 0 {
		if all := append(l.detail[:1:1], s.text(c)[2:]...); len(l.head)+len(l.rows)+1+len(all) <= c.Body {
			l.detail = all
		}
	}
	l.list = c.Body - len(l.head) - 1
	if c.Theme.Frames() {
		l.list = c.Body - len(l.head) + 1 - 2*c.Theme.Edges()
	}
	if l.list-len(l.detail) < min(len(l.rows), 3) {
		l.detail = nil
		if len(l.rows) > l.list && l.list > 1 { // the screen says which rows are visible
			l.detail = s.detail(c)[:1]
		}
	}
	l.list = max(1, l.list-len(l.detail))
	l.selected = max(0, s.index(l.rows))
	l.top = draw.WindowTop(l.selected, len(l.rows), l.list)
	return l
}

// head returns the lines that say what to choose, and which files could not be read.
func (s clustersScreen) head(c scene, rows []clusterRow) []string {
	t, side := c.Theme, c.choosing()
	question := "Choose the first of the two clusters"
	if c.chosen(side.Other()) {
		question = c.Fleet.Call(c.on(side.Other())) + " is chosen. Choose the other cluster"
	}
	if draw.Cells(question) > c.Width {
		question = "Choose a cluster"
	}
	if counts := t.Dot + tallyOf(rows); len(rows) > manyContexts && draw.Cells(question+counts) <= c.Width {
		question += counts
	}
	lines := []string{t.Title.Render(t.Plain(question))}
	for _, p := range c.Fleet.Problems {
		lines = append(lines, t.Marks[draw.Fail].Render(t.Glyphs[draw.Fail])+" "+t.Plain(p.Error()))
	}
	if s.filtering || s.filter.String() != "" {
		lines = append(lines, t.Label.Render("filter: ")+s.filter.View(t, c.Width-8, s.filtering))
	}
	switch {
	case c.Fleet.Listed.IsZero():
		return append(lines, "Reading the kubeconfig files"+t.Ellipsis)
	case len(c.Fleet.Members) == 0:
		lines = append(lines, "")
		where := "your kubeconfig"
		if len(c.options.Looked) > 0 {
			where = strings.Join(c.options.Looked, ", ")
		}
		return append(lines, t.Clauses("There are no contexts in "+where+". Press "+keys.Called(c.Keys.AddFile)+" to add a file, or set KUBECONFIG before the start.", c.Width)...)
	case len(rows) == 0:
		return append(lines, "No context matches the filter. Press esc to clear it.")
	}
	head := "    " + draw.Pad("CONTEXT", c.contextWidth(rows)) + draw.Pad("STATE", stateWidth+draw.Cells(t.Glyphs[draw.OK])-1)
	if c.Width >= 70 {
		head += draw.Pad("KUBERNETES", versionWidth+2) + draw.Pad("CLUSTER ID", idWidth)
	}
	if c.Width >= 100 {
		head += draw.Pad("SOFTWARE", softwareWidth)
	}
	if c.Width >= roomForServer {
		head += "SERVER"
	}
	return append(lines, t.Faint.Render(head))
}

// manyContexts is the number of contexts from which on their states are counted.
const manyContexts = 5

// tallyOf counts contexts by whether they can be used.
func tallyOf(rows []clusterRow) string {
	count := map[draw.Mark]int{}
	for _, r := range rows {
		if r.side == "" { // a chosen cluster can't be chosen again
			count[r.mark]++
		}
	}
	parts := []string{fmt.Sprintf("%d usable", count[draw.OK]+count[draw.Warn])}
	if n := count[draw.Running]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d asking", n))
	}
	if n := count[draw.Fail]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d not usable", n))
	}
	return strings.Join(parts, ", ")
}

func (c scene) clusterLine(r clusterRow, nameWidth int, selected bool) string {
	t := c.Theme
	column := func(text string, width int) string { return draw.Pad(t.Middle(t.Plain(text), width-1), width) }
	side := " "
	if r.side != "" {
		side = t.Sides[map[string]flows.Side{"A": flows.A, "B": flows.B}[r.side]].Render(t.Done)
	}
	name := column(c.Fleet.Call(r.Member), nameWidth)
	if r.refusal != "" && r.side == "" {
		name = t.Faint.Render(name)
	}
	line := side + " " + name + t.State(r.mark, r.word, stateWidth+draw.Cells(t.Glyphs[draw.OK])-1)
	if c.Width >= 70 {
		line += column(r.Good.Version, versionWidth+2) + column(string(r.Good.ID), idWidth)
	}
	if c.Width >= 100 {
		software := ""
		if r.Good.Version != "" {
			software = r.Good.Software.String()
		}
		line += column(software, softwareWidth)
	}
	if c.Width >= roomForServer {
		line += t.Plain(cmp.Or(r.Server, r.Good.Server))
	}
	return c.Theme.Row(selected, line, c.Width)
}

func (s clustersScreen) detail(c scene) []string {
	rows := s.rows(c)
	i := s.index(rows)
	if i < 0 {
		return nil
	}
	r := rows[i]
	heading := c.Fleet.Call(r.Member)
	if len(rows) > manyContexts { // some rows may be invisible
		heading = fmt.Sprintf("%d of %d%s%s", i+1, len(rows), c.Theme.Dot, heading)
	}
	lines := []string{c.Theme.RuleLine(heading, c.Width)}
	if server := cmp.Or(r.Server, r.Latest.Server); server == "" || !strings.Contains(r.why, server) {
		lines = append(lines, c.Theme.Plain(server))
	}
	switch {
	case r.why != "":
		lines = append(lines, c.Theme.Wrap(r.why, c.Width, 0)...)
	case r.refusal != "":
		lines = append(lines, c.Theme.Wrap(r.refusal, c.Width, 0)...)
	}
	var peers []string
	for _, conn := range r.Good.Connections {
		peers = append(peers, conn.Labels[wire.LabelRemoteCluster])
	}
	if len(peers) > 0 {
		lines = append(lines, c.Theme.Wrap("It has "+draw.Counted(len(peers), "connection")+": "+flows.Some(peers)+".", c.Width, 0)...)
	}
	if others := c.sameCluster(r.Member); len(others) > 0 {
		lines = append(lines, c.Theme.Wrap("The same cluster as "+strings.Join(others, ", ")+".", c.Width, 0)...)
	}
	return lines
}

// text returns all facts about the selected cluster.
func (s clustersScreen) text(c scene) []string {
	rows := s.rows(c)
	i := s.index(rows)
	if i < 0 {
		return nil
	}
	t, r := c.Theme, rows[i]
	lines := []string{t.Title.Render(t.Plain(c.Fleet.Call(r.Member))) + "  " + t.State(r.mark, r.word, 0), ""}
	note := cmp.Or(r.why, r.refusal)
	if t.Frames() {
		lines = append(lines, t.Table(c.clusterFacts(r), c.Width)...)
		if note != "" {
			lines = append(append(lines, ""), t.Clauses(note, c.Width)...)
		}
		return lines
	}
	for _, f := range append([]draw.Fact{{Label: "note", Value: note}}, c.clusterFacts(r)...) {
		lines = append(lines, t.Field(draw.Pad(f.Label, draw.LabelCells), f.Value, c.Width)...)
	}
	return lines
}

// clusterFacts returns what is known of a cluster. Each fact has its row, whatever is known.
func (c scene) clusterFacts(r clusterRow) []draw.Fact {
	software := ""
	switch {
	case r.Good.Version == "":
	case r.Good.Unseen() != "":
		software = "not known: " + r.Good.Unseen()
	case !r.Good.Can().Connect:
		software = r.Good.Software.String()
	default:
		software = r.Good.Software.String() + ", in namespace " + r.Good.Namespace
	}
	var connections []string
	for _, conn := range r.Good.Connections {
		connections = append(connections, fmt.Sprintf("%s: %s", conn.Labels[wire.LabelRemoteCluster], cmp.Or(string(conn.Status.Value), "nothing said yet")))
	}
	facts := []draw.Fact{
		{Label: "file", Value: r.File},
		{Label: "user", Value: r.User},
		{Label: "server", Value: cmp.Or(r.Server, r.Latest.Server)},
		{Label: "Kubernetes", Value: r.Good.Version},
		{Label: "cluster ID", Value: string(r.Good.ID)},
		{Label: "UID", Value: r.Good.UID},
		{Label: "software", Value: software},
		{Label: "pods", Value: draw.CIDRs(r.Good.Networks.Pod)},
		{Label: "external", Value: draw.CIDRs(r.Good.Networks.External)},
		{Label: "connections", Value: strings.Join(connections, ", ")},
		{Label: "same as", Value: strings.Join(c.sameCluster(r.Member), ", ")},
	}
	for i, f := range facts {
		facts[i].Value = c.Theme.Plain(f.Value)
	}
	return facts
}
