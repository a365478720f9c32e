package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
)

var errNoRemote = errors.New("which cluster is the remote one? give --remote-context, --remote-kubeconfig or both")

func networkCommand(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "network", Short: "Connect two clusters, and undo it", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	pair := newPairFlags(cmd, true)
	cmd.AddCommand(
		connectCommand(io, pair),
		removeCommand(io, pair, "disconnect", "Remove the gateways; the clusters keep what they know of each other",
			flows.PlanDisconnect, "The gateways are gone. liqo-tui network connect brings them back, with the same addresses."),
		removeCommand(io, pair, "reset", "Remove the connection, and what the clusters know of each other",
			flows.PlanReset, "The clusters are no longer connected."),
	)
	return cmd
}

// runFlags say how a plan is run.
type runFlags struct {
	yes     bool
	timeout time.Duration
	output  string
}

func (r *runFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "don't ask before changing the clusters")
	cmd.Flags().DurationVar(&r.timeout, "timeout", 5*time.Minute, "how long to wait for the clusters to get there")
	cmd.Flags().StringVarP(&r.output, "output", "o", "text", "text for people, ndjson for programs: one JSON object a line")
}

func connectCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	p := flows.Defaults()
	serviceType, location := string(p.ServiceType), "Remote"
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Connect the two clusters, and wait until both say that they are",
		Long: `Connect the pod networks of the local (A) and the remote (B) cluster.

It shows what it will do and asks, unless --yes is given. Running it again
continues where an earlier run stopped; when nothing is left to do, it says so.`,
		Example: `  liqo-tui network connect --context rome --remote-context milan \
    --server-service-type NodePort`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.ServiceType = parseServiceType(serviceType)
			var err error
			if p.Server, err = parseLocation(location); err != nil {
				return err
			}
			if err := p.Validate(); err != nil {
				return usageError{err}
			}
			plan := func(f flows.Facts) flows.Plan { return flows.PlanConnect(p, f) }
			return runPlan(cmd.Context(), io, pair, r, "connect", plan, connectedText)
		},
	}
	r.add(cmd)
	f := cmd.Flags()
	f.StringVar(&serviceType, "server-service-type", serviceType, "how the gateway server is exposed: LoadBalancer, NodePort or ClusterIP")
	f.StringVar(&location, "server-location", location, "the cluster that hosts the gateway server: Remote or Local")
	f.Uint16Var(&p.Port, "server-port", p.Port, "UDP port of the gateway server's Service")
	f.Uint16Var(&p.NodePort, "node-port", 0, "node port of the gateway server (default: Kubernetes chooses)")
	f.StringVar(&p.LoadBalancerIP, "load-balancer-ip", "", "address to ask the load balancer for (default: it chooses)")
	f.StringVar(&p.ClientAddress, "client-address", "", "address that the client dials (default: the server's own)")
	f.Uint16Var(&p.ClientPort, "client-port", 0, "port that the client dials (default: the server's own)")
	f.IntVar(&p.MTU, "mtu", p.MTU, "MTU of the tunnel in bytes")
	f.StringVar(&p.ServerTemplate.Name, "server-template-name", p.ServerTemplate.Name, "template of the gateway server")
	f.StringVar(&p.ServerTemplate.Namespace, "server-template-namespace", "", "its namespace (default: Liqo's)")
	f.StringVar(&p.ClientTemplate.Name, "client-template-name", p.ClientTemplate.Name, "template of the gateway client")
	f.StringVar(&p.ClientTemplate.Namespace, "client-template-namespace", "", "its namespace (default: Liqo's)")
	acceptLiqoctl(cmd)
	return cmd
}

// removeCommand runs a plan that takes something away, and ends with done.
func removeCommand(io streams, pair *pairFlags, name, short string, plan func(flows.Facts) flows.Plan, done string) *cobra.Command {
	var r runFlags
	cmd := &cobra.Command{
		Use: name, Short: short, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runPlan(cmd.Context(), io, pair, r, name, plan, func(flows.Facts) string { return done })
		},
	}
	r.add(cmd)
	acceptLiqoctl(cmd)
	return cmd
}

