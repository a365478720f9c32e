package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// checked returns the checks of a connection. If a cluster is not among the contexts, missing is
// its ID, and only checks of the other cluster are returned. unread has the titles of the checks
// whose facts only the command reads.
func (s Screen) checked(e session.Env, p *peering) (results []check.Result, unread []string, missing wire.ClusterID) {
	_, missing = s.contextsOf(p)
	results = s.looks[p.ID].Diagnose(s.factsOf(e, p))
	results = slices.DeleteFunc(results, func(r check.Result) bool {
		if r.State == check.Inconclusive && r.Summary == check.NotRead && !slices.Contains(unread, r.Title) {
			unread = append(unread, r.Title)
		}
		return r.State == check.Inconclusive && (r.Summary == check.NotRead || r.ID == check.Closed)
	})
	if missing != "" {
		results = slices.DeleteFunc(results, func(r check.Result) bool {
			return len(r.Sides) != 1 || p.ends[r.Sides[0]].ID == missing
		})
	}
	return results, unread, missing
}

// remedies returns the best fixes of the root causes: a text to copy, "" for none, and a plan,
// nil for none.
func remedies(results []check.Result) (text string, plan *check.Remedy) {
	for _, r := range results {
		if !r.Root {
			continue
		}
		if text == "" && len(r.Fix) > 0 {
			text = r.Fix[0].String()
			if run := r.Fix[0].Commands(); len(run) > 0 { // the text is for a shell
				text = run[0].String()
			}
		}
		if plan == nil {
			plan = r.Plan
		}
	}
	return text, plan
}

// diagnosisText returns the verdict, the way of a packet, the advice, and the results with the
// root causes first. Passed checks are shown only if the admin wants all, or if there is room for them.
func (s Screen) diagnosisText(e session.Env, p *peering) []string {
	t, width := s.theme(e), e.Width
	inside := t.Inside(width)
	results, unread, missing := s.checked(e, p)
	mark := draw.CheckMarks[check.Worst(results)]
	verdict := draw.Panel{Title: t.Title.Render("Diagnosis"), Mark: mark, Lines: sentence(t, mark, check.Headline(results), inside)}
	if missing != "" {
		verdict.Lines = append(verdict.Lines, sentence(t, draw.Unknown, string(missing)+" is "+s.Board.absence()+": only the other side could be checked", inside)...)
	}
	var reported []string
	for _, end := range p.ends {
		if at := end.Reading.At; end.Chosen && !at.IsZero() {
			reported = append(reported, t.Plain(fmt.Sprintf("%s reported at %s", end.ID, at.In(e.Now.Location()).Format(time.TimeOnly))))
		}
	}
	for _, line := range t.Pack(reported, inside) {
		verdict.Lines = append(verdict.Lines, t.Faint.Render(line))
	}
	lines := t.Stack(width, 0, []draw.Panel{verdict})
	lines = append(lines, t.Connection(picture(t, results, p, width), width)...)

	remedy := draw.Panel{Title: t.Title.Render("What you can do")}
	text, plan := remedies(results)
	if text != "" && e.Keys.CopyCommand.Enabled() {
		lead := keys.Called(e.Keys.CopyCommand) + "  copy: "
		for i, line := range t.Clauses(text, inside-len(lead)) {
			remedy.Lines = append(remedy.Lines, map[bool]string{true: t.Title.Render(lead), false: strings.Repeat(" ", len(lead))}[i == 0]+line)
		}
	}
	if plan != nil && missing == "" && e.Keys.Apply.Enabled() {
		remedy.Lines = append(remedy.Lines, t.Title.Render(keys.Called(e.Keys.Apply))+"  plan: "+t.Plain(plan.Means))
	}
	lines = append(lines, t.Stack(width, 0, []draw.Panel{remedy})...)

	shown := slices.Clone(results)
	if problems := problemsOf(results); !s.allChecks && len(problems) > 0 {
		shown = problems
	}
	sortByUrgency(shown)
	passed := len(results) - len(shown)
	checks := draw.Panel{Title: t.Title.Render("Checks"), Grows: true}
	fine := draw.Panel{Title: t.Title.Render(fmt.Sprintf("%d passed", passed)), Grows: true}
	for _, r := range shown {
		checks.Open = checks.Open || draw.Pastes(r.Fix...)
	}
	if passed > 0 && !checks.Open && t.Frames() && width >= draw.BesideFrom { // there is room for all
		inside = t.Inside(width / 2)
		of := slices.DeleteFunc(results, func(r check.Result) bool { return r.State != check.Pass })
		fine.Lines = resultLines(t, check.Together(of), inside)
	} else if passed > 0 {
		checks.Right = t.Faint.Render(fmt.Sprintf("%s: %d passed", keys.Called(e.Keys.Problems), passed))
	}
	checks.Lines = resultLines(t, check.Once(check.Together(shown)), inside)
	if len(unread) > 0 && missing == "" {
		text := fmt.Sprintf("Not looked at here: %s. The command \"check\" reads them.", strings.Join(unread, ", "))
		checks.Lines = append(append(checks.Lines, ""), t.Clauses(text, inside)...)
	}
	return append(lines, t.Stack(width, e.Room()-len(lines), []draw.Panel{checks, fine})...)
}

