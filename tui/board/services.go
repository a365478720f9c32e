package board

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

const (
	// servicesInterval is how often the Services are read while they are shown. Nothing watches them.
	servicesInterval = 5 * time.Second
	// servicesTimeout limits one reading of a cluster.
	servicesTimeout = 10 * time.Second
)

// sharing is the state of the pages about the Services of a connection.
type sharing struct {
	of        pairID       // the connection
	look      int          // the number of the latest look at such a page; messages of earlier ones are dropped
	list, way *servicesMsg // what was read last, for the list of all Services and for the page of one
	selected  types.NamespacedName
}

type (
	// servicesDueMsg says that it is time to read the Services again.
	servicesDueMsg int
	// servicesMsg has what was read of the Services of a connection.
	servicesMsg struct {
		look  int
		all   []shared
		sides [2]viewpoint
	}
	// viewpoint is the place of one cluster of the connection.
	viewpoint struct {
		read bool      // the cluster was asked
		at   time.Time // when; zero if it has not answered
		// off is why it exchanges no Services, and what switches them on; zero if it does.
		off command.Hint
		// unread says what was not read, one sentence each. lacks is set if something of the cluster itself
		// was not read.
		unread      []string
		without     []string // the peers that exchange no Services, one sentence each
		lacks       bool
		explanation services.Explanation // of the one name
	}
	// shared is one Service, from the place of each cluster; nil for a cluster that has nothing of the name.
	shared struct {
		name types.NamespacedName
		rows [2]*services.Row
	}
)

// openServices begins to read for the page that was opened.
func (s Screen) openServices(e session.Env) (Screen, tea.Cmd) {
	id := s.Subject().ID
	if s.sharing.of != id {
		s.sharing = sharing{look: s.sharing.look, of: id}
	}
	if x := s.sharing.current(); x != nil && s.page == pageService {
		s.sharing.selected = x.name
	}
	s.sharing.look++
	s.sharing.way = nil
	return s, s.readServices(e)
}

// readServices is a command that reads what the page shows.
func (s Screen) readServices(e session.Env) tea.Cmd {
	p := s.Subject()
	if p == nil {
		return nil
	}
	r := servicesRequest{facts: s.factsOf(e, p), absence: s.Board.absence(), now: e.Clock}
	refs, _ := s.contextsOf(p)
	for side, end := range p.ends {
		r.ids[side], r.chosen[side] = end.ID, end.Chosen
		if r.clusters[side] = e.Fleet.Member(refs[side]).Cluster; !end.Chosen {
			r.facts.Sides[side] = flows.ClusterFacts{}
		}
	}
	if s.page == pageService {
		r.name = s.sharing.selected
	}
	ctx, look := e.Ctx, s.sharing.look
	return func() tea.Msg {
		r.ask(ctx)
		msg := r.message()
		msg.look = look
		return msg
	}
}

// servicesRequest is one reading of the Services of a connection, of all or of one name.
type servicesRequest struct {
	name     types.NamespacedName
	facts    flows.Facts
	ids      [2]wire.ClusterID
	chosen   [2]bool // the cluster belongs to the dashboard
	clusters [2]engine.Cluster
	absence  string // why one does not
	now      func() time.Time
}

// ask asks the chosen clusters, at the same time. One that hangs does not keep the other one's answer back.
func (r *servicesRequest) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, servicesTimeout)
	defer cancel()
	done := make(chan struct{})
	answered := [2]flows.Facts{r.facts, r.facts}
	for side := range r.clusters {
		go func() {
			defer func() { done <- struct{}{} }()
			q := service.Asks(r.name, flows.Side(side))
			answers := engine.Answers{Now: r.now}
			switch {
			case !r.chosen[side]:
			case r.clusters[side] == nil:
				flows.Unknown(q[0], "it was not reached yet").Store(&answered[side], time.Time{})
			case answers.Ask(ctx, &answered[side], r.clusters, q...) != nil:
				flows.Unknown(q[0], "no answer within "+servicesTimeout.String()).Store(&answered[side], time.Time{})
			}
		}()
	}
	<-done
	<-done
	for side := range r.clusters {
		r.facts.Sides[side] = answered[side].Sides[side]
	}
	r.facts.At = r.now()
}

