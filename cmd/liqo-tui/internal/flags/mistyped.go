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

// afterSpace has the flags whose value is optional. pflag accepts their values only after a "=".
// JoinValues also accepts the values listed here after a space.
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

// files is the value of a flag that may have several files.
type files interface{ GetSlice() []string }

// RemoteFile uses the files of --kubeconfig for the remote cluster as well, if the command line
// names no file for the remote cluster, and kubectl's own files do not have its context. If they
// have it, they are used instead, as by liqoctl.
func RemoteFile(f *pflag.FlagSet) error {
	context, remote, local := f.Lookup("remote-context"), f.Lookup("remote-kubeconfig"), f.Lookup("kubeconfig")
	if context == nil || remote == nil || local == nil || remote.Changed || !context.Changed || !local.Changed {
		return nil
	}
	for _, file := range kubeconfig.OwnOr(local.Value.(files).GetSlice(), context.Value.String()) {
		if err := f.Set(remote.Name, file); err != nil {
			return err
		}
	}
	return nil
}

// UnknownCommand returns the error for a word that is no command. The error suggests the most
// similar command below cmd. If none there is similar, it suggests the most similar of all
// commands.
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

// commandPaths adds the commands below cmd, by their names. If deep is set, it also adds their
// subcommands.
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

// UnknownFlag adds the most similar flag to the error about an unknown flag.
func UnknownFlag(cmd *cobra.Command, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		err = fmt.Errorf("%w%s", err, nearest.Question(name, "--", names))
	}
	return exit.UsageError{Err: err}
}
