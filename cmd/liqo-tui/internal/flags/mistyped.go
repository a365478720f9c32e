package flags

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

// JoinValues reads "--wait verified" as "--wait=verified".
func JoinValues(args []string) []string {
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

// RemoteFile takes --kubeconfig for the remote cluster, too, if no file is named for that one and
// its context is in these files alone. kubectl's own files come first, as with liqoctl.
func RemoteFile(f *pflag.FlagSet) error {
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

// UnknownCommand is the error for a word that names no command. It names the command that the
// word is like: one below cmd, or else any.
func UnknownCommand(cmd *cobra.Command, word string) error {
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

// UnknownFlag adds to the error for an unknown flag which flag it is like.
func UnknownFlag(cmd *cobra.Command, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		err = fmt.Errorf("%w%s", err, nearest.Question(name, "--", names))
	}
	return exit.UsageError{Err: err}
}
