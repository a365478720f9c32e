package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/kube"
)

func offloadCommand(io streams) *cobra.Command {
	var p peer.OffloadParams
	cmd := &cobra.Command{
		Use: "namespace NAME...", Short: "Let pods of a namespace run on virtual nodes",
		Long: `Let pods of namespaces run on virtual nodes, and wait until the providers have
made a namespace for each. Pods that run already stay where they are. Settings
without a flag stay as they are.`,
		Example: `  liqo-tui offload namespace demo --context rome
  liqo-tui offload namespace demo --pod-offloading-strategy Remote \
    --selector liqo.io/remote-cluster-id=milan`,
	}
	given := flags.Add(cmd.Flags(), &p, peer.OffloadSettings()...)
	cmd.Flags().StringArrayVarP(&p.Selectors, "selector", "l", nil, "label selector of virtual nodes; of several, one has to match (default: unchanged, at first all of them)")
	onNamespaces{
		name: "offload", undo: "unoffload namespace",
		goal: func(names []string) (flows.Goal, error) {
			p.Namespaces = names
			if err := errors.Join(flags.Wrong(given), p.Validate()); err != nil {
				return nil, exit.UsageError{Err: err}
			}
			return flows.Planner(func(f flows.Facts) flows.Plan { return peer.Offload(p, f) }), nil
		},
		done: peer.Offloaded,
	}.run(io, cmd)
	return group("offload", "Let pods run on virtual nodes", cmd)
}

func unoffloadCommand(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "namespace NAME...", Short: "Keep pods of a namespace from virtual nodes",
		Long: `Keep pods of namespaces from virtual nodes. The namespaces on the providers are
deleted, with everything in them.`,
		Example: `  liqo-tui unoffload namespace demo --context rome`,
	}
	onNamespaces{
		name: "unoffload",
		goal: func(names []string) (flows.Goal, error) {
			return flows.Planner(func(f flows.Facts) flows.Plan { return peer.Unoffload(names, f) }), nil
		},
		done: peer.Unoffloaded,
	}.run(io, cmd)
	return group("unoffload", "Keep pods from virtual nodes", cmd)
}

// group returns a command that has only subcommands.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: noCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}

// onNamespaces describes a command for namespaces of one cluster.
type onNamespaces struct {
	name, undo string
	goal       func(names []string) (flows.Goal, error)
	done       func(names []string, f flows.Facts) string
}

func (o onNamespaces) run(io streams, cmd *cobra.Command) {
	var r runFlags
	pair := &pairFlags{}
	pair.local.add(cmd.Flags(), "", "the cluster")
	r.add(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exit.UsageError{Err: fmt.Errorf("%s: name a namespace", cmd.CommandPath())}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		op := operation{
			name: o.name, undo: o.undo, localOnly: true,
			goal: func() (flows.Goal, error) { return o.goal(names) },
			done: func(e engine.Event) report.Achieved { return report.Achieved{Text: o.done(names, e.Facts)} },
		}
		return op.run(cmd.Context(), io, pair.withLending(kube.LendingPlanned), r)
	}
}
