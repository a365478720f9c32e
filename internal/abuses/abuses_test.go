package abuses

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// boundary is a row of SECURITY.md.
type boundary struct {
	denies bool // attackers can't do something
	tests  []string
}

func boundaries(t *testing.T) (map[string]boundary, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]boundary{}
	_, rows, _ := strings.Cut(string(text), "\n|---|---|---|\n")
	rows, _, _ = strings.Cut(rows, "\n\n")
	for line := range strings.Lines(rows) {
		c := strings.Split(strings.TrimSpace(line), "|")
		if len(c) != 5 {
			t.Errorf("SECURITY.md: want three columns in %s", line)
			continue
		}
		cant := strings.TrimSpace(c[3])
		b := boundary{denies: cant != "" && cant != "nothing"}
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			b.tests = append(b.tests, m[1])
		}
		all[strings.TrimSpace(c[1])] = b
	}
	if len(all) < 20 {
		t.Fatalf("SECURITY.md: %d boundaries were read", len(all))
	}
	return all, string(text)
}

var named = regexp.MustCompile("`(Test\\w+)`")

// followers returns the tests that begin with Begin. Their attempts follow the table row by row.
func followers(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	test := regexp.MustCompile(`(?ms)^func (Test\w+)\(t \*testing\.T\) \{\n(.*?)^\}`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range test.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[2], "\tabuses.Begin(t)\n") {
				all[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEveryBoundaryIsAttacked tests that each claim of SECURITY.md about a boundary has a test that tries it.
func TestEveryBoundaryIsAttacked(t *testing.T) {
	all, text := boundaries(t)
	list, err := os.ReadFile(filepath.Join(root, "build", "tests.txt"))
	if err != nil {
		t.Fatal(err)
	}
	listed := func(test string) bool { return strings.Contains(string(list), " "+test+"\n") }
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		if !listed(m[1]) {
			t.Errorf("SECURITY.md names %s, which is not in build/tests.txt", m[1])
		}
	}
	follows, digits := followers(t), regexp.MustCompile(`\d+`)
	attempts, rows, keys := map[string]bool{}, map[string]int{}, map[string]bool{}
	ofTest := map[string]int{}
	for _, r := range All() {
		if slices.Contains([]string{r.Boundary, r.Test, r.Actor, r.Attempt, r.Request, r.Refusal, r.Nearest}, "") {
			t.Errorf("want boundary | test | actor | attempt | request | refused by | nearest: %+v", r)
			continue
		}
		key := strings.Join([]string{r.Test, r.Actor, r.Attempt}, " | ")
		if keys[key] {
			t.Errorf("two rows: %s", key)
		}
		keys[key] = true
		b, ok := all[r.Boundary]
		switch {
		case !ok:
			t.Errorf("%s: SECURITY.md has no boundary %q", key, r.Boundary)
		case !b.denies:
			t.Errorf("%s: SECURITY.md says of %q that it keeps nobody from anything", key, r.Boundary)
		case !slices.Contains(b.tests, r.Test):
			t.Errorf("%s: SECURITY.md does not name %s for %q", key, r.Test, r.Boundary)
		case !listed(r.Test):
			t.Errorf("%s: it is not in build/tests.txt", key)
		}
		ofTest[r.Test]++
		if !follows[r.Test] && ofTest[r.Test] > 1 {
			t.Errorf("%s: a test without Begin is one attempt", key)
		}
		attempts[digits.ReplaceAllString(strings.Join([]string{r.Boundary, r.Actor, r.Attempt, r.Request}, " | "), "#")] = true
		rows[r.Boundary]++
	}
	for name, b := range all {
		if b.denies && len(b.tests) == 0 {
			t.Errorf("SECURITY.md names no test that attacks %q", name)
		}
		if b.denies && rows[name] == 0 {
			t.Errorf("nothing is tried against %q", name)
		}
	}
	for name := range follows {
		if ofTest[name] == 0 {
			t.Errorf("%s has no rows", name)
		}
	}
	if least := 120; len(attempts) < least {
		t.Errorf("%d attempts, want %d at least", len(attempts), least)
	}
	t.Logf("figure: %d attempts at %d boundaries", len(attempts), len(rows))
}

// TestEveryBoundVerbIsAttacked tests the verbs that a policy bounds according to render/testdata/rights.txt:
// the policy has refused an attempt with each verb.
func TestEveryBoundVerbIsAttacked(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "render", "testdata", "rights.txt"))
	if err != nil {
		t.Fatal(err)
	}
	// For a policy, a patch is an update.
	verb := func(v string) string { return strings.Replace(v, "patch", "update", 1) }
	attempts := map[string]bool{}
	for _, r := range All() {
		if policy, ok := strings.CutPrefix(r.Refusal, "policy "); ok {
			name, _, _ := strings.Cut(policy, ": ")
			attempts[name+" "+verb(r.Request)] = true
			if applied, ok := strings.CutPrefix(r.Request, "apply "); ok { // which takes both rights
				attempts[name+" create "+applied], attempts[name+" update "+applied] = true, true
			}
		}
	}
	bound := 0
	for line := range strings.Lines(string(text)) {
		row := strings.Split(strings.TrimSpace(line), " | ")
		if len(row) != 4 || !strings.HasPrefix(row[3], "policy ") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(row[3], "policy "), ": ")
		for resource := range strings.SplitSeq(row[1], ",") {
			for v := range strings.SplitSeq(row[2], ",") {
				bound++
				if want := fmt.Sprintf("%s %s %s", name, verb(v), resource); !attempts[want] {
					t.Errorf("no attempt is refused by policy %s; %s has the right", want, row[0])
				}
			}
		}
	}
	if bound < 50 {
		t.Errorf("%d rights that a policy bounds were read", bound)
	}
}
