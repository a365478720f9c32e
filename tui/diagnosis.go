package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/render"
)

// checkMarks are how a check's states look.
var checkMarks = map[check.State]mark{
	check.Pass: markOK, check.Warn: markWarn, check.Fail: markFail, check.Inconclusive: markUnknown, check.Skipped: markPending,
}

// links are the checks of a connection in one word each, for the chain.
var links = map[flows.Code]string{
	check.Answers: "api", check.Operator: "operator", check.Configured: "addresses", check.SameRanges: "ranges",
	check.Gateways: "gateways", check.Endpoint: "endpoint", check.GatewayPod: "pod", check.Keys: "keys", check.Warnings: "warnings",
	check.Fresh: "reports", check.UDPPath: "UDP", check.Ping: "ping", check.PathMTU: "MTU", check.PacketLoss: "loss",
}

// diagnosisGap is the least time between two observations of which the
// difference tells which way packets move: gateways report every 10 s.
const diagnosisGap = 12 * time.Second

// diagnosed are the checks of one peering. earlier are facts of some time ago.
func diagnosed(facts flows.Facts, earlier flows.Facts) []check.Result {
	if earlier.At.IsZero() || facts.At.Sub(earlier.At) < diagnosisGap {
		return check.Diagnose(facts, nil)
	}
	return check.Diagnose(facts, &earlier)
}

// diagnosisLines are the results, the root causes first; those that passed only
// if all of them are wanted.
func (m Model) diagnosisLines(results []check.Result, ids [2]render.ClusterID) []string {
	t, all, width := m.theme, m.dashboard.allChecks, m.width
	count := map[check.State]int{}
	roots := 0
	for _, r := range results {
		count[r.State]++
		if r.Root {
			roots++
		}
	}
	verdict := fmt.Sprintf("%d checks: %d pass, %d warn, %d fail, %d inconclusive, %d skipped",
		len(results), count[check.Pass], count[check.Warn], count[check.Fail], count[check.Inconclusive], count[check.Skipped])
	lines := []string{t.state(checkMarks[check.Worst(results)], verdict, 0), ""}
	for _, side := range []flows.Side{flows.A, flows.B} {
		lines = append(lines, t.chain(results, side, ids[side], width)...)
	}
	lines = append(lines, "")
	shown := slices.Clone(results)
	if !all {
		shown = slices.DeleteFunc(shown, func(r check.Result) bool { return r.State == check.Pass })
	}
	slices.SortStableFunc(shown, func(a, b check.Result) int { return cmp.Compare(urgency(a), urgency(b)) })
	for _, r := range shown {
		lines = append(lines, t.checkLines(r, width)...)
	}
	if passed := count[check.Pass]; !all && passed > 0 {
		text := fmt.Sprintf("%d passed; %s shows them.", passed, called(m.keys.problems))
		lines = append(lines, "", t.faint.Render(text))
	}
	return lines
}

// urgency orders results for somebody who wants it to work again.
func urgency(r check.Result) int {
	switch {
	case r.Root:
		return 0
	case r.State == check.Fail:
		return 1
	case r.State == check.Warn:
		return 2
	case r.State == check.Inconclusive:
		return 3
	case r.State == check.Skipped:
		return 4
	}
	return 5
}

// chain is one side's checks in order, as words that lead from one to the next.
func (t theme) chain(results []check.Result, side flows.Side, id render.ClusterID, width int) []string {
	head := pad(side.String()+" "+t.plain(string(id)), 12)
	indent := cells(head) + 1
	line, lines := t.sides[side].Render(head), []string{}
	room := width - indent
	for _, r := range results {
		if !slices.Contains(r.Sides, side) || r.Directed && r.Sides[0] != side {
			continue
		}
		mark := checkMarks[r.State]
		link := t.glyphs[mark] + " " + links[r.ID]
		taken := cells(link) + 2
		if taken > room {
			lines = append(lines, line)
			line, room = strings.Repeat(" ", indent-1), width-indent
		}
		room -= taken
		line += " " + t.marks[mark].Render(link) + " "
	}
	return append(lines, line)
}

// checkLines are one result: what was found, what it was seen by, what helps.
func (t theme) checkLines(r check.Result, width int) []string {
	mark := checkMarks[r.State]
	head := t.marks[mark].Render(t.glyphs[mark]+" "+string(r.ID)) + " " + pad(r.Where(), 4) + " " + r.Title
	if r.Root {
		head += "  " + t.marks[markFail].Render("ROOT CAUSE")
	}
	lines := []string{head}
	add := func(label, text string) {
		for i, line := range t.wrap(text, width-6-len(label), 0) {
			if i > 0 {
				label = strings.Repeat(" ", len(label))
			}
			lines = append(lines, "      "+label+line)
		}
	}
	if r.State == check.Skipped {
		lines[0] += t.faint.Render("  skipped: " + r.Summary)
		return lines
	}
	add("", r.Summary)
	if r.State == check.Pass {
		return lines
	}
	for _, text := range r.Evidence {
		add("", "- "+text)
	}
	for i, text := range r.Fix {
		add([...]string{"Fix: ", "     "}[min(i, 1)], text)
	}
	return lines
}
