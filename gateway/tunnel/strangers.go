//go:build linux

package tunnel

import "time"

// strangers counts recent packets from unknown senders at the tunnel's port. It begins again with each packet
// from the peer and each change of keys. A scan sends one or two packets. A peer that dials with
// other keys sends a packet every 5 s.
type strangers struct {
	begun            bool
	arrived          uint64    // the kernel's number of packets at the port at the last count
	since            time.Time // when the present period began
	earlier, present uint64    // the packets of the last period and of the present period
}

const (
	// strangersEvery is the number of looks between two counts of strangers.
	strangersEvery = 10
	// strangersPeriod is the length of a period. A packet counts in its own period and in the next period.
	strangersPeriod = time.Minute
)

// note adds the packets since the last call. arrived is the kernel's counter of packets at the port.
func (s *strangers) note(now time.Time, arrived uint64) {
	if !s.begun || arrived < s.arrived { // a smaller value belongs to a new counter
		*s = strangers{begun: true, arrived: arrived, since: now}
	}
	switch age := now.Sub(s.since); {
	case age >= 2*strangersPeriod:
		s.earlier, s.present, s.since = 0, 0, now
	case age >= strangersPeriod:
		s.earlier, s.present, s.since = s.present, 0, s.since.Add(strangersPeriod)
	}
	s.present += arrived - s.arrived
	s.arrived = arrived
}

func (s *strangers) count() uint64 { return s.earlier + s.present }

// forget drops all numbers, because packets before the next count may come from the peer.
func (s *strangers) forget() { *s = strangers{} }

// hears records the time if packets from the peer have come in since the last look. It ignores the first look,
// because an earlier process may have received the packets.
func (t *Tunnel) hears(now time.Time, received uint64, first bool) {
	if !first && received > t.peer.Received {
		t.heard = now
		t.strangers.forget()
	}
}
