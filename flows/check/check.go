// Package check is the catalogue of checks: those before two clusters are connected ([Preflight]), and those
// of an existing connection ([Diagnose]). It is pure: it judges facts and sends no requests.
//
// Checks depend on each other. A check is skipped, with a note, if a check that it needs has failed. A failed
// check is a root cause if none of its needs has failed or is still measuring. A check is inconclusive,
// neither good nor bad, if the facts don't decide it. A check is measuring until a second observation, if it
// needs one. A check is planned if the state is wrong now, and the plan will correct it.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Outcome is the outcome of a check.
type Outcome uint8

// The outcomes. The zero value means that nothing was checked.
const (
	Inconclusive Outcome = iota // the facts decide nothing
	Pass
	Warn      // it works, but an admin should know this
	Fail      // it can't work
	Skipped   // needs a check that has failed
	Measuring // another observation, some seconds later, decides
	Planned   // the plan will change this

	// Outcomes is the number of outcomes.
	Outcomes = iota
)

func (s Outcome) String() string {
	return [...]string{"inconclusive", "pass", "warn", "fail", "skipped", "measuring", "planned"}[s]
}

// Result is the outcome of one check.
type Result struct {
	ID    flows.Code
	Title string
	// Sides are the cluster or clusters of the check; if Directed, from the first to the second.
	Sides    []flows.Side
	Directed bool
	Names    [2]wire.ClusterID // of both clusters
	State    Outcome
	// Summary is the finding, as one sentence.
	Summary string
	// Evidence lists the observations behind the summary, one in each line.
	Evidence []string
	// Fix has the advice for the admin. The hints are alternatives, the best one first.
	Fix []command.Hint
	// Plan is the part of Fix that a plan of ours can do; nil if there is none.
	Plan *Remedy
	// Needs is the check that has to pass first, if the result is Skipped.
	Needs flows.Code
	// Root is set for a failure that no other failure explains.
	Root bool
}

// Remedy is a fix by the plan of network connect. The plan changes a setting, or it has the present settings
// and creates missing objects.
type Remedy struct {
	Setting, Value string // as in a flag; "" for none
	Means          string // the purpose of the plan, in a few words
}

// Command is the command that makes the same plan.
func (r Remedy) Command(f flows.Facts) command.Command {
	c := f.Ours("network", "connect")
	if r.Setting == "" {
		return c
	}
	return c.Flag("--"+r.Setting, r.Value)
}

func (r Result) planned(means string) Result {
	r.Plan = &Remedy{Means: means}
	return r
}

// plannedWith returns r with a fix by a plan that changes a setting.
func (r Result) plannedWith(setting, value, means string) Result {
	r.Plan = &Remedy{setting, value, means}
	return r
}

// Where names the cluster of the check, or both if it is directed.
func (r Result) Where() string {
	switch {
	case len(r.Sides) == 1:
		return string(r.Names[r.Sides[0]])
	case r.Directed:
		return string(r.Names[r.Sides[0]] + " → " + r.Names[r.Sides[1]])
	}
	return "both"
}

// Column returns the width of a column for [Result.Where].
func Column(results []Result) (width int) {
	for _, r := range results {
		width = max(width, utf8.RuneCountInString(r.Where()))
	}
	return width
}

// withNames sets the names of the clusters.
func withNames(results []Result, f flows.Facts) []Result {
	for i := range results {
		results[i].Names = [2]wire.ClusterID{f.Sides[flows.A].Name(), f.Sides[flows.B].Name()}
	}
	return results
}

// Worst returns the worst outcome of results: Fail, then Warn, Measuring, Inconclusive. Skipped does not
// count, because the results contain the failure that caused it.
func Worst(results []Result) Outcome {
	for _, s := range []Outcome{Fail, Warn, Measuring, Inconclusive} {
		if slices.ContainsFunc(results, func(r Result) bool { return r.State == s }) {
			return s
		}
	}
	return Pass
}

// scope is how often a check is made, and for which sides.
type scope uint8

const (
	eachSide scope = iota // once for each side
	pair                  // once for both together
	eachWay               // once from each side to the other
)

type definition[T any] struct {
	id    flows.Code
	scope scope
	needs []flows.Code
	// run returns the result, without ID, Title and Sides. If the scope is pair, side is A.
	run func(in T, side flows.Side) Result
}

// evaluate makes all checks in the order of the catalogue. A check comes after the checks that it needs.
func evaluate[T any](catalogue []definition[T], in T) []Result {
	return extend(nil, catalogue, in, func([]flows.Side) bool { return true })
}

// extend adds the checks of a catalogue, for the sides that they apply to. They may need checks in results.
func extend[T any](results []Result, catalogue []definition[T], in T, applies func([]flows.Side) bool) []Result {
	for _, d := range catalogue {
		for _, sides := range d.instances() {
			if applies(sides) {
				results = append(results, d.evaluate(in, sides, results))
			}
		}
	}
	return results
}

