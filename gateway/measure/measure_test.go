package measure

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

var token = Token{1, 2, 3}

func (s *Server) address() netip.AddrPort { return s.packets.LocalAddr().(*net.UDPAddr).AddrPort() }

func serve(t *testing.T) *Server {
	t.Helper()
	s, err := Listen(netip.MustParseAddrPort("127.0.0.1:0"), token)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil { // the test's context has ended by now
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

func config(target netip.AddrPort) Config {
	return Config{Target: target, Token: token, Packets: 10, Interval: time.Millisecond, WarmUp: 50 * time.Millisecond, Patience: 100 * time.Millisecond}
}

// link forwards between the test and a server, and drops the packets that drop selects. It simulates a path
// with links that are smaller than the first one.
func link(t *testing.T, server netip.AddrPort, drop func(n, size int) bool) netip.AddrPort {
	t.Helper()
	near, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	far, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	clients := make(chan netip.AddrPort, 1)
	go func() {
		buffer := make([]byte, 1<<16)
		for n := 0; ; n++ {
			size, from, err := near.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			select {
			case clients <- from:
			default:
			}
			if !drop(n, size+ipHeaders) {
				_, _ = far.Write(buffer[:size])
			}
		}
	}()
	go func() {
		client := <-clients
		buffer := make([]byte, 1<<16)
		for {
			size, err := far.Read(buffer)
			if err != nil {
				return
			}
			_, _ = near.WriteToUDPAddrPort(buffer[:size], client)
		}
	}()
	return near.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestAGoodPath(t *testing.T) {
	s := serve(t)
	if _, ever := s.Heard(time.Now()); ever {
		t.Error("it has heard something before anything was sent")
	}
	c := config(s.address())
	c.Throughput = 50 * time.Millisecond
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Sent != 10 || r.Received != 10 || r.Min <= 0 || r.Min > r.Avg || r.Avg > r.Max {
		t.Errorf("got %+v, want all 10 answered", r)
	}
	if r.Largest != largest {
		t.Errorf("largest packet: got %d, want %d, which loopback carries", r.Largest, largest)
	}
	const plausible = 1e6 // bits per second: loopback does much more
	if r.To < plausible || r.From < plausible {
		t.Errorf("throughput: got %.0f and %.0f bit/s", r.To, r.From)
	}
	if ago, ever := s.Heard(time.Now()); !ever || ago > 5*time.Second {
		t.Errorf("it heard the other side %s ago, %t", ago, ever)
	}
	select {
	case <-s.PeerDone():
	case <-time.After(10 * time.Second):
		t.Error("the server was not told that the measurement has ended")
	}
}

func TestTheLargestPacketIsFoundToTheByte(t *testing.T) {
	for _, mtu := range []int{576, 607, 608, 1340, 1500} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			t.Parallel()
			r, err := Run(t.Context(), config(link(t, serve(t).address(), func(_, size int) bool { return size > mtu })))
			if err != nil {
				t.Fatal(err)
			}
			if r.Largest != mtu || r.Received != r.Sent {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestLostPacketsAreCounted(t *testing.T) {
	r, err := Run(t.Context(), config(link(t, serve(t).address(), func(n, size int) bool { return n%5 == 1 && size < smallest })))
	if err != nil {
		t.Fatal(err)
	}
	if r.Sent != 10 || r.Received != 8 {
		t.Errorf("got %d of %d answered, want 8 of 10", r.Received, r.Sent)
	}
}

func TestSilenceIsAResult(t *testing.T) {
	for name, target := range map[string]netip.AddrPort{
		"nothing arrives": link(t, serve(t).address(), func(_, _ int) bool { return true }),
		"nobody listens":  netip.MustParseAddrPort("127.0.0.1:9"),
	} {
		c := config(target)
		c.Throughput = time.Second
		r, err := Run(t.Context(), c)
		if err != nil || r.Received != 0 || r.Largest != 0 || r.Sent != 10 {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
}

// A sender without the token gets no answer, so that a probe can't be used as a reflector.
func TestStrangersAreNotAnswered(t *testing.T) {
	c := config(serve(t).address())
	c.Token = Token{9}
	r, err := Run(t.Context(), c)
	if err != nil || r.Received != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestThroughputWaitsForTheOtherSide(t *testing.T) {
	c := config(serve(t).address())
	quiet := make(chan struct{})
	c.Throughput, c.Quiet = 10*time.Millisecond, quiet
	measured := make(chan Result, 1)
	go func() {
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		measured <- r
	}()
	select {
	case <-measured:
		t.Error("it did not wait")
	case <-time.After(1500 * time.Millisecond): // without waiting it takes half of that
	}
	close(quiet)
	if r := <-measured; r.To <= 0 {
		t.Errorf("got %+v", r)
	}
}

// A client that measures several paths to one server reports the end once.
func TestTheServerIsToldOnlyWhenAllIsMeasured(t *testing.T) {
	s := serve(t)
	if n, from := s.Arrived(); n != 0 || from != nil {
		t.Errorf("%d packets arrived from %v before any was sent", n, from)
	}
	c := config(s.address())
	c.Stays = true
	if r, err := Run(t.Context(), c); err != nil || r.Received != 10 {
		t.Fatalf("got %+v, %v", r, err)
	}
	// A goodbye would be in the socket's queue before this packet. The packet is answered, so there was none.
	if r, err := Run(t.Context(), c); err != nil || r.Received != 10 {
		t.Fatalf("got %+v, %v", r, err)
	}
	select {
	case <-s.PeerDone():
		t.Error("it was told that all is measured")
	default:
	}
	if n, from := s.Arrived(); n < 20 || len(from) != 1 || from[0].String() != "127.0.0.1" {
		t.Errorf("%d packets arrived from %v", n, from)
	}
	if err := Bye(s.address(), token); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.PeerDone():
	case <-time.After(10 * time.Second):
		t.Error("it was not told that all is measured")
	}
}

// A pod that has measured has to know whether the other pod has still to begin.
func TestAPodSaysThatItHasNotBegun(t *testing.T) {
	s := serve(t)
	if !Waits(s.address(), token) {
		t.Error("it has not begun, and does not say so")
	}
	s.Begin()
	if Waits(s.address(), token) {
		t.Error("it has begun, and says that it waits")
	}
	if Waits(s.address(), Token{9}) {
		t.Error("it answers somebody who has not the token")
	}
}

// A pod of an earlier release answers without this information.
func TestWhoDoesNotSayIsNotWaitedFor(t *testing.T) {
	old, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	go func() {
		buffer := make([]byte, 1<<10)
		for {
			n, from, err := old.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			if d, ok := parse(buffer[:n], token); ok {
				_, _ = old.WriteToUDPAddrPort(datagram{kind: kindAnswer, number: d.number}.append(nil, token), from)
			}
		}
	}()
	if Waits(old.LocalAddr().(*net.UDPAddr).AddrPort(), token) {
		t.Error("one that does not say so is waited for")
	}
}
