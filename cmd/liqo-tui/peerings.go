package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/files"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
)

// peering is one connection in a file with several connections. It has the flags of
// network connect.
type peering struct {
	pair    *pairFlags
	connect *connectFlags
}

func (p peering) String() string {
	return fmt.Sprintf("%s and %s", p.pair.local.options().Context, p.pair.remote.options().Context)
}

// newPeering returns a peering and its flags. The keys of the file have the names of these
// flags.
func newPeering() (peering, *pflag.FlagSet, func() error) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	p := peering{pair: &pairFlags{}, connect: newConnectFlags()}
	p.pair.local.add(f, "", "the local cluster (A)")
	p.pair.remote.add(f, "remote-", "the remote cluster (B)")
	p.connect.add(f, nil)
	p.connect.addInstall(f)
	return p, f, func() error {
		_, _, err := p.connect.parse()
		if p.pair.remote.context == "" && len(p.pair.remote.files) == 0 {
			err = errors.Join(err, errNoRemote)
		}
		return err
	}
}

// connectMany connects several pairs, one after the other: the pairs in a file, or pairs
// of the local cluster's peers (shortcuts). Each pair writes its own document or events.
func connectMany(ctx context.Context, io streams, file string, local clusterFlags, given *pflag.FlagSet, r runFlags) error {
	var all []peering
	var found foundShortcuts
	var err error
	if file != "" {
		all, err = files.ReadPairs(file, given, newPeering)
	} else if found, err = shortcutsOf(ctx, local); err == nil {
		all, err = files.PairsOf("--shortcuts", found.rows(local.namespace), given, newPeering)
		for _, p := range all {
			p.pair.local.Instead, p.pair.remote.Instead = local.everywhere(), local.everywhere()
		}
	}
	if err != nil {
		return err
	}
	err = files.EachPair(ctx, io.err, all, func(p peering) error {
		p.pair.image = p.connect.operators[flows.A].Image
		op := operation{
			name: "connect", undo: "network reset",
			goal: func() (flows.Goal, error) { return p.connect.goal() },
			done: func(e engine.Event) report.Achieved { return achieved(p.pair, p.connect.params.Wait, e.Facts) },
		}
		return op.run(ctx, io, p.pair, r)
	})
	if err != nil {
		err = report.Told{Err: err} // each pair has already written its error
	}
	for _, n := range found.Notes {
		fmt.Fprintln(io.err, "note:", n)
	}
	return cmp.Or(err, found.verdict())
}

// shortcutsOf returns the pairs of a cluster's peers that have contexts in the cluster's
// kubeconfig files.
func shortcutsOf(ctx context.Context, local clusterFlags) (foundShortcuts, error) {
	hub, err := look(ctx, local)
	if err != nil {
		return foundShortcuts{}, err
	}
	contexts, problems := kubeconfig.Contexts(local.files)
	return findShortcuts(ctx, hub, contexts, problems, func(ctx context.Context, c flows.ContextRef) (flows.ClusterFacts, error) {
		return look(ctx, clusterFlags{kubeconfig: c.File, files: local.files, context: c.Name, namespace: local.namespace, Instead: local.everywhere()})
	}), context.Cause(ctx)
}

func peeringsSchema() map[string]any {
	_, flags, _ := newPeering()
	return files.PairsSchema(flags)
}
