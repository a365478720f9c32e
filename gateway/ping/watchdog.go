package ping

import "time"

// Traffic is the traffic of a tunnel since its creation, in bytes.
type Traffic struct{ Sent, Received uint64 }

// Since returns the number of bytes in both directions since then. The number is very large if the counters
// have begun again.
func (t Traffic) Since(then Traffic) uint64 {
	return t.Sent - then.Sent + t.Received - then.Received
}

// Advice is the advice of a Watchdog about a peer.
type Advice uint8

// The advice, from good to bad.
const (
	// Fine: a packet has arrived since the last sent packet, or nothing was sent.
	Fine Advice = iota
	// Doubt: packets were sent, but none has arrived since. That is normal for traffic in one direction, so a
	// ping should be sent.
	Doubt
	// Wait: pings were not answered either, but it is too soon to dial again.
	Wait
	// Redial: pings were not answered either. A peer that has restarted does not know the session.
	// WireGuard itself would notice after 15 s.
	Redial
)

const (
	// doubtAfter is longer than the round trip of most paths.
	doubtAfter = 150 * time.Millisecond
	// redialAfter leaves time for three pings and their answers.
	redialAfter = 500 * time.Millisecond
	// doubtFor is the time during which pings are sent more often than every 2 s.
	doubtFor = 3 * time.Second
	// deafRedial is the wait between redials if packets arrive, but no answers to pings. If no handshake follows
	// a redial, the waits are those of a silent peer.
	deafRedial = 5 * time.Second
	// slowRedial is the wait for an answer from the far side of a satellite.
	// WireGuard forgets a handshake when it begins the next one.
	slowRedial = 2 * time.Second
	// slowRedials: if the latency was known, one of so many redials has the wait slowRedial, because the path
	// may have changed. It is rare, because a peer that is back is not noticed during this wait.
	slowRedials = 20
	// firstRedial is the first wait. It is short, because the peer may start a second or two later: two
	// gateways are often created together, and a replaced gateway has a new pod.
	firstRedial = 200 * time.Millisecond
	// firstRedials is the number of redials before the longer wait lateRedial, in which an answer arrives
	// that takes a second. With shorter waits, machines without free CPU needed 4.4 s, because each answer
	// came after the next redial. With fewer short waits, two ends that both dial would find each other
	// later.
	firstRedials = 10
	lateRedial   = 1100 * time.Millisecond
	// eagerFor is the time during which redials are frequent. After this time, each wait is twice the
	// previous one, from firstSlow to maxRedial. WireGuard itself repeats a handshake every 5 s meanwhile, so
	// a repaired path is found within 6 s. maxRedial matters if another port or address has to be dialled.
	eagerFor             = time.Minute
	firstSlow, maxRedial = 2 * time.Second, 15 * time.Second
	// muteRedial is the silence after which WireGuard itself begins a handshake. It answers received packets
	// after 10 s at the latest, and an answer may take 5 s (KEEPALIVE_TIMEOUT and REKEY_TIMEOUT of its paper,
	// section 6.1).
	muteRedial = 15 * time.Second
	// sessionLife is the time after a handshake during which keys are used (REJECT_AFTER_TIME). If packets
	// are sent, the handshake is repeated well before.
	sessionLife = 3 * time.Minute
)

// Mute reports whether the peer answers no pings although its WireGuard works: a handshake, which needs
// packets both ways, has succeeded after a lost ping, and its keys are still in use. handshake is the time of
// the last handshake, by the machine's clock. If this time is in the future, the clock was set back, and the
// result is false.
func (s Status) Mute(now, handshake time.Time) bool {
	return !s.LastReply.IsZero() && handshake.Sub(s.LastReply) >= DefaultInterval+redialAfter && !handshake.After(now) && now.Sub(handshake) < sessionLife
}

// Watchdog finds out from the tunnel's counters that a peer does not answer any more. It sends nothing
// itself, so an idle tunnel stays idle.
type Watchdog struct {
	last    Traffic
	since   time.Time     // the first sent packet without a received packet after it; zero: none
	latency time.Duration // the latency before since, because a late answer of a busy peer says nothing about the path
	redials int           // since that packet
	pending bool          // no handshake has followed the last redial
	slow    int           // the number of redials after eagerFor
	next    time.Time     // earliest redial
	deaf    time.Time     // earliest redial because pings are not answered
	mute    bool          // the peer works, but answers no pings
	outage  outage
	looked  time.Time // the last call of Advise
	stalled bool      // that call was late, see woke
	// woke is when the program ran again, after it had not run for a time. Packets that came in this time may
	// still be unread.
	woke time.Time
}

// outage is a silence of the peer that led to redials, since the last answered ping.
type outage struct {
	reply time.Time // the last answered ping
	was   bool
	ended time.Time // the first handshake after it
}

