//go:build linux

package tunnel_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
)

// Most tests run in parallel, because they mostly wait. Tests that measure the cost of a tunnel, or the loss
// of packets, run alone.
func TestMain(m *testing.M) { linuxtest.Main(m) }

// pair is two clusters whose gateways are processes. A pod of one cluster sends requests to a pod of the
// other cluster.
type pair struct {
	t              *testing.T
	wan            *netns.Namespace
	server, client *linuxtest.Cluster
	ofServer       *linuxtest.Process
	ofClient       *linuxtest.Process
	podA, podB     *netns.Namespace
	stream         *linuxtest.Stream
	relay          netip.AddrPort // zero: the client dials the server
}

// newPair connects two clusters with tunnels of at most mtu bytes.
func newPair(t *testing.T, mtu int) *pair {
	t.Helper()
	return newPairOver(t, mtu, func(*netns.Namespace) {})
}

// newPairOver changes the path between the clusters before they are connected.
func newPairOver(t *testing.T, mtu int, change func(wan *netns.Namespace)) *pair {
	t.Helper()
	return newPairWith(t, mtu, func(*gateway.Peer) {}, func(p *pair) { change(p.wan) })
}

// newPairWith also changes each cluster's settings for the other one.
func newPairWith(t *testing.T, mtu int, say func(*gateway.Peer), change func(*pair)) *pair {
	t.Helper()
	p := &pair{t: t, wan: netns.New(t, "wan")}
	p.wan.Sysctl("ip_forward", "1")
	p.server = linuxtest.NewCluster(t, p.wan, "a", gateway.Server, "198.51.100", "10.244.1.5",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16")})
	p.client = linuxtest.NewCluster(t, p.wan, "b", gateway.Client, "203.0.113", "10.244.1.6",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.61.0.0/16"), External: linuxtest.Prefixes("10.72.0.0/16")})
	p.server.MTU, p.client.MTU = mtu, mtu
	change(p)
	p.server.SyncNodes()
	p.client.SyncNodes()
	start := func(c, peer *linuxtest.Cluster) *linuxtest.Process {
		w := p.wanted(c, peer)
		say(&w.Inputs.Peers[0])
		return c.Start(w)
	}
	p.ofServer, p.ofClient = start(p.server, p.client), start(p.client, p.server)
	p.podA, p.podB = p.server.Pod(1, "podA", "10.244.2.2"), p.client.Pod(1, "podB", "10.244.2.2")
	linuxtest.Echo(p.podA)
	linuxtest.Echo(p.podB)
	p.stream = linuxtest.NewStream(t, p.podB, "10.61.2.2")
	for _, g := range []*linuxtest.Process{p.ofServer, p.ofClient} {
		linuxtest.WaitFor(t, "ping", func() bool {
			pings := g.Status().Pings
			return pings.Value == ping.Connected && pings.Latency > 0
		})
	}
	return p
}

func (p *pair) wanted(c, peer *linuxtest.Cluster) tunnel.Wanted {
	w := tunnel.Wanted{Inputs: c.Inputs(peer)}
	if !p.relay.IsValid() {
		return w
	}
	e := p.relay
	if c == p.server {
		e = netip.AddrPortFrom(e.Addr(), e.Port()+1)
	}
	w.Inputs.Peers[0].Endpoint, w.Dials = e, true
	return w
}

func (p *pair) wantedEndpoint(e netip.AddrPort) tunnel.Wanted {
	w := p.wanted(p.server, p.client)
	w.Inputs.Peers[0].Endpoint = e
	return w
}

// The server knows the client's last address from its own report.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	client := p.ofServer.Status().Peer.Endpoint
	killed := time.Now()
	p.ofServer.Kill()
	p.ofServer = p.server.Start(p.wantedEndpoint(client))
	linuxtest.Bound(t, "server killed and restarted", p.stream.Gap(killed), time.Second)
}

// Without the report, or if the client has moved meanwhile, the client notices the failure.
func TestServerIsKilledAndKnowsNoClient(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	killed := time.Now()
	p.ofServer.Kill()
	p.ofServer = p.server.Start(p.wanted(p.server, p.client))
	linuxtest.Bound(t, "server killed, client unknown", p.stream.Gap(killed), time.Second)
	if p.ofClient.Status().Redials == 0 {
		t.Error("the client did not dial again: what is it that helped?")
	}
}

func TestServerIsGoneForLong(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	before := p.ofClient.Status().Redials
	p.ofServer.Kill()
	linuxtest.WaitFor(t, "the client to dial in vain", func() bool { return p.ofClient.Status().Redials > before+8 })
	back := time.Now()
	p.ofServer = p.server.Start(p.wanted(p.server, p.client))
	linuxtest.Bound(t, "server back after seconds", p.stream.Gap(back), time.Second)
}

func TestClientIsKilled(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	killed := time.Now()
	p.ofClient.Kill()
	p.ofClient = p.client.Start(p.wanted(p.client, p.server))
	linuxtest.Bound(t, "client killed and restarted", p.stream.Gap(killed), time.Second)
}

func TestServerGetsAnotherPort(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	// Packets to the old address are dropped, also in existing flows.
	p.server.Nodes[0].NFT(`table ip proxy {
		chain closed { type filter hook prerouting priority raw; policy accept; udp dport 51840 ip daddr 198.51.100.2 drop; }
		chain nodeport2 { type nat hook prerouting priority dstnat; policy accept; udp dport 31000 dnat to 10.244.1.5:51840; }
	}`)
	linuxtest.WaitFor(t, "silence", func() bool { return p.ofClient.Status().Redials > 0 })
	w := p.wanted(p.client, p.server)
	w.Inputs.Peers[0].Endpoint = netip.MustParseAddrPort("198.51.100.2:31000")
	told := time.Now()
	p.ofClient.Set(w)
	linuxtest.Bound(t, "server's port changed", p.stream.Gap(told), 2*time.Second)
}

// If a node is dialled before its kube-proxy knows the new port, the node tracks the flow as a flow to itself
// while the flow lives.
func TestServersNodeIsDialledTooEarly(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	p.server.Nodes[0].NFT(`table ip proxy {
		chain closed { type filter hook prerouting priority raw; policy accept; udp dport 51840 ip daddr 198.51.100.2 drop; }
	}`)
	w := p.wanted(p.client, p.server)
	w.Inputs.Peers[0].Endpoint = netip.MustParseAddrPort("198.51.100.2:31000")
	p.ofClient.Set(w)
	linuxtest.WaitFor(t, "the client to dial in vain", func() bool {
		s := p.ofClient.Status()
		return s.Peer.Endpoint == w.Inputs.Peers[0].Endpoint && s.Redials > 2
	})
	p.server.Nodes[0].NFT(`table ip proxy {
		chain nodeport2 { type nat hook prerouting priority dstnat; policy accept; udp dport 31000 dnat to 10.244.1.5:51840; }
	}`)
	open := time.Now()
	linuxtest.Bound(t, "server's node dialled too early", p.stream.Gap(open), 2*time.Second)
}

// A name may have several addresses, of which one works.
func TestClientFindsTheAddressThatAnswers(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	p.ofClient.Kill()
	w := p.wanted(p.client, p.server)
	works := w.Inputs.Peers[0].Endpoint
	w.Endpoints = []netip.AddrPort{netip.MustParseAddrPort("198.51.100.77:51840"), works}
	w.Inputs.Peers[0].Endpoint = w.Endpoints[0]
	started := time.Now()
	p.ofClient = p.client.Start(w)
	linuxtest.Bound(t, "second of two addresses", p.stream.Gap(started), 5*time.Second)
	linuxtest.WaitFor(t, "the address that works", func() bool { return p.ofClient.Status().Peer.Endpoint == works })
}

func TestClientsAddressTranslationChanges(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	before := p.ofServer.Status().Peer.Endpoint
	node := p.client.Nodes[0]
	node.NFT(`table ip nat2 {
		chain rebind { type nat hook postrouting priority 90; policy accept; udp dport 51840 masquerade to :40000-40100; }
	}`)
	rebound := time.Now()
	var err error
	node.Do(func() { err = netlink.ConntrackTableFlush(netlink.ConntrackTable) })
	if err != nil {
		t.Fatal(err)
	}
	linuxtest.Bound(t, "client's address translation changed", p.stream.Gap(rebound), 500*time.Millisecond)
	linuxtest.WaitFor(t, "another endpoint", func() bool { return p.ofServer.Status().Peer.Endpoint != before })
}

func TestPathIsCutForLong(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	before := p.ofClient.Status().Redials
	p.wan.NFT(`table ip cut {
		chain c { type filter hook forward priority 0; policy drop; }
	}`)
	linuxtest.WaitFor(t, "silence", func() bool { return p.ofClient.Status().Redials > before+8 })
	back := time.Now()
	p.wan.Run("nft", "delete", "table", "ip", "cut")
	linuxtest.Bound(t, "path cut for seconds", p.stream.Gap(back), time.Second)
}

// The sent bytes show whether a path is cut, so they have to grow with each redial, although WireGuard counts
// from zero after each.
func TestWhatIsDialledInVainCountsAsSent(t *testing.T) {
	const handshake = 148 // the bytes of the first message of a handshake
	p := newPair(t, linuxtest.TunnelMTU)
	p.wan.NFT(`table ip cut {
		chain c { type filter hook forward priority 0; policy drop; }
	}`)
	linuxtest.WaitFor(t, "the client to dial in vain", func() bool { return p.ofClient.Status().Redials > 4 })
	before := p.ofClient.Status()
	linuxtest.WaitFor(t, "more of that", func() bool { return p.ofClient.Status().Redials >= before.Redials+6 })
	after := p.ofClient.Status()
	// The last redial may not be counted yet.
	dialled := after.Redials - before.Redials
	if sent, want := after.Peer.Sent-before.Peer.Sent, (dialled-1)*handshake; sent < want {
		t.Errorf("dialled %d times: got %d bytes sent, want %d at least", dialled, sent, want)
	}
	if got := after.Peer.Received - before.Peer.Received; got != 0 {
		t.Errorf("nothing can come: got %d bytes received", got)
	}
}

// A fast recovery must not disturb a tunnel that works.
func TestHealthyTunnelIsLeftAlone(t *testing.T) {
	p := newPair(t, linuxtest.TunnelMTU)
	before := p.ofClient.Status()
	started := time.Now()
	time.Sleep(4 * time.Second) // the test expects no redial in this time
	after := p.ofClient.Status()
	// One redial is possible if the machine stopped for half a second. A hasty watchdog would dial twice a
	// second.
	if dialled := after.Redials - before.Redials; dialled > 1 {
		t.Errorf("dialled %d times", dialled)
	}
	linuxtest.Bound(t, "healthy", p.stream.Gap(started), 100*time.Millisecond)
	for _, g := range []*linuxtest.Process{p.ofServer, p.ofClient} {
		if s := g.Status(); s.Repairs != 0 || s.Errors != 0 || s.Problem != "" {
			t.Errorf("repairs %d, errors %d, problem %q", s.Repairs, s.Errors, s.Problem)
		}
	}
}

// The client dials again while the server does not run. Packets under the old keys then wait in the server's
// socket.
func TestAGatewayThatWasBusyLosesNoPacket(t *testing.T) {
	t.Parallel()
	// The kernel's WireGuard would go on without the gateway's process.
	p := newPairWith(t, linuxtest.TunnelMTU, func(peer *gateway.Peer) { peer.Implementation = gateway.Userspace }, func(*pair) {})
	p.stream.Stop() // its packets would fill the queue of packets that wait for a handshake
	p.losesNothing("client", p.ofClient)
	before := p.ofClient.Status().Redials
	for range 5 { // on a busy machine, the client may also stop meanwhile
		p.losesNothing("server", p.ofServer)
		if p.ofClient.Status().Redials > before {
			return
		}
	}
	t.Error("the client did not dial again, so this test shows nothing")
}

// losesNothing stops a gateway for a second, while a pod sends datagrams. All have to be answered.
func (p *pair) losesNothing(name string, busy *linuxtest.Process) {
	p.t.Helper()
	const every, datagrams, resume = 40 * time.Millisecond, 50, 25
	socket := p.podB.ListenUDP("0.0.0.0:0")
	defer socket.Close()
	busy.Stop()
	for i := range byte(datagrams) {
		if i == resume {
			busy.Continue()
		}
		if _, err := socket.WriteToUDPAddrPort([]byte{i}, netip.MustParseAddrPort("10.61.2.2:7777")); err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(every)
	}
	if err := socket.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		p.t.Fatal(err)
	}
	answered := map[byte]bool{}
	for b := make([]byte, 1); len(answered) < datagrams; answered[b[0]] = true {
		if _, _, err := socket.ReadFromUDPAddrPort(b); err != nil {
			break
		}
	}
	if len(answered) != datagrams {
		p.t.Errorf("the %s was busy: %d of %d datagrams were answered", name, len(answered), datagrams)
	}
}

