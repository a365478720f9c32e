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
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// News has the changes that one observation of a context brings.
type News struct {
	Ref     flows.ContextRef
	Problem *flows.Problem // why the cluster does not answer now; nil if it answers
	// The other fields are not used if Problem is set.
	ID      wire.ClusterID
	UID     string
	Changed []flows.Reading
	Gone    []wire.ClusterID // peers whose connections are gone
	// Complete is set if Changed has all connections of the cluster, and not only the changed ones.
	// Then Gone is not used.
	Complete bool
	Events   []flows.EventFacts // recent warnings
}

// source is one context of the board, with its latest news.
type source struct {
	ref      flows.ContextRef
	ID       wire.ClusterID // "" until the cluster has answered
	uid      string
	asked    bool // some news of the context have come, perhaps only a problem
	problem  string
	word     string    // the problem in short
	silent   time.Time // since when the cluster does not answer; zero: it answers
	readings map[wire.ClusterID]flows.Reading
	events   []flows.EventFacts // the warnings that are already in the log
}

// board has the connections of all chosen contexts: one row for each pair of clusters,
// sorted and filtered. The only work for a changed reading that grows with the number of
// rows is a binary search in List and a shift of its pointers.
//
// All other parts of the model are values. The board is changed in place, but only by
// Update.
type board struct {
	began     time.Time
	beginning string // what began then
	now       time.Time
	sources   []source
	// owner is the index of the source whose readings count for a cluster. Several contexts
	// may lead to the same cluster.
	owner map[wire.ClusterID]int
	// worked has the pairs of contexts that the admin has chosen as A and B, on the command line or in
	// the wizard. A comes first.
	worked map[[2]flows.ContextRef]bool
	// tests has the last test from pod to pod for each pair, if this program made one. A test may
	// end before there is a row of the pair.
	tests map[pairID]*verify.Result
	Rows  map[pairID]*peering
	Log   eventLog

	Order  order
	filter filter
	List   []*peering // the rows that the filter shows, in order
	named  []*peering // all rows, sorted by name; nil: sort has to make the list again
	counts [view.States]int

	expires time.Time // when the next verdict of a row expires; zero: no verdict expires
	// hides is set if the lines above the rows only count the contexts that don't answer. Otherwise
	// these lines also name them.
	hides bool
}

// What can begin before the first news.
const (
	watching   = "watching"
	simulation = "the simulation" // in a demonstration, before the program
)

func newBoard(contexts []flows.ContextRef, now time.Time) *board {
	b := &board{began: now, beginning: watching, now: now, owner: map[wire.ClusterID]int{}, worked: map[[2]flows.ContextRef]bool{}, tests: map[pairID]*verify.Result{}, Rows: map[pairID]*peering{}, Order: order{By: ByStatus}}
	b.choose(contexts)
	return b
}

// choose sets the contexts of the board. A context that was already there keeps its news. The board
// forgets the news of contexts that are not chosen any more.
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

