package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// manCommand returns the command that prints or writes the manual pages of a
// version.
func manCommand(out io.Writer, version string) *cobra.Command {
	return &cobra.Command{
		Use:     "man [FOLDER]",
		Short:   "Print the manual page, or write all of them into a folder",
		Example: `  liqo-tui man | man -l -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			header := &doc.GenManHeader{Title: "LIQO-TUI", Section: "1", Source: "liqo-tui " + version, Manual: "liqo-tui"}
			root := cmd.Root()
			root.DisableAutoGenTag = true // pages then have no date of generation
			switch len(args) {
			case 0:
				return doc.GenMan(root, header, out)
			case 1:
				if err := os.MkdirAll(args[0], 0o755); err != nil {
					return exit.UsageError{Err: err}
				}
				return doc.GenManTree(root, header, args[0])
			}
			return exit.UsageError{Err: fmt.Errorf("man takes one folder, got %s", strings.Join(args, " "))}
		},
	}
}
