//go:build linux

package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/device"
)

// These functions make messages like WireGuard's, as far as their content is visible without keys.

func initiationOf(sender uint32) []byte {
	return wire(initiation, device.MessageInitiationSize, sender)
}

func responseOf(sender, receiver uint32) []byte {
	return wire(response, device.MessageResponseSize, sender, receiver)
}

func cookieFor(receiver uint32) []byte { return wire(cookie, device.MessageCookieReplySize, receiver) }

func dataFor(receiver uint32, counter uint64, size int) []byte {
	return wire(transport, device.MessageTransportSize+size, receiver, uint32(counter), uint32(counter>>32))
}

func wire(k kind, size int, words ...uint32) []byte {
	b := make([]byte, size)
	binary.LittleEndian.PutUint32(b, uint32(k))
	for i, w := range words {
		binary.LittleEndian.PutUint32(b[4+4*i:], w)
	}
	return b
}

// relayed runs a relay, and returns both of its ports.
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

func listen(t testing.TB, ip string) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t testing.TB, c *net.UDPConn, to netip.AddrPort, packet []byte) {
	t.Helper()
	if _, err := c.WriteToUDPAddrPort(packet, to); err != nil {
		t.Fatal(err)
	}
}

// shake completes a handshake, for which the server chooses an index. It returns the answer that the client
// has received.
func shake(t testing.TB, client, server *net.UDPConn, ports [2]netip.AddrPort, chosen uint32) message {
	t.Helper()
	// The first initiation finds no peer, and a later one may overtake it.
	for index := chosen << 8; ; index++ {
		send(t, client, ports[0], initiationOf(index))
		send(t, server, ports[1], initiationOf(index+1<<16))
		if m := receive(t, server, initiation, 50*time.Millisecond); m.kind == initiation {
			send(t, server, ports[1], responseOf(chosen, m.sender))
			break
		}
	}
	for {
		m := receive(t, client, response, 10*time.Second)
		if m.kind == none {
			t.Fatal("the client got no response")
		}
		if m.sender == chosen {
			return m
		}
	}
}

// receive returns the next message of a kind, or a message of kind none if none comes within a time.
func receive(t testing.TB, c *net.UDPConn, k kind, within time.Duration) message {
	t.Helper()
	buffer := make([]byte, longest)
	_ = c.SetReadDeadline(time.Now().Add(within))
	for {
		n, _, err := c.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return message{}
		}
		if err != nil {
			t.Fatal(err)
		}
		if m := read(buffer[:n]); m.kind == k {
			return m
		}
	}
}

// Both gateways dial, and answer as WireGuard does. A stranger gets no packet.
func TestTwoGatewaysThatDialHearEachOther(t *testing.T) {
	ports := relayed(t)
	client, server, stranger := listen(t, "127.0.0.1"), listen(t, "127.0.0.1"), listen(t, "127.0.0.2")
	answer := shake(t, client, server, ports, 77)
	// When this packet has passed, all repeated packets have passed.
	for counter := range uint64(3) {
		for _, port := range ports {
			send(t, stranger, port, dataFor(77, counter+9, 0))
			send(t, stranger, port, dataFor(answer.receiver, counter+9, 0))
			send(t, stranger, port, initiationOf(uint32(counter)+9000))
		}
		send(t, client, ports[0], dataFor(77, counter, 1400))
		send(t, server, ports[1], dataFor(answer.receiver, counter, 1300))
		if got := receive(t, client, transport, 10*time.Second); got.counter != counter || got.receiver != answer.receiver {
			t.Errorf("the client got %+v", got)
		}
	}
	var got []uint64
	buffer := make([]byte, longest)
	for len(got) < 3 {
		_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, _, err := server.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatal(err)
		}
		if m := read(buffer[:n]); m.kind == transport {
			got = append(got, m.counter)
			if n != 1400+device.MessageTransportSize {
				t.Errorf("got %d bytes of packet %d", n, m.counter)
			}
		}
	}
	for i, counter := range got {
		if counter != uint64(i) {
			t.Errorf("the server got packets %v, want those of the client", got)
		}
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

func TestOnlyMessagesOfWireGuardAreRead(t *testing.T) {
	for name, test := range map[string]struct {
		packet []byte
		want   message
	}{
		"initiation": {initiationOf(7), message{kind: initiation, sender: 7}},
		"response":   {responseOf(7, 8), message{kind: response, sender: 7, receiver: 8}},
		"cookie":     {cookieFor(8), message{kind: cookie, receiver: 8}},
		"keepalive":  {dataFor(8, 1<<40+1, 0), message{kind: transport, receiver: 8, counter: 1<<40 + 1}},
		"data":       {dataFor(8, 0, 1391), message{kind: transport, receiver: 8}},
		"nothing":    {nil, message{}}, "one byte": {[]byte{4}, message{}},
		"short initiation": {initiationOf(7)[:147], message{}}, "long initiation": {append(initiationOf(7), 0), message{}},
		"short response": {responseOf(7, 8)[:91], message{}}, "long cookie": {append(cookieFor(8), 0), message{}},
		"short data":       {dataFor(8, 0, 0)[:31], message{}},
		"type 0":           {make([]byte, initiationLen), message{}},
		"type 5":           {wire(5, initiationLen), message{}},
		"reserved bytes":   {wire(initiation|1<<8, initiationLen, 7), message{}},
		"a question (DNS)": {append([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"), make([]byte, 40)...), message{}},
	} {
		if got := read(test.packet); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
