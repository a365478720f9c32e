package report

import (
	"fmt"
	"io"
	"strings"
	"time"

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

// WriteChecks writes the results that are shown, and counts all of them.
func WriteChecks(out io.Writer, shown, all []check.Result) {
	writeResults(out, shown)
	counts := map[check.Outcome]int{}
	for _, r := range all {
		counts[r.State]++
	}
	warnings := "warnings"
	if counts[check.Warn] == 1 {
		warnings = "warning"
	}
	fmt.Fprintf(out, "\n%d ok, %d %s, %d failed, %d inconclusive, %d skipped",
		counts[check.Pass], counts[check.Warn], warnings, counts[check.Fail], counts[check.Inconclusive], counts[check.Skipped])
	if n := counts[check.Measuring]; n > 0 {
		fmt.Fprintf(out, ", %d measuring: check again", n)
	}
	if n := counts[check.Planned]; n > 0 {
		fmt.Fprintf(out, ", %d planned", n)
	}
	fmt.Fprintf(out, "\nResult: %s\n", check.Headline(all))
}

func writeResults(out io.Writer, results []check.Result) {
	for _, r := range check.Once(results) {
		root := ""
		if r.Root {
			root = " (root cause)"
		}
		fmt.Fprintf(out, "%-4s %s %-4s %s%s\n", stateMarks[r.State], r.ID, r.Where(), r.Title, root)
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
