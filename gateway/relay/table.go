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
	// answerWithin is the longest time between an initiation and its answer. WireGuard begins another
	// handshake after 5 s (REKEY_TIMEOUT).
	answerWithin = 5 * time.Second
	// sessionLife is the longest time of a session after its handshake. WireGuard does not use keys for more
	// than 180 s (REJECT_AFTER_TIME).
	sessionLife = 190 * time.Second
	// silentFor is the time without a packet from one of the two gateways after which a session
	// ends. Gateways ping every 2 s. WireGuard without pings sends a keepalive every 25 s.
	silentFor = 30 * time.Second
	// maxSessions is the largest number of sessions. maxPerPair is the largest number of sessions
	// between two addresses: WireGuard keeps the previous, the current and the next keys.
	maxSessions = 128
	maxPerPair  = 3
	// maxAttempts is the number of initiations that are remembered for each port: as many as
	// unknownPerSecond allows in 2 s, which is longer than a round trip over a satellite. In a
	// burst, and with initiations of known senders, the memory covers less than 2 s.
	maxAttempts = 2 * unknownPerSecond
	// unknownPerSecond and knownPerSecond limit the initiations that are passed on from each port.
	// Unknown senders are addresses without a session. Anybody can send initiations from made-up
	// addresses, so the limit for unknown senders does not apply to known senders: a flood can't
	// prevent the next handshake of a gateway that has a session.
	unknownPerSecond, knownPerSecond = 2000, 200
	// maxWaiting is the largest number of waiting addresses for each port. waitFor is how long an
	// address waits after its last initiation. Gateways send at least one every 15 s.
	maxWaiting = 64
	waitFor    = 20 * time.Second
	// firstPerSecond and firstBurst limit the addresses that begin to wait after their first initiation. An
	// address that sends a second one waits without this limit. A gateway sends a second initiation, but a
	// sender with made-up addresses rarely uses one twice. So a flood keeps no gateway out.
	firstPerSecond, firstBurst = 2, 20
	// For each initiation, a waiting address gets up to perWaiting initiations from the other port, and keeps
	// a right to allWaiting at most. So nobody can use a relay to flood other machines.
	perWaiting, allWaiting = 2, 8
	// The first logBurst entries about gateways are logged at once. After them, one entry is logged
	// every logEvery.
	logBurst, logEvery = 20, 10 * time.Second
)

// table holds the sessions of a relay, and decides to which addresses a packet is passed on. It is
// not safe for concurrent use.
//
// A WireGuard gateway answers only a sender that has the right key. So if the gateway at one port
// answers an address at the other port, the two are peers, and the relay passes their packets to
// each other. A message names its session by an index, and each gateway has chosen its index at
// random. A sender with a made-up address does not know the index. So a port is not reserved for an
// address: several senders can have sessions at it, but none can take the place of a gateway.
type table struct {
	ports    [2]uint16
	allow    []netip.Prefix      // senders that may begin handshakes; all if empty
	own      func() []netip.Addr // returns the addresses of this machine
	log      *slog.Logger
	news     budget // limits entries in the log
	unsaid   int    // entries that were not logged since the last logged entry
	ends     [2]portState
	sessions []*session // from the oldest to the newest
	flows    map[flow]*session
}

type portState struct {
	attempts []attempt // a ring: when it is full, a new attempt replaces the oldest one
	oldest   int       // the position of the oldest attempt, when the ring is full
	byIndex  map[uint32]int
	latest   map[netip.AddrPort]time.Time // for each address in attempts: the time of its last initiation
	waiting  []waiting                    // in the order of their last initiations, the newest last
	// Limits for initiations: of senders without a session, of senders with a session, and of
	// addresses that begin to wait.
	unknown, known, first budget
}

// attempt is an initiation that the limits allowed. The relay remembers the index of every attempt, to notice
// packets that go in a circle.
type attempt struct {
	from  netip.AddrPort
	index uint32
	at    time.Time
	to    []netip.AddrPort // addresses that got the initiation, and have not answered it
}

// waiting is an address that has sent an initiation, and got no answer.
type waiting struct {
	from  netip.AddrPort
	at    time.Time // the time of its last initiation
	again bool      // the address has sent several initiations
	left  int       // how many initiations may still be sent to the address
}

// flow identifies one direction of a session: the port at which its packets come in, the address
// from which they come, and the index in them.
type flow struct {
	port  int
	from  netip.AddrPort
	index uint32
}

