package report

import (
	"cmp"
	"fmt"
	"io"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Versions is the output of `version -o json`. While "v" is 1, fields are only
// added.
type Versions struct {
	V        int               `json:"v"`
	Program  ProgramVersion    `json:"program"`
	Clusters []ClusterVersions `json:"clusters,omitempty"`
}

// ProgramVersion is the version of this program.
type ProgramVersion struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Image is the image that install uses without --image; "" for a development
	// build.
	Image    string `json:"image,omitempty"`
	Liqo     string `json:"liqoAPI"` // the release of Liqo whose API the program uses
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ClusterVersions has the versions of our programs, or of Liqo, on a cluster.
type ClusterVersions struct {
	Context    string         `json:"context"`
	ClusterID  wire.ClusterID `json:"clusterID,omitempty"`
	Kubernetes string         `json:"kubernetes,omitempty"`
	// Software is "none", "Liqo" or "liqo-tui operator". Version is its version.
	Software string           `json:"software"`
	Version  string           `json:"version,omitempty"`
	Gateways []GatewayVersion `json:"gateways,omitempty"`
	Problem  string           `json:"problem,omitempty"`
}

// GatewayVersion has one gateway, and its image.
type GatewayVersion struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
}

// VersionsOf returns the versions on one cluster.
func VersionsOf(f flows.ClusterFacts, i flows.InstallationFacts) ClusterVersions {
	v := ClusterVersions{Context: f.Context.Name, ClusterID: f.ID, Kubernetes: f.Version, Software: f.Software.String(), Version: f.Operator.Version}
	for _, d := range i.Gateways {
		g := GatewayVersion{Namespace: d.Namespace, Name: d.Name}
		if c := d.Spec.Template.Spec.Containers; len(c) > 0 {
			g.Image = c[0].Image
		}
		v.Gateways = append(v.Gateways, g)
	}
	return v
}

// Print writes the versions as text.
func (v Versions) Print(out io.Writer) {
	p := v.Program
	fmt.Fprintf(out, "liqo-tui %s", p.Version)
	if p.Commit != "" {
		fmt.Fprintf(out, " (%s)", p.Commit)
	}
	fmt.Fprintln(out)
	for _, c := range v.Clusters {
		fmt.Fprintf(out, "%s: ", cmp.Or(string(c.ClusterID), c.Context, "the current context"))
		if c.Problem != "" {
			fmt.Fprintln(out, c.Problem)
			continue
		}
		fmt.Fprintf(out, "Kubernetes %s, %s %s\n", c.Kubernetes, c.Software, c.Version)
		for _, g := range c.Gateways {
			fmt.Fprintf(out, "  gateway %s/%s: %s\n", g.Namespace, g.Name, g.Image)
		}
	}
}
