package board

import (
	"fmt"
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Messages of commands on the dashboard. The types page and column are messages, too.
type (
	// pagesMsg moves the selection down by this number of screens.
	pagesMsg int
	// resizeMsg adds this number of lines to the list, and takes them from the pane below it.
	resizeMsg int
	// visitMsg shows the plan of a goal for the selected connection.
	visitMsg session.Goal
	action   uint8
)

const (
	actBack action = iota
	actFilter
	actClear
	actAllChecks
	actWiden
	actPause
	actVerify
	actRemedy
	actHide
	actHandOver
	actCopy
)

// Commands returns the commands of the list or of the shown page. They act on the
// selected connection.
func (s Screen) Commands(e session.Env) []keys.Command {
	k := e.Keys
	var commands []keys.Command
	if s.Detail {
		back := k.Back
		if s.find.String() != "" {
			back = keys.Named(k.Back, "show all lines")
		}
		commands = append(commands, keys.Command{Binding: back, Msg: actBack}, keys.Command{Binding: keys.Named(k.Filter, "search"), Msg: actFilter}, keys.Command{Binding: keys.Named(k.Quit, "back"), Msg: actBack, Quiet: true})
		if s.page == pageMatrix && s.Subject() != nil {
			commands = append(append(commands, keys.Command{Binding: keys.Named(k.Enter, "details"), Msg: pageOverview}), steps(k)...)
		}
		if s.page == pageServices && s.Subject() != nil && s.sharing.current() != nil {
			commands = append(append(commands, keys.Command{Binding: keys.Named(k.Enter, "the way to its pods"), Msg: pageService}), k.Moving()...)
		}
	} else {
		commands = append(commands, s.openingCommands(k)...)
	}
	if s.Subject() != nil && (!s.Detail || !s.page.ofAll()) { // pages of all connections don't show the selected one
		commands = append(commands, s.peeringCommands(e)...)
	}
	if !s.Detail && len(s.Board.Rows) > 0 {
		commands = append(commands, arrangingCommands(k)...)
	}
	if !s.Detail && len(s.Board.sources) > 0 {
		commands = append(commands, keys.Command{Binding: k.Hide, Msg: actHide, Group: keys.Arrange})
	}
	pause := k.Pause
	if !s.paused.IsZero() {
		pause = keys.Named(k.Pause, "go on")
	}
	commands = append(
		commands,
		keys.Command{Binding: k.AllEvents, Msg: pageAllEvents, Group: keys.Look},
		keys.Command{Binding: k.Matrix, Msg: pageMatrix, Group: keys.Look},
		keys.Command{Binding: keys.Named(k.Info, "contexts"), Msg: pageContexts, Group: keys.Look},
		keys.Command{Binding: pause, Msg: actPause, Group: keys.Arrange},
		keys.Command{Binding: k.Save, Msg: session.SaveMsg{}},
		keys.Command{Binding: k.CopyCommand, Msg: actCopy},
		keys.Command{Binding: k.Refresh, Msg: session.RewatchMsg{}},
	)
	if s.Detail {
		return slices.DeleteFunc(commands, func(c keys.Command) bool { return c.Msg == s.page }) // the command of the shown page does nothing
	}
	return append(
		append(commands, k.Moving()...),
		keys.Command{Binding: k.PageUp, Msg: pagesMsg(-1), Quiet: true, Group: keys.Move}, keys.Command{Binding: k.PageDown, Msg: pagesMsg(+1), Quiet: true, Group: keys.Move},
	)
}

// openingCommands returns the most frequent commands of the list.
func (s Screen) openingCommands(k keys.Map) []keys.Command {
	var commands []keys.Command
	if s.Subject() != nil {
		commands = append(commands, keys.Command{Binding: keys.Named(k.Enter, "details"), Msg: pageOverview})
	}
	if s.filter.String() != "" {
		commands = append(commands, keys.Command{Binding: keys.Named(k.Back, "clear the filter"), Msg: actClear})
	}
	if len(s.Board.Rows) > 0 {
		commands = append(commands, keys.Command{Binding: k.Filter, Msg: actFilter})
	}
	return append(commands, keys.Command{Binding: k.Connect, Msg: session.ChooseMsg{}})
}

// peeringCommands returns the commands for the selected connection.
func (s Screen) peeringCommands(e session.Env) []keys.Command {
	k := e.Keys
	var commands []keys.Command
	if s.Detail && s.page == pageDiagnosis {
		results, _, _ := s.checked(e, s.Subject())
		if _, plan := remedies(results); plan != nil {
			commands = append(commands, keys.Command{Binding: keys.Named(k.Apply, "plan: "+plan.Means), Msg: actRemedy})
		}
		if len(problemsOf(results)) > 0 {
			commands = append(commands, keys.Command{Binding: keys.Named(k.Problems, map[bool]string{true: "only problems", false: "all checks"}[s.allChecks]), Msg: actAllChecks})
		}
	} else {
		commands = append(commands, keys.Command{Binding: k.Diagnose, Msg: pageDiagnosis, Group: keys.Look})
	}
	commands = append(commands, keys.Command{Binding: k.Verify, Msg: actVerify})
	return append(
		commands,
		keys.Command{Binding: k.Events, Msg: pageEvents, Group: keys.Look},
		keys.Command{Binding: k.Logs, Msg: pageLogs, Group: keys.Look},
		keys.Command{Binding: k.Services, Msg: pageServices, Group: keys.Look},
		keys.Command{Binding: k.YAML, Msg: pageYAML, Group: keys.Look},
		keys.Command{Binding: k.Disconnect, Msg: visitMsg(session.Disconnect)},
		keys.Command{Binding: k.Reset, Msg: visitMsg(session.Reset)},
		keys.Command{Binding: keys.Named(k.Settings, "change the connection"), Msg: visitMsg(session.Connect)},
		keys.Command{Binding: k.HandOver, Msg: actHandOver},
	)
}

// arrangingCommands returns the commands that change the columns, the size and the order of the list.
func arrangingCommands(k keys.Map) []keys.Command {
	return keys.In(keys.Arrange, []keys.Command{
		{Binding: k.Wide, Msg: actWiden},
		{Binding: k.Grow, Msg: resizeMsg(+2)},
		{Binding: k.Shrink, Msg: resizeMsg(-2)},
		{Binding: k.SortName, Msg: byName},
		{Binding: k.SortStatus, Msg: ByStatus},
		{Binding: k.SortLatency, Msg: ByLatency},
		{Binding: k.SortTraffic, Msg: byThroughput},
		{Binding: k.SortAge, Msg: byAge},
	}...)
}

// widen gives the list the whole screen, so that more columns fit. A second call undoes this.
func (s Screen) widen(e session.Env) Screen {
	before := len(s.layout(e).table)
	s.wide = !s.wide
	if s.wide && len(s.layout(e).table) <= before && before > 0 {
		note := fmt.Sprintf("There is no room for more columns in %d.", e.Width)
		if legends := s.columnLegends(e); len(legends) > 0 && len(legends[len(legends)-1].Rows) == 0 { // no column is hidden
			note = "All columns are in sight."
		}
		e.Post(session.NoteMsg(note))
	}
	return s
}

func (s Screen) move(e session.Env, by int) Screen {
	s.list = s.list.move(by, s.layout(e).rows)
	return s
}

func (s Screen) filterBy(text keys.Line) Screen {
	s.filter = text
	s.Board.filterBy(text.String())
	return s
}

// Typing reports whether the admin types a filter.
func (s Screen) Typing() bool { return s.filtering }

// Key handles a key while the admin types a filter; ok is false at all other times.
func (s Screen) Key(e session.Env, msg tea.KeyPressMsg) (_ Screen, ok bool) {
	switch {
	case !s.filtering:
		return s, false
	case key.Matches(msg, e.Keys.Enter):
		s.filtering = false
	case key.Matches(msg, e.Keys.Back) && s.Detail:
		s.filtering, s.find = false, keys.Line{}
	case s.Detail:
		s.find, _ = s.find.Update(msg)
	case key.Matches(msg, e.Keys.Back):
		s.filtering = false
		s = s.filterBy(keys.Line{})
	case msg.String() == "up":
		s = s.move(e, -1)
	case msg.String() == "down":
		s = s.move(e, +1)
	default:
		if edited, ok := s.filter.Update(msg); ok {
			s = s.filterBy(edited)
		}
	}
	return s, true
}

// click selects the row under the pointer. If the row is already selected, click opens it.
// A click on the title of a column sorts by the column.
func (s Screen) click(e session.Env, at session.ClickMsg) (Screen, tea.Cmd) {
	if s.Detail {
		return s, nil
	}
	s.filtering = false
	switch below := at.Y - len(s.top(e)) - s.listHeight(e); {
	case below >= 0 && below >= s.paneHeight(e):
		return s.turnTo(e, pageAllEvents)
	case below >= 0:
		return s.turnTo(e, pageOverview) // the pane below the list shows the beginning of this page
	}
	parts := s.layout(e)
	row := at.Y - len(s.top(e)) - len(parts.top)
	if edges(e) > 0 { // the frame of the list
		row--
		at.X -= draw.FrameCells
	}
	switch {
	case row == -1 && parts.table != nil:
		if c, ok := parts.table.at(at.X); ok && c.sorts {
			s.Board.sortBy(c.by)
		}
		return s, nil
	case row < 0, row >= parts.rows, s.list.top+row >= len(s.Board.List):
		return s, nil
	case s.list.held && s.list.position() == s.list.top+row:
		return s.turnTo(e, pageOverview)
	}
	s.list = s.list.pick(s.list.top+row, parts.rows)
	return s, nil
}

// planRemedy shows the plan that is the remedy. The diagnosis stays open behind it.
func (s Screen) planRemedy(e session.Env) {
	results, _, _ := s.checked(e, s.Subject())
	_, plan := remedies(results)
	if refs, ok := s.pair(e); ok && plan != nil {
		e.Post(session.VisitMsg{Pair: refs, Goal: session.Connect, Remedy: plan})
	}
}

// remedy returns the first remedy for the results of the shown diagnosis; "" if there is no diagnosis on
// the screen, or no remedy.
func (s Screen) remedy(e session.Env) string {
	p := s.Subject()
	if !s.Detail || s.page != pageDiagnosis || p == nil {
		return ""
	}
	results, _, _ := s.checked(e, p)
	text, _ := remedies(results)
	return text
}

// copyCommand copies the remedy. If there is none, it copies the command that prints the facts about the
// selected connection.
func (s Screen) copyCommand(e session.Env) Screen {
	p := s.Subject()
	if fix := s.remedy(e); fix != "" {
		s.copied = fix
		e.Post(session.CopyMsg(s.copied))
		return s
	}
	if p != nil && s.Detail && (s.page == pageServices || s.page == pageService) {
		s.copied = s.serviceCommand(e, p)
		e.Post(session.CopyMsg(s.copied))
		return s
	}
	if p == nil || s.options.InfoCommand == nil {
		e.Post(session.NoteMsg("Nothing is selected that has a command."))
		return s
	}
	for i, end := range p.ends {
		if end.Chosen {
			s.copied = s.options.InfoCommand(s.Board.speaker(end.ID), p.ends[1-i].ID).String()
			e.Post(session.CopyMsg(s.copied))
			return s
		}
	}
	return s
}

// Update handles messages of events and of commands.
func (s Screen) Update(e session.Env, msg tea.Msg) (Screen, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return s.renewPage(e), nil
	case logsMsg:
		return s.updateLogs(e, msg)
	case handoverMsg:
		s.saveReport(e, msg)
	case session.ClickMsg:
		return s.click(e, msg)
	case historyDueMsg:
		if s.showsHistory(int(msg)) {
			return s, s.readHistory(e)
		}
	case historyMsg:
		return s.updateHistory(e, msg)
	case servicesDueMsg:
		if s.readsServices(int(msg)) {
			return s, s.readServices(e)
		}
	case servicesMsg:
		return s.updateServices(e, msg)
	case keys.MoveMsg:
		if s.Detail {
			return s.moveService(int(msg)), nil
		}
		return s.move(e, int(msg)), nil
	case pagesMsg:
		return s.move(e, int(msg)*max(1, s.layout(e).rows-1)), nil
	case resizeMsg:
		return s.resize(e, int(msg)), nil
	case page:
		return s.turnTo(e, msg)
	case stepMsg:
		return s.step(e, msg), nil
	case session.PairMsg:
		s.Board.prefer(msg)
	case session.DiagnoseMsg:
		s.Detail, s.list.held, s.list.selected = true, true, PairOf(msg.A, msg.B)
		s, cmd := s.turnTo(e, pageDiagnosis)
		s.direct, s.lent = true, true
		return s, cmd
	case column:
		s.Board.sortBy(msg)
	case visitMsg:
		if refs, ok := s.pair(e); ok {
			s.Detail, s.lent = false, false
			e.Post(session.VisitMsg{Pair: refs, Goal: session.Goal(msg)})
		}
	case action:
		return s.act(e, msg)
	}
	return s, nil
}

// act runs a command without parameters.
func (s Screen) act(e session.Env, a action) (Screen, tea.Cmd) {
	switch a {
	case actBack:
		return s.leavePage(e)
	case actFilter:
		s.filtering = true
	case actClear:
		return s.filterBy(keys.Line{}), nil
	case actAllChecks:
		s.allChecks = !s.allChecks
	case actWiden:
		return s.widen(e), nil
	case actPause:
		return s.pause(e), nil
	case actVerify:
		// The overview shows that test packets are sent, and the result.
		if refs, ok := s.pair(e); ok {
			e.Post(session.VerifyMsg{Pair: refs})
			return s.turnTo(e, pageOverview)
		}
	case actRemedy:
		s.lent = false
		s.planRemedy(e)
	case actHandOver:
		return s, s.handOver(e)
	case actHide:
		if !slices.ContainsFunc(s.Board.sources, func(x source) bool { return !x.silent.IsZero() }) {
			e.Post(session.NoteMsg("No context is silent: there is no name to hide."))
			break
		}
		s.Board.hides = !s.Board.hides
	case actCopy:
		return s.copyCommand(e), nil
	}
	return s, nil
}