// message judges the answers, from the place of each chosen cluster.
func (r *servicesRequest) message() (m servicesMsg) {
	rows := map[types.NamespacedName]*shared{}
	for side, here := range r.facts.Sides {
		if !r.chosen[side] {
			continue
		}
		v := service.ViewOf(r.facts, flows.Side(side))
		for i := range v.Peers {
			switch p := &v.Peers[i]; {
			case p.ID != r.ids[1-side]:
				p.Unasked = "this page asks the two clusters of the connection"
			case !r.chosen[1-side]:
				p.Unasked = string(p.ID) + " is " + r.absence
			}
		}
		own, unread, without := services.Rows(v)
		at := viewpoint{read: true, at: v.At, unread: unread, without: without, lacks: !v.Found.Complete()}
		if here.Services.Value() == nil { // all lists have the same reason
			at.at, at.unread = time.Time{}, []string{fmt.Sprintf("%s was not read: %s", here.Name(), v.Found.Exports.Unread)}
		}
		if why, fix := service.Off(here); here.Problem == nil && why != "" {
			at.off, at.unread, at.lacks = command.Join(append([]command.Hint{command.Text(why)}, fix...), "; "), nil, false
		}
		if r.name != (types.NamespacedName{}) {
			at.explanation = services.Explain(v, r.name)
		}
		m.sides[side] = at
		for _, row := range own {
			if rows[row.Name] == nil {
				rows[row.Name] = &shared{name: row.Name}
			}
			rows[row.Name].rows[side] = &row
		}
	}
	for _, x := range rows {
		m.all = append(m.all, *x)
	}
	slices.SortFunc(m.all, func(a, b shared) int { return strings.Compare(a.name.String(), b.name.String()) })
	return m
}

// updateServices stores what was read, and reads it again while the page is shown.
func (s Screen) updateServices(e session.Env, msg servicesMsg) (Screen, tea.Cmd) {
	if !s.readsServices(msg.look) {
		return s, nil
	}
	kept := &s.sharing.list
	if s.page == pageService {
		kept = &s.sharing.way
	}
	if s.paused.IsZero() || *kept == nil {
		*kept = &msg
	}
	ctx, look := e.Ctx, msg.look
	return s, func() tea.Msg {
		if !sleep.For(ctx, servicesInterval) {
			return nil
		}
		return servicesDueMsg(look)
	}
}

// readsServices reports whether a page about Services is shown, and was opened by this look.
func (s Screen) readsServices(look int) bool {
	return look == s.sharing.look && s.Detail && (s.page == pageServices || s.page == pageService)
}

// position returns the index of the selected Service, or of the one that has its place now.
func (m sharing) position() int {
	at, _ := slices.BinarySearchFunc(m.list.all, m.selected, func(x shared, name types.NamespacedName) int {
		return strings.Compare(x.name.String(), name.String())
	})
	return max(0, min(at, len(m.list.all)-1))
}

// current returns the selected row; nil if there is none.
func (m sharing) current() *shared {
	if m.list == nil || len(m.list.all) == 0 {
		return nil
	}
	return &m.list.all[m.position()]
}

// moveService selects another row.
func (s Screen) moveService(by int) Screen {
	if s.sharing.current() != nil {
		all := s.sharing.list.all
		s.sharing.selected = all[min(max(s.sharing.position()+by, 0), len(all)-1)].name
	}
	return s
}

// endpoints are the counts of a Service in all clusters. A cluster's count of its own endpoints comes first,
// since the other one's is older.
func (x shared) endpoints(ids [2]wire.ClusterID) (parts []services.Part) {
	for side, r := range x.rows {
		if r == nil {
			continue
		}
		for _, part := range r.Endpoints {
			i := slices.IndexFunc(parts, func(o services.Part) bool { return o.Cluster == part.Cluster })
			switch {
			case i < 0:
				parts = append(parts, part)
			case part.Cluster == ids[side]:
				parts[i] = part
			}
		}
	}
	return parts
}

