//go:build linux

package tunnel

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
)

func TestTotalsOutliveWireGuardsCounters(t *testing.T) {
	var sums totals
	for _, step := range []struct {
		name      string
		now, want ping.Traffic
	}{
		{"an earlier process left a tunnel that works", ping.Traffic{Sent: 1000, Received: 500}, ping.Traffic{Sent: 1000, Received: 500}},
		{"traffic", ping.Traffic{Sent: 1500, Received: 600}, ping.Traffic{Sent: 1500, Received: 600}},
		{"nothing", ping.Traffic{Sent: 1500, Received: 600}, ping.Traffic{Sent: 1500, Received: 600}},
		{"dialled again", ping.Traffic{Sent: 148}, ping.Traffic{Sent: 1648, Received: 600}},
		{"answered", ping.Traffic{Sent: 248, Received: 92}, ping.Traffic{Sent: 1748, Received: 692}},
		{"dialled again, and more came in since than before", ping.Traffic{Sent: 148, Received: 192}, ping.Traffic{Sent: 1896, Received: 884}},
	} {
		if got := sums.add(step.now); got != step.want {
			t.Errorf("%s: got %+v, want %+v", step.name, got, step.want)
		}
	}
	sums.restart()
	if got, want := sums.add(ping.Traffic{Sent: 148, Received: 192}), (ping.Traffic{Sent: 2044, Received: 1076}); got != want {
		t.Errorf("the peer was made anew, and carried as much as the one before: got %+v, want %+v", got, want)
	}
}

// The path is judged by the totals, and reports and Prometheus show the totals.
func TestStatusCountsOnAfterARedial(t *testing.T) {
	tunnel := New(Config{Changed: func() {}})
	tunnel.notePeer(time.Now(), linux.PeerStats{Sent: 10_000, Received: 20_000})
	tunnel.notePeer(time.Now(), linux.PeerStats{Sent: 148})
	tunnel.notePeer(time.Now(), linux.PeerStats{Sent: 5148, Received: 3000})
	if got := tunnel.peer; got.Sent != 15_148 || got.Received != 23_000 {
		t.Errorf("got %d sent and %d received, want 15148 and 23000", got.Sent, got.Received)
	}
}
