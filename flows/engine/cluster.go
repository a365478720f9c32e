// Package engine runs plans: it observes both clusters, plans by package flows, asks the
// admin, applies ready steps on both sides at once, and waits, until the plan is done. All
// front ends read its [Event]s and decide nothing.
package engine

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Cluster is one cluster, with the operations that a run needs.
type Cluster interface {
	// Observe returns the present facts. A cluster that can't be used is a fact
	// ([flows.ClusterFacts.Problem]), not an error: work on the other side may go on.
	Observe(context.Context) (flows.ClusterFacts, error)
	// Apply makes the objects as given, and returns the changes. The next Observe sees the
	// result. A field that another manager owns is a [flows.ConflictError], unless that
	// manager is our own operator or gateway: its value is older than the admin's. An error
	// that means that the cluster can't be used wraps a [flows.Problem].
	Apply(context.Context, []wire.Object) ([]flows.Change, error)
	// Delete deletes observed objects. A missing object is no error. An object that was
	// created again, or a namespace that was changed, is a conflict: it stays, and the next
	// Observe sees it.
	Delete(context.Context, []wire.Object) ([]flows.Change, error)
	// Ask answers a question. An error is the reason that the cluster does not know:
	// [ErrNoWay] if it never does. One that means that the cluster can't be used wraps a
	// [flows.Problem].
	Ask(context.Context, flows.Question) (flows.Reply, error)
	// Changed receives after a change worth observing. Several changes may cause one value.
	Changed() <-chan struct{}
}

// Observe observes two clusters side by side.
func Observe(ctx context.Context, a, b Cluster, now func() time.Time) (flows.Facts, error) {
	var sides [2]flows.ClusterFacts
	var g errgroup.Group
	for i, c := range []Cluster{a, b} {
		g.Go(func() (err error) {
			sides[i], err = c.Observe(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return flows.Facts{}, err
	}
	return flows.Facts{Sides: [2]flows.ClusterFacts{sides[flows.A], sides[flows.B]}, At: now()}, nil
}

// Absent stands for a cluster that must not be asked, for plans that don't touch it.
type Absent struct{ Context flows.ContextRef }

// Observe reports that nobody was asked.
func (a Absent) Observe(context.Context) (flows.ClusterFacts, error) {
	return flows.ClusterFacts{Context: a.Context, Problem: &flows.Problem{Kind: flows.Unreachable, Message: "the other cluster was not asked"}}, nil
}

// Apply is never called, because the cluster has no steps.
func (a Absent) Apply(context.Context, []wire.Object) ([]flows.Change, error) {
	return nil, errors.New("apply: the other cluster was not asked")
}

// Delete is never called, because the cluster has no steps.
func (a Absent) Delete(context.Context, []wire.Object) ([]flows.Change, error) {
	return nil, errors.New("delete: the other cluster was not asked")
}

// Ask reports that nobody was asked.
func (a Absent) Ask(context.Context, flows.Question) (flows.Reply, error) {
	return nil, errors.New("the other cluster was not asked")
}

// Changed never receives.
func (a Absent) Changed() <-chan struct{} { return nil }
