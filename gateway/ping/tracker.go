package ping

import (
	"time"
)

// Value is Liqo's ConnectionStatusConditionType, the value of a Connection.
type Value string

// Connecting lasts until the first answer. In Liqo, a peer that has not appeared yet is an Error; here it is
// Connecting.
const (
	Connecting Value = "Connecting"
	Connected  Value = "Connected"
	Error      Value = "Error"
)

// DefaultInterval is the time between two pings, the same as of Liqo's gateways.
const DefaultInterval = 2 * time.Second

// Timing contains the times of pings. The zero value of a field means its default.
type Timing struct {
	// Interval between pings; default DefaultInterval.
	Interval time.Duration
	// Eager is the interval until the first answer; default 200 ms, so that a new connection is seen at once.
	Eager time.Duration
	// Threshold is the number of intervals without an answer after which the status is Error; default 4.
	// Liqo's gateways have 5. Our gateways ping more often when no answer comes (see Watchdog), so 8 s of
	// silence are a dozen lost pings, and a screen shows the error within 10 s.
	Threshold int
	// Window is the number of pings over which loss is counted; default 30.
	Window int
}

func (t Timing) withDefaults() Timing {
	if t.Interval <= 0 {
		t.Interval = DefaultInterval
	}
	if t.Eager <= 0 {
		t.Eager = 200 * time.Millisecond
	}
	if t.Threshold <= 0 {
		t.Threshold = 4
	}
	if t.Window <= 0 {
		t.Window = 30
	}
	return t
}

// Status is the known state of the peer at one moment.
type Status struct {
	Value     Value
	Latency   time.Duration // round trip of the newest ping that was sent after the first answer; 0: none yet
	Loss      float64       // 0 to 1, of the last Window pings since the first answer
	LastReply time.Time     // zero: never
	// AnsweredSince is set if all lost pings followed each other, and pings after them were answered: when the first
	// of these was sent.
	AnsweredSince time.Time
}

// Tracker turns pings and answers into a Status. It has no clock and no
// socket, and is not safe for concurrent use.
type Tracker struct {
	timing    Timing
	pings     []sentPing // newest last; no more than Window
	latency   time.Duration
	newest    time.Time // when the newest answered ping was sent
	lastReply time.Time
	recorder  *Recorder
}

type sentPing struct {
	at             time.Time
	answered, lost bool // lost is for the recorder alone
}

// NewTracker returns a Tracker with the status Connecting.
func NewTracker(t Timing) *Tracker {
	return &Tracker{timing: t.withDefaults(), recorder: new(Recorder)}
}

// Record makes r get all states and pings.
func (t *Tracker) Record(r *Recorder) { t.recorder = r }

// Interval returns the present time between pings.
func (t *Tracker) Interval() time.Duration {
	if t.newest.IsZero() { // no latency measured yet
		return t.timing.Eager
	}
	return t.timing.Interval
}

// Sent notes that a ping was sent.
func (t *Tracker) Sent(now time.Time) {
	t.pings = append(t.pings, sentPing{at: now})
	extra := max(0, len(t.pings)-t.timing.Window)
	for i := range t.pings {
		p := &t.pings[i]
		if !t.lastReply.IsZero() && !p.answered && !p.lost && (i < extra || now.Sub(p.at) > t.patience()) {
			p.lost = true
			t.recorder.lost(p.at)
		}
	}
	t.pings = append(t.pings[:0], t.pings[extra:]...)
	t.recorder.state(now, t.Status(now).Value)
}

// patience is the time without an answer after which the status is Error.
func (t *Tracker) patience() time.Duration {
	return time.Duration(t.timing.Threshold) * t.timing.Interval
}

// Received notes an answer to the ping that was sent at sentAt. It returns false, and ignores the answer, if
// there is no such ping, or if it is already answered.
//
// Pings are recognized by the wall clock, because the answer contains this time. The latency is measured by
// the monotonic clock, if Sent's times have it, so that a change of the wall clock does not matter.
func (t *Tracker) Received(now, sentAt time.Time) bool {
	for i := range t.pings {
		p := &t.pings[i]
		if p.answered || p.at.UnixNano() != sentAt.UnixNano() {
			continue
		}
		p.answered = true
		if !t.lastReply.IsZero() && p.at.After(t.newest) {
			t.newest = p.at
			t.latency = max(0, now.Sub(p.at))
		}
		if t.lastReply.IsZero() {
			// This ping may have waited in WireGuard's queue for the handshake. It proves the path, but its
			// round trip is too long (1240 ms in a measurement, when the next ping took 1 ms). Earlier pings
			// were lost because there was no peer, not because the path is bad, and later pings may still be
			// in that queue. So all other pings are forgotten.
			t.pings = append(t.pings[:0], t.pings[i])
		} else if !p.lost {
			t.recorder.answered(p.at, max(0, now.Sub(p.at)))
		}
		t.lastReply = now
		t.recorder.state(now, t.Status(now).Value)
		return true
	}
	return false
}

// Status returns the status at the time now.
func (t *Tracker) Status(now time.Time) Status {
	s := Status{Value: Connecting, Latency: t.latency, LastReply: t.lastReply}
	if t.lastReply.IsZero() {
		return s
	}
	s.Value = Connected
	if now.Sub(t.lastReply) > t.patience() {
		s.Value = Error
	}
	judged, lost, series := 0, 0, 0
	for i, p := range t.pings {
		// A recent ping is neither lost nor answered.
		if !p.answered && now.Sub(p.at) < t.timing.Interval {
			continue
		}
		judged++
		switch {
		case !p.answered:
			if s.AnsweredSince = (time.Time{}); i == 0 || t.pings[i-1].answered {
				series++
			}
			lost++
		case series == 1 && s.AnsweredSince.IsZero():
			s.AnsweredSince = p.at
		}
	}
	if judged > 0 {
		s.Loss = float64(lost) / float64(judged)
	}
	return s
}

// Expires returns the time at which the Status changes if nothing is received: the end of the wait for an
// answer. It is zero if there is no such wait.
func (t *Tracker) Expires() time.Time {
	if t.lastReply.IsZero() {
		return time.Time{}
	}
	return t.lastReply.Add(t.patience())
}