// The other end works, but does not answer pings.
func TestTunnelOfAPeerThatAnswersNoPingsIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	before, started := p.ofClient.Status(), time.Now()
	p.server.Gateway.NFT(fmt.Sprintf(`table ip mute {
		chain c { type filter hook output priority 0; policy accept; udp sport %d drop; }
	}`, gateway.PingPort))
	linuxtest.WaitFor(t, "word that pings are not answered", func() bool {
		s := p.ofClient.Status()
		return s.Pings.Value == ping.Error && s.Pings.Mute(time.Now(), s.Peer.Handshake)
	})
	// One redial is the proof, and a second one is possible if the machine stopped for half a second. Without
	// the proof, there was one at once, and then one every 5 s.
	linuxtest.WaitFor(t, "time for a third", func() bool { return time.Since(started) > 14*time.Second })
	if dialled := p.ofClient.Status().Redials - before.Redials; dialled > 2 {
		t.Errorf("dialled %d times", dialled)
	}
	linuxtest.Bound(t, "the peer's pings stopped", p.stream.Gap(started), 100*time.Millisecond)
}

func TestOthersMayNotHearOrAnswerPings(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	for _, port := range []uint16{gateway.PingPort, gateway.PathMTUPort} {
		s := p.podA.ListenUDP("0.0.0.0:0")
		to := netip.MustParseAddrPort(fmt.Sprintf("10.244.1.5:%d", port))
		if _, err := s.WriteToUDPAddrPort([]byte(`{"clusterID":"a","msgType":"PING","timeStamp":"2026-01-02T15:04:05Z"}`), to); err != nil {
			t.Fatal(err)
		}
		if err := s.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, from, err := s.ReadFromUDPAddrPort(make([]byte, 100)); err == nil {
			t.Errorf("port %d: %d bytes from %s", port, n, from)
		}
	}
}

