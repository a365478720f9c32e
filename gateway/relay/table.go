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
	// answerWithin is how long an initiation may be answered: WireGuard begins another
	// handshake after 5 s (REKEY_TIMEOUT).
	answerWithin = 5 * time.Second
	// sessionLife is how long WireGuard uses keys (REJECT_AFTER_TIME), and a little more.
	sessionLife = 190 * time.Second
	// silentFor ends a session if one end sends nothing for so long. Gateways ping every 2 s,
	// and the keepalive of WireGuard alone is 25 s.
	silentFor = 30 * time.Second
	// maxSessions limits all sessions, perPair those of two gateways: WireGuard keeps the
	// former, the present and the next keys.
	maxSessions = 128
	perPair     = 3
	// maxDials is how many initiations are remembered: as many as may be passed on within 2 s,
	// which is longer than the way to a gateway and back by a satellite.
	maxDials = 2 * strangersPerSecond
	// strangersPerSecond limits, for each port, the initiations that are passed on from
	// addresses without a session: anybody can make some up. knownPerSecond limits those from
	// addresses with a session: so a flood of strangers keeps no gateway from its next
	// handshake.
	strangersPerSecond, knownPerSecond = 2000, 200
	// maxWaiting is how many addresses are kept that dialled without an answer, and waitFor
	// how long: gateways dial every 15 s at least.
	maxWaiting = 64
	waitFor    = 20 * time.Second
	// newcomersPerSecond limits the addresses that have dialled once. Made-up addresses do not
	// dial twice, and a gateway does, so a flood of them keeps no gateway out.
	newcomersPerSecond, newcomersAtOnce = 2, 20
	// perWaiting is how many initiations are sent to a waiting address for each one that came
	// from it, and allWaiting their largest number. So nobody can use a relay to flood others.
	perWaiting, allWaiting = 2, 8
	// The first firstNews gateways that appear are logged, and then one every newsEvery.
	firstNews, newsEvery = 20, 10 * time.Second
)

// table has the handshakes that were made through the relay. It is not safe for concurrent
// use.
//
// A WireGuard gateway answers only senders with the key. So an address that the gateway at the
// other port has answered is that gateway's peer, and the two get each other's packets. A
// message names its session by an index, and both ends have chosen their indices at random. A
// sender with a made-up address does not know them. So a port belongs to no address, and no
// address can take one over: strangers with sessions of their own are beside the gateways, not
// in their place.
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
	dialled map[netip.AddrPort]time.Time // when the last of dials from there came
	waiting []waiting                    // the address that dialled last is the last
	// Limits of what is passed on.
	strangers, known, newcomers budget
}

// dial is an initiation that was passed on.
type dial struct {
	from  netip.AddrPort
	index uint32
	at    time.Time
	to    []netip.AddrPort // addresses that may still answer
}

// waiting is an address that has dialled, and has no answer.
type waiting struct {
	from  netip.AddrPort
	at    time.Time // the last time
	again bool      // it has dialled more than once
	left  int       // initiations that may still be sent to it
}

// flow is one direction of a session: packets from an address, at a port, for an index.
type flow struct {
	port  int
	from  netip.AddrPort
	index uint32
}

// session is one handshake, with the packets that use its keys.
type session struct {
	ends  [2]netip.AddrPort // the address that sends to each port
	index [2]uint32         // the index that each end has chosen
	made  time.Time
	heard [2]time.Time
	// passed are the counters of packets that came to each port. WireGuard sends none twice,
	// and drops repeated ones. A packet that comes back to the relay, by whatever way, is a
	// repeated one.
	passed [2]replay.Filter
	cookie [2]bool // a cookie was passed on
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

// pass returns the destinations of a packet that came from an address to a port (0 or 1). It
// leaves by the other port: to none, to one gateway or, if it begins a handshake, to a few
// addresses that may be its peer.
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
		// It answers an initiation, or a response.
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

// begin passes an initiation on once: WireGuard makes a new one each time.
func (t *table) begin(now time.Time, port int, from netip.AddrPort, index uint32) []netip.AddrPort {
	end, other := &t.ends[port], &t.ends[1-port]
	for i := range t.ends {
		if _, again := t.ends[i].byIndex[index]; again {
			return nil // the packet went in a circle
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

// note remembers an initiation. If the ring is full, it replaces the oldest one.
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

// wait adds an address to those that wait for an answer, and reports whether there was room
// for it.
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

// choose adds addresses that may be the peer of an initiation's sender: of the waiting ones
// that have dialled several times, the last one and any other; of the rest, the last ones. The
// last one finds a gateway that moves from port to port, and the random one gives every
// gateway a chance.
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

// answered returns the initiation that a packet from address by answers, if it was sent to
// this address, and was not answered by it before.
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

// open opens the session of a response, and reports whether there was room for it.
func (t *table) open(now time.Time, port int, from netip.AddrPort, m message, d *dial) bool {
	s := &session{made: now, heard: [2]time.Time{now, now}}
	s.ends[port], s.index[port] = from, m.sender
	s.ends[1-port], s.index[1-port] = d.from, d.index
	for _, f := range s.flows() {
		if t.session(now, f) != nil {
			return false // another session has this index: by chance, or by an attack
		}
	}
	t.drop(func(o *session) bool { return !o.alive(now) })
	came := [2]bool{!t.knows(now, 0, s.ends[0]), !t.knows(now, 1, s.ends[1])}
	of := func(o *session) bool { return o.ends == s.ends }
	if t.count(of) >= perPair {
		t.dropFirst(of)
	}
	// An address with a session can always have another one: no stranger keeps it from that.
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

// flows returns both directions of a session: a packet has the index of its receiver.
func (s *session) flows() [2]flow {
	return [2]flow{{0, s.ends[0], s.index[1]}, {1, s.ends[1], s.index[0]}}
}

func (s *session) alive(now time.Time) bool {
	return now.Sub(s.made) < sessionLife && now.Sub(s.heard[0]) < silentFor && now.Sub(s.heard[1]) < silentFor
}

// session returns the living session of a flow, or nil.
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

// drop ends the sessions for which of is true.
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

// dropFirst ends the oldest session for which of is true, and reports whether there is one.
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

// lastHeard is the address at a port whose session was heard last; invalid if there is none.
func (t *table) lastHeard(now time.Time, port int) (at netip.AddrPort) {
	var heard time.Time
	for _, s := range t.sessions {
		if s.alive(now) && !s.heard[port].Before(heard) {
			at, heard = s.ends[port], s.heard[port]
		}
	}
	return at
}

// tell logs within the limit of news, because anybody who reaches the relay can cause these
// entries.
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

// budget limits how often something happens: most times at once, and perSecond in the long
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