// state is what the rows of both clusters say. A row without a problem is good only if all was read.
func (x shared) state(sides [2]viewpoint) (draw.Mark, string) {
	problems, ready, lacks := 0, 0, false
	for side, r := range x.rows {
		lacks = lacks || sides[side].lacks
		if r == nil {
			continue
		}
		problems += len(r.Problems)
		for _, part := range r.Endpoints {
			ready += part.Ready
		}
	}
	switch {
	case problems > 0 && ready == 0:
		return draw.Fail, "broken"
	case problems > 0:
		return draw.Warn, "problem"
	case lacks:
		return draw.Unknown, "not looked"
	}
	return draw.OK, "ok"
}

func (x shared) kind() string {
	for _, r := range x.rows {
		if r != nil && r.Type != "" {
			return r.Type
		}
	}
	return "-"
}

// serviceRows returns the titles and the rows of the table. The last columns are dropped if there is no room.
func (s Screen) serviceRows(t draw.Theme, ids [2]wire.ClusterID, width int) (title string, rows []string) {
	m := s.sharing.list
	cells := [][]string{{"STATE", "SERVICE", "ENDPOINTS READY", "TYPE", "ADDRESS IN " + t.Plain(string(ids[flows.A])), "ADDRESS IN " + t.Plain(string(ids[flows.B]))}}
	sums := []string{"READY"}
	for _, x := range m.all {
		mark, word := x.state(m.sides)
		counts, sum := countsOf(x.endpoints(ids))
		row := []string{t.State(mark, word, 0), t.Plain(x.name.String()), t.Plain(counts), t.Plain(x.kind())}
		for _, r := range x.rows {
			row = append(row, addressOf(t, r))
		}
		cells = append(cells, row)
		sums = append(sums, sum)
	}
	widths, fitting := columnWidths(cells, width)
	if fitting < 3 { // the sum has room, if the counts of each cluster have none
		for i := range cells {
			cells[i][2] = sums[i]
		}
		widths, fitting = columnWidths(cells, width)
	}
	for _, row := range cells {
		var b strings.Builder
		for i, text := range row[:fitting] {
			b.WriteString(draw.Pad(t.Middle(text, widths[i]-columnGap), widths[i]))
		}
		rows = append(rows, b.String())
	}
	return rows[0], rows[1:]
}

// addressOf returns the clusterset IPs of a Service in one cluster, or the way to a headless one.
func addressOf(t draw.Theme, r *services.Row) string {
	switch {
	case r == nil:
	case len(r.IPs) > 0:
		return t.Plain(strings.Join(r.IPs, ", "))
	case len(r.Calls()) > 0:
		return "by name alone"
	}
	return "-"
}

// columnGap is the number of cells between two columns.
const columnGap = 2

// columnWidths returns the width of each column, with the gap after it, and the number of columns that fit.
func columnWidths(rows [][]string, width int) (widths []int, fitting int) {
	widths = make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], draw.Cells(text)+columnGap)
		}
	}
	widths[1] = min(widths[1], max(mostName, width/3)) // the names
	room := width - pointerCells
	for _, w := range widths {
		if room -= w; room < -columnGap {
			break
		}
		fitting++
	}
	return widths, fitting
}

func countsOf(parts []services.Part) (each, sum string) {
	if len(parts) == 0 {
		return "-", "-"
	}
	var all services.Count
	var counts []string
	for _, part := range parts {
		counts = append(counts, fmt.Sprintf("%s %d/%d", part.Cluster, part.Ready, part.All))
		all.Ready, all.All = all.Ready+part.Ready, all.All+part.All
	}
	return strings.Join(counts, ", "), fmt.Sprintf("%d/%d", all.Ready, all.All)
}

// fewServices is the smallest number of rows, on a low terminal.
const fewServices = 4

