package tui

import (
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

func newsOf(r report) news {
	return news{
		ref: r.ref, problem: r.facts.Problem, id: r.facts.ID, uid: r.facts.UID,
		changed: r.changed, gone: r.gone, complete: r.first, events: r.facts.Events,
	}
}

// tellDashboard takes news in, or keeps them for later while it is paused.
func (m Model) tellDashboard(all []news) Model {
	d := &m.dashboard
	if !d.paused.IsZero() {
		for _, n := range all {
			d.kept = keepNews(d.kept, n)
		}
		return m
	}
	d.board.take(m.clock, all)
	return m
}

// keepNews adds news to those that wait. There is one of each context at most,
// so that a long pause costs no more than a short one.
func keepNews(kept []news, n news) []news {
	i := slices.IndexFunc(kept, func(k news) bool { return k.ref == n.ref })
	if i < 0 {
		return append(slices.Clip(kept), n)
	}
	was := kept[i]
	if n.problem != nil { // what it told before is still to be taken in
		was.problem = n.problem
		n = was
	} else if !n.complete && was.problem == nil {
		n.complete = was.complete
		n.gone = append(slices.DeleteFunc(slices.Clone(was.gone), func(id render.ClusterID) bool { return speaksOf(n.changed, id) }), n.gone...)
		for _, r := range was.changed {
			if !speaksOf(n.changed, r.Peer) && !slices.Contains(n.gone, r.Peer) {
				n.changed = append(slices.Clip(n.changed), r)
			}
		}
	}
	kept = slices.Clone(kept)
	kept[i] = n
	return kept
}

func speaksOf(all []flows.Reading, id render.ClusterID) bool {
	return slices.ContainsFunc(all, func(r flows.Reading) bool { return r.Peer == id })
}

// ages is how long the screen stays true if nothing happens.
func (d dashboardScreen) ages(now time.Time) time.Duration {
	next := now.Truncate(time.Minute).Add(time.Minute)
	if wakes := d.board.wakes(); d.paused.IsZero() && wakes.Before(next) {
		next = wakes
	}
	return max(next.Sub(now), coalesce)
}

// pauseDashboard holds everything still, to be read or copied; news wait.
func (m Model) pauseDashboard() Model {
	d := &m.dashboard
	if d.paused.IsZero() {
		d.paused = m.clock
		return m
	}
	kept := d.kept
	d.paused, d.kept = time.Time{}, nil
	return m.tellDashboard(kept).renewPage()
}
