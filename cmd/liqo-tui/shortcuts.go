package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
)

// shortcutTimeout limits the observation of one context, because some contexts lead to clusters that no
// longer exist.
const shortcutTimeout = 10 * time.Second

// foundShortcuts has the pairs of a cluster's peers. If both peers of a pair are connected with each
// other, their packets need not pass through that cluster.
type foundShortcuts struct {
	Pairs [][2]flows.ContextRef
	// Notes names the peers that were left out, with the reasons.
	Notes []string
	// Unknown is set if a context could not be observed. It may belong to a peer that was left out.
	Unknown bool
}

// verdict returns the exit code of a run that has connected the pairs.
func (f foundShortcuts) verdict() error {
	if f.Unknown {
		return exit.Verdict(exit.Unreachable)
	}
	return nil
}

// findShortcuts pairs the contexts of all peers of hub. problems are about files that may have more
// contexts. Contexts that lead to no peer are ignored.
func findShortcuts(ctx context.Context, hub flows.ClusterFacts, contexts []kubeconfig.Context, problems []*kubeconfig.Error, look func(context.Context, flows.ContextRef) (flows.ClusterFacts, error)) (found foundShortcuts) {
	facts, errs := make([]flows.ClusterFacts, len(contexts)), make([]error, len(contexts))
	var group sync.WaitGroup
	for i, c := range contexts {
		group.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, shortcutTimeout, fmt.Errorf("no answer within %s", shortcutTimeout))
			defer cancel()
			if facts[i], errs[i] = look(ctx, c.Ref); errs[i] != nil && ctx.Err() != nil {
				errs[i] = context.Cause(ctx)
			}
		})
	}
	group.Wait()
	known := map[wire.ClusterID]flows.ContextRef{}
	blind := len(problems) > 0
	for _, p := range problems {
		found.Notes = append(found.Notes, p.Error())
	}
	for i, f := range facts {
		if errs[i] != nil {
			found.Notes, blind = append(found.Notes, fmt.Sprintf("context %s was not looked at: %v", contexts[i].Ref, errs[i])), true
		} else if _, again := known[f.ID]; !again && f.ID != "" {
			known[f.ID] = contexts[i].Ref
		}
	}
	var peers []wire.ClusterID
	all := hub.Peers()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if all[id].Connection == nil {
			continue
		}
		if _, ok := known[id]; !ok {
			found.Notes, found.Unknown = append(found.Notes, fmt.Sprintf("%s is left out: it is a peer of %s, and no context that answers leads to it", id, hub.ID)), blind
			continue
		}
		peers = append(peers, id)
	}
	for i, a := range peers {
		for _, b := range peers[i+1:] {
			found.Pairs = append(found.Pairs, [2]flows.ContextRef{known[a], known[b]})
		}
	}
	if len(found.Pairs) == 0 {
		found.Notes = append(found.Notes, fmt.Sprintf("no two peers of %s have a context that answers: there is nothing to connect", hub.ID))
	}
	return found
}

// rows returns, for each pair, flags of network connect, without those that chose the hub. namespace is
// the namespace of Liqo or of the operator on all clusters.
func (f foundShortcuts) rows(namespace string) (rows []map[string]string) {
	for _, pair := range f.Pairs {
		row := map[string]string{}
		for i, prefix := range []string{"", "remote-"} {
			row[prefix+"context"], row[prefix+"liqo-namespace"] = pair[i].Name, namespace
			if pair[i].File != "" {
				row[prefix+"kubeconfig"] = pair[i].File
			}
		}
		rows = append(rows, row)
	}
	return rows
}