// servicesText returns one row for each Service, below them what each cluster has of the selected one, and what is
// wrong or not known.
func (s Screen) servicesText(e session.Env, p *peering) []string {
	t, m := s.theme(e), s.sharing.list
	if m == nil {
		return []string{"Reading" + t.Ellipsis}
	}
	ids := [2]wire.ClusterID{p.ends[flows.A].ID, p.ends[flows.B].ID}
	inside := t.Inside(e.Width)
	list := draw.Panel{Title: t.Title.Render("Services"), Right: s.serviceCounts(t), Grows: true}
	if len(m.all) == 0 {
		list.Lines = s.noServices(e, t, p)
		return t.Stack(e.Width, e.Room(), []draw.Panel{list}, []draw.Panel{s.serviceProblems(t, ids, inside)})
	}
	title, rows := s.serviceRows(t, ids, inside)
	at := s.sharing.position()
	for i, row := range rows {
		rows[i] = t.Row(i == at, row, inside)
	}
	below := [][]draw.Panel{{s.serviceProblems(t, ids, inside)}, s.serviceEnds(e, t, ids)}
	shown := len(rows)
	if s.find.String() == "" && !s.filtering {
		shown = max(fewServices, e.Room()-len(t.Stack(e.Width, 0, below...))-1-t.Edges())
	}
	list.Lines = append([]string{t.Faint.Render("  " + title)}, draw.Window(rows, at, min(len(rows), shown))...)
	return t.Stack(e.Width, e.Room(), append([][]draw.Panel{{list}}, below...)...)
}

// serviceCounts returns the number of Services in each state.
func (s Screen) serviceCounts(t draw.Theme) string {
	m := s.sharing.list
	count, words := map[draw.Mark]int{}, map[draw.Mark]string{}
	for _, x := range m.all {
		mark, word := x.state(m.sides)
		count[mark], words[mark] = count[mark]+1, word
	}
	var facts []string
	for _, mark := range []draw.Mark{draw.Fail, draw.Warn, draw.Unknown, draw.OK} {
		if n := count[mark]; n > 0 {
			facts = append(facts, t.Marks[mark].Render(fmt.Sprintf("%d %s %s", n, t.Glyphs[mark], words[mark])))
		}
	}
	return strings.Join(facts, "   ")
}

// serviceEnds returns what each cluster has of the selected Service.
func (s Screen) serviceEnds(e session.Env, t draw.Theme, ids [2]wire.ClusterID) []draw.Panel {
	m, x := s.sharing.list, s.sharing.current()
	panels := make([]draw.Panel, len(ids))
	for side, r := range x.rows {
		at := m.sides[side]
		facts := []draw.Fact{{Label: "state", Value: t.State(draw.OK, "ok", 0)}, {Label: "exported by"}, {Label: "imported"}, {Label: "ready"}, {Label: "called as"}, {Label: "or as"}, {Label: "address"}, {Label: "read"}}
		mark, word := draw.Blank, ""
		switch {
		case !at.read, r == nil && at.lacks:
			mark, word = draw.Unknown, "not looked"
		case !at.off.IsZero():
			mark, word = draw.Warn, "exchanges no Services"
		case r == nil:
			mark, word = draw.Pending, "has nothing of this name"
		case len(r.Problems) > 0:
			mark, word = draw.Warn, draw.Counted(len(r.Problems), "problem")
		case at.lacks:
			mark, word = draw.Unknown, "not all was read"
		}
		if word != "" {
			facts[0].Value = t.State(mark, word, 0)
		}
		if r != nil {
			facts[1].Value = t.Plain(flows.Joined(r.Exporters))
			if len(r.From) > 0 {
				facts[2].Value = t.Plain("from " + flows.Joined(r.From))
				facts[3].Value = t.Plain(services.Text(r.Endpoints, e.Now))
			}
			for i, name := range callNames(r) {
				facts[4+i].Value = t.Plain(name)
			}
			facts[6].Value = t.Plain(strings.Join(r.IPs, ", "))
		}
		if !at.at.IsZero() {
			facts[7].Value = draw.Age(e.Now.Sub(at.at)) + " ago"
		}
		width := e.Width
		if t.Frames() {
			width = t.Inside(e.Width / 2)
		}
		panels[side] = draw.Panel{Title: t.Title.Render(t.Sides[side].Render(t.Plain(string(ids[side])))), Lines: t.Table(facts, width), Mark: mark}
	}
	panels[0].Right = t.Faint.Render(x.name.String() + "  " + keys.Called(e.Keys.Enter))
	return panels
}

