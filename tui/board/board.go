package board

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// News is what one context has told since the last time.
type News struct {
	Ref     flows.ContextRef
	Problem *flows.Problem // why it does not answer now
	// The rest is of a cluster that answered.
	ID      wire.ClusterID
	UID     string
	Changed []flows.Reading
	Gone    []wire.ClusterID
	// Complete is set when there is nothing but what changed speaks of.
	Complete bool
	Events   []flows.EventFacts // recent warnings
}

// source is one context of the board, and what it has told so far.
type source struct {
	ref      flows.ContextRef
	ID       wire.ClusterID // "" until it has answered
	uid      string
	asked    bool
	problem  string
	word     string    // the problem in short
	silent   time.Time // since when it does not answer
	readings map[wire.ClusterID]flows.Reading
	events   []flows.EventFacts // that are in the log already
}

// board is all peerings of the chosen contexts: one row for each pair of
// clusters, sorted and filtered. One changed reading costs the same whether
// there are a hundred rows or ten thousand, but for a copy of pointers.
//
// It is the one part of the model that is not a value: it is changed in place,
// in Update only.
type board struct {
	began   time.Time
	now     time.Time
	sources []source
	// owner is the source that speaks for a cluster: several contexts may reach
	// the same one.
	owner map[wire.ClusterID]int
	// worked are the pairs that were worked on, A first.
	worked map[[2]flows.ContextRef]bool
	// tests are the last from pod to pod that this program made. One may end before the
	// dashboard has heard of the pair.
	tests map[pairID]*verify.Result
	Rows  map[pairID]*peering
	Log   eventLog

	Order  order
	filter filter
	List   []*peering // what is shown, in order
	named  []*peering // all rows by name, for sort; nil: to be made again
	counts [view.States]int

	expires time.Time // when the first verdict does; zero: none
	// hides keeps contexts that don't answer out of what stands above the rows.
	hides bool
}

func newBoard(contexts []flows.ContextRef, now time.Time) *board {
	b := &board{began: now, now: now, owner: map[wire.ClusterID]int{}, worked: map[[2]flows.ContextRef]bool{}, tests: map[pairID]*verify.Result{}, Rows: map[pairID]*peering{}, Order: order{By: ByStatus}}
	b.choose(contexts)
	return b
}

// choose sets the contexts. Those that are there already keep what they told;
// what only the others told is forgotten.
func (b *board) choose(contexts []flows.ContextRef) {
	same := slices.EqualFunc(b.sources, contexts, func(s source, ref flows.ContextRef) bool { return s.ref == ref })
	if same {
		return
	}
	sources := make([]source, len(contexts))
	for i, ref := range contexts {
		sources[i] = source{ref: ref}
		if at := b.source(ref); at >= 0 {
			sources[i] = b.sources[at]
		}
	}
	b.sources = sources
	b.settle()
}

func (b *board) source(ref flows.ContextRef) int {
	return slices.IndexFunc(b.sources, func(s source) bool { return s.ref == ref })
}

// settle finds out anew who speaks for which cluster, and makes all rows again.
func (b *board) settle() {
	clear(b.owner)
	for i, s := range b.sources {
		if s.ID == "" {
			continue
		}
		at, taken := b.owner[s.ID]
		// The first one, unless another way to the same cluster works now.
		if !taken || b.sources[at].uid == s.uid && !b.sources[at].silent.IsZero() && s.silent.IsZero() {
			b.owner[s.ID] = i
		}
	}
	ids := map[pairID]bool{}
	for id := range b.Rows {
		ids[id] = true
	}
	for id, i := range b.owner {
		for peer := range b.sources[i].readings {
			ids[PairOf(id, peer)] = true
		}
	}
	for id := range ids {
		b.refresh(id)
	}
	b.named = nil // A and B may have changed places
	b.sort()
}

// speaker is the context that speaks for a cluster.
func (b *board) speaker(id wire.ClusterID) flows.ContextRef { return b.sources[b.owner[id]].ref }

// prefer has the first of two contexts be A where both are the ends of a row.
func (b *board) prefer(pair [2]flows.ContextRef) {
	turned := [2]flows.ContextRef{pair[flows.B], pair[flows.A]}
	if b.worked[pair] || pair[flows.A] == pair[flows.B] {
		return
	}
	delete(b.worked, turned)
	b.worked[pair] = true
	b.settle()
}

// absence is why nothing is known from a cluster itself.
func (b *board) absence() string {
	if slices.ContainsFunc(b.sources, func(s source) bool { return s.ID == "" }) {
		return "not among the contexts that have answered"
	}
	return "not among the contexts"
}

// strangers are contexts of which nothing is shown, because another cluster
// has the same ID.
func (b *board) strangers() []string {
	var all []string
	for _, s := range b.sources {
		if at, ok := b.owner[s.ID]; ok && b.sources[at].uid != s.uid {
			all = append(all, fmt.Sprintf("%s and %s are different clusters with the same ID %q: only the first is shown", b.sources[at].ref, s.ref, s.ID))
		}
	}
	return all
}

