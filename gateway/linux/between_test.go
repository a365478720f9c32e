//go:build linux

package linux_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// tap records the datagrams to or from WireGuard's port that pass through a namespace.
type tap struct {
	mu   sync.Mutex
	seen [][]byte // packets of IPv4
}

func newTap(t *testing.T, n *netns.Namespace) *tap {
	t.Helper()
	every := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	var socket int
	var err error
	n.Do(func() { socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(every)) })
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}); err != nil {
		t.Fatal(err)
	}
	w, stop, ended := &tap{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		buffer := make([]byte, 70_000)
		for {
			size, _, err := unix.Recvfrom(socket, buffer, 0)
			select {
			case <-stop:
				return
			default:
			}
			if err == nil && size >= 28 && buffer[0] == 0x45 && buffer[9] == unix.IPPROTO_UDP &&
				(binary.BigEndian.Uint16(buffer[20:]) == linuxtest.WireGuardPort || binary.BigEndian.Uint16(buffer[22:]) == linuxtest.WireGuardPort) {
				w.mu.Lock()
				w.seen = append(w.seen, bytes.Clone(buffer[:size]))
				w.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
		_ = unix.Close(socket)
	})
	return w
}

// which returns the packets for which fits is true.
func (w *tap) which(fits func([]byte) bool) [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.seen), func(p []byte) bool { return !fits(p) })
}

// The network between two clusters can read and change all packets.
func TestTheNetworkBetweenReadsAndForgesNothing(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	pod, client := a.Pod(1, "pod", "10.244.2.2"), b.Pod(1, "client", "10.244.2.3")
	inbox, outbox := pod.ListenUDP("10.244.2.2:7777"), client.ListenUDP("10.244.2.3:5555")
	between, arrived := newTap(t, a.WAN), newTap(t, a.Gateway)
	send := func(text string) {
		t.Helper()
		if _, err := outbox.WriteToUDPAddrPort([]byte(text), netip.MustParseAddrPort("10.61.2.2:7777")); err != nil {
			t.Fatal(err)
		}
	}
	arrives := func(want string) {
		t.Helper()
		send(want)
		if err := inbox.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 100)
		if n, _, err := inbox.ReadFromUDPAddrPort(buffer); err != nil || string(buffer[:n]) != want {
			t.Fatalf("got %q, %v, want %q", buffer[:n], err, want)
		}
	}
	const secret = "what the pods say to each other"
	carries := func(p []byte) bool { // a WireGuard packet with data for the server; keepalives don't count
		return len(p) > 28+32 && p[28] == 4 && binary.BigEndian.Uint16(p[22:]) == linuxtest.WireGuardPort
	}
	arrives(secret)
	linuxtest.WaitFor(t, "packet on its way", func() bool { return len(between.which(carries)) > 0 && len(arrived.which(carries)) > 0 })
	if clear := between.which(func(p []byte) bool { return bytes.Contains(p, []byte(secret)) }); len(clear) > 0 {
		t.Errorf("%d packets are in the clear", len(clear))
	}

	// The packet is sent again without a change.
	recorded := between.which(carries)[0]
	recorded[26], recorded[27] = 0, 0 // no checksum, because the recorded one is incomplete: the network card would complete it
	same := func(p []byte) bool { return carries(p) && bytes.Equal(p[28:], recorded[28:]) }
	before := len(arrived.which(same))
	to, _ := netip.AddrFromSlice(recorded[16:20])
	a.WAN.Do(func() { sendRaw(t, recorded, to) })
	linuxtest.WaitFor(t, "packet that is sent again", func() bool { return len(arrived.which(same)) > before })
	arrives("after the one that was sent again")

	// The packet is sent with two changed bytes, and without UDP's checksum, which would also show the
	// change.
	a.WAN.NFT(`table ip between { chain c { type filter hook forward priority 0; udp dport 51840 udp checksum set 0; }; }`)
	arrives("without a checksum")
	a.WAN.NFT(`add rule ip between c udp dport 51840 @th,192,16 set 0xffff`)
	changed := func(p []byte) bool { return carries(p) && p[44] == 0xff && p[45] == 0xff }
	before = len(arrived.which(changed))
	send("changed")
	linuxtest.WaitFor(t, "packet that is changed", func() bool { return len(arrived.which(changed)) > before })
	a.WAN.Run("nft", "delete", "table", "ip", "between")
	arrives("after the one that was changed")

	// Another client has a key that the server does not know. Everything else is the same.
	stranger := linuxtest.NewCluster(t, a.WAN, "c", gateway.Client, "192.0.2", "10.244.1.7", b.Remapped)
	stranger.SyncAll(a)
	packet := udp4("10.244.1.7:1", "169.254.18.1:1", []byte("dial"))
	stranger.Gateway.Do(func() { sendRaw(t, packet, netip.MustParseAddr("169.254.18.1")) })
	its := netip.MustParsePrefix("192.0.2.0/24")
	dials := func(p []byte) bool { from, _ := netip.AddrFromSlice(p[12:16]); return p[28] == 1 && its.Contains(from) }
	linuxtest.WaitFor(t, "second try, 5 s after the first", func() bool {
		return slices.ContainsFunc(between.which(dials), func(p []byte) bool { return !bytes.Equal(p[28:], between.which(dials)[0][28:]) })
	})
	first := between.which(dials)[0]
	if len(arrived.which(func(p []byte) bool { return bytes.Equal(p[28:], first[28:]) })) == 0 {
		t.Error("what the stranger has sent has not reached the gateway")
	}
	if got := between.which(func(p []byte) bool { to, _ := netip.AddrFromSlice(p[16:20]); return its.Contains(to) }); len(got) > 0 {
		t.Errorf("the stranger got %d answers", len(got))
	}
	arrives("after the stranger")
}
