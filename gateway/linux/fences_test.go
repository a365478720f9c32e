//go:build linux

package linux_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// odd returns packets that go to no pod, from an address that a peer may use. Their destinations are all
// machines, several machines, or the machine itself. Some belong to no connection, so conntrack calls them
// invalid and does not translate them.
func odd(from netip.Addr, here ...netip.Addr) map[string][]byte {
	packets := map[string][]byte{}
	for _, to := range []string{"224.0.0.1:5353", "224.0.0.251:5353", "239.255.255.250:1900", "255.255.255.255:67", "127.0.0.1:10250", "0.0.0.0:10250"} {
		packets["a datagram to "+to] = udp4(netip.AddrPortFrom(from, 4444).String(), to, []byte("all of you"))
	}
	for _, to := range here {
		segment := syn(netip.AddrPortFrom(from, 4444).String(), netip.AddrPortFrom(to, 10250).String(), 1000)[20:]
		segment[13] = 0x3f // and with a checksum that is none
		packets["a packet of no connection to "+to.String()] = packet(unix.IPPROTO_TCP, from, to, segment)
		packets["an answer to nothing to "+to.String()] = packet(unix.IPPROTO_ICMP, from, to, []byte{0, 0, 0xff, 0xfe, 0, 1, 0, 0})
	}
	return packets
}

// udp6 returns a datagram of IPv6 with a complete checksum, because the kernel drops others.
func udp6(src, dst string, payload []byte) []byte {
	from, to := netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst)
	if len(payload)%2 != 0 {
		payload = append(payload, 0)
	}
	b := make([]byte, 48, 48+len(payload))
	b[0], b[6], b[7] = 0x60, unix.IPPROTO_UDP, 64
	size := uint16(8 + len(payload))
	binary.BigEndian.PutUint16(b[4:], size)
	copy(b[8:], from.Addr().AsSlice())
	copy(b[24:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(b[40:], from.Port())
	binary.BigEndian.PutUint16(b[42:], to.Port())
	binary.BigEndian.PutUint16(b[44:], size)
	b = append(b, payload...)
	pseudo := append(append([]byte(nil), b[8:40]...), 0, 0, byte(size>>8), byte(size), 0, 0, 0, unix.IPPROTO_UDP)
	binary.BigEndian.PutUint16(b[46:], checksum(append(pseudo, b[40:]...)))
	return b
}

// inbox6 listens on all IPv6 addresses of a namespace, and adds some addresses to a device.
func inbox6(t *testing.T, n *netns.Namespace, device string) *net.UDPConn {
	t.Helper()
	for _, which := range []string{"all", "default", device} {
		n.Run("sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6")
	}
	n.Script("ip -6 addr add fe80::1/64 dev " + device + " nodad\nip -6 addr add fd00:1::1/128 dev lo nodad")
	var c *net.UDPConn
	var err error
	n.Do(func() { c, err = net.ListenUDP("udp6", &net.UDPAddr{Port: 5353}) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	// On a busy machine the address is not ready at once, and the first datagram is lost.
	linuxtest.WaitFor(t, "this machine's own datagram, without which the test sees nothing", func() bool {
		n.Do(func() {
			var local net.Conn
			if local, err = net.Dial("udp6", "[fd00:1::1]:5353"); err == nil {
				_, err = local.Write([]byte("local"))
				_ = local.Close()
			}
		})
		return err == nil && next6(t, c, 200*time.Millisecond) == "local"
	})
	return c
}

func next6(t *testing.T, c *net.UDPConn, within time.Duration) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, _, err := c.ReadFromUDPAddrPort(b)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// to6 returns the IPv6 destinations of a machine.
func to6() []string { return []string{"[fe80::1]:5353", "[ff02::1]:5353", "[fd00:1::1]:5353"} }

// A peer's gateway may send packets that no kernel would send. None of them reaches the gateway here.
func TestAGatewayTakesNothingOddOfAPeer(t *testing.T) {
	a, b := wire(t, gateway.Server)
	a.AwaitHandshake(0)
	all := &visitors{seen: map[string]bool{}}
	all.open(a.Gateway, 67, 1900, 5353, 10250)
	inbox := inbox6(t, a.Gateway, "liqo-tunnel")
	key := a.Key.PublicKey()
	if err := b.device.IpcSet(fmt.Sprintf("public_key=%s\nallowed_ip=::/0\n", hex.EncodeToString(key[:]))); err != nil {
		t.Fatal(err)
	}
	for _, to := range to6() {
		b.send <- udp6("[fe80::2]:4444", to, []byte("odd"))
	}
	for what, raw := range odd(netip.MustParseAddr("10.244.2.3"), netip.MustParseAddr(a.GatewayIP), gateway.TunnelAddr(gateway.Server, 0).Addr()) {
		before := refused(a)
		b.send <- raw
		linuxtest.WaitFor(t, "drop of "+what, func() bool { return refused(a) == before+1 })
	}
	if got := all.from(""); len(got) > 0 {
		t.Errorf("the gateway got %q", got)
	}
	if got := next6(t, inbox, 50*time.Millisecond); got != "" {
		t.Errorf("the gateway got %q by IPv6", got)
	}
}

// Nodes check the packets of the fabric themselves, also packets that a gateway would have dropped.
func TestANodeTakesNothingOddOfAGateway(t *testing.T) {
	a, _ := linuxtest.NewPair(t)
	node := a.Nodes[1]
	node.Script("ip link add cni0 type bridge\nip addr add 10.244.2.1/24 brd + dev cni0\nip link set cni0 up")
	all := &visitors{seen: map[string]bool{}}
	all.open(node, 9, 67, 1900, 5353, 10250)
	inbox := inbox6(t, node, "liqo-fabric")
	socket := a.Gateway.ListenUDP("0.0.0.0:0")
	mac := gateway.FabricMAC(netip.MustParseAddr(a.NodeIP(1)))
	send := func(to gateway.MAC, kind uint16, inner []byte) {
		t.Helper()
		frame := vxlan(a.NodeState(1).Links[0].VNI, to, inner)
		binary.BigEndian.PutUint16(frame[20:], kind)
		if _, err := socket.WriteToUDPAddrPort(frame, netip.AddrPortFrom(netip.MustParseAddr(a.NodeIP(1)), gateway.FabricPort)); err != nil {
			t.Fatal(err)
		}
	}
	every := gateway.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	for _, to := range to6() {
		send(mac, unix.ETH_P_IPV6, udp6("[fe80::2]:4444", to, []byte("odd")))
		send(gateway.MAC{0x33, 0x33, 0, 0, 0, 1}, unix.ETH_P_IPV6, udp6("[fe80::2]:4444", to, []byte("odd")))
	}
	from := netip.MustParseAddr("10.60.2.3")
	packets := odd(from, netip.MustParseAddr("10.244.2.1"), netip.MustParseAddr(a.NodeIP(1)))
	for _, to := range []string{"10.244.2.255:9", "198.51.100.255:9"} {
		packets["a datagram to "+to] = udp4("10.60.2.3:4444", to, []byte("all of you"))
	}
	for what, raw := range packets {
		for _, to := range []gateway.MAC{mac, every} {
			before := refused(a)
			send(to, unix.ETH_P_IP, raw)
			linuxtest.WaitFor(t, "drop of "+what, func() bool { return refused(a) == before+1 })
		}
	}
	if got := all.from(""); len(got) > 0 {
		t.Errorf("the node got %q", got)
	}
	if got := next6(t, inbox, 50*time.Millisecond); got != "" {
		t.Errorf("the node got %q by IPv6", got)
	}
}
