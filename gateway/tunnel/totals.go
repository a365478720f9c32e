//go:build linux

package tunnel

import "github.com/liqo-tui/liqo-tui/gateway/ping"

// totals are the sums of a tunnel's traffic, in bytes. WireGuard's own counters belong to a peer of the
// device. They begin again when the peer is dialled again or gets another key, or after another process has
// held the tunnel.
type totals struct {
	seen ping.Traffic // WireGuard's counters at the last look
	sum  ping.Traffic
}

// restart notes that WireGuard's counters begin again, because the peer was created again. The values don't
// show this, because each unanswered handshake sends the same number of bytes.
func (t *totals) restart() { t.seen = ping.Traffic{} }

// add notes WireGuard's present counters, and returns the sums. If a counter has decreased, another program
// has created the peer again, so both counters have begun again.
func (t *totals) add(now ping.Traffic) ping.Traffic {
	if now.Sent < t.seen.Sent || now.Received < t.seen.Received {
		t.restart()
	}
	t.sum.Sent += now.Sent - t.seen.Sent
	t.sum.Received += now.Received - t.seen.Received
	t.seen = now
	return t.sum
}
