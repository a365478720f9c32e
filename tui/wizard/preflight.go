package wizard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// preflightScreen shows the checks before a plan.
type preflightScreen struct {
	results  []check.Result
	selected checkKey
	problems bool // show only checks that did not pass
	explain  bool // the selected check is explained on the whole screen

	passing bool // the screen becomes the plan if no check fails

	asked   int    // the number of the latest review
	watches [2]int // of the clusters in that review
	reviews [2]*rights.Review
	errs    [2]error
}

// checkKey identifies a result: a check is made once, or once for each side, or once for
// each direction.
type checkKey struct {
	id    flows.Code
	where string
}

func keyOf(r check.Result) checkKey { return checkKey{r.ID, r.Where()} }

type reviewMsg struct {
	asked   int
	reviews [2]*rights.Review
	errs    [2]error
}

// evaluate makes the checks with the latest facts.
func (s preflightScreen) evaluate(c scene) preflightScreen {
	if s.watches != c.watches() { // these answers are about another pair, or from before the clusters were opened again
		s.reviews, s.errs = [2]*rights.Review{}, [2]error{}
	}
	s.results = check.Preflight(c.params, c.facts(), s.reviews)
	if shown := s.shown(); s.index() < 0 && len(shown) > 0 {
		// Failed checks come first.
		i := slices.IndexFunc(shown, func(r check.Result) bool { return r.State == check.Fail })
		s.selected = keyOf(shown[max(0, i)])
	}
	return s
}

// complete reports whether both clusters have answered all questions of the checks.
func (s preflightScreen) complete(c scene) bool {
	answered := func(side flows.Side) bool { return s.reviews[side] != nil || s.errs[side] != nil }
	return c.planned() && answered(flows.A) && answered(flows.B)
}

// failed reports whether a check has failed.
func (s preflightScreen) failed() bool {
	return slices.ContainsFunc(s.results, func(r check.Result) bool { return r.State == check.Fail })
}

// ask asks both clusters whether the user may make the changes of the plan. It does so
// when the checks are first shown, and again after a cluster was opened again.
func (s preflightScreen) ask(c scene) (preflightScreen, tea.Cmd) {
	clusters := [2]engine.Cluster{c.on(flows.A).Cluster, c.on(flows.B).Cluster}
	if !c.planned() || clusters[flows.A] == nil || clusters[flows.B] == nil || s.watches == c.watches() {
		return s, nil
	}
	s.asked++
	s = s.evaluate(c)
	s.watches = c.watches()
	id, ctx := s.asked, c.Ctx
	needs := rights.OfBoth(c.Current)
	return s, func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, session.AskTimeout)
		defer cancel()
		msg := reviewMsg{asked: id}
		msg.reviews, msg.errs = engine.Review(ctx, clusters, needs)
		return msg
	}
}

func (s preflightScreen) update(c scene, msg tea.Msg) preflightScreen {
	switch msg := msg.(type) {
	case reviewMsg:
		if msg.asked == s.asked {
			s.reviews, s.errs = msg.reviews, msg.errs
			return s.evaluate(c)
		}
	case keys.MoveMsg:
		s.passing = false
		if shown := s.shown(); len(shown) > 0 {
			i := max(0, s.index()) + int(msg)
			s.selected = keyOf(shown[min(max(i, 0), len(shown)-1)])
		}
	case action:
		s.passing = false
		switch msg {
		case actExplain:
			s.explain = !s.explain
		case actProblems:
			s.problems = !s.problems
			return s.evaluate(c)
		case actPass:
			return s.pass(c)
		default:
		}
	}
	return s
}

// shown returns the checks that match the filter.
func (s preflightScreen) shown() []check.Result {
	return slices.DeleteFunc(slices.Clone(s.results), func(r check.Result) bool {
		return s.problems && (r.State == check.Pass || r.State == check.Planned)
	})
}

// index returns the index of the selected check among these.
func (s preflightScreen) index() int {
	return slices.IndexFunc(s.shown(), func(r check.Result) bool { return keyOf(r) == s.selected })
}

func (s preflightScreen) commands(k keys.Map) []keys.Command {
	if s.explain {
		return []keys.Command{{Binding: k.Back, Msg: actExplain}, {Binding: keys.Named(k.Enter, "back"), Msg: actExplain, Quiet: true}}
	}
	commands := []keys.Command{
		{Binding: keys.Named(k.Enter, "continue"), Msg: actPass},
		{Binding: keys.Named(k.Info, "explain"), Msg: actExplain},
		{Binding: k.Back, Msg: goBack},
		{Binding: keys.Named(k.Verify, "try with packets"), Msg: tryMsg{}},
		{Binding: k.Refresh, Msg: session.RewatchMsg{}},
		{Binding: keys.Named(k.Problems, map[bool]string{true: "all checks", false: "only problems"}[s.problems]), Msg: actProblems},
	}
	return append(commands, k.Moving()...)
}

