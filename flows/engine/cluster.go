// Package engine runs plans: it observes both clusters, has package flows plan,
// asks the admin, applies what is ready on both sides at once, and waits, until the
// plan is done. All front ends read its [Event]s and decide nothing.
package engine

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Cluster is one cluster, as a run needs it.
type Cluster interface {
	// Observe says what is there now. A cluster that can't be used is a fact
	// ([flows.ClusterFacts.Problem]), not an error: the other side may still be worked on.
	Observe(context.Context) (flows.ClusterFacts, error)
	// Apply makes the objects be as given, and says what that changed. The
	// next Observe sees the result. Fields that other managers own are a
	// [flows.ConflictError], unless those are our own operator and gateways: what they
	// carried there is older than what the admin wants now. An error that means
	// that the cluster can't be used wraps a [flows.Problem].
	Apply(context.Context, []wire.Object) ([]flows.Change, error)
	// Delete deletes the objects, which were observed. Those that don't exist any
	// more are no error. One that was made again since is a conflict, as is a
	// namespace that was changed: it stays, and the next Observe sees it.
	Delete(context.Context, []wire.Object) ([]flows.Change, error)
	// Ask answers a question. An error is why the cluster does not know: [ErrNoWay] where
	// it never does. One that means that the cluster can't be used wraps a [flows.Problem].
	Ask(context.Context, flows.Question) (flows.Reply, error)
	// Changed receives after something worth observing has happened; several
	// happenings may be one value.
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

// Absent stands for a cluster that is not to be asked, for plans that leave it
// alone.
type Absent struct{ Context flows.ContextRef }

// Observe says that nobody was asked.
func (a Absent) Observe(context.Context) (flows.ClusterFacts, error) {
	return flows.ClusterFacts{Context: a.Context, Problem: &flows.Problem{Kind: flows.Unreachable, Message: "the other cluster was not asked"}}, nil
}

// Apply is never called: what is not there has no steps.
func (a Absent) Apply(context.Context, []wire.Object) ([]flows.Change, error) {
	return nil, errors.New("apply: the other cluster was not asked")
}

// Delete is never called: what is not there has no steps.
func (a Absent) Delete(context.Context, []wire.Object) ([]flows.Change, error) {
	return nil, errors.New("delete: the other cluster was not asked")
}

// Ask says that nobody was asked.
func (a Absent) Ask(context.Context, flows.Question) (flows.Reply, error) {
	return nil, errors.New("the other cluster was not asked")
}

// Changed never receives.
func (a Absent) Changed() <-chan struct{} { return nil }
