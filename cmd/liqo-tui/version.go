package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/kube"
)

// The Makefile sets these variables. version is the tag of a release; for other
// builds, it is the tag of the next release and the commit. releasedImage is the
// published image of a release, with its digest; other builds have none.
var (
	version       = "dev"
	commit        string
	releasedImage string
)

// liqoAPI is the release of Liqo whose Go types are in go.mod.
const liqoAPI = "v1.2.0"

func versionCommand(io streams) *cobra.Command {
	var output string
	var ask bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of this program, and of what runs on clusters", Args: noArguments,
		Long: `Print the version of this program. With --clusters, also which operator and
gateways run on the cluster, or which Liqo. Of two clusters, if the remote one
is named.`,
		Example: `  liqo-tui version
  liqo-tui version --clusters --context rome --remote-context milan -o json`,
	}
	pair := newPairFlags(cmd, false)
	cmd.Flags().BoolVar(&ask, "clusters", false, "ask the clusters, too")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if output != "text" && output != report.JSON && output != report.YAML {
			return exit.UsageError{Err: fmt.Errorf("--output %q: want text, json or yaml", output)}
		}
		v := report.Versions{V: 1, Program: thisProgram()}
		var failed error
		for i, c := range []clusterFlags{pair.local, pair.remote} {
			if ask && (i == 0 || c.named()) {
				of, err := versionsOn(cmd.Context(), c, func(*kube.Cluster, flows.ClusterFacts) {})
				failed = cmp.Or(failed, err)
				v.Clusters = append(v.Clusters, of)
			}
		}
		if output != "text" {
			if err := report.WriteDocument(io.out, output, v); err != nil {
				return err
			}
			return failed
		}
		v.Print(io.out)
		return failed
	}
	return cmd
}

func thisProgram() report.ProgramVersion {
	return report.ProgramVersion{
		Version: version, Commit: commit, Image: releasedImage, Liqo: liqoAPI, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// versionsOn returns the versions on one cluster. They include a problem if something
// could not be read. Otherwise use is called with the open cluster.
func versionsOn(ctx context.Context, c clusterFlags, use func(*kube.Cluster, flows.ClusterFacts)) (v report.ClusterVersions, err error) {
	v = report.ClusterVersions{Context: c.context, Software: flows.NoSoftware.String()}
	defer func() {
		if err != nil {
			v.Problem = err.Error()
			err = fmt.Errorf("versions on %s: %w", cmp.Or(c.context, c.kubeconfig), err)
		}
	}()
	cluster, err := c.open()
	if err != nil {
		return v, err
	}
	defer cluster.Close()
	f, err := cluster.Observe(ctx)
	if err == nil && f.Problem != nil {
		err = f.Problem
	}
	if err != nil {
		return v, err
	}
	i, err := cluster.Installation(ctx)
	if err == nil {
		use(cluster, f)
	}
	return report.VersionsOf(f, i), err
}