// pass continues with the plan, unless a check has failed. An image that can't be pulled
// is no obstacle, because the form is the place to name another image.
func (s preflightScreen) pass(c scene) preflightScreen {
	var next tea.Msg = goPlan
	for _, r := range s.results {
		if r.State == check.Fail && r.ID == flows.CodeImage {
			next = editMsg(install.ImageSetting().Name)
		} else if r.State == check.Fail {
			s.selected = keyOf(r)
			c.Post(session.NoteMsg(fmt.Sprintf("%s %s has failed: fix this first. This screen follows the clusters.", r.ID, r.Title)))
			return s
		}
	}
	c.Post(next)
	return s
}

func (s preflightScreen) view(c scene) []string {
	switch {
	case !c.planned():
		return c.asking()
	case s.explain:
		return c.Pane()
	}
	outer := c.Width
	c = c.framed()
	t := c.Theme
	tally := s.tally(t.Dot)
	if c.tried.stop != nil {
		tally += t.Dot + "trying with a pod on each side, for " + draw.Age(c.Now.Sub(c.tried.began))
	}
	if t.Frames() {
		return t.Stack(outer, c.Body, s.panels(c, tally)...)
	}
	lines, few := []string{t.Title.Render(tally), ""}, 5
	if c.Height < 16 { // the evidence matters more than the other checks
		lines, few = lines[:1], 4
	}
	shown, selected := s.shown(), max(0, s.index())
	rows := make([]string, len(shown))
	for i, r := range shown {
		rows[i] = c.checkLine(r, t.PlacesCells(shown, c.Width/3), i == selected)
	}
	if len(rows) == 0 {
		rows = []string{"No problem: " + keys.Called(c.Keys.Problems) + " shows all checks."}
	}
	detail := s.detail(c, shown, selected)
	room := c.Body - len(lines)
	if c.Body > largeBody && len(detail) > 0 && shown[selected].State != check.Pass { // if there is room, a check that did not pass is explained
		if all := append(detail[:1:1], s.text(c)[2:]...); len(rows)+1+len(all) <= room {
			detail = all
		}
	}
	if len(rows)+len(detail) > room {
		detail = detail[:min(len(detail), max(0, room-min(len(rows), few)))]
	}
	height := max(1, room-len(detail))
	lines = append(lines, draw.Window(rows, selected, height)...)
	if len(detail) > 0 && height < len(rows) { // a line counts the invisible checks
		detail[0] = t.RuleLine(fmt.Sprintf("check %d of %d%s%s", selected+1, len(rows), t.Dot, shown[selected].Title), c.Width)
	}
	return c.below(lines, detail)
}

// panels returns the checks, and what is known of the selected one.
func (s preflightScreen) panels(c scene, tally string) [][]draw.Panel {
	t := c.Theme
	shown, selected := s.shown(), max(0, s.index())
	checks := draw.Panel{Title: t.Title.Render(tally), Grows: true}
	if selected >= len(shown) {
		checks.Lines = []string{"No problem: " + keys.Called(c.Keys.Problems) + " shows all checks."}
		return [][]draw.Panel{{checks}}
	}
	r := shown[selected]
	detail := draw.Panel{Title: t.Title.Render(string(r.ID) + " " + t.Plain(r.Title)), Right: t.Faint.Render(fmt.Sprintf("%d of %d", selected+1, len(shown))), Lines: s.facts(c, r)}
	detail.Open = draw.Pastes(r.Fix...)
	if mark := draw.CheckMarks[r.State]; mark == draw.Warn || mark == draw.Fail {
		checks.Mark, detail.Mark = mark, mark
	}
	if all := s.text(c)[2:]; r.State != check.Pass && len(all) < c.Body/2 { // a check that did not pass is explained
		detail.Lines = all
	}
	if most := c.Body - minList - 2*t.Edges(); len(detail.Lines) > most {
		detail.Lines = detail.Lines[:max(0, most)]
	}
	for i, r := range shown {
		checks.Lines = append(checks.Lines, c.checkLine(r, t.PlacesCells(shown, c.Width/3), i == selected))
	}
	room := c.Body - len(detail.Lines) - 2*t.Edges()
	checks.Lines = draw.Window(checks.Lines, selected, min(len(shown), max(minList, room)))
	return [][]draw.Panel{{checks}, {detail}}
}

