package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// links are the checks of a connection in one word each, for the chain.
var links = map[flows.Code]string{
	check.Answers: "api", check.Operator: "operator", check.Configured: "addresses", check.SameRanges: "ranges",
	check.Gateways: "gateways", check.Endpoint: "endpoint", check.GatewayPod: "pod", check.Keys: "keys", check.Warnings: "warnings",
	check.Fresh: "reports", check.UDPPath: "UDP", check.Ping: "ping", check.PathMTU: "MTU", check.PacketLoss: "loss",
	check.FreeRanges: "free", check.NodePaths: "nodes", check.Policies: "policies", check.PodTraffic: "pods",
}

// diagnosisGap is the least time between two observations of which the
// difference tells which way packets move: gateways report every 10 s.
const diagnosisGap = 12 * time.Second

// looks are two observations of a diagnosis that is open: the latest to compare
// with, and one before, for as long as that is too young.
type looks struct{ before, last flows.Facts }

// with takes an observation in. Neither gets older than needed: what moved long
// ago says nothing about now.
func (l looks) with(now flows.Facts) looks {
	switch {
	case l.last.At.IsZero():
		return looks{last: now}
	case now.At.Sub(l.last.At) >= diagnosisGap:
		return looks{l.last, now}
	}
	return l
}

// diagnosed are the checks of one peering.
func diagnosed(facts flows.Facts, l looks) []check.Result {
	for _, earlier := range []flows.Facts{l.last, l.before} {
		if !earlier.At.IsZero() && facts.At.Sub(earlier.At) >= diagnosisGap {
			return check.Diagnose(facts, &earlier)
		}
	}
	return check.Diagnose(facts, nil)
}

// diagnosisLines are the results, the root causes first; those that passed only
// if all of them are wanted.
func (s Screen) diagnosisLines(e session.Env, results []check.Result, ids [2]render.ClusterID) []string {
	t, all, width := e.Theme, s.allChecks, e.Width
	lines := []string{t.State(draw.CheckMarks[check.Worst(results)], check.Headline(results), 0), ""}
	for _, side := range []flows.Side{flows.A, flows.B} {
		lines = append(lines, chain(t, results, side, ids[side], width)...)
	}
	lines = append(lines, "")
	shown := slices.Clone(results)
	if !all {
		shown = slices.DeleteFunc(shown, func(r check.Result) bool { return r.State == check.Pass })
	}
	slices.SortStableFunc(shown, func(a, b check.Result) int { return cmp.Compare(urgency(a), urgency(b)) })
	for _, r := range check.Once(shown) {
		lines = append(lines, checkLines(t, r, width)...)
	}
	if passed := len(results) - len(shown); !all && passed > 0 {
		text := fmt.Sprintf("%d passed; %s shows them.", passed, keys.Called(e.Keys.Problems))
		lines = append(lines, "", t.Faint.Render(text))
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
	case r.State == check.Measuring, r.State == check.Inconclusive:
		return 3
	case r.State == check.Skipped:
		return 4
	}
	return 5
}

// chain is one side's checks in order, as words that lead from one to the next.
func chain(t draw.Theme, results []check.Result, side flows.Side, id render.ClusterID, width int) []string {
	head := draw.Pad(side.String()+" "+t.Plain(string(id)), 12)
	indent := draw.Cells(head) + 1
	line, lines := t.Sides[side].Render(head), []string{}
	room := width - indent
	for _, r := range results {
		if !slices.Contains(r.Sides, side) || r.Directed && r.Sides[0] != side {
			continue
		}
		mark := draw.CheckMarks[r.State]
		link := t.Glyphs[mark] + " " + links[r.ID]
		taken := draw.Cells(link) + 2
		if taken > room {
			lines = append(lines, line)
			line, room = strings.Repeat(" ", indent-1), width-indent
		}
		room -= taken
		line += " " + t.Marks[mark].Render(link) + " "
	}
	return append(lines, line)
}

// checkLines are one result: what was found, what it was seen by, what helps.
func checkLines(t draw.Theme, r check.Result, width int) []string {
	mark := draw.CheckMarks[r.State]
	head := t.Marks[mark].Render(t.Glyphs[mark]+" "+string(r.ID)) + " " + draw.Pad(r.Where(), 4) + " " + r.Title
	if r.Root {
		head += "  " + t.Marks[draw.Fail].Render("ROOT CAUSE")
	}
	lines := []string{head}
	add := func(label, text string) {
		for i, line := range t.Wrap(text, width-6-len(label), 0) {
			if i > 0 {
				label = strings.Repeat(" ", len(label))
			}
			lines = append(lines, "      "+label+line)
		}
	}
	if r.State == check.Skipped {
		lines[0] += t.Faint.Render("  skipped: " + r.Summary)
		return lines
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
	for i, text := range r.Fix {
		add([...]string{"Fix: ", "     "}[min(i, 1)], text)
	}
	return lines
}
