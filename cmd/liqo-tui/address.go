package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

func addressCommand(io streams) *cobra.Command {
	var namespace, output string
	var pair *pairFlags
	cmd := &cobra.Command{
		Use: "address pod/NAME|service/NAME|IP", Short: "Show which address pods of the other cluster call",
		Long: `Show under which address pods of the local cluster (A) call a pod, the pods of a
Service, or an address of the remote cluster (B). Where both clusters use the
same ranges, that is another address than the pod's own.

It only reads, and sends no packets: liqo-tui network verify does. A Service has
an address and a name in other clusters only after liqo-tui service export.
Exit code 8: there is nothing that can be called now.`,
		Example: `  liqo-tui address service/web -n shop --context rome --remote-context milan
  liqo-tui address pod/web -o json --context rome --remote-context milan`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.UsageError{Err: errors.New("address takes one pod/NAME, service/NAME or IP")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := address.Parse(args[0], namespace)
			if err != nil {
				return exit.UsageError{Err: err}
			}
			return inSession(io, output, "address", pair, func(s *report.Session) error { return tellAddress(cmd.Context(), io, s, pair, t) })
		},
	}
	pair = newPairFlags(cmd, false)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the pod or the Service")
	cmd.Flags().StringVarP(&output, "output", "o", report.Text, report.FormatHelp)
	return cmd
}

func tellAddress(ctx context.Context, io streams, s *report.Session, pair *pairFlags, t address.Target) error {
	a, b, closeBoth, err := pair.openFor(false)
	if err != nil {
		return err
	}
	defer closeBoth()
	answer, f, err := engine.AddressOf(ctx, a, b, t, time.Now)
	s.Observed(f)
	if err != nil {
		return stopped(ctx, err)
	}
	s.Result("address", report.AddressDocumentOf(answer, f), func() {
		for _, line := range answer.Lines() {
			fmt.Fprintln(io.out, line)
		}
	})
	if !answer.Callable() {
		return exit.Verdict(exit.Unhealthy)
	}
	return nil
}
