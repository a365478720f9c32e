package wizard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// applyRow is the first row of the list. Enter on this row applies the plan.
const applyRow flows.StepID = "apply"

// planScreen lists the steps of the plan, with details of the selected row.
type planScreen struct {
	selected flows.StepID // by ID, because the plan may change while it is shown
	zoom     bool         // the diff is shown on the whole screen
	pinned   bool         // the admin opened this screen, so it stays
	remedy   bool         // the plan comes from a diagnosis: back leads there
	afterRun bool         // the plan removes what the last run has applied: back leads to the end of the run
	note     string       // shown until the next decision
	// localOnly is set if the plan does not change cluster B, because B does not answer.
	localOnly bool
	made      []flows.Change // the only objects that go, if some existed before the run; else nil
}

func planIDs(p flows.Plan) []flows.StepID {
	var ids []flows.StepID
	if !p.Done() {
		ids = append(ids, applyRow)
	}
	for _, s := range p.Steps {
		ids = append(ids, s.ID)
	}
	return ids
}

// noRow is selected while the row of the selection is gone: enter must not mean another row than before.
const noRow flows.StepID = "none"

// keep keeps the selection while its row exists.
func (s planScreen) keep(p flows.Plan) planScreen {
	ids := planIDs(p)
	if slices.Contains(ids, s.selected) || s.selected == noRow || len(ids) == 0 {
		return s
	}
	if s.selected != "" {
		s.selected, s.zoom = noRow, false
		return s
	}
	s.selected = ids[0]
	return s
}

func (s planScreen) index(p flows.Plan) int { return max(0, slices.Index(planIDs(p), s.selected)) }

func (s planScreen) commands(c scene) []keys.Command {
	k := c.Keys
	back, refresh := keys.Command{Binding: k.Back, Msg: actLeave}, keys.Command{Binding: k.Refresh, Msg: session.RewatchMsg{}}
	switch {
	case s.zoom:
		return []keys.Command{back, {Binding: keys.Named(k.Enter, "back"), Msg: actLeave, Quiet: true}}
	case !c.planned():
		return []keys.Command{back}
	case c.Current.Failure() != nil && c.goal != session.Connect && c.on(flows.A).Latest.Problem == nil:
		return []keys.Command{{Binding: keys.Named(k.LocalOnly, "remove on "+c.name(flows.A)+" only"), Msg: goLocally}, refresh, back}
	case c.Current.Failure() != nil && c.goal == session.Connect:
		return []keys.Command{{Binding: k.Settings, Msg: goSettings}, refresh, back}
	case c.Current.Failure() != nil:
		return []keys.Command{refresh, back}
	}
	apply := "apply"
	if c.Current.Empty() {
		apply = "wait"
	}
	var commands []keys.Command
	switch s.selected {
	case noRow:
	case applyRow:
		commands = append(commands, keys.Command{Binding: keys.Named(k.Enter, apply), Msg: goApply})
	default:
		commands = append(commands, keys.Command{Binding: keys.Named(k.Enter, "diff"), Msg: actZoom})
	}
	if !c.Current.Done() {
		commands = append(commands, keys.Command{Binding: keys.Named(k.Apply, apply), Msg: goApply, Quiet: s.selected == applyRow})
	}
	commands = append(commands, back)
	if c.goal == session.Connect {
		commands = append(commands,
			keys.Command{Binding: k.Settings, Msg: goSettings},
			keys.Command{Binding: keys.Named(k.Info, "checks"), Msg: goChecks})
	}
	if same := c.command(); same != "" {
		commands = append(commands, keys.Command{Binding: k.CopyCommand, Msg: session.CopyMsg(same)})
	}
	commands = append(commands, refresh)
	return append(commands, k.Moving()...)
}