func (d definition[T]) instances() [][]flows.Side {
	switch d.scope {
	case pair:
		return [][]flows.Side{{flows.A, flows.B}}
	case eachWay:
		return [][]flows.Side{{flows.A, flows.B}, {flows.B, flows.A}}
	case eachSide:
	}
	return [][]flows.Side{{flows.A}, {flows.B}}
}

func (d definition[T]) evaluate(in T, sides []flows.Side, before []Result) Result {
	r := Result{State: Skipped}
	if failed, ok := d.obstacle(sides, before); ok {
		r.Needs, r.Summary = failed.ID, "needs "+string(failed.ID)+": "+failed.Title
	} else {
		r = d.run(in, sides[0])
		// The check that is still measuring may be the cause.
		_, open := d.needed(sides, before, Measuring)
		r.Root = r.State == Fail && !open
	}
	r.ID, r.Title, r.Sides, r.Directed = d.id, titleOf(d.id), sides, d.scope == eachWay
	return r
}

// obstacle returns the failed check because of which d is skipped for one of sides. If a needed check was
// itself skipped, obstacle returns the check that caused this.
func (d definition[T]) obstacle(sides []flows.Side, before []Result) (Result, bool) {
	r, ok := d.needed(sides, before, Fail, Skipped)
	if r.State == Skipped && ok {
		return Result{ID: r.Needs, Title: titleOf(r.Needs)}, true
	}
	return r, ok
}

// needed returns the first of the needed checks, for one of sides, with one of the outcomes.
func (d definition[T]) needed(sides []flows.Side, before []Result, states ...Outcome) (Result, bool) {
	i := slices.IndexFunc(before, func(r Result) bool {
		concerns := slices.ContainsFunc(r.Sides, func(s flows.Side) bool { return slices.Contains(sides, s) })
		return concerns && slices.Contains(d.needs, r.ID) && slices.Contains(states, r.State)
	})
	if i < 0 {
		return Result{}, false
	}
	return before[i], true
}

// LongestTitle is the length of the longest title, in cells.
const LongestTitle = 30

// Together merges the results of both sides if they are equal.
func Together(results []Result) []Result {
	var out []Result
	for _, r := range results {
		i := slices.IndexFunc(out, func(o Result) bool {
			return o.ID == r.ID && len(o.Sides) == 1 && len(r.Sides) == 1 && o.State == r.State && o.Root == r.Root &&
				o.Summary == r.Summary && slices.Equal(o.Evidence, r.Evidence) && slices.EqualFunc(o.Fix, r.Fix, command.Hint.Equal)
		})
		if i < 0 {
			out = append(out, r)
			continue
		}
		out[i].Sides = []flows.Side{flows.A, flows.B}
	}
	return out
}

// Headline summarizes all results in one line.
func Headline(results []Result) string {
	var count [Outcomes]int
	var causes []string
	for _, r := range results {
		count[r.State]++
		// Titles state the good condition. After "failed:", a title would claim the opposite of the finding.
		if cause := cmp.Or(r.Summary, r.Title); r.Root && !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
	}
	passed := fmt.Sprintf("%d of %s passed", count[Pass], counted(len(results), "check"))
	if count[Planned] > 0 {
		passed += fmt.Sprintf(", %d planned", count[Planned])
	}
	switch {
	case len(causes) > 0:
		return "failed: " + strings.Join(causes, "; ") + " · " + passed
	case count[Fail] > 0: // the check that may explain the failure is still measuring
		return counted(count[Fail], "failure") + ", the cause is being measured · " + passed
	case count[Measuring] > 0:
		return "measuring · " + passed + " so far"
	case count[Warn] > 0:
		return counted(count[Warn], "warning") + ", no failure · " + passed
	case count[Inconclusive] > 0:
		return fmt.Sprintf("no failure, %d not known · %s", count[Inconclusive], passed)
	}
	return passed
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Once removes advice that an earlier result contains. One fix is enough for a problem that both ends report.
func Once(results []Result) []Result {
	said := map[string]bool{}
	results = slices.Clone(results)
	for i := range results {
		results[i].Fix = slices.DeleteFunc(slices.Clone(results[i].Fix), func(fix command.Hint) bool { return said[fix.String()] })
		for _, fix := range results[i].Fix {
			said[fix.String()] = true
		}
	}
	return results
}

func titleOf(id flows.Code) string { return texts[id].Title }

func pass(summary string) Result { return Result{State: Pass, Summary: summary} }

func result(s Outcome, summary string, fix ...command.Hint) Result {
	return Result{State: s, Summary: summary, Fix: fix}
}
