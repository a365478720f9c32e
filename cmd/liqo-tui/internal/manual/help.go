package manual

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/printable"
)

const (
	// HelpWidth is that of a terminal for which help is written; a wider one is used.
	HelpWidth    = 80
	maxHelpWidth = 120 // longer lines are hard to read
)

// WrapHelp has the help of all commands wrap what it says of flags.
func WrapHelp(root *cobra.Command, out io.Writer) {
	width := HelpWidth
	if f, ok := printable.Terminal(out).(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			width = min(max(width, columns), maxHelpWidth)
		}
	}
	cobra.AddTemplateFunc("wrapped", func(f *pflag.FlagSet) string { return f.FlagUsagesWrapped(width) })
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", "wrapped .LocalFlags", ".InheritedFlags.FlagUsages", "wrapped .InheritedFlags",
	).Replace(root.UsageTemplate()))
}

// HideInherited leaves flags out of a command's help that it has no use for.
func HideInherited(cmd *cobra.Command, prefix string) {
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			f.Hidden = f.Hidden || strings.HasPrefix(f.Name, prefix)
		})
		help(c, args)
	})
}
