package relay

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func begin() []byte {
	packet := make([]byte, initiation)
	packet[0] = initiates
	return packet
}

// relayed is a relay with both of its ports.
func relayed(t *testing.T, allow ...netip.Prefix) (ports [2]netip.AddrPort) {
	t.Helper()
	var conns [2]*net.UDPConn
	for i := range conns {
		conns[i] = listen(t, "127.0.0.1")
		ports[i] = conns[i].LocalAddr().(*net.UDPAddr).AddrPort()
	}
	done := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- Serve(ctx, Config{Allow: allow, Log: slog.New(slog.DiscardHandler)}, conns) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the relay ends with %v", err)
		}
	})
	return ports
}

func listen(t *testing.T, ip string) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t *testing.T, c *net.UDPConn, to netip.AddrPort, packet []byte) {
	t.Helper()
	if _, err := c.WriteToUDPAddrPort(packet, to); err != nil {
		t.Fatal(err)
	}
}

// expect receives want, and what else comes before it is an error.
func expect(t *testing.T, c *net.UDPConn, want []byte) {
	t.Helper()
	buffer := make([]byte, longest)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, _, err := c.ReadFromUDPAddrPort(buffer)
	if err != nil {
		t.Fatalf("want %.20q: %v", want, err)
	}
	if !bytes.Equal(buffer[:n], want) {
		t.Fatalf("got %.20q, want %.20q", buffer[:n], want)
	}
}

// join has a gateway dial until the other one hears of it: it does so again and again.
func join(t *testing.T, ports [2]netip.AddrPort) (client, server *net.UDPConn) {
	t.Helper()
	client, server = listen(t, "127.0.0.1"), listen(t, "127.0.0.1")
	send(t, server, ports[1], begin()) // nobody is there to pass it on to
	buffer := make([]byte, longest)
	for {
		send(t, client, ports[0], begin())
		_ = server.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, _, err := server.ReadFromUDPAddrPort(buffer); err == nil && n == initiation {
			break
		}
		send(t, server, ports[1], begin())
	}
	// All that was sent twice has gone through when these have.
	drain(t, client, ports[0], server)
	drain(t, server, ports[1], client)
	return client, server
}

// drain has from send one packet more, and to receive all until that.
func drain(t *testing.T, from *net.UDPConn, port netip.AddrPort, to *net.UDPConn) {
	t.Helper()
	send(t, from, port, []byte("last"))
	buffer := make([]byte, longest)
	if err := to.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		n, _, err := to.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatalf("port %s: %v", port, err)
		}
		if string(buffer[:n]) == "last" {
			return
		}
	}
}

func TestTwoGatewaysThatDialHearEachOther(t *testing.T) {
	ports := relayed(t)
	client, server := join(t, ports)
	long := bytes.Repeat([]byte("x"), 1400)
	send(t, client, ports[0], long)
	expect(t, server, long)
	send(t, server, ports[1], long)
	expect(t, client, long)
}

// A relay is open to the world: who knows its ports must not get into a connection.
func TestStrangersGetNothingAndTakeNothing(t *testing.T) {
	ports := relayed(t)
	client, server := join(t, ports)
	stranger := listen(t, "127.0.0.2")
	for _, port := range ports {
		send(t, stranger, port, []byte("hello"))
		send(t, stranger, port, begin()) // the port is taken
	}
	send(t, client, ports[0], []byte("one"))
	expect(t, server, []byte("one")) // and nothing of the stranger's before it
	send(t, server, ports[1], []byte("two"))
	expect(t, client, []byte("two"))
}

func TestWhoComesWithoutAHandshakeTakesNoPort(t *testing.T) {
	e := &end{log: slog.New(slog.DiscardHandler)}
	now, from := time.Now(), netip.MustParseAddrPort("192.0.2.7:1000")
	for _, packet := range [][]byte{nil, []byte("x"), make([]byte, initiation), begin()[:147], append(begin(), 0)} {
		if e.admit(now, from, packet) {
			t.Errorf("%d bytes that begin with %.1x got the port", len(packet), packet)
		}
	}
	if !e.admit(now, from, begin()) || !e.admit(now, from, []byte("data")) {
		t.Error("a gateway did not get the port")
	}
}

func TestAPortIsGivenToAnotherGateway(t *testing.T) {
	start := time.Now()
	for _, test := range []struct {
		name, from string
		after      time.Duration
		want       bool
	}{
		{"at once", "198.51.100.9:1000", 0, false},
		{"while the gateway is heard", "198.51.100.9:1000", holdFor, false},
		{"when it has gone", "198.51.100.9:1000", holdFor + time.Millisecond, true},
		{"by its own router, at another port", "192.0.2.7:2000", 0, true},
		{"from a network that may not", "203.0.113.1:1000", time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &end{log: slog.New(slog.DiscardHandler), allow: []netip.Prefix{
				netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
			}}
			if !e.admit(start, netip.MustParseAddrPort("[::ffff:192.0.2.7]:1000"), begin()) {
				t.Fatal("the first one was not let in")
			}
			if got := e.admit(start.Add(test.after), netip.MustParseAddrPort(test.from), begin()); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestARelayNeedsTwoPorts(t *testing.T) {
	taken := listen(t, "127.0.0.1").LocalAddr().(*net.UDPAddr).AddrPort()
	for port, want := range map[uint16]string{
		0: "want a port below 65535", 65535: "want a port below 65535", taken.Port(): "address already in use", taken.Port() - 1: "address already in use",
	} {
		err := Run(t.Context(), Config{Listen: netip.AddrPortFrom(taken.Addr(), port), Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("port %d: got %v, want %q", port, err, want)
		}
	}
}
