package relay

import (
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/replay"
)

const (
	// answerWithin is how long an answer to an initiation is awaited: WireGuard begins
	// another handshake after 5 s (REKEY_TIMEOUT).
	answerWithin = 5 * time.Second
	// sessionLife is how long WireGuard uses keys (REJECT_AFTER_TIME), and a little more.
	sessionLife = 190 * time.Second
	// silentFor ends a session of which one end sends nothing. Gateways ping every 2 s, and
	// the keepalive of WireGuard alone is 25 s.
	silentFor = 30 * time.Second
	// maxSessions bounds them. Two gateways need three: WireGuard keeps the keys before, the
	// present and the next ones.
	maxSessions = 128
	perPair     = 3
	// maxDials is how many initiations are remembered, at most: as many as may be passed on
	// within 2 s, which is above the way to a gateway and back by a satellite.
	maxDials = 2 * strangersPerSecond
	// strangersPerSecond bounds the initiations that are passed on of each port, of addresses
	// without a session: anybody can make some up. knownPerSecond is the same of those that
	// have one: a stranger's flood keeps no gateway from its next handshake.
	strangersPerSecond, knownPerSecond = 2000, 200
	// maxWaiting is how many addresses are kept that dialled and were not answered,
	// waitFor for how long: gateways dial every 15 s at least.
	maxWaiting = 64
	waitFor    = 20 * time.Second
	// newcomers bounds those that have dialled once, per second: made-up addresses do not
	// come twice, and a gateway does, so a flood of them keeps no gateway out.
	newcomersPerSecond, newcomersAtOnce = 2, 20
	// perWaiting is how many initiations a waiting address is sent for each that came from it,
	// and allWaiting how many at most: a relay is of no use to flood others.
	perWaiting, allWaiting = 2, 8
	// firstNews gateways that come are logged, and then one every newsEvery.
	firstNews, newsEvery = 20, 10 * time.Second
)

// table knows who made a handshake with whom through the relay. It is not safe for
// concurrent use.
//
// WireGuard answers nobody who does not have the key. So whoever is answered by the gateway
// at the other port is that gateway's peer, and what the two send goes to them. A message
// says by an index which session it is of, and both ends have chosen theirs at random: who
// makes up a sender's address does not know it. So nobody has a port, and nobody can take
// one: strangers with sessions of their own are beside the gateways, not in their place.
type table struct {
	ports    [2]uint16
	allow    []netip.Prefix
	own      func() []netip.Addr // of this machine
	log      *slog.Logger
	news     budget
	unsaid   int
	ends     [2]dialledEnd
	sessions []*session // the newest last
	flows    map[flow]*session
}

// dialledEnd is one of the two ports.
type dialledEnd struct {
	dials   []dial // a ring
	oldest  int    // of dials, once that is full
	byIndex map[uint32]int
	dialled map[netip.AddrPort]time.Time // when the last of dials came from there
	waiting []waiting                    // who dialled last is the last
	// What is left of what may be passed on.
	strangers, known, newcomers budget
}

// dial is an initiation that was passed on.
type dial struct {
	from  netip.AddrPort
	index uint32
	at    time.Time
	to    []netip.AddrPort // who may answer still
}

// waiting is an address that dialled, and was not answered.
type waiting struct {
	from  netip.AddrPort
	at    time.Time // the last time
	again bool      // not only once
	left  int       // initiations that it may be sent
}

// flow is one direction of a session: what comes from an address, at a port, for an index.
type flow struct {
	port  int
	from  netip.AddrPort
	index uint32
}

// session is one handshake, and what was sent with its keys.
type session struct {
	ends  [2]netip.AddrPort // who sends to each port
	index [2]uint32         // by which it wants to be addressed
	made  time.Time
	heard [2]time.Time
	// passed are counters of what came to each port. WireGuard sends none twice, and drops
	// what comes twice. A packet that comes back to the relay, by whatever way, is such a one.
	passed [2]replay.Filter
	cookie [2]bool // one was passed on
}

func newTable(ports [2]uint16, allow []netip.Prefix, own func() []netip.Addr, log *slog.Logger) *table {
	t := &table{
		ports: ports, allow: allow, own: own, log: log, flows: map[flow]*session{},
		news: budget{most: firstNews, perSecond: 1 / newsEvery.Seconds()},
	}
	for i := range t.ends {
		t.ends[i] = dialledEnd{
			byIndex: map[uint32]int{}, dialled: map[netip.AddrPort]time.Time{},
			strangers: budget{most: strangersPerSecond, perSecond: strangersPerSecond},
			known:     budget{most: knownPerSecond, perSecond: knownPerSecond},
			newcomers: budget{most: newcomersAtOnce, perSecond: newcomersPerSecond},
		}
	}
	return t
}

