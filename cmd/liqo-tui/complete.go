package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/manifest"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
)

// ofFiles are the flags whose values are paths, which shells complete.
var ofFiles = []string{"kubeconfig", "remote-kubeconfig", "log-file", "filename", "export", "pod-settings", "check", "file", "to"}

const completionTimeout = 2 * time.Second

// completeValues adds completions for flags and arguments without a setting.
func completeValues(root *cobra.Command) {
	words := map[string][]string{
		"output": report.Formats, "color": {"auto", "always", "never"}, "theme": flags.Themes, "dry-run": {dryRunNone, dryRunClient, dryRunServer},
		"format": {manifest.YAML, manifest.Kustomize, manifest.ArgoCD},
	}
	complete := func(cmd *cobra.Command, f *pflag.Flag) {
		values := cobra.NoFileCompletions
		switch known, ok := words[f.Name]; {
		case slices.Contains(ofFiles, f.Name):
			return
		case f.Name == "context", f.Name == "remote-context":
			values = completeContexts
		case ok:
			values = cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp)
		}
		// This fails only for a flag that already has a completion, such as the flag of a setting.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, values)
	}
	var all func(*cobra.Command)
	all = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { complete(cmd, f) })
		cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { complete(cmd, f) })
		switch path := cmd.CommandPath(); {
		case cmd.ValidArgsFunction != nil:
		case strings.HasSuffix(path, " explain"):
			cmd.ValidArgsFunction = cobra.FixedCompletions(explainTopics(), cobra.ShellCompDirectiveNoFileComp)
		case strings.HasSuffix(path, " info peer"), strings.HasSuffix(path, " network renumber"):
			cmd.ValidArgsFunction = completePeers
		case !takesFile(cmd):
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for _, c := range cmd.Commands() {
			all(c)
		}
	}
	all(root)
}

// takesFile reports whether an argument of a command names a file. Their names in the usage are these.
func takesFile(cmd *cobra.Command) bool {
	return slices.ContainsFunc(strings.Fields(cmd.Use), func(word string) bool { return word == "INVITATION" || word == "ANSWER" })
}

// completeContexts returns the contexts of the kubeconfig files that the command line
// has named so far, or of kubectl's.
func completeContexts(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var files []string
	for _, name := range []string{"kubeconfig", "remote-kubeconfig"} {
		if f := cmd.Flag(name); f != nil {
			files = append(files, f.Value.(*kubeconfigs).files...)
		}
	}
	contexts, _ := kubeconfig.Contexts(files) // commands report problems with the files
	var names []string
	for _, c := range contexts {
		names = append(names, c.Ref.Name+"\t"+c.Server)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completePeers returns the peers of the cluster that the command line has named.
func completePeers(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c := clusterFlags{context: cmd.Flag("context").Value.String(), namespace: cmd.Flag("liqo-namespace").Value.String()}
	files := cmd.Flag("kubeconfig").Value.(*kubeconfigs)
	c.files, c.kubeconfig, c.Instead = files.files, files.kubeconfig, files.Instead
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	cluster, err := c.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer cluster.Close()
	if cluster.LogsIn() {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f, err := lookAt(ctx, cluster)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, id := range slices.Sorted(maps.Keys(f.Peers())) {
		if !slices.Contains(args, string(id)) {
			names = append(names, string(id))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