// callNames returns at most two names that pods of the cluster call, the surest first.
func callNames(r *services.Row) (names []string) {
	if len(r.IPs) > 0 {
		names = append(names, services.DerivedName(r.Name)+"."+r.Name.Namespace+".svc.cluster.local")
	}
	switch dns := services.DNSName(r.Name); {
	case len(r.Calls()) == 0:
	case r.Names == services.ServedByDNS:
		names = append([]string{dns}, names...)
	case r.Names == services.NamesUnknown:
		names = append(names, dns+", if served")
	}
	return names
}

// mostUnread is the largest number of sentences about what was not read in one cluster: each of its peers may
// have one.
const mostUnread = 3

// serviceProblems returns what is wrong with the selected Service, and what was not read.
func (s Screen) serviceProblems(t draw.Theme, ids [2]wire.ClusterID, width int) draw.Panel {
	p := draw.Panel{Title: t.Title.Render("Problems")}
	var said []string
	add := func(mark draw.Mark, text string, run ...command.Command) {
		if slices.Contains(said, text) {
			return
		}
		said = append(said, text)
		p.Lines, p.Open = append(p.Lines, sentence(t, mark, text, width, run...)...), p.Open || len(run) > 0
		if p.Mark == draw.Pending || mark == draw.Warn {
			p.Mark = mark
		}
	}
	if x := s.sharing.current(); x != nil {
		for _, r := range x.rows {
			if r == nil {
				continue
			}
			for _, problem := range r.Problems {
				add(draw.Warn, problem.String(), problem.Hint().Commands()...)
			}
		}
	}
	for side, at := range s.sharing.list.sides {
		mark, texts := draw.Unknown, at.unread
		switch {
		case !at.read:
			texts = []string{fmt.Sprintf("not looked: %s is %s", ids[side], s.Board.absence())}
		case !at.off.IsZero():
			mark, texts = draw.Warn, nil
			add(mark, at.off.String(), at.off.Commands()...)
		}
		if more := len(texts) - mostUnread; more > 0 {
			texts = append(texts[:mostUnread:mostUnread], draw.Counted(more, "more part")+" not read: the command \"service list\" names them")
		}
		for _, text := range texts {
			add(mark, text)
		}
		for _, text := range at.without {
			add(draw.Pending, text)
		}
	}
	return p
}

// sentence returns a text behind the sign of a mark.
func sentence(t draw.Theme, mark draw.Mark, text string, width int, run ...command.Command) []string {
	lines := t.Advice(text, run, width-pointerCells)
	for i, line := range lines {
		lead := "  "
		if i == 0 {
			lead = t.Bullets[mark] + " "
		}
		lines[i] = t.Marks[mark].Render(lead + line)
	}
	return lines
}

// noServices says why there are no rows.
func (s Screen) noServices(e session.Env, t draw.Theme, p *peering) []string {
	for _, at := range s.sharing.list.sides {
		if !at.off.IsZero() || at.lacks {
			return []string{"No Service was found that these clusters share."}
		}
	}
	return []string{
		"These clusters share no Service yet. This command exports one of " + t.Plain(string(p.ends[flows.A].ID)) + ":",
		"  " + t.Plain(s.factsOf(e, p).Ours("service", "export", "NAMESPACE/NAME").String()),
	}
}

var lookMarks = [...]draw.Mark{services.NotLooked: draw.Unknown, services.Good: draw.OK, services.Broken: draw.Fail}

// serviceText returns the way from a name to its endpoints, from the place of each cluster.
func (s Screen) serviceText(e session.Env, p *peering) []string {
	t, m := s.theme(e), s.sharing.way
	if m == nil {
		return []string{"Reading" + t.Ellipsis}
	}
	beside := t.Frames() && e.Width >= draw.BesideFrom
	width := t.Inside(e.Width)
	if beside {
		width = t.Inside(e.Width / 2)
	}
	var ends [2]draw.Panel
	for side, at := range m.sides {
		name := t.Plain(string(p.ends[side].ID))
		ends[side] = draw.Panel{Title: t.Title.Render(t.Sides[side].Render(name)) + "  as pods there call " + t.Plain(s.sharing.selected.String()), Grows: true}
		if at.read {
			ends[side].Lines, ends[side].Mark = wayLines(t, at.explanation, e.Now, width)
			for _, hop := range at.explanation.Hops {
				ends[side].Open = ends[side].Open || draw.Pastes(hop.Fix)
			}
		} else {
			ends[side].Lines = sentence(t, draw.Unknown, "not looked: "+name+" is "+s.Board.absence(), width)
		}
	}
	if beside {
		return t.Stack(e.Width, e.Room(), ends[:])
	}
	return t.Stack(e.Width, e.Room(), ends[:1], ends[1:])
}