// pass returns where a packet goes that came from an address to a port (0 or 1): out of
// the other one, to nobody, to one gateway, or, if it begins a handshake, to some that may be
// its peer.
func (t *table) pass(now time.Time, port int, from netip.AddrPort, packet []byte) []netip.AddrPort {
	m := read(packet)
	switch m.kind {
	case initiation:
		return t.begin(now, port, from, m.sender)
	case response:
		if d := t.answered(now, port, from, m.receiver); d != nil && t.open(now, port, from, m, d) {
			return []netip.AddrPort{d.from}
		}
	case cookie:
		// Of who answers an initiation, or a response.
		if d := t.answered(now, port, from, m.receiver); d != nil {
			return []netip.AddrPort{d.from}
		}
		if s := t.session(now, flow{port, from, m.receiver}); s != nil && !s.cookie[port] {
			s.cookie[port] = true
			return []netip.AddrPort{s.ends[1-port]}
		}
	case transport:
		if s := t.session(now, flow{port, from, m.receiver}); s != nil && s.passed[port].ValidateCounter(m.counter, 1<<64-1) {
			s.heard[port] = now
			return []netip.AddrPort{s.ends[1-port]}
		}
	case none:
	}
	return nil
}

// begin passes an initiation on, once: WireGuard makes another one each time.
func (t *table) begin(now time.Time, port int, from netip.AddrPort, index uint32) []netip.AddrPort {
	end, other := &t.ends[port], &t.ends[1-port]
	for i := range t.ends {
		if _, again := t.ends[i].byIndex[index]; again {
			return nil // it went in a circle
		}
	}
	budget := &end.strangers
	if t.knows(now, port, from) {
		budget = &end.known
	} else if !allowed(t.allow, from.Addr()) || !from.Addr().IsValid() || from.Addr().IsMulticast() || from.Addr().IsUnspecified() || from.Port() == 0 || t.isOwn(from) {
		return nil
	}
	if !budget.take(now) {
		return nil
	}
	last, again := end.dialled[from]
	again = again && now.Sub(last) < waitFor
	waits := end.wait(now, from, again)
	var to []netip.AddrPort
	if gateway := t.lastHeard(now, 1-port); gateway.IsValid() {
		to = append(to, gateway)
	}
	if waits {
		to = other.choose(now, to)
	}
	end.note(dial{from: from, index: index, at: now, to: slices.Clone(to)})
	return to
}

// isOwn reports whether an address is this relay's own.
func (t *table) isOwn(a netip.AddrPort) bool {
	return slices.Contains(t.ports[:], a.Port()) && (a.Addr().IsLoopback() || slices.Contains(t.own(), a.Addr()))
}

// note remembers an initiation in the place of the oldest one.
func (e *dialledEnd) note(d dial) {
	slot := len(e.dials)
	if slot < maxDials {
		e.dials = append(e.dials, d)
	} else {
		slot = e.oldest
		e.oldest = (e.oldest + 1) % maxDials
		old := e.dials[slot]
		delete(e.byIndex, old.index)
		if e.dialled[old.from].Equal(old.at) {
			delete(e.dialled, old.from)
		}
		e.dials[slot] = d
	}
	e.byIndex[d.index], e.dialled[d.from] = slot, d.at
}

