//go:build linux

package tunnel_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/gateway/relay"
)

// relaying is a machine that both clusters reach, with a relay or without.
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

// natOfBoth is what routers of two sites do: nothing gets in but answers to what went
// out, and all of a site has one address.
const natOfBoth = `table ip nat {
	chain in { type filter hook forward priority 0; policy accept;
		iifname "internet" ct state new drop
		ip saddr 198.51.100.0/24 ip daddr 203.0.113.0/24 drop
		ip saddr 203.0.113.0/24 ip daddr 198.51.100.0/24 drop
	}
	chain out { type nat hook postrouting priority srcnat; policy accept; oifname "internet" masquerade; }
}`

func TestBothBehindNATByARelay(t *testing.T) {
	t.Parallel()
	r := &relaying{t: t}
	p := newPairWith(t, linuxtest.TunnelMTU, func(*gateway.Peer) {}, func(p *pair) {
		p.relay = netip.MustParseAddrPort("192.0.2.2:51840")
		r.at = netns.New(t, "relay")
		netns.Veth(p.wan, "internet", r.at, "eth0")
		p.wan.Run("ip", "addr", "add", "192.0.2.1/24", "dev", "internet")
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

	// What routers know of flows goes when they restart, or a pool of addresses moves on.
	p.wan.Run("nft", "delete", "table", "ip", "nat")
	p.wan.Run("conntrack", "-F")
	moved := time.Now()
	p.wan.NFT(natOfBoth)
	linuxtest.Bound(t, "both routers forget all flows", p.stream.Gap(moved), 2*time.Second)
}
