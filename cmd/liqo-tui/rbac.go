package main

import (
	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/manifest"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/kube"
)

func rbacCommand(io streams) *cobra.Command {
	var all, peers, exports bool
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the roles that you are missing, for an administrator",
		Long: `Print the smallest roles that the users of both kubeconfigs lack to connect the
two clusters and to watch them, as YAML for each side. The tenant namespace is
included if it does not exist. If nothing is missing on a side, a comment says
so. --all prints all roles that are needed, also those that the user has.
--peering prints what peer needs, --services also what service needs.`,
		Example: `  liqo-tui rbac --context rome --remote-context milan > roles.yaml
  liqo-tui rbac --context rome --remote-context milan --peering > roles.yaml`,
		Args: noArguments,
	}
	pair := newPairFlags(cmd, false)
	cmd.Flags().BoolVar(&all, "all", false, "print everything that is needed, not only what is missing")
	cmd.Flags().BoolVar(&peers, "peering", false, "print what peer needs, virtual nodes included")
	cmd.Flags().BoolVar(&exports, "services", false, "print what service needs, too: to read all exports and imports, and to export Services")
	c.add(cmd.Flags(), nil)
	acceptLiqoctl(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, _, err := c.parse()
		if err != nil {
			return err
		}
		goal, clusters := flows.Goal(connect.Goal{Params: p}), pair
		observe := func(f flows.Facts, side flows.Side) []rights.Permission {
			return rights.ToObserve(f.Sides[side].Namespace)
		}
		if peers {
			ofNetwork := observe
			goal = peer.Goal{Network: goal, Namespaces: p.Namespaces}
			observe = func(f flows.Facts, side flows.Side) []rights.Permission {
				return append(ofNetwork(f, side), peer.ToObserve(p.Namespaces, f, side)...)
			}
			clusters = pair.withLending(kube.LendingPlanned)
		}
		if exports {
			ofPlan := observe
			observe = func(f flows.Facts, side flows.Side) []rights.Permission {
				return append(ofPlan(f, side), rights.ToServices()...)
			}
		}
		a, b, closeBoth, err := clusters.openFor(false)
		if err != nil {
			return err
		}
		defer closeBoth()
		return manifest.WriteRoles(cmd.Context(), io.out, [2]engine.Cluster{a, b}, goal.Plan, observe, all)
	}
	return cmd
}
