//go:build linux

package linux_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun/tuntest"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
)

// These tests fix the packets that another implementation of the peer (Liqo's) relies on: all that cross the
// boundary of a cluster. The peer is only WireGuard: its packets are written byte by byte, and the packets
// that it receives are compared as they were inside the tunnel.

// barePeer is the other end of a tunnel, without kernel devices, routes or address translation.
type barePeer struct {
	t      *testing.T
	device *device.Device
	send   chan<- []byte // packets into the tunnel
	got    chan []byte   // packets out of the tunnel
}

// newBarePeer listens on a port of a namespace, and dials if it has an endpoint.
func newBarePeer(t *testing.T, n *netns.Namespace, key wgtypes.Key, port uint16, ours wgtypes.Key, endpoint netip.AddrPort) *barePeer {
	t.Helper()
	c := tuntest.NewChannelTUN()
	p := &barePeer{t: t, send: c.Outbound, got: make(chan []byte, 1000)}
	p.device = device.NewDevice(c.TUN(), conn.NewDefaultBind(), device.NewLogger(device.LogLevelSilent, ""))
	t.Cleanup(p.device.Close)
	// There is no preshared key, and the one peer may send any packet.
	config := fmt.Sprintf("private_key=%s\nlisten_port=%d\npublic_key=%s\nallowed_ip=0.0.0.0/0\n",
		hex.EncodeToString(key[:]), port, hex.EncodeToString(ours[:]))
	if endpoint.IsValid() {
		config += fmt.Sprintf("endpoint=%s\npersistent_keepalive_interval=25\n", endpoint)
	}
	// The TUN's first event also starts the device, on another thread, and so with sockets of another
	// namespace. A new port opens the sockets again, in this namespace.
	err := p.device.Up()
	n.Do(func() { err = errors.Join(err, p.device.IpcSet(config)) })
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for packet := range c.Inbound {
			select {
			case p.got <- packet:
			default: // the test does not read it; a blocked device would not close
			}
		}
	}()
	return p
}

// await returns the first packet that matches, and drops those before it.
func (p *barePeer) await(what string, match func(ip4) bool) ip4 {
	p.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case b := <-p.got:
			if p4, ok := parseIP4(b); ok && match(p4) {
				return p4
			}
		case <-deadline:
			p.t.Fatalf("the peer got no %s in 10 s", what)
		}
	}
}

// ip4 is a packet as it was inside the tunnel.
type ip4 struct {
	protocol int
	src, dst netip.AddrPort // port 0 if the protocol has no ports
	payload  []byte         // of UDP; for other protocols, everything after the IP header
}

func parseIP4(b []byte) (ip4, bool) {
	if len(b) < 28 || b[0]>>4 != 4 {
		return ip4{}, false
	}
	header := int(b[0]&15) * 4
	p := ip4{protocol: int(b[9]), payload: b[header:]}
	var from, to uint16
	if p.protocol == unix.IPPROTO_UDP || p.protocol == unix.IPPROTO_TCP {
		from, to = binary.BigEndian.Uint16(p.payload), binary.BigEndian.Uint16(p.payload[2:])
	}
	p.src = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), from)
	p.dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:20])), to)
	if p.protocol == unix.IPPROTO_UDP {
		p.payload = p.payload[8:]
	}
	return p, true
}

// packet puts an IPv4 header in front of a transport's packet.
func packet(protocol byte, src, dst netip.Addr, transport []byte) []byte {
	b := make([]byte, 20, 20+len(transport))
	b[0], b[8], b[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(transport)))
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum(b))
	return append(b, transport...)
}

// checksum is the checksum of RFC 1071, for an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// udp4 returns a UDP packet without a checksum, which IPv4 allows.
func udp4(src, dst string, payload []byte) []byte {
	from, to := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	b := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(b, from.Port())
	binary.BigEndian.PutUint16(b[2:], to.Port())
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	return packet(unix.IPPROTO_UDP, from.Addr(), to.Addr(), append(b, payload...))
}

