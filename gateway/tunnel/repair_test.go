//go:build linux

package tunnel_test

import (
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

func TestDamageIsRepairedWithinASecond(t *testing.T) {
	p := newPair(t, linuxtest.TunnelMTU)
	p.waitForMTU(linuxtest.TunnelMTU, linuxtest.TunnelMTU)
	gw := p.server.Gateway
	settled := func() string {
		// The output without counters and learned entries is the state.
		return gw.Run("sh", "-c", "ip -o -4 addr; ip rule; ip -4 route show table all; ip -4 neigh show nud permanent | sort; ip -o link | sed s/^[0-9]*// | sort; nft --stateless list table ip liqo-tui; cat /proc/sys/net/ipv4/conf/liqo-*/rp_filter")
	}
	before := settled()
	for _, damage := range []string{
		"ip rule del pref 10", "ip rule add pref 0 lookup local", "ip route flush table 18001",
		"ip route replace blackhole 10.244.0.0/16 table 18100", "ip addr flush dev liqo-tunnel",
		"ip link set liqo-fabric down", "ip link set liqo-tunnel mtu 1000", "ip neigh flush dev liqo-fabric nud permanent",
		"ip link del liqo-fabric", "nft delete table ip liqo-tui", "nft flush chain ip liqo-tui classify",
		"nft delete element ip liqo-tui to-real { 10.60.0.0/16 }", "nft insert rule ip liqo-tui clamp drop",
	} {
		if settled() != before {
			t.Fatalf("before %s: not as at first", damage)
		}
		started := time.Now()
		gw.Run(strings.Fields(damage)...)
		repaired := time.Duration(0)
		for settled() != before {
			if repaired = time.Since(started); repaired > 10*time.Second {
				t.Fatalf("%s: not repaired:\n%s\nbefore:\n%s", damage, settled(), before)
			}
		}
		linuxtest.Bound(t, "repair of: "+damage, repaired, time.Second)
	}
	if s := p.ofServer.Status(); s.Repairs == 0 || s.Errors != 0 {
		t.Errorf("got %d repairs and %d errors", s.Repairs, s.Errors)
	}
	p.stream.Gap(time.Now()) // waits until traffic flows
}

func TestWhoKeepsChangingThingsIsNamed(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	p.waitForMTU(linuxtest.TunnelMTU, linuxtest.TunnelMTU)
	for n := range uint64(3) {
		if fights := p.ofServer.Status().Fights; len(fights) != 0 {
			t.Errorf("after %d times: got %q, want none", n, fights)
		}
		p.server.Gateway.Run("ip", "rule", "del", "pref", "20")
		linuxtest.WaitFor(t, "repair", func() bool { return p.ofServer.Status().Repairs > n })
	}
	linuxtest.WaitFor(t, "name of the fight", func() bool {
		fights := p.ofServer.Status().Fights
		return len(fights) == 1 && strings.Contains(fights[0], "missing: ip rule add pref 20") && strings.Contains(fights[0], "3 times")
	})
}

// The device of a userspace tunnel disappears with its process. A device of the same name may belong to
// another program.
func TestDeletedTunnelIsMadeAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	deleted := time.Now()
	p.server.Gateway.Run("ip", "link", "del", "liqo-tunnel")
	linuxtest.Bound(t, "tunnel's device deleted", p.stream.Gap(deleted), time.Second)
}

func TestIdleCostsNothing(t *testing.T) {
	p := newPair(t, linuxtest.TunnelMTU)
	p.waitForMTU(linuxtest.TunnelMTU, linuxtest.TunnelMTU)
	p.stream.Stop()
	// After traffic, each end verifies the path once more.
	bytes := func() uint64 { peer := p.ofServer.Status().Peer; return peer.Sent + peer.Received }
	var carried uint64
	const span = 4 * time.Second
	for range 3 {
		before, cpu := bytes(), p.ofServer.CPU()
		time.Sleep(span) // the test measures an idle tunnel
		carried = bytes() - before
		t.Logf("idle: %.1f %% of a core, %d bytes/s", 100*float64(p.ofServer.CPU()-cpu)/float64(span), carried*uint64(time.Second)/uint64(span))
		// In 2 s, there are two pings and two answers of 150 bytes.
		if carried <= 3*600 {
			return
		}
	}
	t.Errorf("idle: got %d bytes in %s", carried, span)
}

// Impossible settings, such as a contradictory Configuration, change nothing: the earlier wanted state stays.
func TestImpossibleWishesLeaveTheTunnelAsItWas(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	p.waitForMTU(linuxtest.TunnelMTU, linuxtest.TunnelMTU)
	for name, change := range map[string]func(*gateway.Peer){
		"overlapping networks": func(peer *gateway.Peer) { peer.Real.External = peer.Real.Pod },
		"IPv6":                 func(peer *gateway.Peer) { peer.Real.Pod = linuxtest.Prefixes("fd00::/48") },
	} {
		before := p.ofServer.Status()
		w := p.wanted(p.server, p.client)
		change(&w.Inputs.Peers[0])
		p.ofServer.Set(w)
		linuxtest.WaitFor(t, "refusal of "+name, func() bool { return p.ofServer.Status().Errors > before.Errors })
		p.server.Gateway.Run("ip", "route", "flush", "table", "18100")
		linuxtest.WaitFor(t, "repair after "+name, func() bool { return p.ofServer.Status().Repairs > before.Repairs })
		if s := p.ofServer.Status(); s.Problem != "" {
			t.Errorf("%s: got problem %q, want none: what is in force works", name, s.Problem)
		}
		p.stream.Gap(time.Now()) // waits until traffic flows
	}
}
