//go:build linux

package tunnel_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
)

// narrow limits the packets between the clusters to mtu bytes, in both directions. A hole drops longer
// packets without an error.
func narrow(wan *netns.Namespace, mtu string, hole bool) {
	wan.Run("ip", "route", "replace", "203.0.113.0/24", "dev", "lan-b", "mtu", "lock", mtu)
	wan.Run("ip", "route", "replace", "198.51.100.0/24", "dev", "lan-a", "mtu", "lock", mtu)
	if hole {
		wan.NFT(`table ip hole {
			chain silence { type filter hook output priority 0; policy accept; icmp type destination-unreachable drop; }
		}`)
	}
}

const wide = 1440 // 1500 bytes without the tunnel's overhead

// waitForMTU waits until both ends have found the same MTU in a range, and returns it.
func (p *pair) waitForMTU(atLeast, most int) int {
	p.t.Helper()
	var a, b int
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		a, b = p.ofServer.Status().PathMTU, p.ofClient.Status().PathMTU
		if a == b && a >= atLeast && a <= most {
			return a
		}
	}
	p.t.Fatalf("got path MTUs %d and %d, want the same between %d and %d", a, b, atLeast, most)
	return 0
}

func TestPathThatCarriesAllIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	p := newPair(t, wide)
	p.waitForMTU(wide, wide)
}

// WireGuard pads to 16 bytes, so 1328 of 1400-60 = 1340 bytes are usable.
func TestBlackHoleIsFound(t *testing.T) {
	t.Parallel()
	p := newNarrowPair(t, "1400", true)
	found := p.waitForMTU(1320, 1340)
	p.podB.Whoami(":8080")
	started := time.Now()
	expect(t, p.podA, "10.60.2.2", "podB sees 10.61.2.2")
	t.Logf("a path of 1400 bytes carries %d; 200 kB in %s", found, time.Since(started))
}

// auto sets no limit for packets.
func auto(in *gateway.Peer) { in.MTU, in.UnprovenMTU = 9000, linuxtest.TunnelMTU }

// newAutoPair lets the gateways find the MTU, on networks with this MTU.
func newAutoPair(t *testing.T, underlay int, change func(wan *netns.Namespace)) *pair {
	t.Helper()
	return newPairWith(t, 9000, auto, func(p *pair) {
		p.server.Widen(underlay)
		p.client.Widen(underlay)
		change(p.wan)
	})
}

func TestJumboFramesAreUsed(t *testing.T) {
	t.Parallel()
	p := newAutoPair(t, 8960, func(*netns.Namespace) {})
	p.waitForMTU(8900, 8900)
	p.podB.Whoami(":8080")
	expect(t, p.podA, "10.60.2.2", "podB sees 10.61.2.2")
	if s := p.ofServer.Status(); s.LinkMTU != 8900 {
		t.Errorf("got a device of %d, want 8900", s.LinkMTU)
	}
}

// A network without jumbo frames, which sends no errors, connects networks with jumbo frames.
func TestJumboFramesThatEndOnTheWay(t *testing.T) {
	t.Parallel()
	p := newAutoPair(t, 9000, func(wan *netns.Namespace) { narrow(wan, "1500", true) })
	p.waitForMTU(1420, wide)
	p.podB.Whoami(":8080")
	expect(t, p.podA, "10.60.2.2", "podB sees 10.61.2.2")
}

// A gateway of Liqo answers pings, but no questions about the MTU.
func TestPeerThatAnswersNoQuestionsGetsWhatNearlyEveryPathCarries(t *testing.T) {
	t.Parallel()
	p := newAutoPair(t, 9000, func(*netns.Namespace) {})
	p.waitForMTU(8940, 8940)
	p.ofClient.Kill()
	p.server.Gateway.NFT(fmt.Sprintf(`table ip liqo {
		chain c { type filter hook input priority 0; policy accept; udp dport %d drop; }
	}`, gateway.PathMTUPort))
	w := p.wanted(p.client, p.server)
	auto(&w.Inputs.Peers[0])
	p.ofClient = p.client.Start(w)
	linuxtest.WaitFor(t, "ping", func() bool { return p.ofClient.Status().Pings.Value == ping.Connected })
	if got := p.client.Gateway.Run("ip", "route", "show", "table", strconv.Itoa(gateway.RemoteTable)); !strings.Contains(got, "mtu 1328 ") { // less than 1340, because of the padding
		t.Errorf("got routes\n%s\nwant an mtu of 1328", got)
	}
}

// The route to the peer is narrower than the device.
func TestRouteToThePeerLimitsTheTunnel(t *testing.T) {
	t.Parallel()
	p := newAutoPair(t, 9000, func(*netns.Namespace) {})
	p.waitForMTU(8940, 8940)
	p.ofClient.Kill()
	p.client.Gateway.Run("ip", "route", "add", "198.51.100.0/24", "via", "169.254.1.1", "mtu", "1400")
	w := p.wanted(p.client, p.server)
	auto(&w.Inputs.Peers[0])
	p.ofClient = p.client.Start(w)
	linuxtest.WaitFor(t, "a device of 1340", func() bool { return p.ofClient.Status().LinkMTU == 1340 })
}

