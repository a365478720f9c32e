package engine

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// What follows are abilities that a [Cluster] may have besides: ask for them by
// type assertion.

// DryRunner asks the API server what an apply would do, without doing it.
type DryRunner interface {
	// DryRun answers for each object, in order. force is as of [Forcer]. The
	// error is of the cluster as a whole; what is wrong with one object is in
	// its answer.
	DryRun(ctx context.Context, objects []wire.Object, force bool) ([]DryRunResult, error)
}

// DryRunResult is what applying one object would do.
type DryRunResult struct {
	flows.Change
	// Diff from what is there to what would be, by the API server's own merge.
	Diff string
	// Err is why it would be refused: a [flows.ConflictError], or the API server's
	// answer. An object whose namespace does not exist yet can't be tried: the
	// error satisfies apierrors.IsNotFound.
	Err error
}

// Forcer applies objects although other managers own some of the fields, and
// takes those fields over.
type Forcer interface {
	ForceApply(context.Context, []wire.Object) ([]flows.Change, error)
}

// Reviewer asks the API server what its user may do.
type Reviewer interface {
	// Review says which of the permissions are missing. A verb that the cluster
	// can do without is not: update where patch is not allowed, list for watch.
	Review(context.Context, []rights.Permission) (rights.Review, error)
}

// Review asks both clusters side by side. A side that can't tell has no review, and
// one of which nothing is needed is not asked.
func Review(ctx context.Context, clusters [2]Cluster, needs [2][]rights.Permission) (reviews [2]*rights.Review, errs [2]error) {
	var g sync.WaitGroup
	for side, c := range clusters {
		reviewer, ok := c.(Reviewer)
		switch {
		case !ok:
		case len(needs[side]) == 0:
			reviews[side] = &rights.Review{}
		default:
			g.Go(func() {
				review, err := reviewer.Review(ctx, needs[side])
				if errs[side] = err; err == nil {
					reviews[side] = &review
				}
			})
		}
	}
	g.Wait()
	return reviews, errs
}

// Logger reads what a pod has written.
type Logger interface {
	// Logs are the last lines of a gateway's pod.
	Logs(ctx context.Context, pod flows.PodFacts, lines int) (string, error)
}

// WarningReader reads what Kubernetes warns of in one namespace. It is an optional
// ability of a [Cluster].
type WarningReader interface {
	// Warnings are the recent ones, the newest first.
	Warnings(ctx context.Context, namespace string) ([]flows.EventFacts, error)
}

// ReadWarnings adds to the facts of both sides the warnings about their connection.
// Observe reads only those of connections that don't work, and in the background: a
// diagnosis that looks once has to ask. The error is of ctx.
func ReadWarnings(ctx context.Context, f flows.Facts, a, b Cluster) (flows.Facts, error) {
	namespaces := [2]string{f.Peer(flows.A).Tenant.Namespace, f.Peer(flows.B).Tenant.Namespace}
	var g sync.WaitGroup
	for side, cluster := range [2]Cluster{a, b} {
		reader, ok := cluster.(WarningReader)
		facts := &f.Sides[side]
		if !ok || facts.Problem != nil {
			continue
		}
		g.Go(func() {
			namespace := namespaces[side]
			found, err := reader.Warnings(ctx, namespace)
			facts.Events = append(found, slices.DeleteFunc(slices.Clone(facts.Events), func(e flows.EventFacts) bool {
				return strings.Contains(e.Object, " "+namespace+"/")
			})...)
			read := map[string]string{}
			maps.Copy(read, facts.EventsRead)
			if read[namespace] = ""; err != nil {
				read[namespace] = err.Error()
			}
			facts.EventsRead = read
		})
	}
	g.Wait() // before f is copied
	return f, ctx.Err()
}
