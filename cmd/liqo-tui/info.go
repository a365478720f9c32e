package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/info"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/kube"
)

type infoFlags struct{ output, get string }

func infoCommand(io streams) *cobra.Command {
	var c clusterFlags
	var o infoFlags
	cmd := &cobra.Command{
		Use: "info", Short: "Show a cluster and its peers", Args: noArguments,
		Long: `Show a cluster and its peers.

The state of a peering is what this cluster's gateway reports. "untested": the
gateways answer each other's pings, and no packet of a pod was seen to pass both
ways yet; liqo-tui network verify sends some. "connected": one was. In the JSON,
"connected" means the pings alone, and network.connection.podTraffic is when
pods' packets passed last. It only reads, and waits for nothing.`,
		Example: `  liqo-tui info --context rome
  liqo-tui info --get clusterid
  liqo-tui info -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.show(cmd.Context(), io, c, nil, false)
		},
	}
	peer := &cobra.Command{
		Use: "peer [CLUSTER_ID...]", Short: "Show all details of a cluster's peers, or of some of them",
		Example: `  liqo-tui info peer milan
  liqo-tui info peer milan --get network.gateway.address
  liqo-tui info peer -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.lending = kube.LendingShown
			return o.show(cmd.Context(), io, c, args, true)
		},
	}
	f := cmd.PersistentFlags()
	c.add(f, "", "the cluster")
	f.StringVarP(&o.output, "output", "o", report.Text, report.FormatHelp)
	f.StringVarP(&o.get, "get", "g", "", "print only what is at this path of the JSON, such as clusterid or network.podCIDRs")
	cmd.AddCommand(peer)
	return cmd
}

func (o infoFlags) show(ctx context.Context, io streams, c clusterFlags, peers []string, detail bool) error {
	s := &report.Session{Out: io.out, Err: io.err, Format: o.output}
	return s.Run("info", c.options().Context, flows.ContextRef{}, func(s *report.Session) error {
		f, err := look(ctx, c)
		if err != nil {
			return err
		}
		s.Observed(flows.Facts{Sides: [2]flows.ClusterFacts{f}})
		doc := info.Describe(f, time.Now())
		if err := doc.Keep(peers); err != nil {
			return err
		}
		if o.get != "" {
			return s.Raw(report.WritePath(io.out, doc.QueryRoot(peers), o.get))
		}
		var unwritten error
		s.Result("info", doc, func() {
			if detail {
				unwritten = info.WritePeers(io.out, doc)
			} else {
				unwritten = info.WriteCluster(io.out, doc)
			}
		})
		return unwritten
	})
}

func look(ctx context.Context, c clusterFlags) (flows.ClusterFacts, error) {
	cluster, err := c.open()
	if err != nil {
		return flows.ClusterFacts{}, err
	}
	defer cluster.Close()
	return lookAt(ctx, cluster)
}

// lookAt observes a cluster. If the cluster can't be used, it returns an error.
func lookAt(ctx context.Context, cluster engine.Cluster) (flows.ClusterFacts, error) {
	f, err := cluster.Observe(ctx)
	switch {
	case err != nil:
		return f, stopped(ctx, err)
	case f.Problem != nil:
		return f, f.Problem
	}
	return f, nil
}
