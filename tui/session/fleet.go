package session

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// Fleet has all clusters that the program knows, in the order of the kubeconfig
// files. It is a value: methods that change it return a new Fleet.
type Fleet struct {
	Members  []*Member // never changed in place, because copies of the model share them
	Problems []error   // of kubeconfig files
	Added    []string  // kubeconfig files that the admin has added
	Listed   time.Time // when the files were read last; zero: not yet
	Listing  bool      // they are being read
	Watches  int       // the number of watches that were started
}

// Member is one cluster, with its facts.
type Member struct {
	Context
	Latest flows.ClusterFacts // the latest answer, perhaps with a Problem
	Good   flows.ClusterFacts // the latest answer without a Problem
	Asked  bool               // there was an answer
	Began  time.Time          // when it was first asked
	Since  time.Time          // when the Problem began

	Cluster engine.Cluster // nil until it is opened
	Watch   Watch
}

// Probing reports whether the cluster has not answered yet.
func (c Member) Probing() bool { return !c.Asked }

func (f Fleet) index(ref flows.ContextRef) int {
	return slices.IndexFunc(f.Members, func(c *Member) bool { return c.Ref == ref })
}

// Member returns a copy; the zero value for an unknown context.
func (f Fleet) Member(ref flows.ContextRef) Member {
	if i := f.index(ref); i >= 0 {
		return *f.Members[i]
	}
	return Member{Context: Context{Ref: ref}}
}

// With replaces the member that has the same context, or adds the member.
func (f Fleet) With(c Member) Fleet {
	f.Members = slices.Clone(f.Members)
	if i := f.index(c.Ref); i >= 0 {
		f.Members[i] = &c
	} else {
		f.Members = append(f.Members, &c)
	}
	return f
}

// Relist replaces the list of contexts by those that were found. Members with
// the same context stay. A member whose context is gone is removed, unless keep
// reports that it is in use.
func (f Fleet) Relist(found []Context, keep func(flows.ContextRef) bool) (_ Fleet, gone []Member) {
	var members []*Member
	for _, c := range found {
		m := f.Member(c.Ref)
		m.Context = c
		members = append(members, &m)
	}
	for _, m := range f.Members {
		switch {
		case slices.ContainsFunc(found, func(c Context) bool { return c.Ref == m.Ref }):
		case keep(m.Ref):
			members = append(members, m)
		default:
			gone = append(gone, *m)
		}
	}
	f.Members = members
	return f, gone
}

// Watch represents the running commands that observe one cluster; the zero
// value represents none.
type Watch struct {
	ID     int
	Ctx    context.Context
	cancel context.CancelFunc
}

// On reports whether such commands run.
func (w Watch) On() bool { return w.cancel != nil }

// Stop is a command that ends them.
func (w Watch) Stop() tea.Msg {
	w.cancel()
	return nil
}

// NewWatch starts a Watch.
func NewWatch(ctx context.Context, id int) Watch {
	ctx, cancel := context.WithCancel(ctx)
	return Watch{ID: id, Ctx: ctx, cancel: cancel}
}

// Learn stores the facts of a cluster.
func (f Fleet) Learn(ref flows.ContextRef, facts flows.ClusterFacts, now time.Time) Fleet {
	c := f.Member(ref)
	switch {
	case facts.Problem == nil:
		c.Good, c.Since = facts, time.Time{}
	case c.Since.IsZero():
		c.Since = now
	}
	c.Latest, c.Asked = facts, true
	return f.With(c)
}

// Call returns the name of a context. It adds the file if another file has a
// context with the same name.
func (f Fleet) Call(c Member) string {
	name := cmp.Or(c.Ref.Name, "current context")
	same := slices.ContainsFunc(f.Members, func(o *Member) bool { return o.Ref != c.Ref && o.Ref.Name == c.Ref.Name })
	if same {
		name += " (" + filepath.Base(c.File) + ")"
	}
	return name
}
