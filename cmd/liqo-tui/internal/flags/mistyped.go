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

// afterSpace are flags that can be used without a value, with the values that are accepted after
// a space instead of a "=".
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

// files is a flag that may have several files.
type files interface{ GetSlice() []string }

// RemoteFile uses the files of --kubeconfig for the remote cluster, too, if no file is given for
// it and only these files have its context. kubectl's own files come first, as with liqoctl.
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

// UnknownCommand is the error for a word that names no command. It names the most similar
// command: one below cmd, or else any.
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

// commandPaths adds the commands below cmd, by their names. With deep, it also adds the commands
// below those.
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

// UnknownFlag adds the most similar flag to the error for an unknown flag.
func UnknownFlag(cmd *cobra.Command, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		err = fmt.Errorf("%w%s", err, nearest.Question(name, "--", names))
	}
	return exit.UsageError{Err: err}
}
