package ping

import "time"

// Traffic is the traffic of a tunnel since it was made, in bytes.
type Traffic struct{ Sent, Received uint64 }

// Since is the number of bytes both ways since then; very many if the counters began again.
func (t Traffic) Since(then Traffic) uint64 {
	return t.Sent - then.Sent + t.Received - then.Received
}

// Advice is the advice of a Watchdog about a peer.
type Advice uint8

// From good to bad.
const (
	// Fine: something came back since something was sent, or nothing was sent.
	Fine Advice = iota
	// Doubt: something was sent and nothing came back. That is normal for traffic in one direction, so
	// send a ping.
	Doubt
	// Wait: pings were not answered either, and it is too soon to dial again.
	Wait
	// Redial: pings were not answered either. A peer that has restarted does not know the session.
	// WireGuard itself would notice after 15 s.
	Redial
)

const (
	// doubtAfter is above the round trip of most paths.
	doubtAfter = 150 * time.Millisecond
	// redialAfter leaves time for three pings and their answers.
	redialAfter = 500 * time.Millisecond
	// doubtFor is how long pings are sent more often than every 2 s.
	doubtFor = 3 * time.Second
	// deafRedial is the wait between redials if packets arrive, but no answers to pings.
	deafRedial = 5 * time.Second
	// slowRedial is the wait for an answer from the far side of a satellite.
	// WireGuard forgets a handshake when it begins the next one.
	slowRedial = 2 * time.Second
	// slowRedials: one of so many redials has that long wait if the latency was known, because the path
	// may have changed. It is rare, because nothing is heard meanwhile of a peer that is back.
	slowRedials = 20
	// firstRedial is the first wait. Two gateways that are made together start within a second or two of
	// each other, and so does a gateway that replaces another. If one dials before the other listens, or
	// at the old place, it should not wait long.
	firstRedial = 200 * time.Millisecond
	// firstRedials is the number of redials before a longer wait: lateRedial, in which an answer arrives
	// that takes a second. Between machines without free CPU, each answer came after the next redial for
	// 4.4 s. Longer waits before that cost time if both ends dial: they find each other later.
	firstRedials = 10
	lateRedial   = 1100 * time.Millisecond
	// eagerFor is how long redials are that frequent. A peer that is away for longer is most often away
	// for much longer. From then on each wait is twice the one before, from firstSlow to maxRedial.
	// WireGuard itself repeats a handshake every 5 s meanwhile, so a path that is back is found within 6
	// s. maxRedial is the wait if another port or address has to be dialled.
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

// Mute reports whether the peer answers no pings although its WireGuard works: a handshake, which needs
// packets both ways, was made after a ping had been missed, and its keys are still in use. handshake is
// the time of the last one, by the machine's clock. If it is in the future, the clock was set back, and
// the age of the handshake is unknown.
func (s Status) Mute(now, handshake time.Time) bool {
	return !s.LastReply.IsZero() && handshake.Sub(s.LastReply) >= DefaultInterval+redialAfter && !handshake.After(now) && now.Sub(handshake) < sessionLife
}

// Watchdog finds out from the tunnel's counters that a peer does not answer any more. It sends nothing
// itself, so an idle tunnel stays idle.
type Watchdog struct {
	last    Traffic
	since   time.Time // the first send without anything received since; zero: none
	redials int       // since then
	slow    int       // of them, after eagerFor
	next    time.Time // earliest redial
	deaf    time.Time // earliest redial because pings are not answered
	mute    bool      // the peer answers no pings, and works
}

// CalmInterval is the time until the next call of Advise if that may be later than usual.
const CalmInterval = 500 * time.Millisecond

// Calm reports whether Advise may be called as late as after CalmInterval: no answer is awaited, and until
// then no answer to a ping can be so overdue that Advise would advise a redial before it has advised a
// ping.
func (w *Watchdog) Calm(now time.Time, pings Status) bool {
	const late = 100 * time.Millisecond // of a timer
	overdue := now.Sub(pings.LastReply) - DefaultInterval + CalmInterval + late
	return w.since.IsZero() && !pings.LastReply.IsZero() && (w.mute || overdue < redialAfter)
}

// Advise has to be called often: every 100 ms unless [Watchdog.Calm]. pings is their last known status;
// without a latency, the path's latency is unknown. handshake is the time of the last one; zero: none
// since the last redial.
func (w *Watchdog) Advise(now time.Time, t Traffic, pings Status, handshake time.Time) Advice {
	w.mute = pings.Mute(now, handshake)
	advice := w.adviseOnTraffic(now, t, pings.Latency)
	if advice != Fine || w.mute {
		return advice
	}
	return w.adviseOnPings(now, pings)
}

// adviseOnPings finds a path that works only towards us: packets arrive, but no answers. A peer may also
// answer no pings and work all the same. The handshake after one redial distinguishes the two.
func (w *Watchdog) adviseOnPings(now time.Time, pings Status) Advice {
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

func (w *Watchdog) adviseOnTraffic(now time.Time, t Traffic, latency time.Duration) Advice {
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

// Hurry makes redials of a silent peer as frequent as at first: its address or identity has changed.
func (w *Watchdog) Hurry(now time.Time) {
	if !w.since.IsZero() {
		w.since, w.redials, w.slow, w.next = now, 0, 0, time.Time{}
	}
}

// pause is the time until the next redial. The first waits are short, and a long one follows. Later, some
// are long: every fourth one as long as the path's latency is unknown. See eagerFor for the last.
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