// wait has an address wait for an answer, and reports whether it does.
func (e *dialledEnd) wait(now time.Time, from netip.AddrPort, again bool) bool {
	w := waiting{from: from}
	if i := slices.IndexFunc(e.waiting, func(w waiting) bool { return w.from == from }); i >= 0 {
		w = e.waiting[i]
		e.waiting = slices.Delete(e.waiting, i, i+1)
	} else if !again && !e.newcomers.take(now) {
		return false
	}
	w.at, w.again, w.left = now, w.again || again, min(w.left+perWaiting, allWaiting)
	if len(e.waiting) == maxWaiting {
		i := slices.IndexFunc(e.waiting, func(w waiting) bool { return !w.again })
		i = max(i, 0)
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	e.waiting = append(e.waiting, w)
	return true
}

// choose adds to whom an initiation may be for, of those that wait: of who has dialled
// several times, the last one, and any other; of the others, the last ones. A gateway that
// goes from port to port is found by the last, and none can be kept from being chosen at all.
func (e *dialledEnd) choose(now time.Time, to []netip.AddrPort) []netip.AddrPort {
	const most = 2
	var found []int // in the order of preference
	for i, w := range slices.Backward(e.waiting) {
		if now.Sub(w.at) < waitFor && w.left > 0 && !slices.Contains(to, w.from) {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b int) int {
		switch x, y := e.waiting[a].again, e.waiting[b].again; {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	often := 0
	for often < len(found) && e.waiting[found[often]].again {
		often++
	}
	if often > most {
		i := 1 + rand.IntN(often-1)
		found[1], found[i] = found[i], found[1]
	}
	for _, i := range found[:min(most, len(found))] {
		e.waiting[i].left--
		to = append(to, e.waiting[i].from)
	}
	return to
}

// answered returns the initiation that somebody at a port answers, if it was sent there, and
// has not been answered from there.
func (t *table) answered(now time.Time, port int, by netip.AddrPort, index uint32) *dial {
	other := &t.ends[1-port]
	slot, ok := other.byIndex[index]
	if !ok {
		return nil
	}
	d := &other.dials[slot]
	i := slices.Index(d.to, by)
	if i < 0 || now.Sub(d.at) > answerWithin {
		return nil
	}
	d.to = slices.Delete(d.to, i, i+1)
	return d
}

// open opens the session that a response makes, and reports whether there was room for it.
func (t *table) open(now time.Time, port int, from netip.AddrPort, m message, d *dial) bool {
	s := &session{made: now, heard: [2]time.Time{now, now}}
	s.ends[port], s.index[port] = from, m.sender
	s.ends[1-port], s.index[1-port] = d.from, d.index
	for _, f := range s.flows() {
		if t.session(now, f) != nil {
			return false // an index is another one's: by chance, or somebody tries
		}
	}
	t.drop(func(o *session) bool { return !o.alive(now) })
	came := [2]bool{!t.knows(now, 0, s.ends[0]), !t.knows(now, 1, s.ends[1])}
	of := func(o *session) bool { return o.ends == s.ends }
	if t.count(of) >= perPair {
		t.dropFirst(of)
	}
	// Whoever has a session can have another one: no stranger keeps it from that.
	if len(t.sessions) >= maxSessions && !t.dropFirst(func(o *session) bool { return o.ends[0] == s.ends[0] || o.ends[1] == s.ends[1] }) {
		return false
	}
	t.sessions = append(t.sessions, s)
	for _, f := range s.flows() {
		t.flows[f] = s
	}
	for i := range t.ends {
		t.ends[i].waiting = slices.DeleteFunc(t.ends[i].waiting, func(w waiting) bool { return w.from == s.ends[i] })
		if came[i] {
			t.tell(now, "a gateway has come", "port", t.ports[i], "from", s.ends[i], "peer", s.ends[1-i])
		}
	}
	return true
}

// flows are both directions of a session: who sends to a port names the index of the other
// end.
func (s *session) flows() [2]flow {
	return [2]flow{{0, s.ends[0], s.index[1]}, {1, s.ends[1], s.index[0]}}
}

func (s *session) alive(now time.Time) bool {
	return now.Sub(s.made) < sessionLife && now.Sub(s.heard[0]) < silentFor && now.Sub(s.heard[1]) < silentFor
}

// session returns that of a flow, or nil.
func (t *table) session(now time.Time, f flow) *session {
	if s := t.flows[f]; s != nil && s.alive(now) {
		return s
	}
	return nil
}

func (t *table) count(of func(*session) bool) (n int) {
	for _, s := range t.sessions {
		if of(s) {
			n++
		}
	}
	return n
}

// drop ends the sessions that of says.
func (t *table) drop(of func(*session) bool) {
	t.sessions = slices.DeleteFunc(t.sessions, func(s *session) bool {
		gone := of(s)
		if gone {
			for _, f := range s.flows() {
				if t.flows[f] == s {
					delete(t.flows, f)
				}
			}
		}
		return gone
	})
}

// dropFirst ends the oldest of the sessions that of says, and reports whether there is one.
func (t *table) dropFirst(of func(*session) bool) bool {
	i := slices.IndexFunc(t.sessions, of)
	if i >= 0 {
		first := t.sessions[i]
		t.drop(func(s *session) bool { return s == first })
	}
	return i >= 0
}

// knows reports whether an address has a session at a port.
func (t *table) knows(now time.Time, port int, a netip.AddrPort) bool {
	return slices.ContainsFunc(t.sessions, func(s *session) bool { return s.ends[port] == a && s.alive(now) })
}

// lastHeard is the end of a session at a port that was heard last; invalid without one.
func (t *table) lastHeard(now time.Time, port int) (at netip.AddrPort) {
	var heard time.Time
	for _, s := range t.sessions {
		if s.alive(now) && !s.heard[port].Before(heard) {
			at, heard = s.ends[port], s.heard[port]
		}
	}
	return at
}

// tell logs, and not without end: whoever can reach the relay brings it about.
func (t *table) tell(now time.Time, text string, args ...any) {
	if !t.news.take(now) {
		t.unsaid++
		return
	}
	if t.unsaid > 0 {
		args = append(args, "more since the last", t.unsaid)
		t.unsaid = 0
	}
	t.log.Info(text, args...)
}

// budget is how often something may happen: most times at once, and perSecond in the long
// run.
type budget struct {
	most, perSecond float64
	used            float64
	at              time.Time
}

func (b *budget) take(now time.Time) bool {
	b.used = max(0, b.used-now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	if b.used+1 > b.most {
		return false
	}
	b.used++
	return true
}

func allowed(allow []netip.Prefix, a netip.Addr) bool {
	for _, p := range allow {
		if p.Contains(a) {
			return true
		}
	}
	return len(allow) == 0
}
