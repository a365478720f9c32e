package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRequirementsNameTestsThatExist reads docs/reference/requirements.md: each row has a
// state, what works has a test, and each test that is named is somewhere.
func TestRequirementsNameTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	there := testsOfTheRepository(t)
	row := regexp.MustCompile(`(?m)^\| ([A-M]\d+) \| (.+) \| (.+) \| (.*)\|$`)
	seen := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		id, state := m[1], m[3]
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		tests := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[4], -1)
		for _, name := range tests {
			if !there[name[1]] {
				t.Errorf("%s: there is no test %s", id, name[1])
			}
		}
		works := strings.HasPrefix(state, "works")
		if !works && !strings.HasPrefix(state, "open") && !strings.HasPrefix(state, "cannot be here: ") || works && len(tests) == 0 {
			t.Errorf("%s: state %q, with %d tests", id, state, len(tests))
		}
	}
	for section, rows := range map[string]int{"A": 11, "B": 16, "C": 11, "D": 5, "E": 7, "F": 11, "G": 16, "H": 29, "I": 19, "J": 10, "K": 26, "L": 6, "M": 5} {
		found := slices.DeleteFunc(slices.Sorted(maps.Keys(seen)), func(id string) bool { return !strings.HasPrefix(id, section) })
		if len(found) != rows {
			t.Errorf("section %s: got %d rows, want %d: %q", section, len(found), rows, found)
		}
	}
}

// testsOfTheRepository are the names of all tests, benchmarks, parts of tests that are
// methods, and scripts.
func testsOfTheRepository(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?((?:Test|Benchmark|Fuzz|test)[A-Z]\w*)\(`)
	there := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bin" || name == ".git"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".txtar"):
			there[filepath.Base(filepath.Dir(path))+"/"+name] = true
		case strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range function.FindAllSubmatch(text, -1) {
				there[string(m[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}