// problemsOf returns the results that did not pass. If there are none, all results are shown.
func problemsOf(results []check.Result) []check.Result {
	return slices.DeleteFunc(slices.Clone(results), func(r check.Result) bool { return r.State == check.Pass })
}

// sortByUrgency sorts the results. Results that were skipped for the same reason come together.
func sortByUrgency(results []check.Result) {
	slices.SortStableFunc(results, func(a, b check.Result) int {
		if a.State == check.Skipped && b.State == check.Skipped {
			return cmp.Compare(a.Needs, b.Needs)
		}
		return cmp.Compare(urgency(a), urgency(b))
	})
}

func resultLines(t draw.Theme, results []check.Result, width int) []string {
	var lines []string
	column := t.PlacesCells(results, mostName)
	for i, r := range results {
		switch {
		case r.State != check.Skipped:
			lines = append(lines, checkLines(t, r, column, width)...)
		case i == 0 || results[i-1].Summary != r.Summary: // the reason is written once for all of them
			lines = append(lines, skippedLines(t, results[i:], width)...)
		}
	}
	return lines
}

// urgency returns the rank of a result for an admin who repairs the connection.
func urgency(r check.Result) int {
	switch {
	case r.Root:
		return 0
	case r.State == check.Fail:
		return 1
	case r.State == check.Warn:
		return 2
	case r.State == check.Measuring, r.State == check.Inconclusive:
		return 3
	case r.State == check.Skipped:
		return 4
	}
	return 5
}

// skippedLines returns lines for all results that were skipped for the reason of the first
// result.
func skippedLines(t draw.Theme, results []check.Result, width int) []string {
	var facts []string
	for _, r := range results {
		if r.State == check.Skipped && r.Summary == results[0].Summary {
			facts = append(facts, t.Faint.Render(string(r.ID)+" "+t.Plain(r.Where())+" ")+t.Plain(r.Title))
		}
	}
	mark := draw.CheckMarks[check.Skipped]
	lines := []string{t.Marks[mark].Render(t.Glyphs[mark] + " skipped: " + t.Plain(results[0].Summary))}
	for _, line := range t.Pack(facts, width-6) {
		lines = append(lines, "      "+line)
	}
	return lines
}

// checkLines returns the lines of one result: the finding, the evidence, and the advice. column is the width of the
// names.
func checkLines(t draw.Theme, r check.Result, column, width int) []string {
	mark := draw.CheckMarks[r.State]
	head := t.Marks[mark].Render(t.Glyphs[mark]+" "+string(r.ID)) + " " + draw.Pad(t.Middle(t.Plain(r.Where()), column), column) + " "
	if r.State == check.Pass { // there are many of these
		line := draw.Pad(head+r.Title, draw.Cells(head)+check.LongestTitle) + "  " + t.Faint.Render(t.Plain(r.Summary))
		if draw.Cells(line) <= width {
			return []string{line}
		}
	}
	head += r.Title
	if r.Root {
		head += "  " + t.Marks[draw.Fail].Render("ROOT CAUSE")
	}
	lines := []string{head}
	add := func(label, text string, run ...command.Command) {
		for i, line := range t.Advice(text, run, width-6-len(label)) {
			if i > 0 {
				label = strings.Repeat(" ", len(label))
			}
			lines = append(lines, "      "+label+line)
		}
	}
	add("", r.Summary)
	if r.State == check.Pass {
		return lines
	}
	if r.State == check.Measuring {
		lines[0] += "  " + t.Marks[mark].Render("measuring")
	}
	for _, text := range r.Evidence {
		add("", "- "+text)
	}
	for i, fix := range r.Fix {
		text := fix.String()
		label := [...]string{"Fix: ", "     "}[min(i, 1)]
		if command, ok := strings.CutPrefix(text, "see: "); ok { // a command that only shows something repairs nothing
			label, text = "See: ", command
		}
		add(label, strings.TrimPrefix(text, "run: "), fix.Commands()...)
	}
	return lines
}
