//go:build linux

package linux_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// door sets the endpoints that the peer reaches in a cluster: all, or only the open endpoints.
func door(a, b *linuxtest.Cluster, closed bool, open ...gateway.Endpoint) {
	in := a.Inputs(b)
	in.Peers[0].Closed, in.Peers[0].Open = closed, open
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
}

func closedPackets(c *linuxtest.Cluster) uint64 { return c.Counters()[gateway.DroppedClosed].Packets }

// podPort is a port of the pod 10.244.2.2.
func podPort(p gateway.Protocol, port uint16) gateway.Endpoint {
	return gateway.Endpoint{Addr: netip.MustParseAddr("10.244.2.2"), Protocol: p, Port: port}
}

// lately returns the endpoints that were closed to peers lately, as texts.
func lately(t *testing.T, c *linuxtest.Cluster) (texts []string) {
	t.Helper()
	c.Gateway.Do(func() {
		found, err := c.GatewayKernel.ClosedLately()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			texts = append(texts, fmt.Sprintf("%s %s:%d", e.Protocol, e.Addr, e.Port))
		}
	})
	slices.Sort(texts)
	return texts
}

func TestAPeerReachesWhatIsOpenAndNothingElse(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.3")
	came := &visitors{seen: map[string]bool{}}
	came.open(podA, 80, 81)
	podB.Whoami(":8080")
	linuxtest.Echo(podB)
	try := func() (reached []string) {
		t.Helper()
		came.mu.Lock()
		clear(came.seen)
		came.mu.Unlock()
		before := closedPackets(a)
		for _, port := range []string{"80", "81"} {
			knock(t, podB, netip.MustParseAddrPort("10.61.2.2:"+port))
		}
		linuxtest.WaitFor(t, "four packets that arrive or are dropped", func() bool {
			return uint64(len(came.from("")))+closedPackets(a)-before >= 4
		})
		return came.from("")
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if got := try(); !slices.Equal(got, want) {
			t.Errorf("%s: reached %q, want %q", what, got, want)
		}
		// Answers, errors, and the messages between gateways still pass.
		linuxtest.ExpectFrom(t, podA, "10.60.2.3", "podB sees 10.61.2.2")
		linuxtest.NewStream(t, podA, "10.60.2.3").Stop()
		linuxtest.PingThrough(t, b, a)
		linuxtest.PingThrough(t, a, b)
		socket := connectUDP(t, podA, "10.60.2.3:999")
		linuxtest.WaitFor(t, "message that nobody listens", func() bool {
			_, err := socket.Write([]byte("x"))
			return errors.Is(err, unix.ECONNREFUSED)
		})
	}
	of := func(network string, port int) string { return fmt.Sprintf("podA %s %d from 10.60.2.3", network, port) }

	expect("all", of("tcp", 80), of("tcp", 81), of("udp", 80), of("udp", 81))
	door(a, b, true)
	expect("none")
	if got, want := lately(t, a), []string{"tcp 10.244.2.2:80", "tcp 10.244.2.2:81", "udp 10.244.2.2:80", "udp 10.244.2.2:81"}; !slices.Equal(got, want) {
		t.Errorf("dropped lately: got %q, want %q", got, want)
	}
	if again := a.SyncTo(a.Gateway, a.GatewayKernel, closedState(a, b)); len(again) > 0 {
		t.Errorf("what the rules remember counts as a change: %q", again)
	}
	door(a, b, true, podPort(gateway.TCP, 80), podPort(gateway.UDP, 81))
	expect("two ports", of("tcp", 80), of("udp", 81))
	before := closedPackets(a)
	if before == 0 {
		t.Error("a changed door has lost what was counted")
	}
	door(a, b, false)
	expect("all again", of("tcp", 80), of("tcp", 81), of("udp", 80), of("udp", 81))
	if got := lately(t, a); len(got) > 0 {
		t.Errorf("an open door has dropped %q", got)
	}
}

func closedState(a, b *linuxtest.Cluster) gateway.KernelState {
	in := a.Inputs(b)
	in.Peers[0].Closed = true
	return a.State(in)
}

