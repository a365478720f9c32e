package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// A command with sixty flags is read by groups.
func TestFlagsOfLongCommandsHaveGroups(t *testing.T) {
	root, closeLog := rootCommand(streams{})
	defer closeLog()
	for _, args := range [][]string{{"connect"}, {"network", "connect"}, {"check"}, {"peer"}} {
		c, _, err := root.Find(args)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, title := range []flagGroup{ofConnection, ofClusters} {
			if strings.Count(text, "\n  "+string(title)+":\n") != 1 {
				t.Errorf("%s has no group %q:\n%s", c.CommandPath(), title, text)
			}
		}
		visit := func(f *pflag.Flag) {
			if n := len(regexp.MustCompile(`(?m)^(  -., |      )--`+f.Name+`( |\[|$)`).FindAllString(text, -1)); n != 1 && !f.Hidden {
				t.Errorf("%s: the help has --%s %d times", c.CommandPath(), f.Name, n)
			}
		}
		c.LocalFlags().VisitAll(visit)
		c.InheritedFlags().VisitAll(visit)
	}
}

// A shell completes paths for flags that name files, and for no others.
func TestFlagsThatNameFilesAreCompleted(t *testing.T) {
	root, closeLog := rootCommand(streams{})
	defer closeLog()
	names := regexp.MustCompile(`\b(YAML|kubeconfig) file\b|^(the )?file\b|^archive\b|\bthis (file|folder)\b`)
	others := []string{"fingerprint"}
	checked := 0
	var all func(*cobra.Command)
	all = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			named := f.Value.Type() != "bool" && names.MatchString(f.Usage) && !slices.Contains(others, f.Name)
			if known := namesFile(cmd, f); known != named {
				t.Errorf("%s --%s (%s): in ofFiles: %t", cmd.CommandPath(), f.Name, f.Usage, known)
			}
			checked++
		})
		for _, c := range cmd.Commands() {
			all(c)
		}
	}
	all(root)
	if checked < 100 {
		t.Errorf("%d flags were seen", checked)
	}
}

// A shell offers files as arguments only of commands that read one.
func TestArgumentsThatNameFilesAreCompleted(t *testing.T) {
	root, closeLog := rootCommand(streams{})
	defer closeLog()
	var files []string
	var all func(*cobra.Command)
	all = func(cmd *cobra.Command) {
		if cmd.Runnable() && cmd.ValidArgsFunction == nil {
			files = append(files, cmd.Use)
		}
		for _, c := range cmd.Commands() {
			all(c)
		}
	}
	all(root)
	if want := []string{"accept ANSWER", "join INVITATION"}; !slices.Equal(files, want) {
		t.Errorf("files are completed for %q, want %q", files, want)
	}
}