// CalmInterval is the time until the next call of Advise if [Watchdog.Calm] returns true.
const CalmInterval = 500 * time.Millisecond

// late is the usual delay of a timer.
const late = 100 * time.Millisecond

// Calm reports whether the next call of Advise may come after CalmInterval: no answer is awaited, and no
// answer to a ping can be missing for so long that Advise would skip the advice to send a ping.
func (w *Watchdog) Calm(now time.Time, pings Status) bool {
	overdue := now.Sub(pings.LastReply) - DefaultInterval + CalmInterval + late
	return w.since.IsZero() && !pings.LastReply.IsZero() && (w.mute || overdue < redialAfter)
}

// Advise has to be called every 100 ms, unless [Watchdog.Calm] returns true. pings is the last known status
// of the pings; if it has no latency, the path's latency is unknown. handshake is the time of the last
// handshake; zero: none since the last redial.
func (w *Watchdog) Advise(now time.Time, t Traffic, pings Status, handshake time.Time) Advice {
	w.note(now)
	w.pending = w.pending && handshake.IsZero()
	proves := w.outage.proves(now, pings, handshake)
	w.mute = proves && pings.Mute(now, handshake)
	advice := w.adviseOnTraffic(now, t, pings.Latency)
	w.outage.was = w.outage.was || advice == Redial
	if advice == Fine && !w.mute {
		advice = w.adviseOnPings(now, pings, handshake)
	}
	w.pending = w.pending || advice == Redial
	return advice
}

// note notes the time of a call of Advise. If each call is late, time counts as usual.
func (w *Watchdog) note(now time.Time) {
	stalled := !w.looked.IsZero() && now.Sub(w.looked) > CalmInterval+late
	if stalled && !w.stalled {
		w.woke = now
	}
	w.looked, w.stalled = now, stalled
}

// proves reports whether a handshake after a lost ping proves that the peer answers no pings. The handshake that
// ends an outage proves nothing until pings have had the time for an answer, because the ping may have been lost
// in the outage. Nor does another handshake at the same time: both ends may have dialled. If a second outage began
// at once, the next redial would come after 15 s.
func (o *outage) proves(now time.Time, pings Status, handshake time.Time) bool {
	if !o.reply.Equal(pings.LastReply) {
		*o = outage{reply: pings.LastReply}
	}
	if !o.was {
		return true
	}
	if o.ended.IsZero() {
		o.ended = handshake // zero while the outage lasts
	}
	return handshake.Sub(o.ended) >= redialAfter || now.Sub(handshake) >= DefaultInterval+redialAfter
}

// adviseOnPings finds a path that works only towards us: packets arrive, but no answers to pings. But a
// working peer may also answer no pings. The handshake after one redial distinguishes the two cases.
func (w *Watchdog) adviseOnPings(now time.Time, pings Status, handshake time.Time) Advice {
	if pings.LastReply.IsZero() {
		return Fine
	}
	due := pings.LastReply.Add(DefaultInterval)
	if handshake.After(due) && !handshake.After(now) {
		due = handshake // earlier pings may have been lost in the outage that this handshake ended
	}
	if w.woke.After(due) {
		due = w.woke
	}
	overdue := now.Sub(due)
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
		w.last = Traffic{} // the counters begin again after a redial, or for another device
	}
	// A packet that comes before the handshake of a redial was sent with the former keys.
	heard, sent := t.Received > w.last.Received && !w.pending, t.Sent > w.last.Sent
	w.last = t
	switch {
	case heard:
		w.since, w.redials, w.slow, w.next = time.Time{}, 0, 0, time.Time{}
		return Fine
	case w.since.IsZero() && sent:
		w.since, w.latency = now, latency
	case w.since.IsZero():
		return Fine
	}
	latency = w.latency
	silent := min(now.Sub(w.since), now.Sub(w.woke))
	if w.mute && silent < muteRedial {
		return Fine
	}
	if silent >= patience(latency) && !now.Before(w.next) {
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

// Hurry makes redials as frequent as at first, because the address or identity of a silent peer has changed. If the
// last redial was not answered, the next one comes at once: the last one may have gone to the former address.
func (w *Watchdog) Hurry(now time.Time) {
	if w.since.IsZero() {
		return
	}
	w.since, w.redials, w.slow, w.next = now, 0, 0, time.Time{}
	if w.pending {
		w.since = now.Add(-patience(w.latency))
	}
}

// patience returns the time of silence before the first redial.
func patience(latency time.Duration) time.Duration {
	if latency == 0 {
		return firstRedial
	}
	return max(redialAfter, 4*latency)
}

// pause returns the time until the next redial. The first waits are short, and then a long wait follows.
// Later, every fourth wait is long if the path's latency is unknown. See eagerFor for the waits after that.
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
