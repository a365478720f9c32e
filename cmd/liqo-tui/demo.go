package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/demo"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/tui"
)

const demoImage = "registry.example/liqo-gateway:v1.0.0"

func demoCommand(io streams, g *flags.Global) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Try everything on clusters that exist in memory only",
		Long: `Try wizard, dashboard and diagnosis on clusters that exist in memory only. This
needs no cluster, no kubeconfig, no network and no rights, and changes nothing.
The keys 1 to 4 cut UDP, slow a link, kill a gateway and add a cluster.

What the program shows is observed as on real clusters. Commands that it prints
are for real ones.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), io, g) },
	}
}

func runDemo(ctx context.Context, io streams, g *flags.Global) error {
	if !io.interactive() {
		return exit.UsageError{Err: errNoTerminal}
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	world := demo.New(time.Now())
	b := &backend{offer: install.Offer{Image: demoImage}, flags: map[flows.ContextRef]clusterFlags{}}
	options := b.options(io, g)
	options.Backend, options.Start, options.Demo, options.Past = world, tui.StartDashboard, world, world.Live(ctx)
	if g.Accessible || os.Getenv("TERM") == "dumb" {
		for range options.Past {
			continue // nobody reads it
		}
		if _, err := fmt.Fprintln(io.out, "DEMO: nothing here is real."); err != nil {
			return err
		}
		return converse(ctx, io, options)
	}
	final, err := runProgram(ctx, io, g, options)
	if err != nil {
		return err
	}
	return programResult(ctx, io, final)
}