// take notes what contexts have told. now is the clock.
func (b *board) take(now time.Time, all []News) {
	b.advance(now)
	var touched []pairID
	settle := false
	for _, n := range all {
		i := b.source(n.Ref)
		if i < 0 {
			continue
		}
		s := &b.sources[i]
		wasSilent, first := !s.silent.IsZero(), !s.asked
		s.asked = true
		if n.Problem != nil {
			s.problem, s.word = n.Problem.Message, n.Problem.InShort()
			if !wasSilent {
				s.silent = now
			}
			settle = settle || !wasSilent
			continue
		}
		s.problem, s.silent = "", time.Time{}
		if first || s.ID != n.ID || s.uid != n.UID || wasSilent {
			settle = true
		}
		if s.ID != n.ID || s.readings == nil {
			s.readings = map[wire.ClusterID]flows.Reading{}
		}
		if n.Complete {
			n.Gone = s.missing(n.Changed)
		}
		s.ID, s.uid = n.ID, n.UID
		for _, r := range n.Changed {
			b.measure(i, s.readings[r.Peer], r)
			s.readings[r.Peer] = r
			touched = append(touched, PairOf(n.ID, r.Peer))
		}
		for _, peer := range n.Gone {
			delete(s.readings, peer)
			touched = append(touched, PairOf(n.ID, peer))
		}
	}
	for _, n := range all {
		if i := b.source(n.Ref); i >= 0 && n.Problem == nil {
			b.noteWarnings(&b.sources[i], n.Events)
		}
	}
	if settle {
		b.settle()
		return
	}
	// Moving each row is cheaper than sorting all only while few have changed.
	bulk := len(touched) > 16 && len(touched) > len(b.List)/16
	for _, id := range touched {
		if bulk {
			b.refresh(id)
		} else {
			b.move(id)
		}
	}
	if bulk {
		b.sort()
	}
}

// noteWarnings puts a cluster's new warnings into the log, each with its peering.
func (b *board) noteWarnings(s *source, events []flows.EventFacts) {
	if slices.Equal(s.events, events) {
		return
	}
	peers := map[string]wire.ClusterID{} // by tenant namespace
	for peer, r := range s.readings {
		peers[r.Namespace] = peer
	}
	for _, e := range slices.Backward(events) { // the newest comes last into the log
		if slices.Contains(s.events, e) {
			continue
		}
		warning := event{at: e.At, kind: eventWarning, cluster: s.ID, object: e.Object, reason: e.Reason, text: e.Message, count: e.Count}
		if _, rest, ok := strings.Cut(e.Object, " "); ok {
			namespace, _, _ := strings.Cut(rest, "/")
			if peer, ok := peers[namespace]; ok {
				warning.id = PairOf(s.ID, peer)
			}
		}
		b.Log.put(warning)
	}
	s.events = events
}

// missing are the peers that a complete list leaves out.
func (s source) missing(all []flows.Reading) []wire.ClusterID {
	gone := maps.Clone(s.readings)
	for _, r := range all {
		delete(gone, r.Peer)
	}
	return slices.Sorted(maps.Keys(gone))
}

// advance lets time pass: verdicts expire. If the clock was set back, all are
// given anew.
func (b *board) advance(now time.Time) {
	if b.now.Sub(now) > session.ClockStep {
		b.now, b.expires = now, time.Time{}
		b.settle()
		return
	}
	if !now.After(b.now) {
		return
	}
	b.now = now
	if b.expires.IsZero() || !now.After(b.expires) {
		return
	}
	b.expires = time.Time{}
	changed := false
	for id, p := range b.Rows {
		switch {
		case p.expires.IsZero():
		case now.After(p.expires):
			b.refresh(id)
			changed = true
		default:
			b.expiresAt(p.expires)
		}
	}
	if changed {
		b.sort()
	}
}

func (b *board) expiresAt(t time.Time) {
	if !t.IsZero() && (b.expires.IsZero() || t.Before(b.expires)) {
		b.expires = t
	}
}

// wakes is when something on the board changes only because time passes: ages
// are shown in minutes.
func (b *board) wakes() time.Time {
	next := b.now.Truncate(time.Minute).Add(time.Minute)
	if stale := b.expires.Add(time.Millisecond); !b.expires.IsZero() && stale.Before(next) {
		next = stale
	}
	return next
}

// measure adds a source's new reading to the history of its row.
func (b *board) measure(i int, before, after flows.Reading) {
	if p, side, ok := b.measured(i, before, after); ok {
		p.ends[side].rate = session.RateOf(before, after)
		p.History[side].Add(b.now, after, p.ends[side].rate)
	}
}

