//go:build linux

package tunnel

import "time"

// strangers counts the packets that came to the tunnel's port lately, since the
// peer was heard last, or since its keys changed. Somebody's scans are one or two
// packets at a time; who dials with other keys sends one every 5 s.
type strangers struct {
	begun            bool
	arrived          uint64    // packets at the port at the last count
	since            time.Time // when the present period began
	earlier, present uint64    // packets of the last period and of this one
}

const (
	// strangersEvery is how many looks there are between two counts of strangers.
	strangersEvery = 10
	// strangersPeriod is half of how long a packet counts at most.
	strangersPeriod = time.Minute
)

// note takes how many packets have come to the port.
func (s *strangers) note(now time.Time, arrived uint64) {
	if !s.begun || arrived < s.arrived { // or the counter is another one
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

// forget begins anew with the next count: what came until then may be the peer's.
func (s *strangers) forget() { *s = strangers{} }

// hears notes whether something of the peer has come in since the last look.
// The first look can't tell: an earlier process may have heard it.
func (t *Tunnel) hears(now time.Time, received uint64, first bool) {
	if !first && received > t.peer.Received {
		t.heard = now
		t.strangers.forget()
	}
}
