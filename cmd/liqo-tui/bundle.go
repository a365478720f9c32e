package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/bundle"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/kube/support"
)

func bundleCommand(io streams) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "bundle", Short: "Write an archive for a bug report, without secrets", Args: noArguments,
		Long: `Write an archive with what a bug report needs of a cluster, or of two: versions,
objects, events and logs of the operator, the node agents and the gateways.

Of Secrets only the names are read. Values that may be passwords, tokens or keys
are left out. It has names and addresses: have a look before you hand it on.`,
		Example: `  liqo-tui bundle --context rome --remote-context milan --to bug.tar.gz`,
	}
	pair := newPairFlags(cmd, false)
	cmd.Flags().StringVar(&file, "to", "", "archive to write (default: liqo-tui-bundle-TIME.tar.gz)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		file := cmp.Or(file, "liqo-tui-bundle-"+time.Now().UTC().Format("20060102-150405")+".tar.gz")
		clusters := []clusterFlags{pair.local}
		if pair.remote.named() {
			clusters = append(clusters, pair.remote)
		}
		to, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // fails before work that takes minutes
		if err != nil {
			return exit.UsageError{Err: fmt.Errorf("--to: %w", err)}
		}
		data, missing, err := bundleOf(cmd.Context(), clusters)
		if err == nil {
			_, err = to.Write(data)
		}
		if err = errors.Join(err, to.Close()); err != nil {
			return errors.Join(err, os.Remove(file))
		}
		for _, name := range missing {
			fmt.Fprintf(io.err, "not everything could be read: see %s in the archive\n", name)
		}
		fmt.Fprintf(io.out, "%s has %d KB. Read it before you pass it on: it has names and addresses.\n", file, (len(data)+1023)/1024)
		return nil
	}
	return cmd
}

// bundleOf returns the archive, and the names of its files with lists of
// missing parts.
func bundleOf(ctx context.Context, clusters []clusterFlags) (data []byte, missing []string, err error) {
	v := report.Versions{V: 1, Program: thisProgram()}
	files := support.Files{}
	for i, c := range clusters {
		name := [...]string{"A", "B"}[i]
		var parts support.Files
		of, err := versionsOn(ctx, c, func(cluster *kube.Cluster, f flows.ClusterFacts) { parts = support.Collect(ctx, cluster, f) })
		v.Clusters = append(v.Clusters, of)
		if err != nil {
			files.Add(name+"/problems.txt", bundle.Text(err.Error())+"\n")
			missing = append(missing, name+"/problems.txt")
			continue
		}
		for path, text := range parts {
			files[name+"/"+path] = text
			if path == "problems.txt" {
				missing = append(missing, name+"/"+path)
			}
		}
	}
	var text bytes.Buffer
	if err := report.WriteDocument(&text, report.JSON, v); err != nil {
		return nil, nil, err
	}
	files.Add("versions.json", bundle.Text(text.String()))
	data, err = files.Archive()
	return data, missing, err
}
