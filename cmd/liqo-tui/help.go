package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/printable"
)

// Help is written for a terminal of this width, and uses more of a wider one.
const (
	helpWidth    = 80
	maxHelpWidth = 120 // longer lines are hard to read
)

// wrapHelp has the help of all commands wrap what it says of flags.
func wrapHelp(root *cobra.Command, io streams) {
	width := helpWidth
	if f, ok := printable.Terminal(io.out).(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			width = min(max(width, columns), maxHelpWidth)
		}
	}
	cobra.AddTemplateFunc("wrapped", func(f *pflag.FlagSet) string { return f.FlagUsagesWrapped(width) })
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", "wrapped .LocalFlags", ".InheritedFlags.FlagUsages", "wrapped .InheritedFlags",
	).Replace(root.UsageTemplate()))
}

// hideInherited leaves flags out of a command's help that it has no use for.
func hideInherited(cmd *cobra.Command, prefix string) {
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			f.Hidden = f.Hidden || strings.HasPrefix(f.Name, prefix)
		})
		help(c, args)
	})
}
