package ping

import "time"

// Traffic is what a tunnel has carried since it was made, in bytes.
type Traffic struct{ Sent, Received uint64 }

// Since is how many bytes were carried both ways since then; very many, if the
// counters began again.
func (t Traffic) Since(then Traffic) uint64 {
	return t.Sent - then.Sent + t.Received - then.Received
}

// Advice is what a Watchdog thinks of a peer.
type Advice uint8

// From good to bad.
const (
	// Fine: something came back since something was sent, or nothing was sent.
	Fine Advice = iota
	// Doubt: something was sent and nothing came back. That is normal for
	// traffic in one direction, so ask.
	Doubt
	// Wait: nor did answers come, and dialling again would be too soon.
	Wait
	// Redial: nor did answers come. A peer that has restarted knows nothing of
	// the session; WireGuard itself would notice after 15 s.
	Redial
)

const (
	// doubtAfter is above the round trip of most paths.
	doubtAfter = 150 * time.Millisecond
	// redialAfter leaves time for three pings and their answers.
	redialAfter = 500 * time.Millisecond
	// doubtFor is how long to ask more often than every 2 s.
	doubtFor = 3 * time.Second
	// deafRedial is the wait where packets come, and no answers to pings.
	deafRedial = 5 * time.Second
	// slowRedial is the wait for an answer from the far side of a satellite.
	// WireGuard forgets a handshake when it begins the next one.
	slowRedial = 2 * time.Second
	// slowRedials is how often to wait that long where the latency was known: the
	// path may be another one now. Rarely, as nothing is heard meanwhile of a peer
	// that is back.
	slowRedials = 20
	// firstRedial is the wait at first. Two gateways that are made together start
	// within a second or two of each other, and so does one that takes the place of
	// another: who dials before it listens, or where it isn't, should not wait long.
	firstRedial = 200 * time.Millisecond
	// firstRedials is how often to dial until a wait is longer: lateRedial, in which an answer arrives
	// that takes a second. Between machines without free CPU, each answer came after the next redial
	// for 4.4 s. Longer waits before cost time where both ends dial: they find each other later.
	firstRedials = 10
	lateRedial   = 1100 * time.Millisecond
	// eagerFor is how long to dial that often. Whoever is away for longer is most often away
	// for much longer. From then on each wait is twice the one before, from firstSlow to
	// maxRedial. WireGuard itself repeats a handshake every 5 s meanwhile, so a path that is back is
	// found within 6 s; maxRedial is the wait where another port or address has to be dialled.
	eagerFor             = time.Minute
	firstSlow, maxRedial = 2 * time.Second, 15 * time.Second
	// muteRedial is the silence after which WireGuard itself begins a handshake:
	// it answers what it has received after 10 s at the latest, and an answer may
	// take 5 s (KEEPALIVE_TIMEOUT and REKEY_TIMEOUT of its paper, section 6.1).
	muteRedial = 15 * time.Second
	// sessionLife is how long keys are used after a handshake, which is repeated
	// well before if anything is sent (REJECT_AFTER_TIME).
	sessionLife = 3 * time.Minute
)

// Mute reports whether the peer answers no pings although its WireGuard works:
// a handshake, which takes packets both ways, was made after a ping had been
// missed, and its keys are still in use. handshake is the last one. It is of the machine's
// clock: one that is still to come was made before that was set back, nobody knows when.
func (s Status) Mute(now, handshake time.Time) bool {
	return !s.LastReply.IsZero() && handshake.Sub(s.LastReply) >= DefaultInterval+redialAfter && !handshake.After(now) && now.Sub(handshake) < sessionLife
}

// Watchdog finds out that a peer no longer answers, from what the tunnel
// counts. It sends nothing itself, so an idle tunnel stays idle.
type Watchdog struct {
	last    Traffic
	since   time.Time // the first send that nothing has come back after; zero: none
	redials int       // since then
	slow    int       // of them, after eagerFor
	next    time.Time // earliest redial
	deaf    time.Time // earliest redial because pings are not answered
	mute    bool      // the peer answers no pings, and works
}

