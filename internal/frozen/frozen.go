// Package frozen writes the names that other programs, people and other releases rely on into golden files.
// It is a helper for tests.
package frozen

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/internal/golden"
)

const head = `# What others rely on. A change of this file breaks scripts, dashboards, or clusters with
# another release: it belongs into a commit that says why. To move or to rename code
# changes nothing here. A test writes the file: UPDATE=1 accepts.
`

// Section is a part of a golden file.
type Section struct {
	Title string
	Lines []string
}

// Compare compares sections with the golden file name in testdata/wire at the root of the
// repository.
func Compare(t testing.TB, name string, sections ...Section) {
	t.Helper()
	var text strings.Builder
	text.WriteString(head)
	for _, s := range sections {
		if len(s.Lines) == 0 {
			t.Errorf("%s: nothing was found", s.Title)
		}
		fmt.Fprintf(&text, "\n## %s\n\n", s.Title)
		for _, l := range s.Lines {
			text.WriteString(l + "\n")
		}
	}
	up := "testdata"
	for {
		up = filepath.Join("..", up)
		if _, err := os.Stat(filepath.Join(up, "..", "go.mod")); err == nil {
			break
		}
		if len(up) > 100 {
			t.Fatal("this is no repository: there is no go.mod")
		}
	}
	golden.Compare(t, filepath.Join("..", up, "wire", name), text.String())
}

// Commands returns all commands of a program, each with its arguments and its flags, with
// their types and defaults.
func Commands(root *cobra.Command) []string {
	var lines []string
	var visit func(*cobra.Command, string)
	visit = func(c *cobra.Command, parents string) {
		line := parents + c.Use
		if c.Hidden {
			line += " (hidden)"
		}
		lines = append(lines, line)
		if len(c.Aliases) > 0 {
			lines = append(lines, "  also "+strings.Join(c.Aliases, ", "))
		}
		if len(c.ValidArgs) > 0 {
			lines = append(lines, "  takes "+strings.Join(c.ValidArgs, ", "))
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { lines = append(lines, "  "+flag(f)) })
		for _, sub := range c.Commands() {
			visit(sub, parents+c.Name()+" ")
		}
	}
	visit(root, "")
	return lines
}

func flag(f *pflag.Flag) string {
	line := "--" + f.Name
	if f.Shorthand != "" {
		line += ", -" + f.Shorthand
	}
	line += " " + f.Value.Type()
	if f.DefValue != "" {
		line += " = " + f.DefValue
	}
	if f.NoOptDefVal != "" && f.Value.Type() != "bool" {
		line += ", alone " + f.NoOptDefVal
	}
	if f.Hidden {
		line += " (hidden)"
	}
	return line
}

// Metrics returns a gatherer's present metrics, with their types and labels.
func Metrics(t testing.TB, from prometheus.Gatherer) []string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		var labels []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !slices.Contains(labels, l.GetName()) {
					labels = append(labels, l.GetName())
				}
			}
		}
		slices.Sort(labels)
		lines = append(lines, fmt.Sprintf("%s %s {%s}", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", ")))
	}
	return lines
}
