package ping

import (
	"slices"
	"time"
)

const (
	// surelySilent is how long after the last answer whatever is carried tells of the
	// silence. The next ping leaves after 2 s at the latest, so a path that was cut was cut
	// by then; and what was on its way has arrived, or never will.
	surelySilent = 4 * time.Second
	// silenceMark is between two moments that are remembered, silenceSpan how old they get.
	silenceMark = time.Second
	silenceSpan = 8 * time.Second
)

// Silence is what a tunnel carries while its pings are not answered: that tells a path that
// is cut from a peer that is heard. It is not safe for concurrent use.
type Silence struct{ marks []mark }

// mark is what a tunnel had carried by then.
type mark struct {
	at      time.Time
	carried Traffic
}

// Note takes in what the tunnel has carried by now.
func (s *Silence) Note(now, lastReply time.Time, carried Traffic) {
	if lastReply.IsZero() || now.Sub(lastReply) < surelySilent {
		s.marks = nil
		return
	}
	if n := len(s.marks); n > 0 && now.Sub(s.marks[n-1].at) < silenceMark {
		return
	}
	s.marks = append(s.marks, mark{now, carried})
	s.marks = slices.DeleteFunc(s.marks, func(m mark) bool { return now.Sub(m.at) > silenceSpan })
}

// Moved is what was carried lately, in the silence, and within which time; 0 without one.
func (s *Silence) Moved(now time.Time, carried Traffic) (Traffic, time.Duration) {
	if len(s.marks) == 0 {
		return Traffic{}, 0
	}
	from := s.marks[0]
	return Traffic{Sent: carried.Sent - from.carried.Sent, Received: carried.Received - from.carried.Received}, now.Sub(from.at)
}
