package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
)

const (
	// helpWidth is the width for which the help is written; a wider terminal is
	// used up to maxHelpWidth.
	helpWidth    = 80
	maxHelpWidth = 120 // longer lines are hard to read
)

// wrapHelp wraps the texts about flags in the help of all commands.
func wrapHelp(root *cobra.Command, out io.Writer) {
	width := helpWidth
	if f, ok := report.TerminalOf(out).(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			width = min(max(width, columns), maxHelpWidth)
		}
	}
	cobra.AddTemplateFunc("wrapped", func(f *pflag.FlagSet) string { return usages(f, width) })
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", "wrapped .LocalFlags", ".InheritedFlags.FlagUsages", "wrapped .InheritedFlags",
	).Replace(root.UsageTemplate()))
}

// A flagGroup is the title of some flags in the help of commands.
type flagGroup string

// The groups, in the order of the help. Flags of no group come before them.
const (
	ofConnection   flagGroup = "The connection"
	ofRun          flagGroup = "The run"
	ofInstallation flagGroup = "The installation"
	ofClusters     flagGroup = "The clusters"
)

// add calls a function that adds flags, and puts these flags into the group.
func (g flagGroup) add(f *pflag.FlagSet, flags func()) {
	known := map[string]bool{}
	f.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	flags()
	f.VisitAll(func(f *pflag.Flag) {
		if !known[f.Name] {
			f.Annotations = map[string][]string{groupAnnotation: {string(g)}}
		}
	})
}

const groupAnnotation = "group"

// usages returns the help of flags, group by group.
func usages(f *pflag.FlagSet, width int) string {
	var out strings.Builder
	for _, g := range []flagGroup{"", ofConnection, ofRun, ofInstallation, ofClusters} {
		of := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.VisitAll(func(f *pflag.Flag) {
			if in := f.Annotations[groupAnnotation]; slices.Equal(in, []string{string(g)}) || in == nil && g == "" {
				of.AddFlag(f)
			}
		})
		if !of.HasAvailableFlags() {
			continue
		}
		if g != "" && out.Len() > 0 {
			out.WriteString("\n")
		}
		if g != "" {
			out.WriteString("  " + string(g) + ":\n")
		}
		out.WriteString(of.FlagUsagesWrapped(width))
	}
	return out.String()
}

// hideInherited hides in a command's help the inherited flags that the command
// does not use.
func hideInherited(cmd *cobra.Command, prefix string) {
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			f.Hidden = f.Hidden || strings.HasPrefix(f.Name, prefix)
		})
		help(c, args)
	})
}
