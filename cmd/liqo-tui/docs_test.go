package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// pages are the Markdown files for users, by their path from the repository's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := filepath.Join("..", "..")
	for _, start := range []string{"README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs"} {
		err := filepath.WalkDir(filepath.Join(root, start), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".md") {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			all[name] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// anchors are those of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1"))
		name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	all := pages(t)
	seen := 0
	for page, text := range all {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			seen++
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join("..", "..", path)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if other, known := all[path]; anchor != "" && known && !anchors(other)[anchor] {
				t.Errorf("%s links to %s, and there is no such heading", page, m[1])
			}
		}
	}
	if seen < 80 {
		t.Errorf("got %d links, want all of them", seen)
	}
}

// Only paths that begin with a folder of the repository are looked at: others are of the
// folder that was named before.
func TestFilesOfThePagesForContributorsExist(t *testing.T) {
	all := pages(t)
	seen := 0
	for page, text := range all {
		if page != "CONTRIBUTING.md" && page != "ARCHITECTURE.md" && !strings.HasPrefix(page, filepath.Join("docs", "design")) {
			continue
		}
		for _, m := range regexp.MustCompile("`((?:build|charts|cmd|docs|examples|flows|gateway|internal|kube|render|testdata|tui)/[A-Za-z0-9_./*-]+)`").FindAllStringSubmatch(text, -1) {
			seen++
			found, err := filepath.Glob(filepath.Join("..", "..", m[1]))
			inCommands, _ := filepath.Glob(m[1]) // testdata of the command
			if err != nil || len(found)+len(inCommands) == 0 {
				t.Errorf("%s names %s, which is not there (%v)", page, m[1], err)
			}
		}
	}
	if seen < 80 {
		t.Errorf("got %d paths, want all of them", seen)
	}
}

// A command is in a block, or between backquotes, and may go on in the next line.
var commands = regexp.MustCompile("(?m)(?:^ {4}(?:bin/)?|`(?:bin/)?)(liqo-tui [a-z][^`\n\\\\]*(?:\\\\\n[^`\n\\\\]*)*)")

func TestCommandsOfThePagesExist(t *testing.T) {
	seen := 0
	for page, text := range pages(t) {
		for _, m := range commands.FindAllStringSubmatch(text, -1) {
			line, _, _ := strings.Cut(regexp.MustCompile(`\\\n\s*`).ReplaceAllString(m[1], ""), " # ")
			line, _, _ = strings.Cut(line, "   ") // what stands beside it
			words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\n' })[1:]
			if end := slices.IndexFunc(words, func(w string) bool { return strings.ContainsAny(w[:1], "|>;&") }); end >= 0 {
				words = words[:end]
			}
			seen++
			root, closeLog := rootCommand(streams{})
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd()
			cmd, _, err := root.Find(words)
			closeLog()
			if err != nil || cmd == root && len(words) > 0 && !strings.HasPrefix(words[0], "-") {
				t.Errorf("%s: %q: %v", page, line, err)
				continue
			}
			for _, w := range words {
				name, _, _ := strings.Cut(strings.Trim(w, `.,:"'()`), "=")
				if flag, ok := strings.CutPrefix(name, "--"); ok && flag != "" && !hasFlag(cmd, flag) {
					t.Errorf("%s: %q: %s has no flag --%s", page, line, cmd.CommandPath(), flag)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("got %d commands, want all of them", seen)
	}
}

func TestThePageOfCommandsHasEachCommand(t *testing.T) {
	text, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	root, closeLog := rootCommand(streams{})
	defer closeLog()
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if words := strings.TrimPrefix(cmd.CommandPath(), "liqo-tui "); !cmd.Hidden && cmd.Runnable() && cmd != root && !strings.Contains(page, words) {
			t.Errorf("docs/commands.md does not name %q", words)
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root)
}

func hasFlag(cmd *cobra.Command, name string) bool {
	return name == "help" || cmd.Flag(name) != nil || cmd.InheritedFlags().Lookup(name) != nil
}
