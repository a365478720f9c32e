package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// plan returns, for each part, whether this run takes it, with the reason.
func (t *tree) plan(folder string) (string, error) {
	w, err := readWish()
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(t.parts, func(p part) bool { return w.only == "" || w.only == p.name }) {
		var all []string
		for _, p := range t.parts {
			all = append(all, p.name)
		}
		return "", fmt.Errorf("PART=%s: there is no such part; the parts are %s", w.only, strings.Join(all, " "))
	}
	if w.all {
		w.passed = stamps()
	} else {
		w.since, w.changed, w.whyAll = changes()
	}
	var out strings.Builder
	for _, p := range w.order(t.parts) {
		taken, why := w.takes(p, t.tests[p.name])
		if lacks := lacking(p.needs); taken && lacks != "" {
			taken, why = false, "this machine can't: "+lacks
		}
		word := map[bool]string{true: "run", false: "left"}[taken]
		fmt.Fprintf(&out, "%s\t%s\t%s\t%s\t%s\t%d\t%t\n", word, p.name, strings.Join(p.programs, " "), p.title, why, p.seconds, p.always)
		if err := os.WriteFile(filepath.Join(folder, p.name), []byte(t.arguments(p, w)), 0o600); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// wish has the choices of a run, and the facts about earlier runs.
type wish struct {
	seed    uint64
	all     bool
	only    string          // the name of the only part
	passed  map[string]bool // parts that have passed completely at this commit
	since   string          // the last commit that passed
	changed []string        // files, since then
	whyAll  string          // the reason that changes are unknown; then each part may have changed
}

func readWish() (wish, error) {
	n, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 64)
	if err != nil {
		return wish{}, fmt.Errorf("SEED: %w", err)
	}
	return wish{seed: n, all: os.Getenv("TEST_ALL") != "", only: os.Getenv("PART")}, nil
}

// third returns the tests that a run takes from a part, in the order of the list: a third of them,
// unless the run takes all.
func (w wish) third(p part, lines []string) []string {
	if w.all || w.only != "" {
		return lines
	}
	turn := w.seed
	if !p.always { // its seeds all leave the same tests out
		turn /= seeds
	}
	var taken []string
	for i, l := range lines {
		if uint64(i)%seeds == turn%seeds { //nolint:gosec // an index
			taken = append(taken, l)
		}
	}
	return taken
}

// order returns the parts in the order in which they run. A slow machine has no time for the last
// ones: first come the parts of each run, then those of the seed, and then those that run only because
// something has changed. In the second and third of these, another part is the first in each run that
// takes them.
func (w wish) order(all []part) []part {
	var sorted []part
	for _, of := range []func(part) bool{
		func(p part) bool { return p.always },
		func(p part) bool { return !p.always && p.group == w.seed%seeds },
		func(p part) bool { return !p.always && p.group != w.seed%seeds },
	} {
		var some []part
		for _, p := range all {
			if of(p) {
				some = append(some, p)
			}
		}
		if len(some) > 0 && !some[0].always {
			first := int(w.seed / seeds % uint64(len(some))) //nolint:gosec // less than the number of parts
			some = append(slices.Clone(some[first:]), some[:first]...)
		}
		sorted = append(sorted, some...)
	}
	return sorted
}

func (w wish) takes(p part, tests []test) (bool, string) {
	switch {
	case w.only != "":
		return p.name == w.only, "PART=" + w.only
	case w.all && w.passed[p.name]:
		return false, "all of it has passed at this commit"
	case w.all:
		return true, "all parts"
	case p.always:
		return true, "in each run"
	case p.allOnly:
		return false, "in make test-all alone"
	case w.seed%seeds == p.group:
		return true, fmt.Sprintf("the seed leaves %d, divided by %d", p.group, seeds)
	case w.whyAll != "":
		return true, w.whyAll
	}
	for _, file := range w.changed {
		// Each run has the tests against API servers of one minor. So the other minors run only if
		// their own sources have changed.
		own := p.name != "api" && !strings.HasPrefix(p.name, "api-") && slices.ContainsFunc(tests, func(x test) bool { return x.file == file })
		if own || concerns(p.sources, file) {
			return true, fmt.Sprintf("%s has changed since %.7s, which passed", file, w.since)
		}
	}
	return false, fmt.Sprintf("the seed leaves %d, divided by %d, and nothing of it has changed since %.7s", w.seed%seeds, seeds, w.since)
}

// changes returns the files that have changed since the last commit for which a whole run passed,
// according to build/passed.
func changes() (since string, files []string, unknown string) {
	text, err := os.ReadFile(passedFile)
	if err != nil {
		return "", nil, err.Error()
	}
	since = strings.TrimSpace(string(text))
	for _, args := range [][]string{{"diff", "--name-status", "-M90%", "-l0", since}, {"ls-files", "--others", "--exclude-standard", "-t"}} {
		out, err := exec.CommandContext(context.Background(), "git", args...).Output()
		if err != nil {
			return "", nil, "commit " + since + " of " + passedFile + " is not in this clone"
		}
		files = append(files, changedFiles(string(out))...)
	}
	return since, slices.DeleteFunc(files, func(f string) bool { return onlyComments(since, f) }), ""
}

// onlyComments reports whether a Go file has the same code as in a commit.
func onlyComments(commit, file string) bool {
	if !strings.HasSuffix(file, ".go") {
		return false
	}
	before, err := exec.CommandContext(context.Background(), "git", "show", commit+":"+file).Output()
	if err != nil {
		return false // the file is new
	}
	now, err := os.ReadFile(file)
	return err == nil && slices.Equal(code(before), code(now))
}

// code returns the tokens of a Go file. It drops comments, except directives for Go's tools.
func code(source []byte) (tokens []string) {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(source)), source, nil, scanner.ScanComments)
	for {
		switch _, kind, text := s.Scan(); {
		case kind == token.EOF:
			return tokens
		case kind != token.COMMENT || strings.HasPrefix(text, "//go:"):
			tokens = append(tokens, kind.String()+" "+text)
		}
	}
}