// CalmInterval is until the next call of Judge where that may be later than usual.
const CalmInterval = 500 * time.Millisecond

// Calm reports whether Judge may be called as late as after CalmInterval: no
// answer is awaited, and none to a ping can be overdue by then for so long that
// Judge would advise to redial before it has advised to ask.
func (w *Watchdog) Calm(now time.Time, pings Status) bool {
	const late = 100 * time.Millisecond // as a timer may be
	overdue := now.Sub(pings.LastReply) - DefaultInterval + CalmInterval + late
	return w.since.IsZero() && !pings.LastReply.IsZero() && (w.mute || overdue < redialAfter)
}

// Judge is to be called often, every 100 ms unless [Watchdog.Calm]. pings are
// the last that is known of them; without a latency the path's is unknown.
// handshake is when the last one was made; zero: none since the last redial.
func (w *Watchdog) Judge(now time.Time, t Traffic, pings Status, handshake time.Time) Advice {
	w.mute = pings.Mute(now, handshake)
	advice := w.judgeTraffic(now, t, pings.Latency)
	if advice != Fine || w.mute {
		return advice
	}
	return w.judgePings(now, pings)
}

// judgePings is for a path that works towards us only: there is always
// something to hear, and never an answer. A peer may also answer no pings and
// work all the same. The handshake of one redial tells the two apart.
func (w *Watchdog) judgePings(now time.Time, pings Status) Advice {
	if pings.LastReply.IsZero() {
		return Fine
	}
	overdue := now.Sub(pings.LastReply) - DefaultInterval
	if overdue >= max(redialAfter, 4*pings.Latency) && !now.Before(w.deaf) {
		w.deaf = now.Add(deafRedial)
		return Redial
	}
	if overdue >= max(doubtAfter, 2*pings.Latency) && overdue < doubtFor {
		return Doubt
	}
	return Fine
}

func (w *Watchdog) judgeTraffic(now time.Time, t Traffic, latency time.Duration) Advice {
	if t.Received < w.last.Received || t.Sent < w.last.Sent {
		w.last = Traffic{} // another device, or a redial: counts begin anew
	}
	heard, sent := t.Received > w.last.Received, t.Sent > w.last.Sent
	w.last = t
	switch {
	case heard:
		*w = Watchdog{last: t, deaf: w.deaf, mute: w.mute}
		return Fine
	case w.since.IsZero() && sent:
		w.since = now
	case w.since.IsZero():
		return Fine
	}
	silent := now.Sub(w.since)
	if w.mute && silent < muteRedial {
		return Fine
	}
	patience := max(redialAfter, 4*latency)
	if latency == 0 {
		patience = firstRedial
	}
	if silent >= patience && !now.Before(w.next) {
		w.redials++
		if silent >= eagerFor {
			w.slow++
		}
		w.next = now.Add(w.pause(latency))
		return Redial
	}
	switch {
	case silent < max(doubtAfter, 2*latency):
		return Fine
	case silent < doubtFor:
		return Doubt
	}
	return Wait
}

// Hurry has a peer that is silent be dialled as often as at first: there is news of where or
// what it is.
func (w *Watchdog) Hurry(now time.Time) {
	if !w.since.IsZero() {
		w.since, w.redials, w.slow, w.next = now, 0, 0, time.Time{}
	}
}

// pause is until the next redial. The first waits are short, and one follows that is long. Later, some are
// long: every fourth one as long as the path's latency is not known. See eagerFor for the last.
func (w *Watchdog) pause(latency time.Duration) time.Duration {
	switch {
	case w.slow > 0:
		return max(min(firstSlow<<min(w.slow-1, 8), maxRedial), 2*latency)
	case w.redials < firstRedials:
		return max(firstRedial, 2*latency)
	case w.redials == firstRedials:
		return max(lateRedial, 2*latency)
	case latency == 0 && w.redials%4 == 0, w.redials%slowRedials == 0:
		return max(slowRedial, 2*latency)
	}
	return max(redialAfter, 2*latency)
}