// settle chooses the owner of each cluster again, and makes all rows again.
func (b *board) settle() {
	clear(b.owner)
	for i, s := range b.sources {
		if s.ID == "" {
			continue
		}
		at, taken := b.owner[s.ID]
		// The first context of a cluster is its owner, unless it is silent and a later context of the same
		// cluster answers.
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

// speaker returns the context of a cluster's owner. If the cluster has no owner, it returns the first
// context.
func (b *board) speaker(id wire.ClusterID) flows.ContextRef { return b.sources[b.owner[id]].ref }

// prefer makes the cluster of the first context side A of the row.
func (b *board) prefer(pair [2]flows.ContextRef) {
	turned := [2]flows.ContextRef{pair[flows.B], pair[flows.A]}
	if b.worked[pair] || pair[flows.A] == pair[flows.B] {
		return
	}
	delete(b.worked, turned)
	b.worked[pair] = true
	b.settle()
}

// absence returns the reason that a cluster itself has reported nothing.
func (b *board) absence() string {
	if slices.ContainsFunc(b.sources, func(s source) bool { return s.ID == "" }) {
		return "not among the contexts that have answered"
	}
	return "not among the contexts"
}

// strangers returns a sentence for each context whose cluster is not shown because an earlier context leads
// to another cluster with the same ID.
func (b *board) strangers() []string {
	var all []string
	for _, s := range b.sources {
		if at, ok := b.owner[s.ID]; ok && b.sources[at].uid != s.uid {
			all = append(all, fmt.Sprintf("%s and %s are different clusters with the same ID %q: only the first is shown", b.sources[at].ref, s.ref, s.ID))
		}
	}
	return all
}

// take adds news of contexts to the board at the time now. It then looks for readings that have become too
// old. This comes last, because after a pause all news come at once.
func (b *board) take(now time.Time, all []News) {
	b.advance(now)
	b.add(now, all)
	b.expire()
}

func (b *board) add(now time.Time, all []News) {
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
	// If few rows have changed, it is cheaper to move each of them than to sort all rows.
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

// noteWarnings puts a cluster's new warnings into the log. If the object of a warning is in the tenant namespace
// of a connection, the entry names the connection.
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

// missing returns the peers of the source that the complete list all does not contain.
func (s source) missing(all []flows.Reading) []wire.ClusterID {
	gone := maps.Clone(s.readings)
	for _, r := range all {
		delete(gone, r.Peer)
	}
	return slices.Sorted(maps.Keys(gone))
}

// advance sets the board's time. If the clock was set back, it makes all rows again.
func (b *board) advance(now time.Time) {
	if b.now.Sub(now) > session.ClockStep {
		b.now, b.expires = now, time.Time{}
		b.settle()
		return
	}
	if now.After(b.now) {
		b.now = now
	}
}

// expire refreshes the rows whose readings have become too old.
func (b *board) expire() {
	if b.expires.IsZero() || !b.now.After(b.expires) {
		return
	}
	b.expires = time.Time{}
	changed := false
	for id, p := range b.Rows {
		switch {
		case p.expires.IsZero():
		case b.now.After(p.expires):
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

// wakes returns the time at which the board has to be drawn again without news: the next minute or, while an age
// counts in seconds, the next second; earlier if a verdict expires.
func (b *board) wakes() time.Time {
	step := time.Minute
	if b.young() {
		step = time.Second
	}
	next := b.now.Truncate(step).Add(step)
	if stale := b.expires.Add(time.Millisecond); !b.expires.IsZero() && stale.Before(next) {
		next = stale
	}
	return next
}

// young reports whether an age may be less than a minute: of a report, a state, an event or a silence.
func (b *board) young() bool {
	young := func(at time.Time) bool { return !at.After(b.now) && b.now.Sub(at) < time.Minute }
	if e, ok := b.Log.latest(); ok && young(e.at) {
		return true
	}
	if slices.ContainsFunc(b.sources, func(s source) bool { return young(s.silent) }) {
		return true
	}
	for _, p := range b.Rows {
		if young(p.ends[0].Reading.At) || young(p.ends[1].Reading.At) || young(p.began()) {
			return true
		}
	}
	return false
}

// measure adds a source's new reading to the history of its row.
func (b *board) measure(i int, before, after flows.Reading) {
	if p, side, ok := b.measured(i, before, after); ok {
		p.ends[side].rate = session.RateOf(before, after)
		p.History[side].Add(b.now, after, p.ends[side].rate)
	}
}

// measured returns the row and the side to which a source's reading belongs. ok is false if the reading is
// not newer than the reading before, or if another source is the owner of the cluster.
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

// row returns the row of a pair. If there is no row, it makes one.
func (b *board) row(id pairID) *peering {
	p, ok := b.Rows[id]
	if !ok {
		p = &peering{ID: id, known: b.now, Verdict: view.Verdict{State: view.States}}
		p.ends = b.ends(p)
		b.Rows[id], b.named = p, nil
	}
	return p
}

// ends returns both sides of a row with the latest readings. If the pair of contexts is in worked,
// that decides which cluster is A. Otherwise A is the cluster whose context comes first. If A and B
// change places, ends also exchanges the histories and the rates in the row.
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

// move makes one row again, and moves it to its new place in List.
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

// refresh makes a row again from the readings of both ends. It does not change the order of List.
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
		b.Log.add(event{at: b.now, id: p.ID, kind: eventState, was: was, is: p.State, text: p.news(was, b.now)})
	}
	b.countFlap(p, was)
	p.name = string(p.ends[0].ID) + "/" + string(p.ends[1].ID)
	p.key = b.Order.key(p, b.now)
	p.show = b.filter.matches(p)
}

// news returns the text of a change to the present state: the reason, or how long the outage was that ends now.
func (p *peering) news(was view.PairState, now time.Time) string {
	n := len(p.flaps)
	switch {
	case p.State.Works() && !p.worked && n > 0:
		return "back after " + draw.Age(now.Sub(p.flaps[n-1]))
	case p.State == view.Connected && was.Works():
		return ""
	}
	return p.Why
}

// flapsKept is the largest number of flaps that a row keeps. A flap is the time at which this
// program saw an outage begin.
const flapsKept = 100

// flapWindow is the time for which an outage counts.
const flapWindow = 24 * time.Hour

// countFlap records an outage if a connection worked before and does not work now. In states that
// neither work nor are broken, for example while an API server does not answer, it records nothing.
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

// flapCount returns the number of outages that were seen in the last day.
func (p *peering) flapCount(now time.Time) int {
	old, _ := slices.BinarySearchFunc(p.flaps, now.Add(-flapWindow), time.Time.Compare)
	return len(p.flaps) - old
}