// syn returns the start of a TCP connection for segments of up to so many bytes.
func syn(src, dst string, segment uint16) []byte {
	from, to := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	b := make([]byte, 24) // no data, one option
	binary.BigEndian.PutUint16(b, from.Port())
	binary.BigEndian.PutUint16(b[2:], to.Port())
	b[12], b[13] = 24/4<<4, 2 // length in words, SYN
	b[20], b[21] = 2, 4       // option and its length
	binary.BigEndian.PutUint16(b[22:], segment)
	pseudo := append(from.Addr().AsSlice(), to.Addr().AsSlice()...)
	pseudo = append(pseudo, 0, unix.IPPROTO_TCP, 0, 24)
	binary.BigEndian.PutUint16(b[16:], checksum(append(pseudo, b...)))
	return packet(unix.IPPROTO_TCP, from.Addr(), to.Addr(), b)
}

func echoRequest(src, dst netip.Addr) []byte {
	b := []byte{8, 0, 0, 0, 0, 1, 0, 1} // type, code, checksum, identifier, sequence
	binary.BigEndian.PutUint16(b[2:], checksum(b))
	return packet(unix.IPPROTO_ICMP, src, dst, b)
}

func udpTo(dst string) func(ip4) bool {
	return func(p ip4) bool {
		return p.protocol == unix.IPPROTO_UDP && p.dst == netip.MustParseAddrPort(dst)
	}
}

// wire returns one cluster with our gateway, connected to a bare peer.
func wire(t *testing.T, role gateway.Role) (*linuxtest.Cluster, *barePeer) {
	t.Helper()
	wan := netns.New(t, "wan")
	wan.Sysctl("ip_forward", "1")
	a := linuxtest.NewCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16")})
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	a.SyncAll(&linuxtest.Cluster{Name: "b", Key: key})
	// The peer is on the network between the clusters.
	if role == gateway.Server {
		server := netip.AddrPortFrom(netip.MustParseAddr(a.NodeIP(0)), linuxtest.WireGuardPort)
		return a, newBarePeer(t, wan, key, 0, a.Key.PublicKey(), server)
	}
	const port = 51999
	b := newBarePeer(t, wan, key, port, a.Key.PublicKey(), netip.AddrPort{})
	in := a.Inputs(&linuxtest.Cluster{Name: "b", Key: key})
	in.Peers[0].Role, in.Peers[0].ListenPort = gateway.Client, 0
	in.Peers[0].Endpoint = netip.AddrPortFrom(netip.MustParseAddr("198.51.100.1"), port)
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	return a, b
}

func TestW1TransportIsPlainWireGuard(t *testing.T) {
	for _, role := range []gateway.Role{gateway.Server, gateway.Client} {
		t.Run("we are the "+role.String(), func(t *testing.T) {
			a, b := wire(t, role)
			podA := a.Pod(1, "podA", "10.244.2.2")
			inbox := podA.ListenUDP("10.244.2.2:7777")
			a.AwaitHandshake(0)
			b.send <- udp4("10.244.9.9:5555", "10.244.2.2:7777", []byte("question"))
			if err := inbox.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			buffer := make([]byte, 100)
			n, from, err := inbox.ReadFromUDPAddrPort(buffer)
			if err != nil || string(buffer[:n]) != "question" {
				t.Fatalf("got %q, %v, want question", buffer[:n], err)
			}
			if _, err := inbox.WriteToUDPAddrPort([]byte("answer"), from); err != nil {
				t.Fatal(err)
			}
			if got := b.await("answer", udpTo("10.244.9.9:5555")); string(got.payload) != "answer" {
				t.Errorf("got %q, want answer", got.payload)
			}
		})
	}
}