// changedFiles reads lines of git with a status and a file. A file that has moved and differs only in
// its package clause and imports counts as unchanged. Otherwise the move of a folder would make one
// run take all parts, and no machine has the time for that.
func changedFiles(lines string) (files []string) {
	for line := range strings.Lines(lines) {
		if words := strings.Fields(line); len(words) > 1 && !strings.HasPrefix(words[0], "R") {
			files = append(files, words[len(words)-1])
		}
	}
	return files
}

// stamps returns the parts that passed at this commit, as recorded by build/test.sh.
func stamps() map[string]bool {
	passed := map[string]bool{}
	commit, err := exec.CommandContext(context.Background(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return passed
	}
	files, _ := filepath.Glob("bin/passed/" + strings.TrimSpace(string(commit)) + "/*")
	for _, f := range files {
		passed[filepath.Base(f)] = true
	}
	return passed
}

// lacking returns the reason that this machine can't run a part; "" if it can.
func lacking(need string) string {
	switch need {
	case "root", "bpf":
		if os.Geteuid() != 0 {
			return "not root, so there is no lab"
		}
		if need == "bpf" {
			return withoutBPF()
		}
	case "vm":
		if out, err := exec.CommandContext(context.Background(), "uname", "-m").Output(); err == nil && strings.TrimSpace(string(out)) != "x86_64" {
			return "the virtual machine is for x86_64"
		}
	}
	return ""
}

// withoutBPF returns the reason that Cilium can't run here; "" if it can.
func withoutBPF() string {
	for file, needed := range map[string]string{"/proc/filesystems": "bpf", "/proc/self/mounts": "cgroup2"} {
		if text, err := os.ReadFile(file); err != nil || !slices.Contains(strings.Fields(string(text)), needed) {
			return "no " + needed + " in " + file + ", so there is no Cilium"
		}
	}
	return ""
}

// ran compares the results in a log with the tests of a part in the list, and counts its cases.
func ran(w wish, name, logFile string) (string, error) {
	list, err := os.ReadFile(listFile)
	if err != nil {
		return "", err
	}
	log, err := os.ReadFile(logFile)
	if err != nil {
		return "", err
	}
	seen, cases := results(string(log))
	var lines, missing []string
	for line := range strings.Lines(string(list)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == listed(name) {
			lines = append(lines, line)
		}
	}
	for _, p := range parts(nil) {
		if p.name == name && p.thirds {
			lines = w.third(p, lines)
		}
	}
	count := 0
	for _, line := range lines {
		words := strings.Fields(line)
		// The results of a package end with the line that names it, except in the virtual machine.
		if seen[words[1]+"/"+words[2]] || listed(name) == "vm" && seen["/"+words[2]] {
			count++
		} else {
			missing = append(missing, words[1]+" "+words[2])
		}
	}
	out := fmt.Sprintf("%s: %d tests, %d cases\n", name, count, cases)
	switch {
	case len(missing) > 0:
		return out, errors.New("these tests of the part " + name + " have no result:\n\t" + strings.Join(missing, "\n\t"))
	case count == 0:
		return out, fmt.Errorf("the part %s ran no test", name)
	}
	return out, nil
}

const moduleName = "github.com/liqo-tui/liqo-tui/"

// results returns the tests that have a result in a log of go test -v, as folder/name, and the number
// of cases: tests and subtests without subtests of their own.
func results(log string) (seen map[string]bool, cases int) {
	seen = map[string]bool{}
	var names []string
	all, inner := map[string]bool{}, map[string]bool{} // tests and subtests, and those of them that have subtests
	for line := range strings.Lines(log) {
		words := strings.Fields(line)
		switch {
		case len(words) >= 3 && words[0] == "---" && (words[1] == "PASS:" || words[1] == "FAIL:" || words[1] == "SKIP:"):
			if strings.HasPrefix(line, "---") {
				names = append(names, words[2])
			}
			all[words[2]] = true
			for i := strings.LastIndex(words[2], "/"); i > 0; i = strings.LastIndex(words[2][:i], "/") {
				inner[words[2][:i]] = true
			}
		case len(words) >= 2 && (words[0] == "ok" || words[0] == "FAIL") && line[0] != ' ' && strings.Contains(words[1], "/"):
			folder := strings.TrimPrefix(words[1], moduleName)
			for _, n := range names {
				seen[folder+"/"+n] = true
			}
			cases += len(all) - len(inner)
			names, all, inner = nil, map[string]bool{}, map[string]bool{}
		}
	}
	for _, n := range names {
		seen["/"+n] = true
	}
	return seen, cases + len(all) - len(inner)
}
