// Package board is the dashboard: one row for each two clusters that are peered,
// as both sides tell of them, and pages about one of these.
package board

import (
	"fmt"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Screen is the peerings of many clusters: the list of them, and the
// pages about one of them.
type Screen struct {
	options   session.Options
	chosen    map[flows.ContextRef]bool // contexts that were asked for; nil: all
	Board     *board
	list      peeringList
	filter    keys.Line
	filtering bool // keys go into the filter, or into the search of a page
	wide      bool // the list has all of the screen
	resized   int  // lines that the list was given of the pane's; negative: the other way round

	Detail bool // a page is shown, and not the list
	page   page
	direct bool           // the page was opened from the list, not from the overview
	lent   bool           // the wizard asked for it, and waits
	find   keys.Line      // only lines of the page that have it are shown
	from   wire.ClusterID // whose line of the matrix has the cursor; "" for A's
	text   []string       // of a page that is made anew only when there is reason to
	logs   logsMsg        // the latest
	// looks are those of the diagnosis: what has changed since then tells which way
	// packets move.
	looks     check.Looks
	allChecks bool // those that passed, too

	paused time.Time // since when; zero: it is live
	kept   []News    // that came meanwhile
	copied string    // to be printed at the end
}

// page is what is shown of the selected peering.
type page uint8

const (
	pageOverview page = iota
	pageEvents        // of this peering
	pageAllEvents
	pageContexts // of all, too
	pageMatrix   // with a cursor on this one
	pageYAML
	pageLogs
	pageDiagnosis
)

func (p page) String() string {
	return [...]string{"details", "timeline", "timelines of all", "contexts", "matrix", "YAML", "logs", "diagnosis"}[p]
}

// ofAll reports whether a page is about no one peering.
func (p page) ofAll() bool { return p == pageAllEvents || p == pageContexts }

// New shows the contexts that were asked for; none stands for all that
// there are.
func New(o session.Options, e session.Env) Screen {
	b := newBoard(nil, e.Now)
	s := Screen{options: o, Board: b, list: peeringList{board: b}}
	for _, ref := range o.Contexts {
		if s.chosen == nil {
			s.chosen = map[flows.ContextRef]bool{}
		}
		s.chosen[ref] = true
	}
	s.Board.prefer([2]flows.ContextRef{o.A, o.B})
	s.Know(e.Fleet)
	return s
}

// Know shows the contexts that were asked for, or all that there are.
func (s Screen) Know(all session.Fleet) {
	refs := s.options.Contexts
	if len(refs) == 0 {
		for _, c := range all.Members {
			refs = append(refs, c.Ref)
		}
	}
	s.Board.choose(refs)
}

// Watches reports whether a context is one of those.
func (s Screen) Watches(ref flows.ContextRef) bool { return s.chosen == nil || s.chosen[ref] }

// Subject is the peering that keys are about: the selected row, or the one that
// the page is of, wherever that is in the list; nil when there is none, or no more.
func (s Screen) Subject() *peering {
	if !s.Detail || !s.list.held {
		return s.list.current()
	}
	return s.Board.Rows[s.list.selected]
}

// Selected are the contexts of the selected peering, as far as there are any.
func (s Screen) Selected() (refs [2]flows.ContextRef) {
	if p := s.Subject(); p != nil {
		refs, _ = s.contextsOf(p)
	}
	return refs
}

// contextsOf are those of both sides; missing is the cluster that has none.
func (s Screen) contextsOf(p *peering) (refs [2]flows.ContextRef, missing wire.ClusterID) {
	for i, e := range p.ends {
		if !e.Chosen {
			missing = e.ID
			continue
		}
		refs[i] = s.Board.speaker(e.ID)
	}
	return refs, missing
}

// pair are the contexts of the selected peering; ok is false if one of its
// clusters is not at hand.
func (s Screen) pair(e session.Env) (refs [2]flows.ContextRef, ok bool) {
	refs, missing := s.contextsOf(s.Subject())
	if missing != "" {
		e.Post(session.NoteMsg(fmt.Sprintf("This needs both clusters, and %s is %s.", missing, s.Board.absence())))
	}
	return refs, missing == ""
}

// objectsOf are what a side has of a peering; nil if its cluster is not one of
// the dashboard's.
func (s Screen) objectsOf(e session.Env, p *peering, side flows.Side) *flows.End {
	end := p.ends[side]
	if !end.Chosen {
		return nil
	}
	objects := s.clusterOf(e, p, side).End(p.ends[side.Other()].ID)
	return &objects
}

// clusterOf are the facts of a side; none if it is not among the contexts.
func (s Screen) clusterOf(e session.Env, p *peering, side flows.Side) flows.ClusterFacts {
	if end := p.ends[side]; end.Chosen {
		return e.Fleet.Member(s.Board.speaker(end.ID)).Good
	}
	return flows.ClusterFacts{}
}
