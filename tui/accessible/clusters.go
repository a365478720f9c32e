package accessible

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// probeTimeout is how long the first question waits for clusters that do not
// answer.
const probeTimeout = 10 * time.Second

// gone is the answer that chooses a cluster which does not answer any more.
const gone = "gone"

// cluster is one that can be chosen.
type cluster struct {
	session.Context
	open  engine.Cluster
	facts flows.ClusterFacts
}

func (c cluster) name() string { return cmp.Or(c.Ref.Name, "current context") }

// chooseClusters asks for the clusters that the command line does not name.
func (w *wizard) chooseClusters(ctx context.Context) error {
	contexts, problems := w.options.Backend.Contexts(nil)
	for _, p := range problems {
		w.say("A kubeconfig can't be used: %v.", p)
	}
	w.say("Step 1 of 5: clusters. Looking at %d contexts, for at most %d seconds.", len(contexts), int(probeTimeout.Seconds()))
	all := w.probe(ctx, contexts)
	if err := ctx.Err(); err != nil {
		return err
	}
	var ready []cluster
	for _, c := range all {
		if p := c.facts.Problem; p != nil {
			w.say("Not available: %s, %s.", c.name(), strings.TrimSuffix(p.Message, "."))
			continue
		}
		ready = append(ready, c)
	}
	for i, c := range ready {
		has := "nothing installed"
		if c.facts.Can().Connect {
			has = fmt.Sprintf("%s, cluster ID %s", c.facts.Software, c.facts.ID)
		}
		w.say("%d: %s, Kubernetes %s, %s.", i+1, c.name(), c.facts.Version, has)
	}
	for side, named := range [2]flows.ContextRef{w.options.A, w.options.B} {
		if err := w.chooseCluster(ctx, flows.Side(side), named, ready); err != nil {
			return err
		}
	}
	return nil
}

func (w *wizard) chooseCluster(ctx context.Context, side flows.Side, named flows.ContextRef, ready []cluster) error {
	which := [...]string{"Local cluster", "Remote cluster"}[side]
	if named != (flows.ContextRef{}) {
		i := slices.IndexFunc(ready, func(c cluster) bool { return c.Ref == named })
		if i < 0 {
			return fmt.Errorf("context %s is not available", named)
		}
		w.sides[side] = ready[i]
		w.say("%s: %s.", which, ready[i].name())
		return nil
	}
	var words []string
	if side == flows.B && len(w.sides[flows.A].facts.Configurations) > 0 {
		words = []string{gone}
		w.say("If the other cluster no longer answers, type %q to remove the connection on %s alone.", gone, w.id(flows.A))
	}
	peered := func(c cluster) bool { return len(c.facts.Configurations) > 0 }
	if len(ready) < 2 && !slices.ContainsFunc(ready, peered) {
		return fmt.Errorf("two clusters are needed, but only %d can be used", len(ready))
	}
	for {
		n, word, err := w.choose(ctx, which, len(ready), words...)
		switch {
		case err != nil:
			return err
		case word == gone:
			return w.forget(ctx)
		}
		c := ready[n-1]
		if same, _ := flows.SameCluster(w.sides[flows.A].facts, c.facts); side == flows.B && same {
			w.say("%s is the same cluster as %s. Choose another one.", c.name(), w.id(flows.A))
			continue
		}
		w.sides[side] = c
		return nil
	}
}

// forget asks which peer of A no longer exists.
func (w *wizard) forget(ctx context.Context) error {
	peers := slices.Sorted(maps.Keys(w.sides[flows.A].facts.Peers()))
	n := 1
	if len(peers) > 1 {
		for i, id := range peers {
			w.say("%d: %s.", i+1, id)
		}
		var err error
		if n, _, err = w.choose(ctx, "The cluster that is gone", len(peers)); err != nil {
			return err
		}
	}
	w.removal = flows.RemoveOptions{LocalOnly: true, Peer: peers[n-1]}
	w.sides[flows.B] = cluster{open: engine.Absent{}}
	w.say("Remote cluster: %s (not contacted).", peers[n-1])
	return nil
}

// probe observes all clusters at the same time. If a cluster does not answer in
// time, this is its problem.
func (w *wizard) probe(ctx context.Context, contexts []session.Context) []cluster {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out := make([]cluster, len(contexts))
	var all sync.WaitGroup
	for i, c := range contexts {
		all.Go(func() {
			out[i].Context = c
			var err error
			if out[i].open, err = w.options.Backend.Open(c.Ref); err == nil {
				out[i].facts, err = out[i].open.Observe(ctx)
			}
			if err != nil && out[i].facts.Problem == nil { // this problem says more than the timeout
				out[i].facts.Problem = &flows.Problem{Kind: flows.Unreachable, Message: err.Error()}
			}
		})
	}
	all.Wait()
	for _, c := range out {
		if c, ok := c.open.(interface{ Close() }); ok {
			w.closers = append(w.closers, c.Close)
		}
	}
	return out
}
