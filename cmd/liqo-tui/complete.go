package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/manifest"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
)

// ofFiles are the flags whose values are paths, which shells complete.
var ofFiles = []string{"kubeconfig", "remote-kubeconfig", "log-file", "filename", "export", "pod-settings", "check", "file", "to"}

const completionTimeout = 2 * time.Second

// completeValues adds completions for flags and arguments without a setting.
func completeValues(root *cobra.Command) {
	words := map[string][]string{
		"prefer": {wire.PreferLocal, preferAny}, "output": report.Formats, "color": {"auto", "always", "never"}, "theme": flags.Themes, "dry-run": {dryRunNone, dryRunClient, dryRunServer},
		"format": {manifest.YAML, manifest.Kustomize, manifest.ArgoCD},
	}
	complete := func(cmd *cobra.Command, f *pflag.Flag) {
		values := cobra.NoFileCompletions
		switch known, ok := words[f.Name]; {
		case namesFile(cmd, f):
			return
		case f.Name == "context", f.Name == "remote-context":
			values = completeContexts
		case ofService(cmd) && (f.Name == "from" || f.Name == "to"):
			values = completePeers
		case ofService(cmd) && f.Name == "namespace":
			values = completeNamespaces
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
		case strings.HasSuffix(path, " service export"):
			cmd.ValidArgsFunction = completeServices
		case strings.HasSuffix(path, " service unexport"), strings.HasSuffix(path, " service resolve"):
			cmd.ValidArgsFunction = completeNames
		case strings.HasSuffix(cmd.Use, ofContexts):
			cmd.ValidArgsFunction = completeContexts
		case !takesFile(cmd):
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for _, c := range cmd.Commands() {
			all(c)
		}
	}
	all(root)
}

// namesFile reports whether the value of a flag is a path. `service export --to` names clusters.
func namesFile(cmd *cobra.Command, f *pflag.Flag) bool {
	return slices.Contains(ofFiles, f.Name) && (f.Name != "to" || !ofService(cmd))
}

// ofService reports whether a command is one of `service`.
func ofService(cmd *cobra.Command) bool { return cmd.HasParent() && cmd.Parent().Name() == "service" }

// takesFile reports whether an argument of a command is the name of a file. It recognizes such an
// argument by the word in the command's usage.
func takesFile(cmd *cobra.Command) bool {
	return slices.ContainsFunc(strings.Fields(cmd.Use), func(word string) bool { return word == "INVITATION" || word == "ANSWER" })
}

// completeContexts returns the contexts of the kubeconfig files on the command line so far, or of
// kubectl's files.
func completeContexts(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 2 { // see contexts
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
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
	var names []string
	lookFor(cmd, func(_ context.Context, _ *kube.Cluster, f flows.ClusterFacts) {
		for _, id := range slices.Sorted(maps.Keys(f.Peers())) {
			if !slices.Contains(args, string(id)) {
				names = append(names, string(id))
			}
		}
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// lookFor reads the cluster that the command line has named, if it answers in time. If that would start a
// login, it does not: a key press is no request to log in.
func lookFor(cmd *cobra.Command, found func(context.Context, *kube.Cluster, flows.ClusterFacts)) {
	c := clusterFlags{context: cmd.Flag("context").Value.String(), namespace: cmd.Flag("liqo-namespace").Value.String()}
	files := cmd.Flag("kubeconfig").Value.(*kubeconfigs)
	c.files, c.kubeconfig, c.Instead = files.files, files.kubeconfig, files.Instead
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	cluster, err := c.open()
	if err != nil {
		return
	}
	defer cluster.Close()
	if cluster.LogsIn() {
		return
	}
	if f, err := lookAt(ctx, cluster); err == nil {
		found(ctx, cluster, f)
	}
}

// completeNames returns the names that the cluster exports or imports.
func completeNames(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []string
	lookFor(cmd, func(ctx context.Context, c *kube.Cluster, f flows.ClusterFacts) {
		facts := f.Alone()
		var answers engine.Answers
		if len(args) > 0 || answers.Ask(ctx, &facts, [2]engine.Cluster{c, engine.Absent{}}, service.Asks(types.NamespacedName{}, flows.A)...) != nil {
			return
		}
		rows, _, _ := services.Rows(service.ViewOf(facts, flows.A))
		for _, r := range rows {
			names = append(names, r.Name.String())
		}
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeServices returns the namespaces of the cluster, and then the Services of the chosen one.
func completeServices(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []string
	directive := cobra.ShellCompDirectiveNoFileComp
	namespace, _, chosen := strings.Cut(begun, "/")
	lookFor(cmd, func(ctx context.Context, c *kube.Cluster, f flows.ClusterFacts) {
		var all corev1.ServiceList
		switch given := cmd.Flag("namespace").Value.String(); {
		case len(args) > 0:
		case given != "":
			_ = c.Reader().List(ctx, &all, client.InNamespace(given)) // without an answer, there is no completion
			for _, s := range all.Items {
				names = append(names, s.Name)
			}
		case chosen:
			_ = c.Reader().List(ctx, &all, client.InNamespace(namespace))
			for _, s := range all.Items {
				names = append(names, namespace+"/"+s.Name)
			}
		default:
			for _, n := range namespacesOf(f) {
				names = append(names, n+"/")
			}
			directive |= cobra.ShellCompDirectiveNoSpace
		}
	})
	return names, directive
}

// completeNamespaces returns the namespaces whose Services can be exported and imported.
func completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []string
	lookFor(cmd, func(_ context.Context, _ *kube.Cluster, f flows.ClusterFacts) { names = namespacesOf(f) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

func namespacesOf(f flows.ClusterFacts) (names []string) {
	for i := range f.Namespaces {
		if n := f.Namespaces[i].Name; !services.Reserved(n, []string{f.Namespace}) {
			names = append(names, n)
		}
	}
	return names
}
