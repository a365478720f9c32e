package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Help that wraps in the middle of words is not read.
func TestHelpOfEveryCommandFitsATerminal(t *testing.T) {
	root, closeLog := rootCommand(streams{})
	defer closeLog()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		if c.HasParent() && c.Parent().Name() == "completion" || c.Name() == "completion" {
			return // cobra's own words
		}
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > helpWidth {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		if c.Short == "" {
			t.Errorf("%s says nothing of itself", c.CommandPath())
		}
	}
	visit(root)
}