// session is one completed handshake, with the packets that use its keys.
type session struct {
	ends  [2]netip.AddrPort // for each port: the address that sends to the port
	index [2]uint32         // for each port: the index that its gateway has chosen
	made  time.Time
	heard [2]time.Time // for each port: the time of the last packet
	// passed holds for each port the counters of the packets that came in. WireGuard never uses a
	// counter twice. So a packet with a counter that was seen before is dropped, for example a
	// packet that went in a circle.
	passed [2]replay.Filter
	cookie [2]bool // for each port: a cookie was passed on
}

func newTable(ports [2]uint16, allow []netip.Prefix, own func() []netip.Addr, log *slog.Logger) *table {
	t := &table{
		ports: ports, allow: allow, own: own, log: log, flows: map[flow]*session{},
		news: budget{burst: logBurst, perSecond: 1 / logEvery.Seconds()},
	}
	for i := range t.ends {
		t.ends[i] = portState{
			byIndex: map[uint32]int{}, latest: map[netip.AddrPort]time.Time{},
			unknown: budget{burst: unknownPerSecond, perSecond: unknownPerSecond},
			known:   budget{burst: knownPerSecond, perSecond: knownPerSecond},
			first:   budget{burst: firstBurst, perSecond: firstPerSecond},
		}
	}
	return t
}

// pass returns the addresses to which a packet is passed on, after it came from an address to a
// port (0 or 1). The packet leaves through the other port. An initiation goes to a few addresses
// that may be the sender's peer, any other packet to one address at most.
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
		// A cookie answers an initiation or a response.
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

// begin returns the addresses to which an initiation is passed on. It returns none if the same
// initiation came before: WireGuard makes a new one for each attempt.
func (t *table) begin(now time.Time, port int, from netip.AddrPort, index uint32) []netip.AddrPort {
	end, other := &t.ends[port], &t.ends[1-port]
	for i := range t.ends {
		if _, again := t.ends[i].byIndex[index]; again {
			return nil // the packet went in a circle
		}
	}
	budget := &end.unknown
	if t.knows(now, port, from) {
		budget = &end.known
	} else if !allowed(t.allow, from.Addr()) || !from.Addr().IsValid() || from.Addr().IsMulticast() || from.Addr().IsUnspecified() || from.Port() == 0 || t.isOwn(from) {
		return nil
	}
	if !budget.take(now) {
		return nil
	}
	last, again := end.latest[from]
	again = again && now.Sub(last) < waitFor
	waits := end.wait(now, from, again)
	var to []netip.AddrPort
	if gateway := t.lastHeard(now, 1-port); gateway.IsValid() {
		to = append(to, gateway)
	}
	if waits {
		to = other.choose(now, to)
	}
	end.note(attempt{from: from, index: index, at: now, to: slices.Clone(to)})
	return to
}

func (t *table) isOwn(a netip.AddrPort) bool {
	return slices.Contains(t.ports[:], a.Port()) && (a.Addr().IsLoopback() || slices.Contains(t.own(), a.Addr()))
}

// note remembers an initiation. If the ring is full, the initiation replaces the oldest one.
func (e *portState) note(d attempt) {
	slot := len(e.attempts)
	if slot < maxAttempts {
		e.attempts = append(e.attempts, d)
	} else {
		slot = e.oldest
		e.oldest = (e.oldest + 1) % maxAttempts
		old := e.attempts[slot]
		delete(e.byIndex, old.index)
		if e.latest[old.from].Equal(old.at) {
			delete(e.latest, old.from)
		}
		e.attempts[slot] = d
	}
	e.byIndex[d.index], e.latest[d.from] = slot, d.at
}

