package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/byhand"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

const byHandLong = `Two admins, each with access to their own cluster, connect them in eight steps:

  client  generate configuration            its output is applied on the server
  server  generate configuration            its output is applied on the client
  server  create gatewayserver NAME         says where it can be dialled
  client  create gatewayclient NAME         with that address and port
  server  generate publickey                its output is applied on the client
  client  generate publickey                its output is applied on the server

"kubectl apply -f FILE" applies an output. The namespace is the one that the
peering has, or else that of the kubeconfig's context. Fewer steps: liqo-tui
network invite, join and accept.`

// byHandCommand returns a command with one subcommand for each kind.
func byHandCommand(use, short string, subcommand func(pair *pairFlags, k byhand.Kind) *cobra.Command, kinds ...byhand.Kind) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: byHandLong, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	pair := &pairFlags{}
	pair.local.add(cmd.PersistentFlags(), "", "the cluster")
	for _, k := range kinds {
		sub := subcommand(pair, k)
		sub.Aliases = k.Aliases()
		cmd.AddCommand(sub)
	}
	return cmd
}

func createCommand(io streams) *cobra.Command {
	var pair *pairFlags
	cmd := byHandCommand("create", "Create one object of a connection that is made by hand", func(p *pairFlags, k byhand.Kind) *cobra.Command {
		pair = p
		return createOne(io, p, k)
	}, byhand.Configuration, byhand.GatewayServer, byhand.GatewayClient, byhand.PublicKey)
	cmd.AddCommand(checkTemplate(io, pair))
	return cmd
}

func createOne(io streams, pair *pairFlags, k byhand.Kind) *cobra.Command {
	var r runFlags
	o, c, wait := byhand.New(k), newConnectFlags(), true
	cmd := &cobra.Command{
		Use: k.Word() + " NAME", Short: "Create or change a " + string(k), Long: k.Explain(), Example: "  liqo-tui create " + k.Example(),
	}
	r.add(cmd)
	f := cmd.Flags()
	f.Lookup("output").Usage = "text or ndjson: apply the object and report it; yaml or json: only print the object"
	f.BoolVar(&wait, "wait", true, "wait for the values that the other admin needs; --wait=false ends when the object is applied")
	own := flags.Add(f, &o, k.Settings()...)
	for _, s := range k.OfConnection() {
		c.flags = append(c.flags, flags.Add(f, &c.params, s)...)
	}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName { return pflag.NormalizedName(k.Alias(name)) })
	goal := func() (flows.Goal, error) {
		p, open, err := c.parse()
		if err = errors.Join(err, flags.Wrong(own)); err == nil {
			err = o.Check(p)
		}
		if !wait {
			p.Wait = flows.WaitNone
		}
		if err != nil {
			return nil, exit.UsageError{Err: err}
		}
		return byhand.Creation{Object: o, Params: p, Open: open}, nil
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exit.UsageError{Err: fmt.Errorf("create %s takes one NAME", k.Word())}
		}
		o.Name = args[0]
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Printed = r.output == report.YAML || r.output == report.JSON; o.Printed {
			return printPlanned(cmd.Context(), io, pair, o, r.output, goal)
		}
		op := operation{name: "create " + k.Word(), localOnly: true, unasked: true, goal: goal, undo: "network reset --local-only"}
		op.done = func(e engine.Event) report.Achieved {
			next, why := o.Next()
			return report.Achieved{Text: o.Done(e.Facts.Sides[flows.A]), Next: []report.NextStep{{Command: pair.local.command(next...), Why: why}}}
		}
		return op.run(cmd.Context(), io, pair, r)
	}
	return cmd
}

// generateCommand returns the command that prints the objects for the other
// cluster's admin.
func generateCommand(io streams) *cobra.Command {
	var pair *pairFlags
	cmd := byHandCommand("generate", "Make what the other cluster's admin needs", func(p *pairFlags, k byhand.Kind) *cobra.Command {
		pair = p
		var g byhand.Gateway
		var output string
		timeout := time.Minute
		cmd := &cobra.Command{
			Use: k.Word(), Short: "Print this cluster's " + string(k) + ", for the other cluster", Args: noArguments,
			Example: "  liqo-tui generate " + k.Generated(),
		}
		f := cmd.Flags()
		f.StringVarP(&output, "output", "o", report.YAML, "yaml or json")
		given := flags.Add(f, &g, k.OfGateway()...)
		if k == byhand.PublicKey {
			f.DurationVar(&timeout, "timeout", timeout, "how long to wait for the gateway's key")
		}
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			err := errors.Join(flags.Wrong(given), setting.Check(k.OfGateway(), g))
			if output != report.YAML && output != report.JSON {
				err = errors.Join(err, fmt.Errorf("--output %q: want yaml or json", output))
			}
			if err != nil {
				return exit.UsageError{Err: err}
			}
			a, b, closeAll, err := pair.openFor(true)
			if err != nil {
				return err
			}
			defer closeAll()
			var seen flows.ClusterFacts
			goal := func(f flows.Facts) flows.Plan { return k.Known(g, f) }
			if err := engine.Run(cmd.Context(), flows.Planner(goal), a, b, func(e engine.Event) { seen = e.Facts.Sides[flows.A] }, engine.Options{Timeout: timeout}); err != nil {
				return stopped(cmd.Context(), err)
			}
			return printObject(io, output, k.Told(g, seen))
		}
		return cmd
	}, byhand.Configuration, byhand.PublicKey)
	cmd.AddCommand(generatePeeringUser(io, pair))
	return cmd
}

func printObject(io streams, format string, o wire.Object) error {
	want, err := apply.Wanted(o)
	if err != nil {
		return err
	}
	return report.WriteDocument(io.out, format, want.Object)
}

func printPlanned(ctx context.Context, io streams, pair *pairFlags, o byhand.Object, format string, goal func() (flows.Goal, error)) error {
	wanted, err := goal()
	if err != nil {
		return err
	}
	a, b, closeAll, err := pair.openFor(true)
	if err != nil {
		return err
	}
	defer closeAll()
	seen, err := engine.Look(ctx, wanted, a, b)
	if err != nil {
		return stopped(ctx, err)
	}
	return printObject(io, format, o.Manifest(seen.Plan))
}
