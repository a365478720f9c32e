// Package mistyped reads command lines as they were meant, or says what they are like.
package mistyped

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/internal/nearest"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
)

// afterSpace are flags that mean something without a value, and the values that are
// theirs all the same if a space is before them and not a "=".
var afterSpace = map[string][]string{
	"--wait":    {"none", "connected", "verified", "true", "false"},
	"--dry-run": {"none", "client", "server"},
}

// Join reads "--wait verified" as "--wait=verified".
func Join(args []string) []string {
	var out []string
	for i, a := range args {
		if i > 0 && slices.Contains(afterSpace[args[i-1]], a) {
			out[len(out)-1] += "=" + a
			continue
		}
		out = append(out, a)
	}
	return out
}

// files is a flag that may name several.
type files interface{ GetSlice() []string }

// Remote has --kubeconfig be of the remote cluster, too, where no file is named for it and its
// context is in these files alone: who writes --kubeconfig once means it so. kubectl's own files
// come first, as liqoctl has them.
func Remote(f *pflag.FlagSet) error {
	context, remote, local := f.Lookup("remote-context"), f.Lookup("remote-kubeconfig"), f.Lookup("kubeconfig")
	if context == nil || remote == nil || local == nil || remote.Changed || !context.Changed || !local.Changed {
		return nil
	}
	named := local.Value.(files).GetSlice()
	if !kubeconfig.OnlyIn(named, context.Value.String()) {
		return nil
	}
	for _, file := range named {
		if err := f.Set(remote.Name, file); err != nil {
			return err
		}
	}
	return nil
}

// Command is a word that names no command, and which one it is like: one of the
// same command, or else any.
func Command(cmd *cobra.Command, word string) error {
	question := ""
	for i, among := range []*cobra.Command{cmd, cmd.Root()} {
		paths := map[string]string{}
		commandPaths(among, i > 0, paths)
		if meant := nearest.To(word, slices.Sorted(maps.Keys(paths))); meant != "" && question == "" {
			question = "; did you mean " + paths[meant] + "?"
		}
	}
	of := ""
	if cmd.HasParent() {
		of = " of " + cmd.CommandPath()
	}
	return exit.UsageError{Err: fmt.Errorf("unknown command %q%s%s", word, of, question)}
}

// commandPaths are the commands below one, by their names; deep goes below these.
func commandPaths(cmd *cobra.Command, deep bool, paths map[string]string) {
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if deep {
			commandPaths(c, deep, paths)
		}
		paths[c.Name()] = c.CommandPath()
	}
}

// Flag adds to a flag that there isn't which one it is like.
func Flag(cmd *cobra.Command, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		err = fmt.Errorf("%w%s", err, nearest.Question(name, "--", names))
	}
	return exit.UsageError{Err: err}
}
