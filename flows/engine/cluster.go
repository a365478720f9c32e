// Package engine runs plans. It observes both clusters, plans by package flows, asks the
// admin, applies ready steps on both sides at once, and waits, until the plan is done. All
// front ends show its [Event]s and decide nothing.
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
	// Observe returns the present facts. If the cluster can't be used, this is a fact
	// ([flows.ClusterFacts.Problem]) and no error, because the work on the other side may
	// continue.
	Observe(context.Context) (flows.ClusterFacts, error)
	// Apply creates or updates the objects, and returns the changes. The next Observe sees
	// the result. If another manager owns a field, the error is a [flows.ConflictError].
	// Our own operator and gateway are exceptions: their values are older than the admin's.
	// If the cluster can't be used, the error wraps a [flows.Problem].
	Apply(context.Context, []wire.Object) ([]flows.Change, error)
	// Delete deletes observed objects. A missing object is no error. Delete keeps an object
	// that was created again, or a namespace that was changed, and returns a conflict. The
	// next Observe sees the new state.
	Delete(context.Context, []wire.Object) ([]flows.Change, error)
	// Ask answers a question. The error is the reason that there is no answer: [ErrNoWay]
	// if the cluster can never answer. If the cluster can't be used, the error wraps a
	// [flows.Problem].
	Ask(context.Context, flows.Question) (flows.Reply, error)
	// Changed receives a value after a change that is worth an observation. One value may
	// stand for several changes.
	Changed() <-chan struct{}
}

// Observe observes two clusters at the same time.
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

// Absent stands for a cluster that the run must not ask. The plan does not change it.
type Absent struct{ Context flows.ContextRef }

// Observe returns facts with the problem that the cluster was not asked.
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

// Ask returns the error that the cluster was not asked.
func (a Absent) Ask(context.Context, flows.Question) (flows.Reply, error) {
	return nil, errors.New("the other cluster was not asked")
}

// Changed never receives a value.
func (a Absent) Changed() <-chan struct{} { return nil }
