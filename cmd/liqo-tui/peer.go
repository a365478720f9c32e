package main

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/kube"
)

// peerTimeout is liqoctl's timeout. It is long because a node may have to pull
// an image.
const peerTimeout = 10 * time.Minute

func peerCommand(io streams) *cobra.Command {
	var r runFlags
	var p peer.Params
	var noNetwork bool
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "peer" + ofContexts,
		Short: "Give a cluster a virtual node of another cluster",
		Long: `Give the local cluster (A) a virtual node with resources of the remote one (B).
The local one is the consumer, the remote one the provider. Both run Liqo, or
both the liqo-tui operator of install --peering.

One plan over both clusters: it connects the pod networks unless they are, has
the provider accept the consumer, asks for resources, and waits until the
virtual node is Ready. Run it again to continue where an earlier run stopped.
Run it with other flags to change the resources; settings without a flag stay
as they are.

To let the remote cluster use the local one's resources too, run it again with
--consumer Remote.`,
		Example: `  liqo-tui peer --context rome --remote-context milan \
    --cpu 4 --memory 8Gi --server-service-type NodePort

  # show the plan only; exit code 4 if it changes something
  liqo-tui peer --context rome --remote-context milan --dry-run`,
		Args: contexts,
	}
	pair := newPairFlags(cmd, false)
	r.add(cmd)
	setDefault(cmd.Flags(), "timeout", peerTimeout.String())
	given := flags.Add(cmd.Flags(), &p, peer.Settings()...)
	c.add(cmd.Flags(), func(s flows.ConnectionSetting) bool { return s.Name != "wait" })
	showAuto(cmd.Flags())
	cmd.Flags().BoolVar(&noNetwork, "networking-disabled", false, "leave the network between the clusters alone")
	acceptLiqoctl(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		lending := pair.withLending(kube.LendingPlanned)
		op := operation{
			name: "peer", undo: "unpeer",
			goal: func() (flows.Goal, error) {
				if err := errors.Join(flags.Wrong(given), p.Validate()); err != nil {
					return nil, exit.UsageError{Err: err}
				}
				c.params.Server, c.params.ForLending = serverOf(c, p), true
				network, err := c.goal()
				goal := peer.Goal{Params: p, Network: network, Namespaces: c.params.Namespaces}
				if noNetwork {
					goal.Network = nil
				}
				return goal, err
			},
			done: func(e engine.Event) report.Achieved {
				next := []report.NextStep{{Command: pair.command("unpeer"), Why: "undoes this"}}
				if peer.TakesPods(p, e.Facts) {
					offload := consumer(pair, p.Consumer).command("offload", "namespace", "NAME")
					next = slices.Insert(next, 0, report.NextStep{Command: offload, Why: "lets a namespace's pods run there"})
				}
				return report.Achieved{Text: peer.Peered(p, e.Facts), Next: next}
			},
		}
		return op.run(cmd.Context(), io, lending, r)
	}
	return cmd
}

// serverOf returns the side of the gateway server: the provider, unless the
// admin chooses the other side.
func serverOf(c *connectFlags, p peer.Params) flows.Side {
	for _, f := range c.flags {
		if f.Given && f.Sets.Has(flows.FieldServer) && f.Sets != 0 {
			return c.params.Server
		}
	}
	return p.Consumer.Other()
}

// consumer returns the flags of the cluster that gets the virtual node.
func consumer(pair *pairFlags, side flows.Side) clusterFlags {
	if side == flows.B {
		return pair.remote
	}
	return pair.local
}

// withLending returns p, with the flag to observe these objects of lending as
// well.
func (p *pairFlags) withLending(l kube.Lending) *pairFlags {
	lending := *p
	lending.local.lending, lending.remote.lending = l, l
	return &lending
}

// setDefault changes the default of a shared flag for one command.
func setDefault(f *pflag.FlagSet, name, value string) {
	flag := f.Lookup(name)
	if err := flag.Value.Set(value); err != nil {
		panic(err) // all callers pass constants
	}
	flag.DefValue = value
}

func unpeerCommand(io streams) *cobra.Command {
	var r runFlags
	var p peer.Params
	var o peer.RemoveOptions
	cmd := &cobra.Command{
		Use:   "unpeer" + ofContexts,
		Short: "Remove a virtual node, and what peer made for it",
		Long: `Remove what peer makes, in the order in which Liqo can follow: the node is
cordoned, its pods are evicted, the resources go, then the consumer's access,
then the connection of the pod networks, if peer made it.

The connection stays if it was there before, with --keep-network, and if the
clusters are peered the other way round, too. What is left is named. An
interrupted run is continued by the same command.

With --local-only it works on the local cluster only. Use that if the other one
is gone for good. Where the local cluster is the provider, add --consumer
Remote.`,
		Example: `  liqo-tui unpeer --context rome --remote-context milan
  liqo-tui unpeer --context rome --local-only --remote-cluster-id milan`,
		Args: contexts,
	}
	pair := newPairFlags(cmd, false)
	r.add(cmd)
	given := flags.Add(cmd.Flags(), &p, peer.Settings()[0])
	f := cmd.Flags()
	f.BoolVar(&o.KeepNetwork, "keep-network", false, "leave the connection of the pod networks")
	addRemoval(f, &o.RemoveOptions)
	acceptLiqoctl(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		op := operation{
			name: "unpeer", localOnly: o.LocalOnly,
			goal: func() (flows.Goal, error) {
				if err := errors.Join(flags.Wrong(given), wrongPeer(o.RemoveOptions)); err != nil {
					return nil, exit.UsageError{Err: err}
				}
				o.Consumer = p.Consumer
				return peer.Removal{RemoveOptions: o}, nil
			},
			done: func(e engine.Event) report.Achieved { return report.Achieved{Text: peer.Unpeered(o, e.Facts)} },
		}
		return op.run(cmd.Context(), io, pair.withLending(kube.LendingPlanned), r)
	}
	return cmd
}
