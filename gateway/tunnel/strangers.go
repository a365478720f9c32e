//go:build linux

package tunnel

import "time"

// strangers counts the packets that came to the tunnel's port since the peer was
// heard last, or since its keys changed. Somebody's scan is one or two; who
// dials with other keys keeps on.
type strangers struct {
	begun  bool
	before uint64 // packets at the port when counting began
	count  uint64
}

// strangersEvery is how many looks there are between two counts of strangers.
const strangersEvery = 10

// note takes how many packets have come to the port.
func (s *strangers) note(arrived uint64) {
	if !s.begun || arrived < s.before { // or the counter is another one
		*s = strangers{begun: true, before: arrived}
	}
	s.count = arrived - s.before
}

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