// A peer that answers pings and no questions about the MTU may have been busy.
func TestPeerThatAnswersLaterIsAskedAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t, wide)
	p.ofClient.Kill()
	p.server.Gateway.NFT(fmt.Sprintf(`table ip busy {
		chain c { type filter hook input priority 0; policy accept; udp dport %d drop; }
	}`, gateway.PathMTUPort))
	p.ofClient = p.client.Start(p.wanted(p.client, p.server))
	linuxtest.WaitFor(t, "ping", func() bool { return p.ofClient.Status().Pings.Value == ping.Connected })
	time.Sleep(3 * time.Second) // the client asks as soon as pings are answered
	if got := p.ofClient.Status().PathMTU; got != 0 {
		t.Fatalf("got path MTU %d although no question was answered", got)
	}
	p.server.Gateway.Run("nft", "delete", "table", "ip", "busy")
	p.waitForMTU(wide, wide)
}

// The search does not need a router's errors, and works with them, too.
func TestPathThatSaysItsLimitIsFound(t *testing.T) {
	t.Parallel()
	p := newNarrowPair(t, "1400", false)
	p.waitForMTU(1320, 1340)
	p.podB.Whoami(":8080")
	expect(t, p.podA, "10.60.2.2", "podB sees 10.61.2.2")
}

// One end may have a lower limit than the other end.
func TestBothEndsAgree(t *testing.T) {
	t.Parallel()
	p := newPair(t, wide)
	p.waitForMTU(wide, wide)
	w := p.wanted(p.client, p.server)
	w.Inputs.Peers[0].MTU = 1300
	p.ofClient.Set(w)
	p.ofServer.Kill() // it would ask again after ten minutes
	p.ofServer = p.server.Start(p.wanted(p.server, p.client))
	p.waitForMTU(1300, 1300)
}

func TestPathThatShrinksStallsForSecondsOnly(t *testing.T) {
	t.Parallel()
	p := newPair(t, wide)
	p.waitForMTU(wide, wide)
	long := linuxtest.NewStreamOf(t, p.podB, "10.61.2.2", 1200)
	shrunk := time.Now()
	narrow(p.wan, "1200", true)
	linuxtest.Bound(t, "path shrunk to 1200 bytes, of a stream of 1200", long.Gap(shrunk), 5*time.Second)
	p.waitForMTU(1120, 1140)
}

// The gateway reports to a pod with too long packets how long they may be, under the address that the pod
// knows.
func TestPodIsToldByTheGateway(t *testing.T) {
	t.Parallel()
	p := newNarrowPair(t, "1400", true)
	found := p.waitForMTU(1320, 1340)
	socket := p.podA.ListenUDP("0.0.0.0:0")
	linuxtest.DontFragment(t, socket)
	to := netip.MustParseAddrPort("10.60.2.2:7777")
	const headers = 28
	// conntrack knows a flow after its first packet.
	if _, err := socket.WriteToUDPAddrPort([]byte("small"), to); err != nil {
		t.Fatal(err)
	}
	linuxtest.WaitFor(t, "message that it is too long", func() bool {
		_, err := socket.WriteToUDPAddrPort(make([]byte, found-headers+1), to)
		return errors.Is(err, unix.EMSGSIZE)
	})
	if _, err := socket.WriteToUDPAddrPort(make([]byte, found-headers), to); err != nil {
		t.Errorf("the longest that fits: %v", err)
	}
}

// WireGuard pads packets to 16 bytes, but not beyond the device's MTU. So the longest packet fits a path with
// the same limit.
func TestTheLongestPacketIsNotPadded(t *testing.T) {
	t.Parallel()
	const overhead = 60
	p := newPairOver(t, linuxtest.TunnelMTU, func(wan *netns.Namespace) { narrow(wan, strconv.Itoa(linuxtest.TunnelMTU+overhead), true) })
	p.waitForMTU(linuxtest.TunnelMTU, linuxtest.TunnelMTU)
}

// The kernel knows that this path carries 1450 bytes, which is a packet of 1390 bytes. WireGuard in userspace
// would pad it to 1392 bytes. Then each long packet would be two fragments.
func TestLongPacketsAreNotFragmented(t *testing.T) {
	t.Parallel()
	p := newNarrowPair(t, "1450", false)
	p.waitForMTU(1376, 1390)
	p.podB.Whoami(":8080")
	linuxtest.WaitFor(t, "routes that no packet is too long for", func() bool {
		return strings.Contains(p.server.Gateway.Run("ip", "route", "show", "table", strconv.Itoa(gateway.RemoteTable)), "mtu 1376 ")
	})
	fragments := func() string {
		lines := strings.Split(p.client.Gateway.Run("cat", "/proc/net/snmp"), "\n")
		values := strings.Fields(lines[1])
		return values[slices.Index(strings.Fields(lines[0]), "FragCreates")]
	}
	before := fragments()
	expect(t, p.podA, "10.60.2.2", "podB sees 10.61.2.2")
	if after := fragments(); after != before {
		t.Errorf("the gateway of the pod that answers has made %s fragments, and %s before", after, before)
	}
}

func newNarrowPair(t *testing.T, mtu string, hole bool) *pair {
	t.Helper()
	return newPairOver(t, wide, func(wan *netns.Namespace) { narrow(wan, mtu, hole) })
}

func expect(t *testing.T, n *netns.Namespace, to, want string) {
	t.Helper()
	linuxtest.ExpectFrom(t, n, to, want)
}
