// Package board is the dashboard: one row for each connection, with the reports of
// both sides, and pages about single connections.
package board

import (
	"fmt"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Screen has the list of the connections of many clusters, and the pages about one
// of them.
type Screen struct {
	options   session.Options
	chosen    map[flows.ContextRef]bool // the requested contexts; nil: all contexts
	Board     *board
	list      peeringList
	filter    keys.Line
	filtering bool // keys are text for the filter, or for the search in a page
	wide      bool // the list takes the whole screen
	resized   int  // lines that the list has taken from the pane; negative: lines that it has given to the pane

	Detail  bool // a page is shown instead of the list
	page    page
	direct  bool           // the page was opened from the list, not from the overview
	lent    bool           // the wizard has opened it, and continues afterwards
	find    keys.Line      // a page shows only lines that contain this text
	from    wire.ClusterID // the cluster whose line in the matrix has the cursor; "" for A's line
	text    []string       // the text of a page that is made again only after a change
	logs    logsMsg        // the latest logs
	sharing sharing        // for the pages about Services
	// looks has the observations for the diagnosis of each connection that does not work. The changes since then
	// show in which direction packets move.
	looks     map[pairID]check.Looks
	allChecks bool // passed checks are also shown

	paused time.Time // the beginning of the pause; zero: there is no pause
	kept   []News    // the news during the pause
	copied string    // text to print at the end of the program

	recorded recorded // for the overview
}

// page is one of the texts about the selected connection.
type page uint8

const (
	pageOverview page = iota
	pageEvents        // of this connection
	pageAllEvents
	pageContexts // about all contexts
	pageMatrix   // with a cursor at this connection
	pageYAML
	pageLogs
	pageDiagnosis
	pageServices
	pageService // one of them
)

func (p page) String() string {
	return [...]string{"details", "timeline", "timelines of all", "contexts", "matrix", "YAML", "logs", "diagnosis", "Services", "Service"}[p]
}

// ofAll reports whether a page is about all connections, and not about a single
// one.
func (p page) ofAll() bool { return p == pageAllEvents || p == pageContexts }

// New returns the dashboard of the requested contexts, or of all contexts if none
// was requested.
func New(o session.Options, e session.Env) Screen {
	b := newBoard(nil, e.Now)
	if o.Past != nil {
		b.beginning = simulation
	}
	s := Screen{options: o, Board: b, list: peeringList{board: b}, looks: map[pairID]check.Looks{}}
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

// Know sets the contexts: the requested ones, or all.
func (s Screen) Know(all session.Fleet) {
	refs := s.options.Contexts
	if len(refs) == 0 {
		for _, c := range all.Members {
			refs = append(refs, c.Ref)
		}
	}
	s.Board.choose(refs)
}

// Watches reports whether the dashboard shows a context.
func (s Screen) Watches(ref flows.ContextRef) bool { return s.chosen == nil || s.chosen[ref] }

// Subject returns the connection to which keys apply: the connection of the page,
// or else that of the selected row. It is nil if there is none, or if the
// connection is gone.
func (s Screen) Subject() *peering {
	if !s.Detail || !s.list.held {
		return s.list.current()
	}
	return s.Board.Rows[s.list.selected]
}

// Selected returns the contexts of the selected connection; zero for a cluster
// without a context.
func (s Screen) Selected() (refs [2]flows.ContextRef) {
	if p := s.Subject(); p != nil {
		refs, _ = s.contextsOf(p)
	}
	return refs
}

// contextsOf returns the contexts of both sides. missing is the ID of the cluster
// that has no context.
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

// pair returns the contexts of the selected connection. ok is false if one of its
// clusters has no context.
func (s Screen) pair(e session.Env) (refs [2]flows.ContextRef, ok bool) {
	refs, missing := s.contextsOf(s.Subject())
	if missing != "" {
		e.Post(session.NoteMsg(fmt.Sprintf("This needs both clusters, and %s is %s.", missing, s.Board.absence())))
	}
	return refs, missing == ""
}

// objectsOf returns the objects of a connection on one side; nil if the cluster
// does not belong to the dashboard.
func (s Screen) objectsOf(e session.Env, p *peering, side flows.Side) *flows.End {
	end := p.ends[side]
	if !end.Chosen {
		return nil
	}
	objects := s.clusterOf(e, p, side).End(p.ends[side.Other()].ID)
	return &objects
}

// clusterOf returns the facts of a side's cluster; empty facts if it has no
// context.
func (s Screen) clusterOf(e session.Env, p *peering, side flows.Side) flows.ClusterFacts {
	if end := p.ends[side]; end.Chosen {
		return e.Fleet.Member(s.Board.speaker(end.ID)).Good
	}
	return flows.ClusterFacts{}
}

// theme returns the theme for the pages of a terminal. Found lines of a page have no frames around them.
func (s Screen) theme(e session.Env) draw.Theme {
	if s.Detail && (s.filtering || s.find.String() != "") {
		return e.Theme.Framed(0, 0)
	}
	return e.Theme.Framed(e.Width, e.Height)
}
