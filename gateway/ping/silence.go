package ping

import (
	"slices"
	"time"
)

const (
	// surelySilent is the time after the last answer from which all traffic belongs to the silence: the next
	// ping was sent after 2 s at the latest, and older packets have arrived or are lost.
	surelySilent = 4 * time.Second
	// silenceMark is the time between two marks, and silenceSpan is their largest age.
	silenceMark = time.Second
	silenceSpan = 8 * time.Second
)

// Silence is the traffic of a tunnel while its pings are not answered. It shows whether the path is cut, or
// packets of the peer still arrive. It is not safe for concurrent use.
type Silence struct{ marks []mark }

// mark is the tunnel's traffic until a moment.
type mark struct {
	at      time.Time
	carried Traffic
}

// Note adds the tunnel's traffic until now.
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

// Moved returns the latest traffic in the silence, and its duration; 0 if there is no silence.
func (s *Silence) Moved(now time.Time, carried Traffic) (Traffic, time.Duration) {
	if len(s.marks) == 0 {
		return Traffic{}, 0
	}
	from := s.marks[0]
	return Traffic{Sent: carried.Sent - from.carried.Sent, Received: carried.Received - from.carried.Received}, now.Sub(from.at)
}
