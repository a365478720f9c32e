//go:build linux

package tunnel

import (
	"net/netip"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// A node forgets a wrongly tracked flow after 30 s without packets. A client uses 10 ports in turn, so each
// port has to rest for longer than 30 s.
func TestAPortRestsUntilItsFlowIsForgotten(t *testing.T) {
	const ports, forgotten = 10, 30 * time.Second // clientPorts of gateway/linux
	for i, pause := range []time.Duration{200 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 15 * time.Second} {
		answered := i > 0 // the peer has answered before
		start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
		var left []time.Time // the times at which the client changed from each port to the next
		var since time.Time
		for n, now := 1, start; now.Before(start.Add(10 * time.Minute)); n, now = n+1, now.Add(pause) {
			if !portIsDue(n, now, since, answered) {
				continue
			}
			left, since = append(left, now), now
			// The client returns to the port that it left nine changes ago.
			if i := len(left) - ports; i >= 0 && now.Sub(left[i]) < forgotten {
				t.Errorf("a redial every %s: a port is used again after %s", pause, now.Sub(left[i]))
			}
		}
		if first := left[0].Sub(start); answered == (first < 3*pause) {
			t.Errorf("a redial every %s: the port is changed after %s; the peer has answered before: %t", pause, first, answered)
		}
		if pause < time.Second && (len(left) < 4 || left[3].Sub(start) > 5*time.Second) {
			t.Errorf("a redial every %s: the first ports were changed after %v", pause, left)
		}
	}
}

// An answer from a former endpoint does not show that the client's port works with the new endpoint.
func TestAnAnswerCountsForItsEndpoints(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	former, present := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51820")}, []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:30001")}
	c := &Tunnel{}
	for i, step := range []struct {
		endpoints      []netip.AddrPort
		reply          time.Duration // after start; 0: no new one
		answered, news bool
	}{
		{former, 0, false, true},
		{former, 2 * time.Second, true, false},
		{present, 0, false, true},
		{present, 0, false, false},
		{present, 6 * time.Second, true, false},
	} {
		c.news = false
		c.dial(step.endpoints, start.Add(time.Duration(i+1)*time.Second))
		if step.reply > 0 {
			c.pings.LastReply = start.Add(step.reply + time.Millisecond)
		}
		if c.answered() != step.answered || c.news != step.news {
			t.Errorf("step %d: answered %t, news %t", i, c.answered(), c.news)
		}
	}
}

// Each try makes WireGuard forget the handshake before. A handshake takes a second if CPU is scarce.
func TestANewKeyLeavesTimeForAnAnswer(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	c := &Tunnel{config: Config{Role: gateway.Client}, rekeyed: start}
	tries, longest := 0, time.Duration(0)
	for now := start; now.Before(start.Add(rekeyFor)); now = now.Add(rotateInterval) {
		if !c.awaitsKey(now, time.Time{}, time.Millisecond) {
			continue
		}
		if tries++; tries > 1 {
			longest = max(longest, now.Sub(c.redialled))
		}
		if c.redialled = now; tries == 3 && now.Sub(start) > time.Second {
			t.Errorf("the third try is %s after the new key", now.Sub(start))
		}
	}
	if longest < time.Second {
		t.Errorf("got %d tries, and no more than %s between two, want at least 1s", tries, longest)
	}
}

// One of many nodes is the gateway's node.
func TestTheAddressesOfTheGatewaysNode(t *testing.T) {
	a := func(text string) netip.Addr { return netip.MustParseAddr(text) }
	in := gateway.Inputs{NodeIP: a("192.0.2.2"), Nodes: []gateway.Node{
		{IP: a("192.0.2.1"), Addresses: []netip.Addr{a("192.0.2.1")}}, {IP: a("192.0.2.2"), Addresses: []netip.Addr{a("192.0.2.2"), a("203.0.113.9")}},
	}}
	if got := hostAddresses(in); len(got) != 2 || got[1] != a("203.0.113.9") {
		t.Errorf("got %v", got)
	}
}
