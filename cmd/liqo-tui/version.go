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
	"github.com/liqo-tui/liqo-tui/render"
)

// What the Makefile sets. version is a release's tag, else that of the next release
// and the commit; releasedImage is where the image of a release was published, with
// its digest. Other builds have none.
var (
	version       = "dev"
	commit        string
	releasedImage string
)

// versions is what `version -o json` writes. Fields are only added while "v" is 1.
type versions struct {
	V        int               `json:"v"`
	Program  programVersion    `json:"program"`
	Clusters []clusterVersions `json:"clusters,omitempty"`
}

type programVersion struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Image is what install uses without --image; none for a development build.
	Image    string `json:"image,omitempty"`
	Liqo     string `json:"liqoAPI"` // the release whose API it speaks
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

type clusterVersions struct {
	Context    string           `json:"context"`
	ClusterID  render.ClusterID `json:"clusterID,omitempty"`
	Kubernetes string           `json:"kubernetes,omitempty"`
	// Software is "none", "Liqo" or "liqo-tui operator", and Version that of it.
	Software string           `json:"software"`
	Version  string           `json:"version,omitempty"`
	Gateways []gatewayVersion `json:"gateways,omitempty"`
	Problem  string           `json:"problem,omitempty"`
}

type gatewayVersion struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
}

// liqoAPI is the release of Liqo whose types go.mod has.
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
		v := versions{V: 1, Program: thisProgram()}
		var failed error
		for i, c := range []clusterFlags{pair.local, pair.remote} {
			if ask && (i == 0 || c.named()) {
				of, err := versionsOn(cmd.Context(), c)
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
		v.print(io)
		return failed
	}
	return cmd
}

func thisProgram() programVersion {
	return programVersion{
		Version: version, Commit: commit, Image: releasedImage, Liqo: liqoAPI, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// versionsOn are those of one cluster. What could not be read is a problem of it, too.
func versionsOn(ctx context.Context, c clusterFlags) (clusterVersions, error) {
	v := clusterVersions{Context: c.context, Software: flows.NoSoftware.String()}
	fail := func(err error) (clusterVersions, error) {
		v.Problem = err.Error()
		return v, fmt.Errorf("versions on %s: %w", cmp.Or(c.context, c.kubeconfig), err)
	}
	cluster, err := c.open()
	if err != nil {
		return fail(err)
	}
	defer cluster.Close()
	f, err := cluster.Observe(ctx)
	if err == nil && f.Problem != nil {
		err = f.Problem
	}
	if err != nil {
		return fail(err)
	}
	v.Context, v.ClusterID, v.Kubernetes, v.Software, v.Version = f.Context.Name, f.ID, f.Version, f.Software.String(), f.Operator.Version
	i, err := cluster.Installation(ctx)
	if err != nil {
		return fail(err)
	}
	for _, d := range i.Gateways {
		g := gatewayVersion{Namespace: d.Namespace, Name: d.Name}
		if c := d.Spec.Template.Spec.Containers; len(c) > 0 {
			g.Image = c[0].Image
		}
		v.Gateways = append(v.Gateways, g)
	}
	return v, nil
}

func (v versions) print(io streams) {
	p := v.Program
	fmt.Fprintf(io.out, "liqo-tui %s", p.Version)
	if p.Commit != "" {
		fmt.Fprintf(io.out, " (%s)", p.Commit)
	}
	fmt.Fprintln(io.out)
	for _, c := range v.Clusters {
		fmt.Fprintf(io.out, "%s: ", cmp.Or(string(c.ClusterID), c.Context, "the current context"))
		if c.Problem != "" {
			fmt.Fprintln(io.out, c.Problem)
			continue
		}
		fmt.Fprintf(io.out, "Kubernetes %s, %s %s\n", c.Kubernetes, c.Software, c.Version)
		for _, g := range c.Gateways {
			fmt.Fprintf(io.out, "  gateway %s/%s: %s\n", g.Namespace, g.Name, g.Image)
		}
	}
}
