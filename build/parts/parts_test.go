package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const logText = `=== RUN   TestA
=== RUN   TestA/one
=== RUN   TestA/two
--- PASS: TestA (0.00s)
    --- PASS: TestA/one (0.00s)
    --- FAIL: TestA/two (0.00s)
=== RUN   TestB
--- SKIP: TestB (0.00s)
FAIL
FAIL	github.com/liqo-tui/liqo-tui/flows	0.1s
=== RUN   TestB
--- PASS: TestB (0.00s)
PASS
ok  	github.com/liqo-tui/liqo-tui/render	(cached)
testing: warning: no tests to run
PASS
ok  	github.com/liqo-tui/liqo-tui/kube	0.1s [no tests to run]
`

func TestResultsAreCountedByPackage(t *testing.T) {
	seen, cases := results(logText)
	want := map[string]bool{"flows/TestA": true, "flows/TestB": true, "render/TestB": true}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("tests with a result (-want +got):\n%s", diff)
	}
	if cases != 4 {
		t.Errorf("got %d cases, want 4: TestA/one, TestA/two, and TestB twice", cases)
	}
}

func TestAPartWithoutAResultFails(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "build/tests.txt", "unit flows TestA\nunit flows TestB\nunit render TestB\nlab kube TestLab\n")
	write(t, "log", logText)
	if out, err := ran(wish{}, "unit", "log"); err != nil || out != "unit: 3 tests, 4 cases\n" {
		t.Errorf("got %q, %v", out, err)
	}
	for name, want := range map[string]string{"lab": "kube TestLab", "gone": "ran no test"} {
		if _, err := ran(wish{}, name, "log"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("part %s: got %v, want an error with %q", name, err, want)
		}
	}
}

func TestThreeSeedsRunEverything(t *testing.T) {
	all := parts([]string{"1.36", "1.37"})
	taken := map[string]int{}
	for n := range uint64(seeds) {
		for _, p := range all {
			if yes, _ := (wish{seed: 100 + n}).takes(p, nil); yes {
				taken[p.name]++
			}
		}
	}
	for _, p := range all {
		want := 1
		switch {
		case p.always:
			want = seeds
		case p.allOnly:
			want = 0
		}
		if taken[p.name] != want {
			t.Errorf("part %s: %d of %d seeds take it, want %d", p.name, taken[p.name], seeds, want)
		}
	}
	lines := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, p := range []part{{always: true}, {group: 1}} {
		var thirds []string
		for seed, runs := uint64(100), 0; runs < seeds; seed++ {
			if yes, _ := (wish{seed: seed}).takes(p, nil); yes {
				thirds = append(thirds, wish{seed: seed}.third(p, lines)...)
				runs++
			}
		}
		slices.Sort(thirds)
		if !slices.Equal(thirds, lines) {
			t.Errorf("%d runs take %q of a part of which each takes a third, want each of %q once", seeds, thirds, lines)
		}
	}
}

// A slow machine runs only the first parts. Each part is the first of its group in one of the runs that take it.
func TestEachPartIsFirstInItsTurn(t *testing.T) {
	all := parts([]string{"1.36", "1.37"})
	first := map[string]bool{}
	for seed := range uint64(seeds * len(all)) {
		w := wish{seed: seed}
		order, others := w.order(all), -1
		if len(order) != len(all) {
			t.Fatalf("seed %d: %d parts of %d", seed, len(order), len(all))
		}
		for i, p := range order {
			taken, _ := w.takes(p, nil)
			switch {
			case p.always && others >= 0:
				t.Errorf("seed %d: part %s of each run comes after %s", seed, p.name, order[others].name)
			case !p.always && others < 0:
				others = i
			}
			if taken && !p.always && !slices.ContainsFunc(order[:i], func(o part) bool { yes, _ := w.takes(o, nil); return yes && !o.always }) {
				first[p.name] = true
			}
			if p.seconds == 0 {
				t.Errorf("part %s: its time is not known", p.name)
			}
		}
	}
	for _, p := range all {
		if !p.always && !p.allOnly && !first[p.name] {
			t.Errorf("part %s is never the first of the parts that not each run takes", p.name)
		}
	}
}

// What needs an API server meets one in each run, and each minor in three.
func TestEachSeedHasAPIServersOfOneMinor(t *testing.T) {
	for n := range uint64(seeds) {
		var taken []string
		for _, p := range parts([]string{"1.36", "1.37"}) {
			if yes, _ := (wish{seed: n}).takes(p, nil); yes && listed(p.name) == "api" {
				taken = append(taken, p.name)
			}
		}
		if len(taken) != 1 {
			t.Errorf("seed %d takes %q, want API servers of one minor", n, taken)
		}
	}
}

