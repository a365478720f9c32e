// Command parts divides the project's tests into parts, chooses the parts that a run takes,
// and checks the log of each part, so that no part passes without a test. build/test.sh
// uses it:
//
//	parts list              the list of all tests, for build/tests.txt
//	parts same              fails with the differences if build/tests.txt is not that list
//	parts plan FOLDER       fails as "parts same" does. Otherwise it prints the parts that
//	                        this run takes and leaves out, in their order: lines of "run"
//	                        or "left", name, programs to build, title, reason, seconds, and
//	                        whether each run takes it. In FOLDER, it writes a file for each
//	                        part, with lines of a folder and arguments of go test
//	parts ran PART LOG      fails unless LOG, the output of go test -v, has a result for each
//	                        test that this run takes from the part, and at least one result
//	parts where TEST        the package of a test, also of a test with build tags
//
// SEED and TEST_ALL choose the parts; PART chooses a single part.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	listFile   = "build/tests.txt"
	passedFile = "build/passed"
)

func main() {
	out, err := run(os.Args[1:])
	fmt.Print(out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

func run(args []string) (string, error) {
	switch {
	case len(args) == 2 && args[0] == "where":
		return where(args[1])
	case len(args) == 3 && args[0] == "ran":
		w, err := readWish()
		if err != nil {
			return "", err
		}
		return ran(w, args[1], args[2])
	}
	t, err := readTree()
	if err != nil {
		return "", err
	}
	switch {
	case len(args) == 1 && args[0] == "list":
		return t.list(), nil
	case len(args) == 1 && args[0] == "same":
		return "", t.same()
	case len(args) == 2 && args[0] == "plan":
		if err := t.same(); err != nil {
			return "", err
		}
		return t.plan(args[1])
	}
	return "", errors.New("usage: parts list | same | plan FOLDER | ran PART LOG | where TEST")
}

// tree has the parts and the tests in the sources.
type tree struct {
	parts []part
	tests map[string][]test // by part
}

func readTree() (tree, error) {
	folders, err := filepath.Glob("testdata/kubernetes/*")
	if err != nil {
		return tree{}, err
	}
	var minors []string
	for _, f := range folders {
		minors = append(minors, filepath.Base(f))
	}
	t := tree{parts: parts(minors), tests: map[string][]test{}}
	own, err := testsIn(".")
	if err != nil {
		return tree{}, err
	}
	t.divide(own)
	for _, m := range modules {
		others, err := testsIn(m)
		if err != nil {
			return tree{}, err
		}
		t.tests["modules"] = append(t.tests["modules"], others...)
	}
	for _, p := range t.parts {
		if len(t.tests[p.name]) == 0 {
			return tree{}, fmt.Errorf("part %s has no test: change build/parts/table.go", p.name)
		}
	}
	return t, nil
}

// divide gives each test of the program's module to the part that names it. Several parts can
// name a test if they have different cases of it. Tests that no part names go to the parts
// of API servers, if they need an API server, or to "unit". Some kernel tests also belong to
// the parts of the virtual machine.
func (t *tree) divide(tests []test) {
	for _, x := range tests {
		named := false
		for _, p := range t.parts {
			if p.tests == nil || !p.tests.MatchString(x.name) || named && p.cases == "" || p.name == "two-clusters" && t.namedElsewhere(x.name) {
				continue
			}
			named = true
			t.tests[p.name] = append(t.tests[p.name], x)
		}
		if named {
			continue
		}
		for _, p := range t.parts {
			if x.api == (listed(p.name) == "api") && (x.api || p.name == "unit") {
				t.tests[p.name] = append(t.tests[p.name], x)
			}
		}
		for _, vm := range inVM {
			if x.pkg == vm.pkg && vm.run.MatchString(x.name) && !vm.skip.MatchString(x.name) {
				t.tests["vm"] = append(t.tests["vm"], x)
				t.tests["vm-5.10"] = append(t.tests["vm-5.10"], x)
			}
		}
	}
}

// namedElsewhere reports whether a part other than "two-clusters" names the test.
// "two-clusters" takes only tests that no other part names.
func (t *tree) namedElsewhere(name string) bool {
	return slices.ContainsFunc(t.parts, func(p part) bool {
		return p.name != "two-clusters" && p.tests != nil && p.tests.MatchString(name)
	})
}

// listed returns the name of a part in the list. The parts of all minors of Kubernetes have
// the same tests, and so have the parts of both kernels: these tests are in the list once.
func listed(part string) string {
	for _, several := range []string{"api", "vm"} {
		if strings.HasPrefix(part, several+"-") {
			return several
		}
	}
	return part
}

func (t *tree) list() string {
	var lines []string
	for part := range t.tests {
		lines = append(lines, t.lines(part)...)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "")
}

// lines returns the lines of the list for one part, in the order of the list.
func (t *tree) lines(part string) []string {
	var lines []string
	for _, x := range t.tests[part] {
		lines = append(lines, listed(part)+" "+x.pkg+" "+x.name+"\n")
	}
	slices.Sort(lines)
	return lines
}

// same compares the list with the sources. The list is in the repository so that the
// commit that removes a test shows it.
func (t *tree) same() error {
	text, err := os.ReadFile(listFile)
	if err != nil {
		return err
	}
	have, want := strings.Split(t.list(), "\n"), strings.Split(string(text), "\n")
	var differences []string
	for _, line := range want {
		if !slices.Contains(have, line) {
			differences = append(differences, "is gone: "+line)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			differences = append(differences, "is new: "+line)
		}
	}
	if len(differences) == 0 {
		return nil
	}
	return fmt.Errorf("%s and the tests differ:\n\t%s\nIf this is intended, run make tests-list, and name each removed test in the commit's message",
		listFile, strings.Join(differences, "\n\t"))
}

// arguments returns the arguments of go test for a part: each line has a folder, a tab,
// and the arguments. Packages share a line where that is possible, because go test runs the
// packages of one line side by side.
func (t *tree) arguments(p part, w wish) string {
	byPackage := map[string][]string{}
	for _, line := range t.taken(p, w) {
		words := strings.Fields(line)
		byPackage[words[1]] = append(byPackage[words[1]], words[2])
	}
	var lines, together, names []string
	skip := t.skipped(p.name, byPackage)
	for _, pkg := range sortedKeys(byPackage) {
		folder, argument := ".", "./"+pkg
		for _, m := range modules {
			if rest, ok := strings.CutPrefix(pkg+"/", m+"/"); ok {
				folder, argument = m, "./"+strings.TrimSuffix(rest, "/")
			}
		}
		apart := slices.ContainsFunc(byPackage[pkg], func(name string) bool { return slices.Contains(skip, name) })
		switch {
		case folder != ".":
			lines = append(lines, folder+"\t"+argument+"\n")
		case p.skips() && apart:
			lines = append(lines, ".\t-skip ^("+strings.Join(t.others(p.name, pkg), "|")+")$ "+argument+"\n")
		default:
			together, names = append(together, argument), append(names, byPackage[pkg]...)
		}
	}
	switch {
	case len(together) == 0:
	case p.skips() && len(skip) == 0:
		lines = append(lines, ".\t"+strings.Join(together, " ")+"\n")
	case p.skips():
		lines = append(lines, ".\t-skip ^("+strings.Join(skip, "|")+")$ "+strings.Join(together, " ")+"\n")
	case p.cases != "":
		lines = append(lines, ".\t-run "+p.cases+" "+strings.Join(together, " ")+"\n")
	default:
		lines = append(lines, ".\t-run ^("+strings.Join(names, "|")+")$ "+strings.Join(together, " ")+"\n")
	}
	return strings.Join(lines, "")
}

// taken returns the lines of the list that a run takes from a part.
func (t *tree) taken(p part, w wish) []string {
	if p.thirds {
		return w.third(p, t.lines(p.name))
	}
	return t.lines(p.name)
}

// skips reports whether the part selects its tests by -skip instead of -run. So the part also
// runs tests that are not in the list, such as examples.
func (p part) skips() bool { return p.name == "unit" }

// skipped returns the tests of these packages that belong to other parts only. One -skip with
// all these names lets a single `go test` run all packages side by side.
func (t *tree) skipped(name string, packages map[string][]string) []string {
	var names []string
	for pkg := range packages {
		names = append(names, t.others(name, pkg)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// others returns the tests of a package that belong to other parts only.
func (t *tree) others(name, pkg string) []string {
	var names []string
	for part, tests := range t.tests {
		for _, x := range tests {
			if x.pkg == pkg && part != name && !slices.ContainsFunc(t.tests[name], func(y test) bool { return y == x }) {
				names = append(names, x.name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// where returns the package of a test. So scripts only need the name of a test, and need not
// change when the test moves.
func where(name string) (string, error) {
	out, err := exec.CommandContext(context.Background(), "git", "grep", "-l", "--untracked", "-E", `^func `+name+`\(`, "--", "*_test.go").Output()
	if files := strings.Fields(string(out)); err == nil && len(files) == 1 {
		return "./" + filepath.Dir(files[0]) + "\n", nil
	}
	return "", fmt.Errorf("one file has to have func %s; there are: %q", name, out)
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
