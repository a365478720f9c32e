//go:build linux

package tunnel

import "github.com/liqo-tui/liqo-tui/gateway/ping"

// totals are the sums of a tunnel's traffic, in bytes. WireGuard's own counters belong to a
// peer of the device: they begin again when the peer is dialled again or gets another key, or
// after another process has held the tunnel for a while.
type totals struct {
	seen ping.Traffic // WireGuard's counters at the last look
	sum  ping.Traffic
}

// restart notes that WireGuard's counters begin again, because the peer was created anew. The
// values don't show it: each handshake in vain sends the same number of bytes.
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