// On an empty cache each program of another project takes minutes.
func TestNoSeedBuildsMoreThanTwoProgramsOfOthers(t *testing.T) {
	cheap := map[string]bool{
		"bin/previous.tar": true, "bin/before.tar": true, "bin/udptunnel.tar": true, // built from this module
		"bin/kubernetes":  true, // is that of the lab
		"bin/helm":        true, // its packages are those of a module that each run tests
		"bin/liqoctl":     true, // comes with bin/liqo-1.2
		"bin/kubeadm":     true, // 70 packages that the lab's Kubernetes does not have
		"bin/coredns.tar": true, // 18 packages that the DNS server in each run's image does not have
		"bin/resolve.tar": true, // one file of C
		"bin/registry":    true, // 600 packages, half of them Go's own; the others have 1,100 to 2,300
	}
	byGroup := map[uint64]map[string]bool{}
	for _, p := range parts([]string{"1.36", "1.37"}) {
		for _, program := range p.programs {
			switch {
			case p.always:
				cheap[program] = true
			case p.allOnly || cheap[program]:
			case byGroup[p.group] == nil:
				byGroup[p.group] = map[string]bool{program: true}
			default:
				byGroup[p.group][program] = true
			}
		}
	}
	for group, programs := range byGroup {
		delete(programs, "lab") // of a part that comes later
		if len(programs) > 2 {
			t.Errorf("seeds that leave %d build %v, at most two programs are allowed", group, programs)
		}
	}
}

// A part that costs minutes to build is worth them where it may have become wrong.
func TestAPartWhoseSourcesChangedRuns(t *testing.T) {
	p := part{name: "liqo", group: 1, sources: []string{"testdata/liqo/1.2"}}
	tests := []test{{file: "cmd/liqo-tui/e2e/lab_liqo_test.go"}}
	for file, want := range map[string]bool{
		"testdata/liqo/1.2/go.mod":          true,
		"cmd/liqo-tui/e2e/lab_liqo_test.go": true,
		"testdata/liqo/1.20/go.mod":         false,
		"cmd/liqo-tui/e2e/lab_nat_test.go":  false,
		"testdata/liqo/1.2/deeper/other":    true,
	} {
		if got, why := (wish{seed: 0, since: "abc", changed: []string{file}}).takes(p, tests); got != want {
			t.Errorf("%s changed: got %t (%s), want %t", file, got, why, want)
		}
	}
	if got, _ := (wish{whyAll: "unknown"}).takes(p, tests); !got {
		t.Error("nothing is known of the last commit that passed: the part was left out")
	}
}

func TestTestsThatNeedAnAPIServerAreFoundByWhatTheyCall(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p/server_test.go", `package p
import "`+apitest+`"
func start(t *testing.T) { apitest.Require(t) }
func (s server) client(t *testing.T) { start(t) }
func helper() {}
`)
	write(t, "p/a_test.go", `package p
func TestDirect(t *testing.T) { start(t) }
func TestByAMethod(t *testing.T) { t.Run("x", func(t *testing.T) { server{}.client(t) }) }
func TestAlone(t *testing.T) { helper() }
func Testing(t *testing.T) { start(t) }
func TestMain(m *testing.M) { start(nil) }
func FuzzAlone(f *testing.F) { helper() }
`)
	tests, err := testsOf("p", []string{"server_test.go", "a_test.go"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range tests {
		got = append(got, x.name+map[bool]string{true: " needs one", false: ""}[x.api])
	}
	slices.Sort(got)
	want := []string{"FuzzAlone", "TestAlone", "TestByAMethod needs one", "TestDirect needs one"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
}

// This module's own sources: no test may belong to no part.
func TestEveryTestIsListed(t *testing.T) {
	t.Chdir("../..")
	tree, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.same(); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAMovedFileHasNotChanged(t *testing.T) {
	const lines = "M\tMakefile\nR097\tcmd/a_test.go\tcmd/e2e/a_test.go\nA\tcmd/e2e/b_test.go\nD\tcmd/b_test.go\n? new.go\n"
	want := []string{"Makefile", "cmd/e2e/b_test.go", "cmd/b_test.go", "new.go"}
	if got := changedFiles(lines); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCommentsAreNoCode(t *testing.T) {
	const before = "//go:build linux\n\npackage a\n\n// F is f.\nfunc F() int { return 1 } // one\n"
	for name, c := range map[string]struct {
		now  string
		same bool
	}{
		"the same":          {before, true},
		"other comments":    {"//go:build linux\n\npackage a\n\n// F returns one.\n// Always.\nfunc F() int { return 1 }\n", true},
		"other code":        {"//go:build linux\n\npackage a\n\n// F is f.\nfunc F() int { return 2 } // one\n", false},
		"another directive": {"//go:build darwin\n\npackage a\n\n// F is f.\nfunc F() int { return 1 } // one\n", false},
		"a text":            {"//go:build linux\n\npackage a\n\n// F is f.\nfunc F() int { return 1 } // one\nvar s = `// one`\n", false},
	} {
		if got := slices.Equal(code([]byte(before)), code([]byte(c.now))); got != c.same {
			t.Errorf("%s: the same code: %t", name, got)
		}
	}
}