func TestW2ServerHasTheFirstAddressOfTheLinkAndTheClientTheSecond(t *testing.T) {
	for role, ends := range map[gateway.Role]struct{ ours, theirs string }{
		gateway.Server: {"169.254.18.1", "169.254.18.2"},
		gateway.Client: {"169.254.18.2", "169.254.18.1"},
	} {
		t.Run("we are the "+role.String(), func(t *testing.T) {
			a, b := wire(t, role)
			a.AwaitHandshake(0)
			ours, theirs := netip.MustParseAddr(ends.ours), netip.MustParseAddr(ends.theirs)
			b.send <- echoRequest(theirs, ours)
			got := b.await("echo reply", func(p ip4) bool { return p.protocol == unix.IPPROTO_ICMP })
			if got.src.Addr() != ours || got.dst.Addr() != theirs || got.payload[0] != 0 {
				t.Errorf("got type %d from %s to %s, want an echo reply from %s to %s",
					got.payload[0], got.src.Addr(), got.dst.Addr(), ours, theirs)
			}
		})
	}
}

func TestW3SegmentsFitTheTunnel(t *testing.T) {
	a, b := wire(t, gateway.Server)
	a.AwaitHandshake(0)
	// A packet of the tunnel's MTU, which both ends agree on, arrives in one piece.
	podA := a.Pod(1, "podA", "10.244.2.2")
	inbox := podA.ListenUDP("10.244.2.2:7777")
	b.send <- udp4("10.244.9.9:5555", "10.244.2.2:7777", make([]byte, linuxtest.TunnelMTU-28))
	if err := inbox.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := inbox.ReadFromUDPAddrPort(make([]byte, 2000)); err != nil || n != linuxtest.TunnelMTU-28 {
		t.Errorf("got %d bytes, %v, want %d", n, err, linuxtest.TunnelMTU-28)
	}
	// No end of a connection is asked for larger segments, whichever end begins.
	const want = linuxtest.TunnelMTU - 40
	// Without an answer, the pod's thread would wait, and the test too.
	dialling, hangUp := context.WithCancel(t.Context())
	go podA.Do(func() { _, _ = new(net.Dialer).DialContext(dialling, "tcp4", "10.60.9.9:80") })
	sent := b.await("SYN", func(p ip4) bool { return p.protocol == unix.IPPROTO_TCP && p.payload[13]&2 != 0 })
	if got := maximumSegment(sent.payload); got != want {
		t.Errorf("maximum segment of a SYN to the peer: got %d, want %d", got, want)
	}
	hangUp()
	var segments net.PacketConn // receives all TCP packets of the pod
	var err error
	podA.Do(func() { segments, err = net.ListenPacket("ip4:tcp", "10.244.2.2") })
	if err != nil {
		t.Fatal(err)
	}
	defer segments.Close()
	b.send <- syn("10.244.9.9:5555", "10.244.2.2:80", 1460)
	if err := segments.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	received := make([]byte, 100)
	n, from, err := segments.ReadFrom(received)
	if err != nil || from.String() != "10.60.9.9" {
		t.Fatalf("SYN from the peer: got one of %v, %v, want one of 10.60.9.9", from, err)
	}
	if got := maximumSegment(received[:n]); got != want {
		t.Errorf("maximum segment of a SYN from the peer: got %d, want %d", got, want)
	}
}

// maximumSegment is the option's value; 0 if there is none.
func maximumSegment(tcp []byte) int {
	for options := tcp[20 : int(tcp[12]>>4)*4]; len(options) > 0; {
		switch {
		case options[0] == 1: // padding
			options = options[1:]
		case len(options) < 2 || options[0] == 0 || int(options[1]) < 2 || int(options[1]) > len(options):
			return 0
		case options[0] == 2:
			return int(binary.BigEndian.Uint16(options[2:]))
		default:
			options = options[options[1]:]
		}
	}
	return 0
}