// wait adds an address to the waiting addresses, and reports whether the limits allowed that. again
// means that the address has sent an initiation before.
func (e *portState) wait(now time.Time, from netip.AddrPort, again bool) bool {
	w := waiting{from: from}
	if i := slices.IndexFunc(e.waiting, func(w waiting) bool { return w.from == from }); i >= 0 {
		w = e.waiting[i]
		e.waiting = slices.Delete(e.waiting, i, i+1)
	} else if !again && !e.first.take(now) {
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

// choose returns to with up to two more addresses that may be the peer of an initiation's sender.
// It prefers waiting addresses that have sent several initiations: it takes the last of them, and a
// random other one. If there are fewer than two, it takes the last of the other waiting addresses.
// The last address finds a gateway whose NAT gives it a new source port each time. The random
// address gives each gateway a chance.
func (e *portState) choose(now time.Time, to []netip.AddrPort) []netip.AddrPort {
	const limit = 2
	var found []int // positions in e.waiting, the preferred ones first
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
	if often > limit {
		i := 1 + rand.IntN(often-1)
		found[1], found[i] = found[i], found[1]
	}
	for _, i := range found[:min(limit, len(found))] {
		e.waiting[i].left--
		to = append(to, e.waiting[i].from)
	}
	return to
}

// answered returns the initiation that a packet from sender answers; nil if there is none. The
// initiation must have been passed on to sender, and sender must not have answered it before.
func (t *table) answered(now time.Time, port int, sender netip.AddrPort, index uint32) *attempt {
	other := &t.ends[1-port]
	slot, ok := other.byIndex[index]
	if !ok {
		return nil
	}
	d := &other.attempts[slot]
	i := slices.Index(d.to, sender)
	if i < 0 || now.Sub(d.at) > answerWithin {
		return nil
	}
	d.to = slices.Delete(d.to, i, i+1)
	return d
}

// open opens a session for a response, and reports whether it could. d is the initiation that the
// response answers.
func (t *table) open(now time.Time, port int, from netip.AddrPort, m message, d *attempt) bool {
	s := &session{made: now, heard: [2]time.Time{now, now}}
	s.ends[port], s.index[port] = from, m.sender
	s.ends[1-port], s.index[1-port] = d.from, d.index
	for _, f := range s.flows() {
		if t.session(now, f) != nil {
			return false // another session has the same index, by chance or because of an attack
		}
	}
	t.drop(func(o *session) bool { return !o.alive(now) })
	came := [2]bool{!t.knows(now, 0, s.ends[0]), !t.knows(now, 1, s.ends[1])}
	samePair := func(o *session) bool { return o.ends == s.ends }
	if t.count(samePair) >= maxPerPair {
		t.dropFirst(samePair)
	}
	// If all sessions are taken, an address that has a session gets a new one in its place. So other
	// senders can't prevent the next handshake of a gateway that has a session.
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

// flows returns the two directions of a session. A packet contains the index that its receiver has
// chosen.
func (s *session) flows() [2]flow {
	return [2]flow{{0, s.ends[0], s.index[1]}, {1, s.ends[1], s.index[0]}}
}

func (s *session) alive(now time.Time) bool {
	return now.Sub(s.made) < sessionLife && now.Sub(s.heard[0]) < silentFor && now.Sub(s.heard[1]) < silentFor
}

// session returns the session of a flow; nil if there is none, or if it has ended.
func (t *table) session(now time.Time, f flow) *session {
	if s := t.flows[f]; s != nil && s.alive(now) {
		return s
	}
	return nil
}

func (t *table) count(match func(*session) bool) (n int) {
	for _, s := range t.sessions {
		if match(s) {
			n++
		}
	}
	return n
}

// drop ends the sessions for which match is true.
func (t *table) drop(match func(*session) bool) {
	t.sessions = slices.DeleteFunc(t.sessions, func(s *session) bool {
		gone := match(s)
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

// dropFirst ends the oldest session for which match is true, and reports whether there was one.
func (t *table) dropFirst(match func(*session) bool) bool {
	i := slices.IndexFunc(t.sessions, match)
	if i >= 0 {
		first := t.sessions[i]
		t.drop(func(s *session) bool { return s == first })
	}
	return i >= 0
}

func (t *table) knows(now time.Time, port int, a netip.AddrPort) bool {
	return slices.ContainsFunc(t.sessions, func(s *session) bool { return s.ends[port] == a && s.alive(now) })
}

// lastHeard returns the address from which the last packet of a session came to a port; an invalid
// address if no session is alive.
func (t *table) lastHeard(now time.Time, port int) (at netip.AddrPort) {
	var heard time.Time
	for _, s := range t.sessions {
		if s.alive(now) && !s.heard[port].Before(heard) {
			at, heard = s.ends[port], s.heard[port]
		}
	}
	return at
}

// tell writes an entry to the log, if the limit allows it. Anybody who reaches the relay can cause
// such entries, so they need a limit.
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

// budget limits how often something may happen: burst times at once, and perSecond times per second
// over a longer time.
type budget struct {
	burst, perSecond float64
	used             float64
	at               time.Time
}

// take reports whether the event may happen now, and counts it if so.
func (b *budget) take(now time.Time) bool {
	b.used = max(0, b.used-now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	if b.used+1 > b.burst {
		return false
	}
	b.used++
	return true
}

// allowed reports whether allow contains an address, or is empty.
func allowed(allow []netip.Prefix, a netip.Addr) bool {
	for _, p := range allow {
		if p.Contains(a) {
			return true
		}
	}
	return len(allow) == 0
}
