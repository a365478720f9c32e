//go:build linux

package tunnel_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/device"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/gateway/relay"
)

// relaying is a machine that both clusters reach, with or without a relay.
type relaying struct {
	t    *testing.T
	at   *netns.Namespace
	stop func()
}

// start starts the relay.
func (r *relaying) start() {
	r.t.Helper()
	conns := [2]*net.UDPConn{r.at.ListenUDP("192.0.2.2:51840"), r.at.ListenUDP("192.0.2.2:51841")}
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error)
	go func() {
		done <- relay.Serve(ctx, relay.Config{Log: slog.New(slog.NewTextHandler(r.t.Output(), nil))}, conns)
	}()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("the relay ends with %v", err)
		}
	}
}

// natOfBoth contains the rules of the routers of two sites: only answers to packets from inside get in, and
// each site has one address.
const natOfBoth = `table ip nat {
	chain in { type filter hook forward priority 0; policy accept;
		iifname "internet" ct state new drop
		ip saddr 198.51.100.0/24 ip daddr 203.0.113.0/24 drop
		ip saddr 203.0.113.0/24 ip daddr 198.51.100.0/24 drop
	}
	chain out { type nat hook postrouting priority srcnat; policy accept; oifname "internet" masquerade; }
}`

// newPairByRelay connects two clusters of which neither can be dialled.
func newPairByRelay(t *testing.T) (*pair, *relaying) {
	t.Helper()
	r := &relaying{t: t}
	p := newPairWith(t, linuxtest.TunnelMTU, func(*gateway.Peer) {}, func(p *pair) {
		p.relay = netip.MustParseAddrPort("192.0.2.2:51840")
		r.at = netns.New(t, "relay")
		netns.Veth(p.wan, "internet", r.at, "eth0")
		p.wan.Script("ip addr add 192.0.2.1/24 dev internet\nip addr add 192.0.2.3/24 dev internet")
		r.at.Run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
		p.wan.NFT(natOfBoth)
		r.start()
	})
	t.Cleanup(func() { r.stop() })
	for _, g := range []*linuxtest.Process{p.ofServer, p.ofClient} {
		if at := g.Status().Peer.Endpoint.Addr(); at != p.relay.Addr() {
			t.Errorf("a gateway hears its peer at %s, want the relay: there was another way", at)
		}
	}
	return p, r
}

func TestBothBehindNATByARelay(t *testing.T) {
	t.Parallel()
	p, r := newPairByRelay(t)

	killed := time.Now()
	p.ofServer.Kill()
	p.ofServer = p.server.Start(p.wanted(p.server, p.client))
	linuxtest.Bound(t, "server killed, by a relay", p.stream.Gap(killed), time.Second)

	r.stop()
	linuxtest.WaitFor(t, "both to dial in vain", func() bool {
		return p.ofClient.Status().Redials > 8 && p.ofServer.Status().Redials > 8
	})
	back := time.Now()
	r.start()
	linuxtest.Bound(t, "relay back after seconds", p.stream.Gap(back), 2*time.Second)

	// Routers forget flows when they restart, or when their pool of addresses changes. The test restores the
	// rules before it deletes the flows. Otherwise a packet in between would begin a flow without
	// translation, and the server's dials, which come from one port, would keep it for ever.
	p.wan.Run("nft", "delete", "table", "ip", "nat")
	p.wan.NFT(natOfBoth)
	moved := time.Now()
	p.wan.Run("conntrack", "-F")
	linuxtest.Bound(t, "both routers forget all flows", p.stream.Gap(moved), 2*time.Second)
}

// flood sends 1,000 initiations per second to the relay until the test ends. Each has its own source, and
// they go to its two ports alternately.
func (r *relaying) flood() {
	packet := make([]byte, device.MessageInitiationSize)
	packet[0] = device.MessageInitiationType
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan error)
	go func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-ticker.C:
			}
			var err error
			r.at.Do(func() {
				for i := range 10 {
					random := rand.Uint32()
					binary.LittleEndian.PutUint32(packet[4:], random)
					from := net.IPv4(127, byte(random), byte(random>>8), byte(random>>16)|1)
					var c net.PacketConn
					if c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: from}); err != nil {
						return
					}
					// The packet is refused while the relay restarts.
					_, _ = c.WriteTo(packet, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 51840 + i%2})
					_ = c.Close()
				}
			})
			if err != nil {
				done <- err
				return
			}
		}
	}()
	r.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

// Everybody can invent the source of an initiation.
func TestAFloodOfARelayKeepsNoGatewayOut(t *testing.T) {
	t.Parallel()
	p, r := newPairByRelay(t)
	r.flood()
	const within = 3 * time.Second
	event := func(name string, do func()) {
		t.Helper()
		at := time.Now()
		do()
		linuxtest.Bound(t, name, p.stream.Gap(at), within)
	}
	event("relay flooded", func() {})
	event("relay flooded, client restarted", func() {
		p.ofClient.Kill()
		p.ofClient = p.client.Start(p.wanted(p.client, p.server))
	})
	event("relay flooded, both restarted", func() {
		p.ofClient.Kill()
		p.ofServer.Kill()
		p.ofServer, p.ofClient = p.server.Start(p.wanted(p.server, p.client)), p.client.Start(p.wanted(p.client, p.server))
	})
	event("relay flooded, both moved", func() {
		p.wan.NFT("delete table ip nat\n" + strings.Replace(natOfBoth, "masquerade", "snat to 192.0.2.3", 1))
		p.wan.Run("conntrack", "-F")
	})
	event("relay flooded, and restarted", func() {
		r.stop()
		r.start()
	})
}