// pingAs runs the responder of a server that knows its peer under an ID. end stops the responder, because it
// keeps the namespace's thread busy.
func pingAs(t *testing.T, a *linuxtest.Cluster, peerID string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go a.Gateway.Do(func() {
		ended <- ping.Run(ctx, ping.Config{
			ListenAddr: netip.MustParseAddrPort("169.254.18.1:12345"),
			PeerAddr:   netip.MustParseAddrPort("169.254.18.2:12345"),
			ClusterID:  peerID,
		})
	})
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestW4PingsAreAnsweredAndSentAsLiqoDoes(t *testing.T) {
	a, b := wire(t, gateway.Server)
	a.AwaitHandshake(0)
	defer pingAs(t, a, "b")()

	// Our ping goes to the peer's port, with the peer's own ID and a time.
	ping := b.await("ping", udpTo("169.254.18.2:12345"))
	var m struct {
		ClusterID, MsgType string
		TimeStamp          time.Time
	}
	if err := json.Unmarshal(ping.payload, &m); err != nil || m.ClusterID != "b" || m.MsgType != "PING" || m.TimeStamp.IsZero() {
		t.Errorf("ping: got %q, %v", ping.payload, err)
	}
	if ping.src != netip.MustParseAddrPort("169.254.18.1:12345") || len(ping.payload) > 1024 {
		t.Errorf("ping: got %d bytes from %s", len(ping.payload), ping.src)
	}

	// The answer to the peer's ping goes to the sender's port, and only the type changes. The peer compares
	// the text of the time.
	const question = `{"clusterID":"a","msgType":"PING","timeStamp":"2025-01-02T15:04:05.120000000Z","more":[1]}`
	b.send <- udp4("169.254.18.2:40000", "169.254.18.1:12345", []byte(question))
	pong := b.await("pong", udpTo("169.254.18.2:40000"))
	if want := bytes.Replace([]byte(question), []byte("PING"), []byte("PONG"), 1); !bytes.Equal(pong.payload, want) {
		t.Errorf("pong: got %q, want %q", pong.payload, want)
	}
	if pong.src != netip.MustParseAddrPort("169.254.18.1:12345") {
		t.Errorf("pong: got it from %s", pong.src)
	}
}

func TestW5PacketsCarryRealAddresses(t *testing.T) {
	a, b := wire(t, gateway.Server)
	a.AwaitHandshake(0)
	podA := a.Pod(1, "podA", "10.244.2.2")
	for _, c := range []struct {
		what     string
		from     *netns.Namespace
		to       string // as the cluster knows it
		src, dst string // on the wire; port 0 of a source is any
	}{
		{"a pod to a pod", podA, "10.60.3.4:7000", "10.244.2.2:6000", "10.244.3.4:7000"},
		{"a pod to an external address", podA, "10.71.3.4:7000", "10.244.2.2:6000", "10.70.3.4:7000"},
		{"the gateway's node to a pod", a.Nodes[0], "10.60.3.4:7000", "10.70.0.0:0", "10.244.3.4:7000"},
		{"another node to a pod", a.Nodes[1], "10.60.3.4:7000", "10.70.0.0:0", "10.244.3.4:7000"},
	} {
		socket := c.from.ListenUDP("0.0.0.0:6000")
		if _, err := socket.WriteToUDPAddrPort([]byte(c.what), netip.MustParseAddrPort(c.to)); err != nil {
			t.Fatal(err)
		}
		got := b.await(c.what, udpTo(c.dst))
		want := netip.MustParseAddrPort(c.src)
		if got.src.Addr() != want.Addr() || want.Port() != 0 && got.src.Port() != want.Port() || string(got.payload) != c.what {
			t.Errorf("%s: got %q from %s, want source %s", c.what, got.payload, got.src, want)
		}
		// The answer goes to the source on the wire, and its source is the destination of the question.
		b.send <- udp4(got.dst.String(), got.src.String(), []byte("answer"))
		if err := socket.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, from, err := socket.ReadFromUDPAddrPort(make([]byte, 100))
		if err != nil || netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) != netip.MustParseAddrPort(c.to) {
			t.Errorf("answer to %s: got one from %s, %v, want it from %s", c.what, from, err, c.to)
		}
		_ = socket.Close()
	}

	// When a packet leaves the tunnel, the peer's real address becomes the address that is known here.
	inbox := podA.ListenUDP("10.244.2.2:7777")
	for src, want := range map[string]string{"10.244.2.2:5555": "10.60.2.2:5555", "10.70.0.0:5555": "10.71.0.0:5555"} {
		b.send <- udp4(src, "10.244.2.2:7777", []byte("hello"))
		if err := inbox.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, from, err := inbox.ReadFromUDPAddrPort(make([]byte, 100))
		if err != nil || from.String() != want {
			t.Errorf("from %s: got %s, %v, want %s", src, from, err, want)
		}
	}
}

