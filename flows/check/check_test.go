package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// text writes results as lines, each with its evidence and its advice.
func text(results []check.Result) string {
	var b strings.Builder
	for _, r := range results {
		root := ""
		if r.Root {
			root = "  ROOT CAUSE"
		}
		fmt.Fprintf(&b, "%-12s %s %-3s  %s: %s%s\n", r.State, r.ID, sideOf(r), r.Title, r.Summary, root)
		for _, e := range r.Evidence {
			fmt.Fprintf(&b, "             · %s\n", e)
		}
		for _, f := range r.Fix {
			fmt.Fprintf(&b, "             → %s\n", f)
		}
	}
	return b.String()
}

var code = regexp.MustCompile(`"(LT-[PDES][0-9]{3})"`)

// Each code in the sources has one explanation, and each explanation belongs to a code in the sources.
func TestEveryCodeHasItsExplanation(t *testing.T) {
	said := map[flows.Code]int{}
	for _, dir := range []string{".", ".."} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources in %s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range code.FindAllSubmatch(source, -1) {
				said[flows.Code(m[1])]++
			}
		}
	}
	for id, n := range said {
		if n != 1 {
			t.Errorf("%s is written %d times: it has to name one thing", id, n)
		}
		if e, ok := check.Explain(id); !ok {
			t.Errorf("%s is not explained", id)
		} else if e.Title == "" || e.Meaning == "" || len(e.Fix) == 0 {
			t.Errorf("%s: the explanation lacks something: %+v", id, e)
		}
	}
	for _, id := range check.All() {
		if said[id] == 0 {
			t.Errorf("%s is explained, and nothing says it", id)
		}
	}
	if !slices.IsSorted(check.All()) {
		t.Error("the codes are not in order")
	}
	if _, ok := check.Explain("LT-E999"); ok {
		t.Error("a code that does not exist is explained")
	}
}

// sideOf names the sides of a result: "A", "A,B" or "A→B".
func sideOf(r check.Result) string {
	switch {
	case len(r.Sides) == 1:
		return r.Sides[0].String()
	case r.Directed:
		return r.Sides[0].String() + "→" + r.Sides[1].String()
	}
	return "A,B"
}

// Readers of results know clusters by their names, not as A and B.
func TestResultsNameTheClusters(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	where := map[string]string{"A": "rome", "B": "milan", "A,B": "both", "A→B": "rome → milan", "B→A": "milan → rome"}
	results := check.Diagnose(flowtest.Facts(pair), nil)
	for _, r := range results {
		if got := r.Where(); got != where[sideOf(r)] {
			t.Errorf("%s: got %q of %s", r.ID, got, sideOf(r))
		}
	}
	if got := check.Column(results); got != len("rome > milan") {
		t.Errorf("got a column of %d cells", got)
	}
}
