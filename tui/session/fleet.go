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

// Fleet is every cluster that the program knows of, in the order of the
// kubeconfig files. It is a value: what changes it returns another one.
type Fleet struct {
	Members  []*Member // never changed in place: models share them
	Problems []error   // of files
	Added    []string  // files
	Listed   bool      // the files were read
	Listing  bool      // they are being read
	Watches  int       // that were ever started
}

// Member is one cluster, and what is known of it.
type Member struct {
	Context
	Latest flows.ClusterFacts // the latest answer, which may be a Problem
	Good   flows.ClusterFacts // the latest one without a Problem
	Asked  bool               // there was an answer
	Began  time.Time          // when it was first asked
	Since  time.Time          // when the Problem began

	Cluster engine.Cluster // nil until it is open
	Watch   Watch
}

// Probing reports whether nothing is known yet.
func (c Member) Probing() bool { return !c.Asked }

func (f Fleet) index(ref flows.ContextRef) int {
	return slices.IndexFunc(f.Members, func(c *Member) bool { return c.Ref == ref })
}

// Member is a copy; the zero value for a context that nobody has heard of.
func (f Fleet) Member(ref flows.ContextRef) Member {
	if i := f.index(ref); i >= 0 {
		return *f.Members[i]
	}
	return Member{Context: Context{Ref: ref}}
}

// With puts a member in, in the place of the one with the same context.
func (f Fleet) With(c Member) Fleet {
	f.Members = slices.Clone(f.Members)
	if i := f.index(c.Ref); i >= 0 {
		f.Members[i] = &c
	} else {
		f.Members = append(f.Members, &c)
	}
	return f
}

// Relist takes what the files say now. Members stay who they are; one whose
// context is gone goes, unless keep says that it is in use.
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

// Watch is the life of the commands that observe one cluster; the zero value
// is none.
type Watch struct {
	ID     int
	Ctx    context.Context
	cancel context.CancelFunc
}

// On reports whether there are such commands.
func (w Watch) On() bool { return w.cancel != nil }

// Stop is a command.
func (w Watch) Stop() tea.Msg {
	w.cancel()
	return nil
}

// NewWatch begins one.
func NewWatch(ctx context.Context, id int) Watch {
	ctx, cancel := context.WithCancel(ctx)
	return Watch{ID: id, Ctx: ctx, cancel: cancel}
}

// Learn takes a cluster's facts in.
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

// Call names a context, with its file where another file has the same.
func (f Fleet) Call(c Member) string {
	name := cmp.Or(c.Ref.Name, "current context")
	same := slices.ContainsFunc(f.Members, func(o *Member) bool { return o.Ref != c.Ref && o.Ref.Name == c.Ref.Name })
	if same {
		name += " (" + filepath.Base(c.File) + ")"
	}
	return name
}
