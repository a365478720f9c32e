//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// readyCommand returns the command that the pod of helm test runs.
func readyCommand() *cobra.Command {
	var namespace string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "ready", Short: "Wait until operator and node agents run", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := rest.InClusterConfig()
			if err != nil {
				return fmt.Errorf("reach the cluster's API: %w", err)
			}
			scheme, err := wire.Scheme()
			if err != nil {
				return err
			}
			c, err := client.New(config, client.Options{Scheme: scheme})
			if err != nil {
				return fmt.Errorf("reach the cluster's API: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return waitReady(ctx, c, namespace, time.Second)
		},
	}
	cmd.Flags().StringVar(&namespace, "liqo-namespace", wire.DefaultNamespace, "namespace of the installation")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait")
	return cmd
}

// waitReady repeats the check at the interval. When ctx is done, the error is
// the result of the last complete check.
func waitReady(ctx context.Context, c client.Reader, namespace string, interval time.Duration) error {
	last := errors.New("nothing was read yet")
	for {
		missing := unready(ctx, c, namespace)
		if missing == nil {
			return nil
		}
		if ctx.Err() == nil { // a check that the end of ctx interrupted is not complete
			last = missing
		}
		if !sleep.For(ctx, interval) {
			return last
		}
	}
}

// unready returns what is missing until both programs run in their present
// version.
func unready(ctx context.Context, c client.Reader, namespace string) error {
	var d appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: wire.OperatorName}, &d); err != nil {
		return fmt.Errorf("read the operator's Deployment: %w", err)
	}
	if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < 1 || d.Status.AvailableReplicas < 1 {
		return fmt.Errorf("the operator does not run yet: %s says why", describe(namespace, wire.OperatorName))
	}
	var s appsv1.DaemonSet
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: wire.FabricName}, &s); err != nil {
		return fmt.Errorf("read the node agents' DaemonSet: %w", err)
	}
	wanted := s.Status.DesiredNumberScheduled
	if s.Status.ObservedGeneration < s.Generation || wanted == 0 || s.Status.UpdatedNumberScheduled < wanted || s.Status.NumberReady < wanted {
		return fmt.Errorf("the node agent runs on %d of %d nodes: %s says why", s.Status.NumberReady, wanted, describe(namespace, wire.FabricName))
	}
	return nil
}

func describe(namespace, program string) command.Command {
	return command.Kubectl(command.Cluster{}, "-n", namespace, "describe", "pods", "-l", wire.LabelAppName+"="+program)
}