// The intervals between redials grow, but a path that works again is still found: WireGuard repeats its
// handshake every 5 s, and a change of the peer causes a redial at once.
func TestPathIsCutForMinutes(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	seldom := func() {
		t.Helper()
		p.wan.NFT(`table ip cut {
			chain c { type filter hook forward priority 0; policy drop; }
		}`)
		cut := time.Now()
		for time.Since(cut) < 2*time.Minute {
			if s := p.ofClient.Status(); s.Redialled.After(cut) && time.Since(s.Redialled) > 6*time.Second {
				return
			}
			time.Sleep(100 * time.Millisecond) // no event tells that no redial happens
		}
		t.Fatal("the client dials as often as at first")
	}
	seldom()
	back := time.Now()
	p.wan.Run("nft", "delete", "table", "ip", "cut")
	linuxtest.Bound(t, "path cut for minutes", p.stream.Gap(back), 7*time.Second)
}

func TestNewsOfTheNetworkEndsTheWait(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	p.wan.NFT(`table ip cut {
		chain c { type filter hook forward priority 0; policy drop; }
	}`)
	cut := time.Now()
	for s := p.ofClient.Status(); !s.Redialled.After(cut) || time.Since(s.Redialled) < 6*time.Second; s = p.ofClient.Status() {
		if time.Since(cut) > 2*time.Minute {
			t.Fatal("the client dials as often as at first")
		}
		time.Sleep(100 * time.Millisecond) // no event tells that no redial happens
	}
	before, at := p.ofClient.Status().Redials, time.Now()
	p.client.Gateway.Run("ip", "route", "add", "192.0.2.128/25", "dev", "eth0")
	linuxtest.WaitFor(t, "three redials", func() bool { return p.ofClient.Status().Redials >= before+3 })
	linuxtest.Bound(t, "three redials after a route is new", time.Since(at), 4*time.Second)
}
