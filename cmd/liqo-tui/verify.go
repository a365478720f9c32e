package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/verify"
)

// verifyFlags choose the measurements and the output.
type verifyFlags struct {
	throughput bool
	allNodes   bool
	timeout    time.Duration
	output     string
	strict     bool
	image      string
}

func verifyCommand(io streams, pair *pairFlags) *cobra.Command {
	var v verifyFlags
	cmd := &cobra.Command{
		Use:   "verify" + ofContexts,
		Short: "Test and measure the connection from pod to pod, both ways",
		Long: `Test and measure the connection from pod to pod, both ways: latency, loss, the
largest packet that passes, and with --throughput the throughput.

It runs a short-lived pod in the tenant namespace of each cluster, from the
image of the gateways, and removes it again. The pod avoids the gateway's node,
and the result names the nodes: the path of another node may still be closed.
--all-nodes runs a pod on each node. If a cluster can't run the pod, it shows
the gateways' own pings instead, which does not count as verified.
On clusters with Liqo, the pod has the image of this release, or --image.

Exit code 0: packets of pods pass both ways. 8: they don't, or it is unknown.`,
		Example: `  liqo-tui network verify --context rome --remote-context milan`,
		Args:    contexts,
		RunE:    func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context(), io, pair) },
	}
	f := cmd.Flags()
	f.BoolVar(&v.throughput, "throughput", false, "also measure the throughput; this fills the path for some seconds in each direction")
	f.BoolVar(&v.allNodes, "all-nodes", false, "run a pod on each node of both clusters, whatever its taints are")
	f.DurationVar(&v.timeout, "timeout", 30*time.Second, "how long it may take, for each path")
	f.StringVarP(&v.output, "output", "o", report.Text, report.FormatHelp)
	f.StringVar(&v.image, "image", "", "image of the test pod (default: that of the liqo-tui operator, and of this release where Liqo runs)")
	cmd.MarkFlagsMutuallyExclusive("throughput", "all-nodes")
	f.BoolVar(&v.strict, "strict", false, "exit code 8 also if some packets are lost, or not everything could be measured")
	return cmd
}

func (o verifyFlags) run(ctx context.Context, io streams, pair *pairFlags) error {
	if o.timeout <= 0 {
		return exit.UsageError{Err: fmt.Errorf("--timeout %s: want more than 0", o.timeout)}
	}
	start := time.Now()
	tell := func(side flows.Side, text string) {
		fmt.Fprintf(io.err, "%6.1fs  %s %s\n", time.Since(start).Seconds(), side, text)
	}
	return inSession(io, o.output, "verify", pair, func(s *report.Session) error {
		if s.Events != nil {
			tell = s.Events.Progress
		}
		a, b, closeBoth, err := pair.openFor(false)
		if err != nil {
			return err
		}
		defer closeBoth()
		v, err := engine.VerifyPair(ctx, a, b, engine.VerifyRequest{Throughput: o.throughput, AllNodes: o.allNodes, Timeout: o.timeout, Image: o.image, Seen: s.Observed}, tell)
		if err != nil {
			return stopped(ctx, err)
		}
		s.Result("verification", report.VerificationOf(v), func() {
			for _, line := range v.Lines() {
				fmt.Fprintln(io.out, line)
			}
		})
		if !v.Tested() || o.strict && v.Verdict() != verify.Works {
			s.Next = []report.NextStep{{Command: pair.command("check")}}
			return exit.Verdict(exit.Unhealthy)
		}
		return nil
	})
}