func (s planScreen) update(c scene, msg tea.Msg) planScreen {
	switch msg {
	case actZoom:
		s.zoom = true
	case actLeave: // from the diff back to the list, and from the list back to where the plan was opened
		if !s.zoom {
			c.Post(goBack)
		}
		s.zoom = false
	}
	if by, ok := msg.(keys.MoveMsg); ok {
		if ids := planIDs(c.Current); s.selected == noRow && len(ids) > 0 {
			s.selected = ids[0]
		} else if len(ids) > 0 {
			s.selected = ids[min(max(s.index(c.Current)+int(by), 0), len(ids)-1)]
		}
	}
	return s
}

// Heights of parts of the plan screen, in lines.
const (
	wantPane   = 7  // its heading, and enough lines to explain the plan
	minList    = 5  // rows in addition to a pane
	roomy      = 12 // of the body, from which on the checks and the command are shown
	maxCommand = 3  // the help shows the whole command
)

// planLayout divides the remaining height of the body between the list and the pane.
func (c scene) planLayout(height int) (list, pane int) {
	n := len(planIDs(c.Current))
	switch {
	case height-n >= wantPane:
		return n, height - n
	case height-wantPane >= minList:
		return height - wantPane, wantPane
	}
	return min(n, max(1, height-1)), 0
}

func (s planScreen) view(c scene) []string {
	if !c.planned() {
		return c.asking()
	}
	if c.Current.Failure() != nil || s.zoom {
		return c.Pane()
	}
	if c.Theme.Frames() {
		return s.panels(c)
	}
	if half, ok := c.half(); ok {
		head := s.head(half, c.Body)
		list := c.Body - len(head)
		left := append(head, draw.Window(s.rows(half), s.index(c.Current), list)...)
		return c.Theme.Beside(left, append([]string{s.paneHeading(half, list)}, c.Pane()...), c.Width)
	}
	head := s.head(c, c.Body)
	list, pane := c.planLayout(c.Body - len(head))
	lines := append(head, draw.Window(s.rows(c), s.index(c.Current), list)...)
	if pane > 0 {
		return append(append(lines, s.paneHeading(c, list)), c.Pane()...)
	}
	step, _ := c.Current.Step(s.selected)
	where := fmt.Sprintf("%d/%d  ", s.index(c.Current)+1, len(planIDs(c.Current)))
	hint := "enter shows the diff"
	if s.selected == applyRow {
		hint = "enter asks once more, then applies"
	}
	return append(lines, c.Theme.Faint.Render(where+c.Theme.Plain(cmp.Or(step.Reason, hint))))
}

// panels draws the steps and the text about the selected one in frames.
func (s planScreen) panels(c scene) []string {
	t := c.Theme
	inner, head, list, pane := s.framed(c, c.Body)
	n, at, outer := len(planIDs(c.Current)), s.index(c.Current), inner.Width+2*draw.FrameCells
	steps := draw.Panel{Title: head[0], Lines: draw.Window(s.rows(inner), at, list-t.Edges())}
	if list-t.Edges() < n {
		steps.Right = t.Faint.Render(fmt.Sprintf("row %d of %d", at+1, n))
	}
	about := draw.Panel{Title: t.Title.Render(t.Plain(s.title(c))), Lines: c.Pane()}
	upper := t.Panel(steps, outer, list)
	if outer == c.Width {
		return slices.Concat(head[1:], upper, t.Panel(about, outer, pane))
	}
	return append(head[1:], draw.Join(upper, t.Panel(about, c.Width-outer, pane))...)
}

// framed returns the scene inside of a panel, the lines above the panels, whose first one is the title of the steps, and
// the heights of both panels. On a wide screen they stand beside each other.
func (s planScreen) framed(c scene, height int) (inner scene, head []string, list, pane int) {
	t := c.Theme
	head = s.head(c, height)
	room := height - len(head) + 1
	inner = c
	if c.Width >= draw.BesideFrom {
		inner.Width = t.Inside(c.Width / 2)
		return inner, head, room, room
	}
	inner.Width = t.Inside(c.Width)
	list = min(len(planIDs(c.Current)), max(minList, room-wantPane-t.Edges())) + t.Edges()
	return inner, head, list, room - list
}

