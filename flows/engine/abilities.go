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

// The following interfaces are optional abilities of a [Cluster]. Callers find them
// by type assertion.

// DryRunner asks the API server for the result of an apply, without a change.
type DryRunner interface {
	// DryRun returns an answer for each object, in order. force has the same
	// meaning as for [Forcer]. The error is about the cluster as a whole. A problem
	// of one object is in its answer.
	DryRun(ctx context.Context, objects []wire.Object, force bool) ([]DryRunResult, error)
}

// DryRunResult is the result of applying one object.
type DryRunResult struct {
	flows.Change
	// Diff compares the present object with the merged object that the API server
	// returns.
	Diff string
	// Err is the reason of a refusal: a [flows.ConflictError], or the API server's
	// answer. If the object's namespace does not exist yet, the error satisfies
	// apierrors.IsNotFound.
	Err error
}

// Forcer applies objects, and takes over fields that other managers own.
type Forcer interface {
	ForceApply(context.Context, []wire.Object) ([]flows.Change, error)
}

// Editor changes objects of other programs: as a [Forcer], but only objects whose resource version is
// still that of the given object.
type Editor interface {
	Edit(context.Context, []wire.Object) ([]flows.Change, error)
}

// Reviewer asks the API server for the rights of its user.
type Reviewer interface {
	// Review returns the missing permissions. If one of two verbs is enough, the
	// other one is not missing: update instead of patch, list instead of watch.
	Review(context.Context, []rights.Permission) (rights.Review, error)
}

// Review asks both clusters at the same time. The review of a cluster without this
// ability is nil. A cluster in which the plan needs no rights is not asked, and its
// review is empty.
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

// Logger reads the log of a pod.
type Logger interface {
	// Logs returns the last lines of a gateway's pod.
	Logs(ctx context.Context, pod flows.PodFacts, lines int) (string, error)
}

// WarningReader reads Kubernetes' warnings in one namespace. It is an optional
// ability of a [Cluster].
type WarningReader interface {
	// Warnings returns the recent warnings, the newest first.
	Warnings(ctx context.Context, namespace string) ([]flows.EventFacts, error)
}

// ReadWarnings adds the warnings about their connection to the facts of both sides.
// Observe reads warnings only for connections that don't work, and in the
// background. So a diagnosis that observes only once has to call ReadWarnings. The
// error is that of ctx.
func ReadWarnings(ctx context.Context, f flows.Facts, a, b Cluster) (flows.Facts, error) {
	namespaces := [2]string{f.End(flows.A).Tenant.Namespace, f.End(flows.B).Tenant.Namespace}
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
	g.Wait() // all reads have to end before f is copied
	return f, ctx.Err()
}