// tally counts the checks by their outcome.
func (s preflightScreen) tally(dot string) string {
	var count [check.Outcomes]int
	for _, r := range s.results {
		count[r.State]++
	}
	verdict := "Ready"
	if count[check.Fail] > 0 {
		verdict = "Fix what failed first"
	}
	parts := []string{verdict, draw.Counted(count[check.Pass], "check") + " passed"}
	for _, kind := range []struct {
		state check.Outcome
		word  string
	}{{check.Planned, "planned"}, {check.Warn, "with a note"}, {check.Fail, "failed"}, {check.Inconclusive, "can't be known yet"}, {check.Skipped, "skipped"}} {
		if count[kind.state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[kind.state], kind.word))
		}
	}
	return strings.Join(parts, dot)
}

func (c scene) checkLine(r check.Result, column int, selected bool) string {
	t := c.Theme
	word := map[check.Outcome]string{
		check.Pass: "pass", check.Warn: "warn", check.Fail: "FAIL", check.Inconclusive: "unknown", check.Skipped: "skipped",
		check.Planned: "planned",
	}[r.State]
	line := t.State(draw.CheckMarks[r.State], word, t.StateWidth()) + " " + draw.Pad(t.Middle(t.Plain(r.Where()), column), column) + " "
	if c.Width >= 70 {
		line += t.Faint.Render(string(r.ID)) + " "
	}
	line += draw.Pad(t.Plain(r.Title), check.LongestTitle)
	if c.Width >= 60 {
		line += "  " + t.Faint.Render(t.Plain(r.Summary))
	}
	return c.Theme.Row(selected, line, c.Width)
}

func (s preflightScreen) detail(c scene, shown []check.Result, selected int) []string {
	if selected >= len(shown) {
		return nil
	}
	r := shown[selected]
	lines := []string{c.Theme.RuleLine(string(r.ID)+" "+r.Title, c.Width)}
	return append(lines, s.facts(c, r)...)
}

func (s preflightScreen) facts(c scene, r check.Result) []string {
	t := c.Theme
	lines := t.Clauses(r.Summary, c.Width)
	for _, side := range r.Sides {
		if err := s.errs[side]; err != nil && r.ID == flows.CodePermission {
			lines = append(lines, t.Clauses(c.name(side)+" was asked and answered: "+err.Error(), c.Width)...)
		}
	}
	for _, text := range r.Evidence {
		lines = append(lines, t.Field("Seen  ", text, c.Width)...)
	}
	for i, text := range r.Fix {
		label := "Fix   "
		if i > 0 {
			label = "or    "
		}
		lines = append(lines, t.Field(label, text.String(), c.Width, text.Commands()...)...)
	}
	return lines
}

// text explains the selected check completely, for newcomers too.
func (s preflightScreen) text(c scene) []string {
	shown, i := s.shown(), s.index()
	if i < 0 {
		return nil
	}
	t, r := c.Theme, shown[i]
	lines := []string{t.Title.Render(fmt.Sprintf("%s  %s", r.ID, t.Plain(r.Title))), ""}
	lines = append(lines, s.facts(c, r)...)
	text, ok := check.Explain(r.ID)
	if !ok {
		return lines
	}
	lines = append(lines, "")
	lines = append(lines, t.Clauses(text.Meaning, c.Width)...)
	lines = append(lines, "")
	for _, fix := range text.Fix {
		lines = append(lines, t.Field(t.Bullets[draw.Pending]+" ", fix, c.Width)...)
	}
	return lines
}

// unforeseen reports whether the addresses that a side will use are known only after an installation.
func (c scene) unforeseen(s flows.Side) bool {
	return c.on(s).Good.Installable() && c.wanted.Install[s] != nil
}

// sees returns the addresses under which a side sees, or will see, the other side's
// pods.
func (c scene) sees(s flows.Side) string {
	other := c.id(s.Other())
	if c.unforeseen(s) {
		return fmt.Sprintf("The addresses that %s will use for %s's pods are known after the installation.", c.id(s), other)
	}
	views, err := check.Views(flows.Expected(c.wanted.Params, c.facts()), s)
	if err != nil {
		return fmt.Sprintf("%s has no addresses left for %s: %v.", c.id(s), other, err)
	}
	var parts []string
	verb := "sees"
	for _, v := range views {
		if v.Use == "pods" {
			parts = append(parts, v.String())
		}
		if v.Predicted {
			verb = "will see"
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("The addresses that %s will use for %s's pods are known after the installation.", c.id(s), other)
	}
	return fmt.Sprintf("%s %s %s's %s.", c.id(s), verb, other, strings.Join(parts, ", "))
}
