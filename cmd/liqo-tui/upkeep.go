package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func delegateCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var p upkeep.DelegateParams
	cmd := &cobra.Command{
		Use:   "delegate" + ofContexts,
		Short: "Let the operators pass changes to each other",
		Long: `Let the operators of two connected clusters pass a changed endpoint or key, and
new ranges of pods, to each other, without an admin. Each operator gets an
account on the other cluster. There, the account may change one PublicKey, which
also lists the ranges of the operator's own cluster. If the gateway there is the
client, the account may also change the endpoint that the client dials. It may
change nothing else. Its token is good for 24 hours; the operator renews it.
After an operator was away for longer, run delegate again.
Both clusters need the liqo-tui operator, and each operator has to reach the
other's API server. disconnect and reset remove the accounts.`,
		Example: `  liqo-tui network delegate --context rome --remote-context milan`,
		Args:    contexts,
		RunE: func(cmd *cobra.Command, _ []string) error {
			delegating := *pair
			delegating.local.delegation, delegating.remote.delegation = true, true
			delegating.local.tenant, delegating.remote.tenant = p.Namespaces[flows.A], p.Namespaces[flows.B]
			op := operation{
				name: "delegate",
				goal: func() (flows.Goal, error) {
					return flows.Planner(func(f flows.Facts) flows.Plan { return upkeep.Delegate(p, f) }), nil
				},
				done: func(e engine.Event) report.Achieved {
					return report.Achieved{Text: "The operators pass changed endpoints and keys to each other.", Next: []report.NextStep{
						{Command: pair.local.command("info", "peer", string(e.Facts.Sides[flows.B].ID)), Why: "shows what was passed on"},
						{Command: pair.command("network", "disconnect"), Why: "removes the accounts, with the connection"},
					}}
				},
			}
			return op.run(cmd.Context(), io, &delegating, r)
		},
	}
	r.add(cmd)
	f := cmd.Flags()
	f.StringVar(&p.APIServer[flows.A], "api-server", "", "URL by which the remote cluster's operator reaches the local API server (default: the kubeconfig's)")
	f.StringVar(&p.APIServer[flows.B], "remote-api-server", "", "URL by which the local cluster's operator reaches the remote API server (default: the kubeconfig's)")
	f.BoolVar(&p.Wait, "wait", true, "wait until each operator has reached the other cluster; --wait=false ends when both have access")
	addNamespaces(f, &p.Namespaces)
	acceptLiqoctl(cmd)
	return cmd
}

func rotateCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	cmd := &cobra.Command{
		Use:   "rotate-keys" + ofContexts,
		Short: "Replace the keys of the gateways",
		Long: `Replace the WireGuard keys of the gateways of the local (A) and the remote (B)
cluster, one after the other. The peer learns the next key before it is used, so
no packet is lost. A peer with Liqo's gateway loses packets for one handshake;
the plan says so. Liqo's own gateways keep their keys: where both are Liqo's,
nothing is changed (exit code 3). Private keys stay in the clusters that created
them.

Run it again to continue an interrupted run.`,
		Example: `  liqo-tui network rotate-keys --context rome --remote-context milan`,
		Args:    contexts,
		RunE: func(cmd *cobra.Command, _ []string) error {
			op := operation{
				name: "rotate-keys",
				goal: func() (flows.Goal, error) { return upkeep.Rotation{}, nil },
				done: func(e engine.Event) report.Achieved {
					return report.Achieved{Text: upkeep.Rotated(e.Plan), Next: []report.NextStep{{Command: pair.command("network", "verify"), Why: "sends packets from pod to pod"}}}
				},
			}
			return op.run(cmd.Context(), io, pair, r)
		},
	}
	r.add(cmd)
	acceptLiqoctl(cmd)
	return cmd
}

func renumberCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	p := upkeep.RenumberParams{}
	cmd := &cobra.Command{
		Use:   "renumber [PEER]",
		Short: "See a peer under other address ranges",
		Long: `Have the local cluster (A) see a peer under other address ranges, while packets
flow. It is for ranges in which the cluster needs addresses now: liqo-tui check
names them (LT-D018). If nothing overlaps, all remapped ranges are replaced.
PEER is the cluster ID of the peer; it may be left out if there is only one.

The operator chooses the next ranges; the plan predicts them. Once all nodes and
the gateway have them, the cluster uses them for new connections. The former
ranges work for the time of --keep. Run it again with another --keep to change
that, also to end it at once.

The peer need not be told: it sees its own addresses. With --remote-context, the
remote cluster sees this one under other ranges too. Where Liqo chooses the
ranges, nothing is changed (exit code 3).

Run it again to continue an interrupted run.`,
		Example: `  liqo-tui network renumber milan --context rome
  liqo-tui network renumber milan --context rome --keep 0`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.UsageError{Err: errors.New(cmd.CommandPath() + ": give one peer, by its cluster ID")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p.LocalOnly = !pair.remote.named()
			if len(args) > 0 {
				p.Peer = wire.ClusterID(args[0])
			}
			op := operation{
				name: "renumber", localOnly: p.LocalOnly,
				goal: func() (flows.Goal, error) {
					if p.Keep < 0 {
						return nil, exit.UsageError{Err: errors.New("--keep: want 0 or more")}
					}
					return p, nil
				},
				done: func(e engine.Event) report.Achieved {
					a := report.Achieved{Text: upkeep.Renumbered(e.Plan)}
					if e.Plan.B != "" {
						a.Next = []report.NextStep{{Command: pair.local.command("info", "peer", string(e.Plan.B)), Why: "shows the ranges"}}
					}
					return a
				},
			}
			return op.run(cmd.Context(), io, pair, r)
		},
	}
	r.add(cmd)
	cmd.Flags().DurationVar(&p.Keep, "keep", time.Hour, "how long the former ranges work after the change; 0 ends connections that use them")
	acceptLiqoctl(cmd)
	return cmd
}
