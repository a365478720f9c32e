package board

import (
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Take adds news to the board. During a pause, it keeps them for later.
func (s Screen) Take(e session.Env, all []News) Screen {
	if s.paused.IsZero() {
		s.Board.take(e.Now, all)
	}
	if p := s.Subject(); s.Detail && s.page == pageDiagnosis && p != nil {
		s.look(e, p)
	}
	for _, n := range all {
		s.lookAtBroken(e, n)
		if !s.paused.IsZero() {
			s.Board.record(e.Now, n, s.kept)
			s.kept = keepNews(s.kept, n)
		} else if s.page == pageYAML && s.shows(n.Ref) {
			s = s.renewPage(e)
		}
	}
	return s
}

// look adds an observation of a connection.
func (s Screen) look(e session.Env, p *peering) { s.looks[p.ID] = s.looks[p.ID].With(s.factsOf(e, p)) }

// lookAtBroken adds observations of the connections in the news that don't work, so that a diagnosis knows at once
// which packets move. It forgets those of others.
func (s Screen) lookAtBroken(e session.Env, n News) {
	for _, r := range n.Changed {
		id := PairOf(n.ID, r.Peer)
		if p := s.Board.Rows[id]; p != nil && !p.State.Works() {
			s.look(e, p)
		} else if s.list.selected != id {
			delete(s.looks, id)
		}
	}
	for _, peer := range n.Gone {
		delete(s.looks, PairOf(n.ID, peer))
	}
}

// Tested stores the result of a test from pod to pod.
func (s Screen) Tested(e session.Env, msg session.VerifiedMsg) Screen {
	id := PairOf(msg.Result.A, msg.Result.B)
	if msg.Err != nil {
		return s
	}
	s.Board.tests[id] = &msg.Result
	if _, ok := s.Board.Rows[id]; ok {
		s.Board.take(e.Now, nil)
		s.Board.move(id)
	}
	return s
}

// shows reports whether a context belongs to the connection of the shown page.
func (s Screen) shows(ref flows.ContextRef) bool {
	p := s.Subject()
	if !s.Detail || p == nil {
		return false
	}
	refs, _ := s.contextsOf(p)
	return slices.Contains(refs[:], ref)
}

// keepNews adds news to those that are kept during a pause. It keeps at most one for
// each context, so that a long pause needs no more memory than a short one.
func keepNews(kept []News, n News) []News {
	i := slices.IndexFunc(kept, func(k News) bool { return k.Ref == n.Ref })
	if i < 0 {
		return append(slices.Clip(kept), n)
	}
	was := kept[i]
	if n.Problem != nil { // the connections in earlier news are still needed
		was.Problem = n.Problem
		n = was
	} else if !n.Complete && was.Problem == nil {
		n.Complete = was.Complete
		n.Gone = append(slices.DeleteFunc(slices.Clone(was.Gone), func(id wire.ClusterID) bool { return speaksOf(n.Changed, id) }), n.Gone...)
		for _, r := range was.Changed {
			if !speaksOf(n.Changed, r.Peer) && !slices.Contains(n.Gone, r.Peer) {
				n.Changed = append(slices.Clip(n.Changed), r)
			}
		}
	}
	kept = slices.Clone(kept)
	kept[i] = n
	return kept
}

// record adds readings during a pause to the histories at once, so that the pause
// leaves no gap. The admin sees them later, because the screen ends with the bucket in
// which the pause began.
func (b *board) record(now time.Time, n News, kept []News) {
	i := b.source(n.Ref)
	if i < 0 || n.Problem != nil || n.ID != b.sources[i].ID || session.BucketOf(now) <= session.BucketOf(b.now) {
		return
	}
	k := slices.IndexFunc(kept, func(k News) bool { return k.Ref == n.Ref })
	for _, r := range n.Changed {
		if b.Rows[PairOf(n.ID, r.Peer)] == nil {
			continue // the row is new, so the screen shows nothing of it before the pause ends
		}
		before := b.sources[i].readings[r.Peer]
		if k >= 0 {
			for _, later := range kept[k].Changed {
				if later.Peer == r.Peer {
					before = later
				}
			}
		}
		if p, side, ok := b.measured(i, before, r); ok {
			p.History[side].Add(now, r, session.RateOf(before, r))
		}
	}
}

func speaksOf(all []flows.Reading, id wire.ClusterID) bool {
	return slices.ContainsFunc(all, func(r flows.Reading) bool { return r.Peer == id })
}

// Ages returns the time after which the screen has to change although nothing happens.
func (s Screen) Ages(now time.Time) time.Duration {
	next := now.Truncate(time.Minute).Add(time.Minute)
	if wakes := s.Board.wakes(); s.paused.IsZero() && wakes.Before(next) {
		next = wakes
	}
	return max(next.Sub(now), session.Coalesce)
}

// pause stops all changes of the screen, so that it can be read or copied. News are
// kept for later.
func (s Screen) pause(e session.Env) Screen {
	if s.paused.IsZero() {
		s.paused = e.Now
		return s
	}
	kept := s.kept
	s.paused, s.kept = time.Time{}, nil
	return s.Take(e, kept).renewPage(e)
}