func connectUDP(t *testing.T, from *netns.Namespace, to string) net.Conn {
	t.Helper()
	var c net.Conn
	var err error
	from.Do(func() { c, err = net.Dial("udp4", to) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Packets without a port, and packets that only look like a part of a connection.
func TestADoorJudgesFragmentsErrorsAndWhatBelongsToNothing(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.3")
	door(a, b, true, podPort(gateway.UDP, 80))
	open, closed := podA.ListenUDP("10.244.2.2:80"), podA.ListenUDP("10.244.2.2:81")
	sender := podB.ListenUDP("10.244.2.3:4444")
	large := make([]byte, 4000) // four fragments, of which one has the ports
	for port, inbox := range map[string]*net.UDPConn{"80": open, "81": closed} {
		before := closedPackets(a)
		if _, err := sender.WriteToUDPAddrPort(large, netip.MustParseAddrPort("10.61.2.2:"+port)); err != nil {
			t.Fatal(err)
		}
		if port == "81" {
			linuxtest.WaitFor(t, "drop of a datagram in fragments", func() bool { return closedPackets(a) > before })
			continue
		}
		if err := inbox.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, _, err := inbox.ReadFromUDPAddrPort(make([]byte, 5000)); err != nil || n != len(large) {
			t.Errorf("a datagram in fragments: got %d bytes, %v, want %d", n, err, len(large))
		}
	}
	if err := closed.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := closed.ReadFromUDPAddrPort(make([]byte, 5000)); err == nil {
		t.Errorf("a closed port got %d bytes in fragments", n)
	}

	// An error about an answer in a connection of the peer takes the path of the connection.
	_ = sender.Close()
	_ = open.Close()
	var answering net.Conn
	var err error
	podA.Do(func() {
		answering, err = (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(10, 244, 2, 2), Port: 80}}).Dial("udp4", "10.60.2.3:4444")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer answering.Close()
	linuxtest.WaitFor(t, "error of the peer about an answer", func() bool {
		_, err := answering.Write([]byte("answer"))
		return errors.Is(err, unix.ECONNREFUSED)
	})

	hostile(b)
	from, to := netip.MustParseAddr("10.244.2.3"), netip.MustParseAddr("10.244.2.2")
	about := udp4("10.244.2.2:5000", "10.244.2.3:5000", []byte("never sent"))
	unreachable := append([]byte{3, 3, 0, 0, 0, 0, 0, 0}, about...)
	if len(unreachable)%2 != 0 {
		unreachable = append(unreachable, 0)
	}
	sum := checksum(unreachable)
	unreachable[2], unreachable[3] = byte(sum>>8), byte(sum)
	for what, raw := range map[string][]byte{
		"an echo":                  echoRequest(from, to),
		"a lone RST":               segment("10.244.2.3:4444", "10.244.2.2:8080", 4),
		"a lone ACK":               segment("10.244.2.3:4444", "10.244.2.2:8080", 16),
		"a chunk of SCTP":          packet(unix.IPPROTO_SCTP, from, to, make([]byte, 28)),
		"an error about no flow":   packet(unix.IPPROTO_ICMP, from, to, unreachable),
		"a segment to an open UDP": segment("10.244.2.3:4444", "10.244.2.2:80", 2),
	} {
		before := closedPackets(a)
		b.Gateway.Do(func() { sendRaw(t, raw, to) })
		linuxtest.WaitFor(t, "drop of "+what, func() bool { return closedPackets(a) == before+1 })
	}
}

// A change of the open endpoints ends the connections that are not allowed any more, and no others.
func TestADoorIsChangedWithoutAGap(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.3")
	linuxtest.Echo(podA)
	linuxtest.Echo(podB)
	echoTCP(podA)
	echoTCP(podB)
	out, in := newFlow(t, podA, "10.60.2.3"), newFlow(t, podB, "10.61.2.2") // of UDP
	outTCP, inTCP := dialTCP(t, podA, "10.60.2.3:7000"), dialTCP(t, podB, "10.61.2.2:7000")
	answered := func(c net.Conn, within time.Duration) bool {
		t.Helper()
		if err := c.SetDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Write([]byte("line\n"))
		if err == nil {
			_, err = bufio.NewReader(c).ReadString('\n')
		}
		return err == nil
	}
	const long = 10 * time.Second
	for range 5 {
		door(a, b, true, podPort(gateway.TCP, 7000), podPort(gateway.UDP, 7777))
		door(a, b, false)
	}
	door(a, b, true, podPort(gateway.TCP, 7000), podPort(gateway.UDP, 7777))
	out.uninterrupted("to the peer")
	in.uninterrupted("from the peer, and open all the time")
	if !answered(outTCP, long) || !answered(inTCP, long) {
		t.Fatal("connections that are open have ended")
	}
	before := in.sent.Load()
	door(a, b, true)
	linuxtest.WaitFor(t, "drop of packets of a flow", func() bool { return closedPackets(a) > 0 })
	if answered(inTCP, 500*time.Millisecond) {
		t.Error("a connection of the peer goes on, although everything is closed")
	}
	if !answered(outTCP, long) {
		t.Error("a connection to the peer has ended")
	}
	out.uninterrupted("to the peer, when everything is closed to it")
	if missing := in.missing(in.sent.Load()); uint32(len(missing)) == 0 || in.sent.Load() == before {
		t.Error("a flow of the peer goes on, although everything is closed")
	}
}

// echoTCP repeats lines at a pod's port 7000.
func echoTCP(n *netns.Namespace) {
	l := n.Listen("0.0.0.0:7000")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					if _, err := fmt.Fprintln(c, lines.Text()); err != nil {
						return
					}
				}
			}()
		}
	}()
}

func dialTCP(t *testing.T, from *netns.Namespace, to string) net.Conn {
	t.Helper()
	var c net.Conn
	var err error
	from.Do(func() { c, err = net.DialTimeout("tcp4", to, 10*time.Second) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