// measured is the row and the side that a source's reading measures, if it is a new one
// and the source speaks for its cluster.
func (b *board) measured(i int, before, after flows.Reading) (_ *peering, side int, ok bool) {
	s := b.sources[i]
	if at, owned := b.owner[s.ID]; owned && at != i || !session.Newer(before, after) {
		return nil, 0, false
	}
	p := b.row(PairOf(s.ID, after.Peer))
	if p.ends[1].ID == s.ID {
		side = 1
	}
	return p, side, true
}

// row is the row of a pair, made if there is none.
func (b *board) row(id pairID) *peering {
	p, ok := b.Rows[id]
	if !ok {
		p = &peering{ID: id, known: b.now, Verdict: view.Verdict{State: view.States}}
		p.ends = b.ends(p)
		b.Rows[id], b.named = p, nil
	}
	return p
}

// ends are both sides as they are known now: A is the cluster that was A when the pair
// was worked on, or else the one whose context comes first. What belongs to a side moves
// with it.
func (b *board) ends(p *peering) [2]end {
	ends := [2]end{b.end(p.ID.low, p.ID.high), b.end(p.ID.high, p.ID.low)}
	low, lowChosen := b.owner[p.ID.low]
	high, highChosen := b.owner[p.ID.high]
	turned := highChosen && (!lowChosen || high < low)
	if lowChosen && highChosen {
		l, h := b.sources[low].ref, b.sources[high].ref
		turned = turned && !b.worked[[2]flows.ContextRef{l, h}] || b.worked[[2]flows.ContextRef{h, l}]
	}
	if turned {
		ends[0], ends[1] = ends[1], ends[0]
	}
	if p.ends[0].ID == ends[1].ID {
		p.ends[0], p.ends[1] = p.ends[1], p.ends[0]
		p.History[0], p.History[1] = p.History[1], p.History[0]
	}
	for i := range ends {
		ends[i].rate = p.ends[i].rate
	}
	return ends
}

func (b *board) end(id, peer wire.ClusterID) end {
	e := end{End: view.End{ID: id}}
	if i, ok := b.owner[id]; ok {
		s := b.sources[i]
		e.Chosen, e.Problem, e.Silent, e.Reading = true, s.problem, s.silent, s.readings[peer]
	}
	return e
}

// move makes one row again, and puts it where it belongs.
func (b *board) move(id pairID) {
	if p, ok := b.Rows[id]; ok && p.show && p.State != view.States {
		if i, ok := b.find(p); ok {
			b.List = slices.Delete(b.List, i, i+1)
		}
	}
	b.refresh(id)
	if p, ok := b.Rows[id]; ok && p.show {
		i, _ := b.find(p)
		b.List = slices.Insert(b.List, i, p)
	}
}

// refresh makes a row again from what its ends say, wherever it is in the list.
func (b *board) refresh(id pairID) {
	p := b.row(id)
	first := p.State == view.States
	if !first {
		b.counts[p.State]--
	}
	p.ends = b.ends(p)
	if p.ends[0].Reading.Peer == "" && p.ends[1].Reading.Peer == "" {
		delete(b.Rows, id)
		delete(b.tests, id)
		b.named, p.show = nil, false
		if !first {
			b.Log.add(event{at: b.now, id: id, kind: eventGone, was: p.State})
		}
		return
	}
	was := p.State
	p.tested = b.tests[id]
	p.Verdict = p.together(b.now)
	p.expires = view.Expires(p.both(), b.now)
	b.expiresAt(p.expires)
	b.counts[p.State]++
	if !first && was != p.State {
		p.seen = b.now
		b.Log.add(event{at: b.now, id: p.ID, kind: eventState, was: was, is: p.State, text: p.Why})
	}
	b.countFlap(p, was)
	p.name = string(p.ends[0].ID) + "/" + string(p.ends[1].ID)
	p.key = b.Order.key(p, b.now)
	p.show = b.filter.matches(p)
}

// flapsKept bounds what a row remembers of a connection that never rests.
const flapsKept = 100

// flapWindow is how long a flap counts.
const flapWindow = 24 * time.Hour

// countFlap notes when a connection that worked is seen not to. What can't be
// seen, as while an API server does not answer, is no flap.
func (b *board) countFlap(p *peering, was view.PairState) {
	switch {
	case p.State.Works():
		if !p.worked && was.Broken() && len(p.flaps) == 0 {
			p.came = b.now
		}
		p.worked = true
	case p.State.Broken() && p.worked:
		p.worked = false
		p.flaps = append(p.flaps, b.now)
		if over := len(p.flaps) - flapsKept; over > 0 {
			p.flaps = slices.Delete(p.flaps, 0, over)
		}
	}
}

// flapCount is how often the connection was seen to break in the last day.
func (p *peering) flapCount(now time.Time) int {
	old, _ := slices.BinarySearchFunc(p.flaps, now.Add(-flapWindow), time.Time.Compare)
	return len(p.flaps) - old
}