// hopCells is the largest width of the names of the parts of a way.
const hopCells = 36

// wayLines returns the result, and below it the parts of the way.
func wayLines(t draw.Theme, way services.Explanation, now time.Time, width int) (lines []string, result draw.Mark) {
	result = draw.OK
	switch {
	case way.Broken() != nil:
		result = draw.Fail
	case way.NotLooked() > 0:
		result = draw.Unknown
	}
	lines = append(sentence(t, result, way.Result(), width), "")
	side := 0
	for _, h := range way.Hops {
		side = max(side, draw.Cells(h.What))
	}
	side = min(side, hopCells, width/2)
	for _, h := range way.Hops {
		text := h.Found
		switch age := now.Sub(h.At); {
		case h.Look == services.NotLooked:
			text = "not looked: " + h.Found
		case h.At.IsZero():
			text += " (age not known)"
		case age >= 2*time.Second:
			text += " (" + draw.Age(age) + " ago)"
		}
		mark := lookMarks[h.Look]
		lead := t.Marks[mark].Render(t.Bullets[mark]) + " " + draw.Pad(t.Middle(t.Plain(h.What), side), side) + "  "
		indent := strings.Repeat(" ", draw.Cells(lead))
		for i, clause := range t.Clauses(text, width-len(indent)) {
			lines = append(lines, map[bool]string{true: lead, false: indent}[i == 0]+clause)
		}
		if !h.Fix.IsZero() {
			for i, clause := range t.Advice(h.Fix.String(), h.Fix.Commands(), width-len(indent)-len("Fix: ")) {
				lines = append(lines, indent+map[bool]string{true: t.Title.Render("Fix: "), false: "     "}[i == 0]+clause)
			}
		}
	}
	if calls := way.Calls(); len(calls) > 0 {
		lines = append(lines, "")
		for _, call := range calls {
			lines = append(lines, t.Clauses(call, width)...)
		}
	}
	return lines, result
}

// serviceCommand returns the command for what the page shows: the first advice, or else the command that
// prints the same.
func (s Screen) serviceCommand(e session.Env, p *peering) string {
	m, same := s.sharing.list, []string{"list"}
	if s.page == pageService {
		m, same = s.sharing.way, []string{"resolve", s.sharing.selected.String()}
	}
	if m != nil {
		for _, at := range m.sides {
			fix := at.off
			if b := at.explanation.Broken(); b != nil {
				fix = b.Fix
			}
			if run := fix.Commands(); len(run) > 0 {
				return run[0].String()
			}
		}
	}
	return s.factsOf(e, p).Ours(append([]string{"service"}, same...)...).String()
}

// serviceLegend explains the states of the rows, or of the parts of a way.
func (s Screen) serviceLegend(t draw.Theme) draw.Legend {
	if s.page == pageService {
		l := draw.Legend{Title: "Parts of the way"}
		for look, means := range [...]string{services.Good: "it is as it should be", services.Broken: "nothing gets further than here", services.NotLooked: "nobody could look: the reason stands beside it"} {
			l.Add(t.State(lookMarks[look], services.Look(look).String(), 0), means)
		}
		return l
	}
	l := draw.Legend{Title: "Services"}
	l.Add(t.State(draw.OK, "ok", 0), "nothing is wrong with the exports and imports in both clusters. It was not called")
	l.Add(t.State(draw.Warn, "problem", 0), "something is wrong, and some endpoints are ready")
	l.Add(t.State(draw.Fail, "broken", 0), "something is wrong, and no endpoint is ready")
	l.Add(t.State(draw.Unknown, "not looked", 0), "no problem was found, but not all was read")
	return l
}
