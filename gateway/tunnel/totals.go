//go:build linux

package tunnel

import "github.com/liqo-tui/liqo-tui/gateway/ping"

// totals are what a tunnel has carried, in bytes. WireGuard's own counters
// belong to a peer: they begin again when it is dialled again, gets another key,
// or another process let it go for a while.
type totals struct {
	seen ping.Traffic // WireGuard's counters at the last look
	sum  ping.Traffic
}

// restart notes that WireGuard's counters begin again, because the peer was made
// anew. Their values don't tell: who dials in vain sends as much each time.
func (t *totals) restart() { t.seen = ping.Traffic{} }

// add notes WireGuard's counters as they are now, and returns the sums. If one
// of the two decreased, both began again: somebody else made the peer anew.
func (t *totals) add(now ping.Traffic) ping.Traffic {
	if now.Sent < t.seen.Sent || now.Received < t.seen.Received {
		t.restart()
	}
	t.sum.Sent += now.Sent - t.seen.Sent
	t.sum.Received += now.Received - t.seen.Received
	t.seen = now
	return t.sum
}
