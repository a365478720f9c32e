// Package check is the catalogue of checks: before two clusters are connected
// ([Preflight]), and of a connection that exists ([Diagnose]). It is pure: it
// judges facts and asks nobody.
//
// Checks depend on each other. A check is skipped, with a note, if a check that it needs has
// failed. A failed check is a root cause if none of its needs has failed or is still
// measuring. A check that can't be decided is inconclusive, neither good nor bad. A check that needs a second observation is
// measuring until then. A state that is wrong now, and that the plan will correct, is
// planned.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Outcome is the outcome of a check.
type Outcome uint8

// The states. The zero value means that nothing was checked.
const (
	Inconclusive Outcome = iota // the facts decide nothing
	Pass
	Warn      // it works, but somebody should know
	Fail      // it can't work
	Skipped   // needs a check that has failed
	Measuring // another observation, some seconds later, decides
	Planned   // it is not so yet; the plan brings it

	// Outcomes is their number.
	Outcomes = iota
)

func (s Outcome) String() string {
	return [...]string{"inconclusive", "pass", "warn", "fail", "skipped", "measuring", "planned"}[s]
}

// Result is the outcome of one check.
type Result struct {
	ID    flows.Code
	Title string
	// Sides are one side, both, or, if Directed, from the first to the second.
	Sides    []flows.Side
	Directed bool
	State    Outcome
	// Summary is the finding, in one sentence.
	Summary string
	// Evidence are the observations behind the summary, a line each.
	Evidence []string
	// Fix is advice for the admin, one way a line, the best first.
	Fix []command.Hint
	// Plan is the part of Fix that a plan can do; nil if there is none.
	Plan *Remedy
	// Needs is the check that has to pass first, if the result is Skipped.
	Needs flows.Code
	// Root is set for failures that no other failure explains.
	Root bool
}

// Remedy is a fix by the plan of network connect. The plan has a changed setting, or it has the
// present settings and creates missing objects.
type Remedy struct {
	Setting, Value string // as a flag has them; "" for none
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

// planned returns r with a fix by a plan.
func (r Result) planned(means string) Result {
	r.Plan = &Remedy{Means: means}
	return r
}

// plannedWith returns r with a fix by a plan that changes a setting.
func (r Result) plannedWith(setting, value, means string) Result {
	r.Plan = &Remedy{setting, value, means}
	return r
}

// Where names the sides: "A", "A,B" or "A→B".
func (r Result) Where() string {
	switch {
	case len(r.Sides) == 1:
		return r.Sides[0].String()
	case r.Directed:
		return r.Sides[0].String() + "→" + r.Sides[1].String()
	}
	return "A,B"
}

// Worst is the worst state of results: Fail, then Warn, Measuring, Inconclusive. Skipped
// does not count: the failure behind it is among the results.
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
	eachSide scope = iota // once for each
	pair                  // once
	eachWay               // once from each side to the other
)

// definition is one check of the catalogue.
type definition[T any] struct {
	id    flows.Code
	scope scope
	needs []flows.Code
	// run judges; for a check of the pair, side is A. It does not set ID, Title and Sides.
	run func(in T, side flows.Side) Result
}

// evaluate makes all checks in their order: a check comes after the checks that it needs.
func evaluate[T any](catalogue []definition[T], in T) []Result {
	return extend(nil, catalogue, in, func([]flows.Side) bool { return true })
}

// extend makes more checks, for the sides that they apply to. They may need earlier ones.
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
		// A check that is still measuring may turn out to be the cause.
		_, open := d.needed(sides, before, Measuring)
		r.Root = r.State == Fail && !open
	}
	r.ID, r.Title, r.Sides, r.Directed = d.id, titleOf(d.id), sides, d.scope == eachWay
	return r
}

// obstacle is the failed check because of which d is skipped for one of sides. If a needed
// check was itself skipped, it is the check that this one needs.
func (d definition[T]) obstacle(sides []flows.Side, before []Result) (Result, bool) {
	r, ok := d.needed(sides, before, Fail, Skipped)
	if r.State == Skipped && ok {
		return Result{ID: r.Needs, Title: titleOf(r.Needs)}, true
	}
	return r, ok
}

// needed is the first of the needed checks, for one of sides, that is in one of the states.
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

// LongestTitle is the largest length of a title, in cells.
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

// Headline is a summary of all results, in one line.
func Headline(results []Result) string {
	var count [Outcomes]int
	var causes []string
	for _, r := range results {
		count[r.State]++
		// Titles state the good condition: after "failed:" they would claim the opposite of the finding.
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
	case count[Fail] > 0: // the check that may explain it is measuring
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

// Once removes advice that an earlier result has given: a problem of both ends is fixed
// once.
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
