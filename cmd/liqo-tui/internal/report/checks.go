package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows/check"
)

// CheckDocument is the output of `check -o json`. While "v" is 1, fields are only added.
type CheckDocument struct {
	V      int       `json:"v"`
	At     time.Time `json:"at"`
	A      string    `json:"a"`
	B      string    `json:"b"`
	Worst  string    `json:"worst"`
	Checks []Check   `json:"checks"`
	// Verification is the result of --probe.
	Verification *Verification `json:"verification,omitempty"`
}

// stateMarks distinguish the states without colour.
var stateMarks = map[check.Outcome]string{
	check.Pass: "ok", check.Warn: "warn", check.Fail: "FAIL", check.Inconclusive: "?", check.Skipped: "-", check.Measuring: "...",
	check.Planned: "plan",
}

// Listed says which results a list of checks has.
type Listed uint8

const (
	// Brief lists problems in full, and the titles of what passed, by subject.
	Brief Listed = iota
	// Problems leaves out what passed.
	Problems
	// Details also has what each check that passed has seen.
	Details
)

// WriteChecks writes the summary of all results, and then the results: problems first, root causes before all
// others.
func WriteChecks(out io.Writer, results []check.Result, listed Listed) {
	fmt.Fprintf(out, "Result: %s\n\n", check.Headline(results))
	problems, passed := []check.Result(nil), []check.Result(nil)
	for _, r := range results {
		if r.State == check.Pass {
			passed = append(passed, r)
		} else {
			problems = append(problems, r)
		}
	}
	slices.SortStableFunc(problems, func(a, b check.Result) int { return urgency(a) - urgency(b) })
	if listed == Details {
		writeResults(out, problems)
		writeResults(out, passed)
		return
	}
	skipped := slices.IndexFunc(problems, func(r check.Result) bool { return r.State == check.Skipped })
	if skipped < 0 {
		skipped = len(problems)
	}
	writeResults(out, problems[:skipped])
	writeSkipped(out, problems[skipped:])
	if listed == Brief {
		writePassed(out, passed)
	}
	if listed == Brief && len(passed) > 0 {
		fmt.Fprintln(out, "\n--details shows what each of these checks has seen.")
	}
}

// urgency orders problems: the smallest first.
func urgency(r check.Result) int {
	if r.Root {
		return -1
	}
	return slices.Index([]check.Outcome{check.Fail, check.Warn, check.Measuring, check.Inconclusive, check.Planned, check.Skipped}, r.State)
}

// lineWidth is the width of help texts.
const lineWidth = 80

// writePassed writes the titles of checks that passed, a paragraph for each subject.
func writePassed(out io.Writer, passed []check.Result) {
	for _, subject := range check.Subjects() {
		count, titles := 0, []string(nil)
		for _, r := range passed {
			if check.SubjectOf(r.ID) != subject {
				continue
			}
			if count++; !slices.Contains(titles, r.Title) {
				titles = append(titles, r.Title)
			}
		}
		if count == 0 {
			continue
		}
		text := ansi.Wordwrap(fmt.Sprintf("%s (%d): %s", subject, count, strings.Join(titles, ", ")), lineWidth-5, "")
		fmt.Fprintf(out, "ok   %s\n", indented(text, 5))
	}
}

// writeSkipped writes the checks that were skipped for the same reason as one line. A cluster that does not answer
// skips dozens.
func writeSkipped(out io.Writer, skipped []check.Result) {
	byReason := map[string][]check.Result{}
	var reasons []string
	for _, r := range skipped {
		if byReason[r.Summary] == nil {
			reasons = append(reasons, r.Summary)
		}
		byReason[r.Summary] = append(byReason[r.Summary], r)
	}
	for _, reason := range reasons {
		all := byReason[reason]
		if reason == "" || len(check.Once(all)) == 1 {
			writeResults(out, all)
			continue
		}
		fmt.Fprintf(out, "-    %d checks were skipped\n     %s\n", len(all), indented(reason, 5))
	}
}

func writeResults(out io.Writer, results []check.Result) {
	column := check.Column(results)
	for _, r := range check.Once(results) {
		root := ""
		if r.Root {
			root = " (root cause)"
		}
		fmt.Fprintf(out, "%-4s %s %-*s %s%s\n", stateMarks[r.State], r.ID, column, r.Where(), r.Title, root)
		if r.Summary != "" {
			fmt.Fprintf(out, "     %s\n", indented(r.Summary, 5))
		}
		if r.State == check.Pass || r.State == check.Skipped || r.State == check.Planned {
			continue
		}
		for _, e := range r.Evidence {
			fmt.Fprintf(out, "       %s\n", indented(e, 7))
		}
		for _, fix := range r.Fix {
			fmt.Fprintf(out, "     fix: %s\n", indented(fix.String(), 10))
		}
	}
}

// indented indents all lines but the first, because a text of another cluster may have a line that looks
// like one of ours.
func indented(text string, by int) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", by))
}

// CheckChanges writes the changes since the last observation.
func (s *Session) CheckChanges(at time.Time, changed, all []check.Result) {
	if s.Events != nil {
		for _, r := range changed {
			s.Events.Check(r)
		}
		return
	}
	fmt.Fprintf(s.Out, "\n%s  %s\n", at.Local().Format(time.TimeOnly), check.Headline(all))
	writeResults(s.Out, changed)
}