// failures returns a card for each reason against a plan.
func (c scene) failures() []string {
	var lines []string
	for _, s := range c.Current.Steps {
		if s.Status != flows.Failed {
			continue
		}
		lines = append(lines, c.card(s)...)
		lines = append(lines, "")
	}
	return append(lines, c.Theme.Wrap("This screen continues by itself when this is fixed.", c.Width, 0)...)
}

// card returns lines about a failed step: the place, the reason, the advice, and the
// evidence.
func (c scene) card(s flows.Step) []string {
	t := c.Theme
	title, side := t.Marks[draw.Fail].Render(t.Glyphs[draw.Fail]+" failed: "+t.Plain(s.Title)), t.Side(s.Side, c.name(s.Side), 0)
	if s.Code != "" {
		side += "  " + t.Faint.Render(string(s.Code))
	}
	lines := []string{title + "  " + side, ""}
	if draw.Cells(lines[0]) > c.Width { // the place of the failure matters more than an empty line
		lines = []string{title, "  " + side}
	}
	column := 9
	if c.Width < 60 {
		column = 6
	}
	add := func(label, text string, run ...command.Command) {
		lines = append(lines, t.Field(draw.Pad(label, column), text, c.Width, run...)...)
	}
	add("Why", s.Reason)
	for i, fix := range s.Fix {
		way, or := strings.CutPrefix(strings.Replace(fix.String(), "or, ", "or ", 1), "or ")
		switch {
		case i == 0:
			add("Fix", way, fix.Commands()...)
		case or:
			add("or", way, fix.Commands()...)
		default:
			add("", way, fix.Commands()...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Evidence)) {
		// The reason already contains the last observation, and its duration.
		if text := s.Evidence[name]; name != flows.EvidenceSince && !strings.Contains(s.Reason, text) {
			add("Seen", name+": "+text)
		}
	}
	for _, e := range s.Events[:min(len(s.Events), 3)] {
		if !strings.Contains(s.Reason, e.Message) {
			add("Event", fmt.Sprintf("%s %s: %s", e.Object, e.Reason, e.Message))
		}
	}
	return lines
}

// counted counts the changes of a plan, and names the server.
func (c scene) counted(p flows.Plan) string {
	facts := slices.DeleteFunc(strings.Split(p.Changes().String(), ", "), func(text string) bool { return strings.HasPrefix(text, "0 ") })
	switch {
	case p.Done():
		facts = []string{"Nothing is left to do."}
	case p.Empty():
		facts = []string{"Everything is applied."}
	}
	if c.goal == session.Connect {
		facts = append(facts, fmt.Sprintf("server on %s, %s", c.name(c.params.Server), c.params.ServiceType))
	}
	return c.Theme.Title.Render(strings.Join(facts, c.Theme.Dot))
}

// head counts the changes, and names the command that makes the same plan.
func (s planScreen) head(c scene, height int) []string {
	lines := append([]string{c.counted(c.Current)}, c.suggestion()...)
	if height >= roomy {
		lines = append(lines, c.passed()...)
	}
	if s.note != "" {
		note := c.Theme.Wrap(s.note, c.Width, 0)
		for _, line := range note {
			lines = append(lines, c.Theme.Marks[draw.Warn].Render(line))
		}
	}
	if height < roomy {
		return lines
	}
	if same := c.command(); same != "" {
		command := c.Theme.Command("As a command: ", same, c.Width)
		for _, line := range command[:min(len(command), maxCommand)] {
			lines = append(lines, c.Theme.Faint.Render(line))
		}
	}
	if height > 24 && !c.Theme.Frames() {
		lines = append(lines, c.Theme.RuleLine("", c.Width))
	}
	return lines
}

// suggestion names the clusters that the program chose.
func (c scene) suggestion() []string {
	if !c.suggested() || c.goal != session.Connect {
		return nil
	}
	var lines []string
	for _, side := range []flows.Side{flows.A, flows.B} {
		m := c.on(side)
		lines = append(lines, c.Theme.Title.Render(c.Theme.Plain(c.Fleet.Call(m)+"  "+m.Server)))
	}
	return append(lines, c.Theme.Wrap("liqo-tui chose these two: no other pair is left to connect. "+keys.Called(c.Keys.Back)+" shows all.", c.Width, 0)...)
}

// passed counts the checks before a connection, in a line.
func (c scene) passed() []string {
	if c.goal != session.Connect || len(c.checks) == 0 {
		return nil
	}
	s, mark := preflightScreen{results: c.checks}, draw.OK
	if s.failed() {
		mark = draw.Fail
	}
	return []string{c.Theme.State(mark, s.tally(c.Theme.Dot), 0)}
}

func (s planScreen) rows(c scene) []string {
	var rows []string
	if !c.Current.Done() {
		text := "Apply: " + draw.Counted(c.Current.Changes().Total(), "change")
		if c.Current.Empty() {
			text = "Wait until it works"
		}
		rows = append(rows, c.Theme.Row(s.selected == applyRow, text, c.Width))
	}
	for _, step := range c.Current.Steps {
		line := c.stepLine(step, true)
		if step.Status == flows.Waiting && !c.Current.Empty() { // no step waits before the changes are made
			line = c.stepLineAs(draw.Pending, draw.StepWord(flows.Ready), step, true)
		}
		rows = append(rows, c.Theme.Row(step.ID == s.selected, line, c.Width))
	}
	return rows
}

// stepLine returns a step as a line: state, side, action, title and reason.
func (c scene) stepLine(s flows.Step, withAction bool) string {
	return c.stepLineAs(draw.StepMark(s.Status), draw.StepWord(s.Status), s, withAction)
}

// stepLineAs is stepLine with another word for the state.
func (c scene) stepLineAs(mark draw.Mark, word string, s flows.Step, withAction bool) string {
	t := c.Theme
	line := t.State(mark, word, t.StateWidth()) + " " +
		c.side(s.Side) + " "
	if withAction && c.Width >= 60 {
		action := s.Action.String()
		if s.Status == flows.Done && s.Action.Changes() {
			action = "-"
		}
		line += draw.Pad(action, len("replace")+1)
	}
	line += t.Plain(s.Title)
	if s.Reason != "" && c.Width >= 60 {
		line += "  " + t.Faint.Render(t.Plain(s.Reason))
	}
	return line
}

// text returns the part of the screen that scrolls: the reasons against a plan, or the pane
// below the list about the selected row.
func (s planScreen) text(c scene) session.Text {
	switch {
	case !c.planned():
		return session.Text{}
	case c.Current.Failure() != nil:
		return session.Text{ID: "failures", Lines: c.failures(), Height: c.Room(), Sideways: true}
	}
	text := session.Text{ID: "step " + string(s.selected), Lines: s.pane(c), Height: c.Room(), Sideways: true}
	if c.Theme.Frames() {
		inner, _, _, pane := s.framed(c, c.Room())
		text.Lines, text.Width, text.Height = s.pane(inner), inner.Width, pane-c.Theme.Edges()
		if c.Width >= draw.BesideFrom && s.selected == applyRow { // there is room for the whole text
			text.Lines = append(text.Lines, inner.diffs()...)
		}
		return text
	}
	if half, ok := c.half(); ok && !s.zoom {
		text.Lines, text.Width, text.Height = s.pane(half), half.Width, text.Height-1
		if s.selected == applyRow { // there is room for the whole text
			text.Lines = append(text.Lines, half.diffs()...)
		}
	} else if !s.zoom {
		_, pane := c.planLayout(text.Height - len(s.head(c, text.Height)))
		text.Height = max(0, pane-1)
	}
	return text
}

// pane returns the text of the pane about the selected row.
func (s planScreen) pane(c scene) []string {
	if s.selected == applyRow {
		return c.outlook(c.Current)
	}
	step, ok := c.Current.Step(s.selected)
	if !ok {
		return nil
	}
	var lines []string
	if step.Reason != "" {
		lines = append(lines, c.Theme.Wrap(step.Reason, c.Width, 0)...)
	}
	switch {
	case step.Diff != "":
		lines = append(lines, c.Theme.Diff(step.Diff)...)
	case step.Status == flows.Done && step.Reason == "":
		lines = append(lines, "It exists as wanted: nothing to change.")
	case step.Status == flows.Blocked && step.Action.Changes():
		lines = append(lines, "Its content is known only after that.")
	}
	return lines
}

func (c scene) diffs() (lines []string) {
	for _, step := range c.Current.Steps {
		if step.Diff != "" {
			lines = append(append(lines, "", c.Theme.RuleLine(c.stepTitle(step), c.Width)), c.Theme.Diff(step.Diff)...)
		}
	}
	return lines
}

// point returns one consequence of a plan, as lines.
func (c scene) point(mark draw.Mark, text string) []string {
	lines := c.Theme.Clauses(text, c.Width-2)
	for i, line := range lines {
		if lines[i] = "  " + line; i == 0 {
			lines[i] = c.Theme.Marks[mark].Render(c.Theme.Bullets[mark]) + " " + line
		}
	}
	return lines
}

// warnings returns lines about the effects of a plan on clusters without an installation,
// and about interruptions.
func (c scene) warnings(p flows.Plan) (lines []string) {
	for _, s := range []flows.Side{flows.A, flows.B} {
		if c.unforeseen(s) && !p.Done() {
			lines = append(lines, c.point(draw.Warn, fmt.Sprintf("%s gets the liqo-tui operator: a Deployment, and on each node a pod on the host's network with NET_ADMIN and NET_RAW.", c.id(s)))...)
		}
	}
	for _, text := range p.Interrupts() {
		lines = append(lines, c.point(draw.Warn, text)...)
	}
	return lines
}

// outlook returns lines about the effects of the plan for users of the clusters.
func (c scene) outlook(p flows.Plan) []string {
	lines := c.warnings(p)
	add := func(mark draw.Mark, text string) { lines = append(lines, c.point(mark, text)...) }
	a, b := c.id(flows.A), c.id(flows.B)
	switch {
	case c.goal == session.Disconnect:
		add(draw.Pending, fmt.Sprintf("%s and %s keep the addresses that they have for each other, for the next connection.", a, b))
	case c.made != nil:
		add(draw.Pending, "What existed before the run stays, also what the run has changed in it.")
	case c.goal == session.Reset:
		add(draw.Pending, fmt.Sprintf("%s and %s forget each other: a later connection may have other addresses.", a, b))
	case len(p.Interrupts()) == 0:
		add(draw.Pending, fmt.Sprintf("Pods of %s and %s will reach each other through an encrypted tunnel. No traffic is interrupted.", a, b))
	}
	if c.goal == session.Connect && !p.Done() {
		add(draw.Pending, "Once connected, a pod on each side sends packets to the other, and is removed again.")
	}
	if c.goal == session.Connect {
		for _, s := range []flows.Side{flows.A, flows.B} {
			add(draw.Pending, c.sees(s))
		}
	}
	for _, text := range p.Kept {
		add(draw.Pending, text)
	}
	for _, command := range p.Owed {
		add(draw.Warn, "to be run by the other cluster's admin: "+command.String())
	}
	return lines
}

// paneHeading returns the line between the list and the pane. list is the number of visible
// rows.
func (s planScreen) paneHeading(c scene, list int) string {
	n := len(planIDs(c.Current))
	if list >= n {
		return s.heading(c)
	}
	where := fmt.Sprintf("row %d of %d", s.index(c.Current)+1, n)
	if title := s.title(c); title != "" {
		where += c.Theme.Dot + title
	}
	return c.Theme.RuleLine(where, c.Width)
}

// heading returns the line above the pane.
func (s planScreen) heading(c scene) string { return c.Theme.RuleLine(s.title(c), c.Width) }

func (s planScreen) title(c scene) string {
	step, ok := c.Current.Step(s.selected)
	switch {
	case s.selected == applyRow:
		return "What it means"
	case !ok:
		return ""
	}
	return c.stepTitle(step)
}

func (c scene) stepTitle(step flows.Step) string {
	return fmt.Sprintf("%s of %s", step.Title, c.name(step.Side))
}
