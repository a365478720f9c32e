package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/kube"
)

var errNoRemote = errors.New("the remote cluster is not named: add --remote-context, --remote-kubeconfig or both")

func networkCommand(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "network", Short: "Connect two clusters, maintain the connection, and remove it", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	pair := newPairFlags(cmd, true)
	cmd.AddCommand(initCommand(io, pair), connectCommand(io, pair), disconnectCommand(io, pair), resetCommand(io, pair), verifyCommand(io, pair), rotateCommand(io, pair), renumberCommand(io, pair), delegateCommand(io, pair),
		inviteCommand(io, pair), joinCommand(io, pair), acceptCommand(io, pair))
	return cmd
}

// removal describes a command that removes something.
type removal struct {
	name, short, long, done string
	// next are the commands of "network" that may come next.
	next       [][2]string
	disconnect bool // see [flows.Removal]
}

func disconnectCommand(io streams, pair *pairFlags) *cobra.Command {
	return removal{
		name: "disconnect", short: "Remove the gateways; keep the address ranges",
		long: `Remove the gateways of the connection between the local (A) and the remote (B)
cluster, and wait until they are gone. Each cluster keeps the other's address
ranges, so network connect restores the connection with the same addresses.`,
		done:       "The gateways are gone.",
		next:       [][2]string{{"connect", "brings them back with the same addresses"}, {"reset", "removes the rest"}},
		disconnect: true,
	}.command(io, pair)
}

func resetCommand(io streams, pair *pairFlags) *cobra.Command {
	return removal{
		name: "reset", short: "Remove the connection and the address ranges",
		long: `Remove the connection between the local (A) and the remote (B) cluster, and each
other's address ranges. Namespaces that liqo-tui did not create stay.`,
		done: "The clusters are no longer connected. Neither has the other's address ranges any more.",
	}.command(io, pair)
}

func (m removal) command(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var o flows.RemoveOptions
	var wait bool
	cmd := &cobra.Command{
		Use: m.name + ofContexts, Short: m.short, Args: contexts,
		Long: m.long + `

It shows a plan and asks, unless --yes is given. With --local-only it works on
the local cluster only. Use that if the other cluster is gone, or if you have no
access to it; then it prints the command for the other admin.`,
		Example: "  liqo-tui network " + m.name + ` --context rome --remote-context milan
  liqo-tui network ` + m.name + ` --context rome \
    --local-only --remote-cluster-id milan`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			op := operation{
				name: m.name, localOnly: o.LocalOnly,
				goal: func() (flows.Goal, error) {
					if err := wrongPeer(o); err != nil {
						return nil, exit.UsageError{Err: err}
					}
					return flows.Removal{RemoveOptions: o, Disconnect: m.disconnect, NoWait: !wait}, nil
				},
				done: func(engine.Event) report.Achieved { return m.achieved(pair, o) },
			}
			return op.run(cmd.Context(), io, pair.withLending(kube.LendingShown), r)
		},
	}
	r.add(cmd)
	f := cmd.Flags()
	addRemoval(f, &o)
	f.BoolVar(&wait, "wait", true, "wait until everything is gone; --wait=false ends after the deletions are requested")
	acceptLiqoctl(cmd)
	return cmd
}

// achieved returns the result, with the next steps. After a removal on one
// cluster only, the rest has to be removed first.
func (m removal) achieved(pair *pairFlags, o flows.RemoveOptions) report.Achieved {
	a := report.Achieved{Text: m.done}
	for _, n := range m.next {
		if o.LocalOnly && n[0] == "connect" {
			continue // this command needs both clusters
		}
		a.Next = append(a.Next, report.NextStep{Command: pair.command("network", n[0]).Add(localOnlyWords(o)...), Why: n[1]})
	}
	return a
}
