package mdns

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/internal/discovery"
)

// lan is a switch with machines at 192.168.7.N.
func lan(t *testing.T, machines ...string) (all []*netns.Namespace) {
	netns.Require(t)
	wire := netns.New(t, "switch")
	wire.Run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
	wire.Run("ip", "link", "set", "br0", "up")
	for i, address := range machines {
		n := netns.New(t, "m"+string(rune('a'+i)))
		port := "p" + string(rune('a'+i))
		netns.Veth(n, "eth0", wire, port)
		wire.Run("ip", "link", "set", port, "master", "br0", "up")
		n.Run("ip", "addr", "add", address, "dev", "eth0")
		n.Run("ip", "link", "set", "eth0", "up")
		all = append(all, n)
	}
	return all
}

func announceIn(t *testing.T, n *netns.Namespace, address string, c discovery.Cluster) {
	t.Helper()
	var conn *net.UDPConn
	var lan netip.Prefix
	var err error
	n.Do(func() { conn, lan, err = listen(netip.MustParseAddr(address)) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- answer(ctx, slog.New(slog.DiscardHandler), conn, lan, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s ended: %v", address, err)
		}
	})
}

func browseIn(t *testing.T, n *netns.Namespace, want ...discovery.Cluster) {
	t.Helper()
	n.Do(func() {
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			t.Error(err)
			return
		}
		found, unfit, err := browse(t.Context(), i, time.Second)
		slices.SortFunc(found, func(a, b discovery.Cluster) int { return a.Server.Compare(b.Server) })
		if err != nil || unfit != 0 || !slices.Equal(found, want) {
			t.Errorf("got %v, %d unfit, %v, want %v", found, unfit, err, want)
		}
	})
}

func TestClustersOfALANAreFound(t *testing.T) {
	machines := lan(t, "192.168.7.1/24", "192.168.7.2/24", "192.168.7.3/24", "192.168.7.4/24", "10.1.1.1/24")
	rome := discovery.Cluster{ID: "rome", Server: netip.MustParseAddrPort("192.168.7.1:6443")}
	milan := discovery.Cluster{ID: "milan", Server: netip.MustParseAddrPort("192.168.7.2:6443")}
	announceIn(t, machines[0], "192.168.7.1", rome)
	announceIn(t, machines[1], "192.168.7.2", milan)
	announceIn(t, machines[2], "192.168.7.3", milan) // another node of it
	browseIn(t, machines[3], rome, milan)
	machines[0].ListenUDP("192.168.7.1:5353") // which another program of the node has

	t.Run("not from beyond the LAN", func(t *testing.T) {
		machines[4].Run("ip", "route", "add", "192.168.7.0/24", "dev", "eth0")
		for _, m := range machines[:3] {
			m.Run("ip", "route", "add", "10.1.1.0/24", "dev", "eth0")
		}
		browseIn(t, machines[4])
	})
	t.Run("other programs hear it, too", func(t *testing.T) {
		machines[3].Do(func() {
			conn, _, err := listen(netip.MustParseAddr("192.168.7.4"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			m := dnsmessage.Message{Questions: []dnsmessage.Question{{
				Name: dnsmessage.MustNewName("milan._liqo-tui._tcp.local."), Type: dnsmessage.TypeSRV, Class: dnsmessage.ClassINET,
			}}}
			question, err := m.Pack()
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := conn.WriteToUDPAddrPort(question, group); err != nil {
				t.Error(err)
				return
			}
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			buf := make([]byte, most)
			for {
				n, from, err := conn.ReadFromUDPAddrPort(buf)
				if err != nil {
					t.Error("no answer to all: ", err)
					return
				}
				if m.Unpack(buf[:n]) == nil && m.Response && from.Port() == 5353 {
					return
				}
			}
		})
	})
}

// Only answers from the port of mDNS count (RFC 6762, section 6).
func TestAnswersFromAnotherPortAreNotBelieved(t *testing.T) {
	machines := lan(t, "192.168.7.1/24", "192.168.7.2/24")
	liar := discovery.Cluster{ID: "rome", Server: netip.MustParseAddrPort("192.168.7.66:6443")}
	var hears *net.UDPConn
	var err error
	machines[1].Do(func() { hears, _, err = listen(netip.MustParseAddr("192.168.7.2")) })
	if err != nil {
		t.Fatal(err)
	}
	says := machines[1].ListenUDP("192.168.7.2:9999")
	lied := make(chan error)
	go func() {
		buf := make([]byte, most)
		n, from, err := hears.ReadFromUDPAddrPort(buf)
		if err != nil {
			lied <- err
			return
		}
		reply, _, err := liar.Reply(buf[:n], true)
		if err == nil {
			_, err = says.WriteToUDPAddrPort(reply, from)
		}
		lied <- err
	}()
	browseIn(t, machines[0])
	hears.Close()
	if err := <-lied; err != nil {
		t.Errorf("nobody lied: %v", err)
	}
}

// The firewall may be on the node, or on the machine that asks.
func TestOneWhoCannotBeAnsweredKeepsNobodyElseFromAnAnswer(t *testing.T) {
	machines := lan(t, "192.168.7.1/24", "192.168.7.2/24", "192.168.7.3/24")
	rome := discovery.Cluster{ID: "rome", Server: netip.MustParseAddrPort("192.168.7.1:6443")}
	announceIn(t, machines[0], "192.168.7.1", rome)
	machines[0].NFT("table inet keep { chain out { type filter hook output priority 0; ip daddr 192.168.7.2 drop; }; }")
	browseIn(t, machines[1])
	browseIn(t, machines[2], rome)
}

// A node's interface may disappear for a time, or appear late.
func TestWhatCannotBeAnnouncedIsAnError(t *testing.T) {
	machines := lan(t, "192.168.7.1/24")
	machines[0].Do(func() {
		if err := announce(t.Context(), slog.New(slog.DiscardHandler), netip.MustParseAddr("192.168.7.9"), discovery.Cluster{}); err == nil || err.Error() != "no interface has the address 192.168.7.9" {
			t.Errorf("got %v", err)
		}
	})
	if _, err := Browse(t.Context(), "nothere0", time.Millisecond); err == nil {
		t.Error("a missing interface was asked")
	}
}
