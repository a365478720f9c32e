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

// sideNames are the words of the flags for both clusters.
var sideNames = [2]string{"local", "remote"}

// printStatus prints the chosen clusters and the states of their connections,
// one cluster after the other. A cluster that does not answer does not hide the
// other one. The verdict is exit.Unhealthy if a connection does not work.
func printStatus(ctx context.Context, io streams, o *pairFlags) error {
	sides := []clusterFlags{o.local}
	if len(o.remote.files) > 0 || o.remote.context != "" {
		sides = append(sides, o.remote)
	}
	var errs []error
	looks := make([]flows.ClusterFacts, len(sides))
	failed := make([]bool, len(sides))
	var known []flows.ClusterFacts
	for i, c := range sides {
		f, err := look(ctx, c)
		if looks[i] = f; err != nil {
			errs, failed[i] = append(errs, fmt.Errorf("the %s cluster: %w", sideNames[i], err)), true
			continue
		}
		known = append(known, f)
	}
	healthy := true
	for i, f := range looks {
		if len(sides) > 1 {
			fmt.Fprintln(io.out, [...]string{"", "\n"}[i]+"The "+sideNames[i]+" cluster:")
		}
		if failed[i] {
			continue
		}
		doc := info.Describe(f, time.Now(), known...)
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
