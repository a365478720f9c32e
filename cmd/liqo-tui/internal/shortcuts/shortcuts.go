// Package shortcuts pairs the peers of a cluster with each other, so that their packets need not
// pass it.
package shortcuts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// lookTimeout is for one context: of many, some lead to clusters that are gone.
const lookTimeout = 10 * time.Second

// Pairs are the contexts of each two peers that hub has a connection with. Contexts that lead to
// none of them are left alone. notes say which peers are left out, and why; with err, some may be
// left out that have a context, as it was not looked at.
func Pairs(ctx context.Context, hub flows.ClusterFacts, contexts []flows.ContextRef, look func(context.Context, flows.ContextRef) (flows.ClusterFacts, error)) (pairs [][2]flows.ContextRef, notes []string, err error) {
	facts, errs := make([]flows.ClusterFacts, len(contexts)), make([]error, len(contexts))
	var group sync.WaitGroup
	for i, c := range contexts {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, lookTimeout)
			defer cancel()
			facts[i], errs[i] = look(ctx, c)
		})
	}
	group.Wait()
	known := map[render.ClusterID]flows.ContextRef{}
	for i, f := range facts {
		if errs[i] != nil {
			notes = append(notes, fmt.Sprintf("context %s was not looked at: %v", contexts[i], errs[i]))
		} else if _, again := known[f.ID]; !again && f.ID != "" {
			known[f.ID] = contexts[i]
		}
	}
	var peers []render.ClusterID
	all := hub.Peers()
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if all[id].Connection == nil {
			continue
		}
		if _, ok := known[id]; !ok {
			notes = append(notes, fmt.Sprintf("%s is left out: it is a peer of %s, and no context that answers leads to it", id, hub.ID))
			if err = errors.Join(errs...); err != nil {
				err = fmt.Errorf("not all peers of %s were found: %w", hub.ID, err)
			}
			continue
		}
		peers = append(peers, id)
	}
	for i, a := range peers {
		for _, b := range peers[i+1:] {
			pairs = append(pairs, [2]flows.ContextRef{known[a], known[b]})
		}
	}
	if len(pairs) == 0 {
		notes = append(notes, fmt.Sprintf("no two peers of %s have a context that answers: there is nothing to connect", hub.ID))
	}
	return pairs, notes, err
}

// Row is a pair as the flags of network connect. namespace is that of Liqo or the operator on both.
func Row(pair [2]flows.ContextRef, namespace string) map[string]string {
	row := map[string]string{"context": pair[0].Name, "remote-context": pair[1].Name, "liqo-namespace": namespace, "remote-liqo-namespace": namespace}
	for i, flag := range []string{"kubeconfig", "remote-kubeconfig"} {
		if pair[i].File != "" {
			row[flag] = pair[i].File
		}
	}
	return row
}

// Refused are flags that choose one cluster of a pair, where the pairs choose themselves.
func Refused(given *pflag.FlagSet) error {
	for _, flag := range []string{"cluster", "user", "remote-context", "remote-kubeconfig", "remote-cluster", "remote-user", "remote-liqo-namespace"} {
		if given.Changed(flag) {
			return exit.UsageError{Err: fmt.Errorf("--%s: --shortcuts finds the clusters by itself, by the contexts of --kubeconfig", flag)}
		}
	}
	return nil
}