// We accept packets to all addresses that we advertise to the peer, from the first to the last.
func TestW6AdvertisedNetworksAreLetInAndNothingElse(t *testing.T) {
	a, b := wire(t, gateway.Server)
	a.AwaitHandshake(0)
	dropped := func() uint64 { return a.Counters()[gateway.DroppedDestination].Packets }
	// A packet that gets an answer follows each test packet. So the test packet was judged before the counter
	// is read.
	judged := func() {
		b.send <- echoRequest(netip.MustParseAddr("169.254.18.2"), netip.MustParseAddr("169.254.18.1"))
		b.await("echo reply", func(p ip4) bool { return p.protocol == unix.IPPROTO_ICMP && p.payload[0] == 0 })
	}
	advertised := linuxtest.Local()
	for _, network := range append(advertised.Pod, advertised.External...) {
		first := network.Masked().Addr()
		last := first
		for next := last; network.Contains(next); next = next.Next() {
			last = next
		}
		for _, c := range []struct {
			to netip.Addr
			in bool
		}{{first, true}, {last, true}, {first.Prev(), false}, {last.Next(), false}} {
			before := dropped()
			b.send <- udp4("10.244.9.9:5555", netip.AddrPortFrom(c.to, 7).String(), []byte("hello"))
			judged()
			if got := dropped() == before; got != c.in {
				t.Errorf("to %s: let in %v, want %v", c.to, got, c.in)
			}
		}
	}
	// Without an external network, Liqo's controllers fail, because there is none to advertise.
	in := a.Inputs(&linuxtest.Cluster{Name: "b", Key: a.Key})
	in.Local.External = nil
	if _, err := gateway.Compute(in); !errors.Is(err, gateway.ErrNoCIDR) {
		t.Errorf("no external network: got %v, want %v", err, gateway.ErrNoCIDR)
	}
}

// Liqo allows IDs of 63 characters and reads pings of at most 1024 bytes. The tests of package render show
// which IDs we accept.
func TestW8ClusterIDsTravelAsTheyAre(t *testing.T) {
	longest := strings.Repeat("a1-", 21)[:62] + "z"
	a, b := wire(t, gateway.Server)
	a.AwaitHandshake(0)
	defer pingAs(t, a, longest)()
	ping := b.await("ping", udpTo("169.254.18.2:12345"))
	var m struct{ ClusterID string }
	if err := json.Unmarshal(ping.payload, &m); err != nil || m.ClusterID != longest || len(ping.payload) > 1024 {
		t.Errorf("got %d bytes, %q, %v; want the ID %s", len(ping.payload), ping.payload, err, longest)
	}
	question := `{"clusterID":"` + longest + `","msgType":"PING","timeStamp":"2025-01-02T15:04:05Z"}`
	b.send <- udp4("169.254.18.2:40000", "169.254.18.1:12345", []byte(question))
	if pong := b.await("pong", udpTo("169.254.18.2:40000")); !bytes.Contains(pong.payload, []byte(longest)) {
		t.Errorf("got %q, want the asker's ID in it", pong.payload)
	}
}
