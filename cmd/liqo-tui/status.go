package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/info"
	"github.com/liqo-tui/liqo-tui/flows"
)

// printStatus shows the chosen clusters and the states of their connections, one
// cluster after the other. If a cluster does not answer, the other one is shown
// all the same. The verdict is exit.Unhealthy if a connection with a gateway does
// not work.
func printStatus(ctx context.Context, io streams, o *pairFlags) error {
	sides := []clusterFlags{o.local}
	if len(o.remote.files) > 0 || o.remote.context != "" {
		sides = append(sides, o.remote)
	}
	var errs []error
	healthy := true
	for i, c := range sides {
		if len(sides) > 1 {
			fmt.Fprintln(io.out, [...]string{"A, the local cluster:", "\nB, the remote cluster:"}[i])
		}
		f, err := look(ctx, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flows.Side(i), err))
			continue
		}
		doc := info.Describe(f, time.Now())
		healthy = healthy && doc.Healthy()
		if err := info.WriteCluster(io.out, doc); err != nil {
			return err
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if !healthy {
		return exit.Verdict(exit.Unhealthy)
	}
	return nil
}
