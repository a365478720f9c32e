package main

import (
	"io"
	"os"
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
	cobra.AddTemplateFunc("wrapped", func(f *pflag.FlagSet) string { return f.FlagUsagesWrapped(width) })
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", "wrapped .LocalFlags", ".InheritedFlags.FlagUsages", "wrapped .InheritedFlags",
	).Replace(root.UsageTemplate()))
}

// hideInherited leaves out of a command's help the flags that it does not use.
func hideInherited(cmd *cobra.Command, prefix string) {
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			f.Hidden = f.Hidden || strings.HasPrefix(f.Name, prefix)
		})
		help(c, args)
	})
}