// parseServiceType ignores case: liqoctl does.
func parseServiceType(text string) corev1.ServiceType {
	for _, t := range []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP} {
		if strings.EqualFold(text, string(t)) {
			return t
		}
	}
	return corev1.ServiceType(text)
}

func parseLocation(text string) (flows.Side, error) {
	switch strings.ToLower(text) {
	case "remote", "provider":
		return flows.B, nil
	case "local", "consumer":
		return flows.A, nil
	}
	return 0, usageError{fmt.Errorf("--server-location %q: want Remote or Local", text)}
}

// runPlan opens both clusters, runs a plan, and reports it as the admin asked.
func runPlan(ctx context.Context, io streams, pair *pairFlags, r runFlags, command string, plan func(flows.Facts) flows.Plan, result func(flows.Facts) string) error {
	report, err := newReporter(io, r.output)
	if err != nil {
		return err
	}
	report.begin(command, pair.local.options().Context, pair.remote.options().Context)
	var facts flows.Facts
	err = runReported(ctx, io, pair, r, report, func(f flows.Facts) flows.Plan {
		facts = f
		return plan(f)
	})
	report.end(err, result(facts))
	return err
}

func runReported(ctx context.Context, io streams, pair *pairFlags, r runFlags, report reporter, plan func(flows.Facts) flows.Plan) error {
	a, b, err := pair.open()
	if err != nil {
		return err
	}
	defer a.Close()
	defer b.Close()
	err = flows.Run(ctx, plan, a, b, report.event, flows.Options{
		Timeout: r.timeout,
		Approve: func(p flows.Plan) (bool, error) { return approve(io, r, p) },
	})
	if errors.Is(err, context.Canceled) {
		return stopped(ctx, report.hasChanged())
	}
	return err
}

// stopped says what an interruption left behind.
func stopped(ctx context.Context, changed bool) error {
	if changed {
		return fmt.Errorf("%w; what was applied stays: the same command continues, liqo-tui network reset removes it", context.Cause(ctx))
	}
	return fmt.Errorf("%w; nothing was changed", context.Cause(ctx))
}

// approve shows the plan and asks, unless that was answered on the command line.
func approve(io streams, r runFlags, p flows.Plan) (bool, error) {
	if !r.yes && io.interactive() {
		for _, s := range p.Steps {
			if s.Diff != "" {
				fmt.Fprintf(io.err, "\n%s %s: %s %s\n%s", s.Side, p.ID(s.Side), s.Action, s.Title, s.Diff)
			}
		}
	}
	return confirm(io, r.yes, "\nApply these changes?")
}

// confirm asks a question that --yes answers too. Without a terminal it can't.
func confirm(io streams, yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	if !io.interactive() {
		return false, usageError{errors.New("this changes the clusters, and there is no terminal to ask on: give --yes")}
	}
	fmt.Fprint(io.err, question+" [y/N] ")
	line, err := bufio.NewReader(io.in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	// Input that ends without a newline is no answer, whatever it says.
	return err == nil && (answer == "y" || answer == "yes"), nil
}

// connectedText is what the admin needs to know of a connection that works.
func connectedText(f flows.Facts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s and %s are connected: each gateway answers the other's pings.\n", f.Local.ID, f.Remote.ID)
	for _, side := range []flows.Side{flows.A, flows.B} {
		other := f.Side(side.Other())
		if conf := f.Side(side).Peer(other.ID).Configuration; conf != nil && conf.Status.Remote != nil {
			fmt.Fprintf(&b, "  pods of %s reach %s's pods %s as %s\n", f.Side(side).ID, other.ID,
				joined(conf.Spec.Remote.CIDR.Pod), joined(conf.Status.Remote.CIDR.Pod))
		}
	}
	fmt.Fprintf(&b, "look: liqo-tui info   undo: liqo-tui network reset, with the same contexts")
	return b.String()
}

func joined[S ~string](parts []S) string {
	text := make([]string, len(parts))
	for i, p := range parts {
		text[i] = string(p)
	}
	return strings.Join(text, ", ")
}
