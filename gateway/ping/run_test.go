package ping

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"testing"
	"time"
)

// ends returns a socket on each of two loopback addresses.
func ends(t *testing.T) (ours, theirs *net.UDPConn) {
	t.Helper()
	listen := func(ip string) *net.UDPConn {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(ip)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	return listen("127.0.0.1"), listen("127.0.0.2")
}

func address(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

// start runs the ping and returns its Statuses.
func start(t *testing.T, socket *net.UDPConn, c Config) <-chan Status {
	t.Helper()
	statuses := make(chan Status, 1000)
	c.OnChange = func(s Status) { statuses <- s }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- serve(ctx, socket, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return statuses
}

func await(t *testing.T, statuses <-chan Status, want Value) Status {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case s := <-statuses:
			if s.Value == want {
				return s
			}
		case <-timeout:
			t.Fatalf("no %s after 10 s", want)
		}
	}
}

func TestTwoProbesConnectAndNoticeTheEnd(t *testing.T) {
	a, b := ends(t)
	timing := Timing{Interval: 50 * time.Millisecond, Eager: 10 * time.Millisecond, Threshold: 4}
	recorder := new(Recorder)
	recorder.Begin(time.Now())
	seen := start(t, a, Config{PeerAddr: address(b), ClusterID: "b", Timing: timing, Recorder: recorder})
	if s := <-seen; s.Value != Connecting {
		t.Errorf("first status: got %s, want %s", s.Value, Connecting)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- serve(ctx, b, Config{PeerAddr: address(a), ClusterID: "a", Timing: timing}) }()
	s := await(t, seen, Connected)
	if s.Latency != 0 || s.LastReply.IsZero() {
		t.Errorf("got %+v, want a time and no latency of the first ping", s)
	}
	if s = await(t, seen, Connected); s.Latency <= 0 || s.Latency > time.Second {
		t.Errorf("got %+v, want a latency of the next ping", s)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("serve: %v", err)
	}
	last := await(t, seen, Error).LastReply
	if gone := time.Since(last); gone < 200*time.Millisecond {
		t.Errorf("Error %v after the last reply, want at least 200 ms", gone)
	}
	if cells := recorder.Take(); len(cells) == 0 || cells[0].Answered == 0 || cells[0].Up == 0 {
		t.Errorf("recorded %+v, want answered pings", cells)
	}
}

// A peer that floods gets a limited number of answers per second. Its floods and invalid packets don't
// disturb the ping.
func TestFloodsAndJunkChangeNothing(t *testing.T) {
	ours, peer := ends(t)
	l := loop{socket: ours, config: Config{PeerAddr: address(peer), ClusterID: "rome"}, tracker: NewTracker(Timing{})}
	question, err := json.Marshal(message{Type: ping, ClusterID: "milan", TimeStamp: at(1)})
	if err != nil {
		t.Fatal(err)
	}
	l.ping(at(0))
	for i := range 10 * answersPerSecond {
		when := at(0).Add(time.Duration(i) * time.Millisecond) // one second in all
		for _, packet := range [][]byte{
			question, {}, {0}, []byte("{"), []byte("[[[["), []byte(`{"msgType":"PONG"}`), []byte(`{"msgType":"PING"}{`), bytes.Repeat([]byte("x"), maxMessage),
		} {
			if l.handle(datagram{when, address(peer), packet}) {
				t.Fatalf("%q was taken for an answer", packet)
			}
		}
	}
	// A second later, the peer gets answers again.
	l.handle(datagram{at(0).Add(1500 * time.Millisecond), address(peer), question})

	var own message
	answers, buffer := 0, make([]byte, maxMessage)
	for answers <= answersPerSecond {
		if err := peer.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := peer.Read(buffer)
		if err != nil {
			t.Fatalf("after %d answers: %v", answers, err)
		}
		m, err := parse(buffer[:n])
		if err != nil {
			t.Fatalf("got %q", buffer[:n])
		}
		if m.Type == pong {
			answers++
		} else {
			own = m
		}
	}
	if err := peer.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := peer.Read(buffer); err == nil {
		t.Errorf("got %q, more than %d answers", buffer[:n], answersPerSecond+1)
	}
	own.Type = pong
	reply, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	if !l.handle(datagram{at(2000), address(peer), reply}) {
		t.Error("the answer to its own ping was not believed")
	}
}

func TestProbeAnswersAndBelievesThePeerOnly(t *testing.T) {
	ours, peer := ends(t)
	stranger, _ := ends(t)
	statuses := start(t, ours, Config{PeerAddr: address(peer), ClusterID: "rome", Timing: Timing{Interval: time.Hour, Eager: 20 * time.Millisecond}})

	read := func(c *net.UDPConn) message {
		t.Helper()
		b := make([]byte, maxMessage)
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		m, err := parse(b[:n])
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	send := func(c *net.UDPConn, m message) {
		t.Helper()
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.WriteToUDPAddrPort(b, address(ours)); err != nil {
			t.Fatal(err)
		}
	}

	sent := read(peer)
	if sent.Type != ping || sent.ClusterID != "rome" {
		t.Fatalf("got %+v, want a ping for rome", sent)
	}
	reply := sent
	reply.Type = pong
	// None of these packets is an answer. The socket keeps their order, and the stranger sends a question
	// after its forgery. So the peer's next packet proves that all were read.
	send(stranger, reply)
	forged := reply
	forged.TimeStamp = forged.TimeStamp.Add(-time.Nanosecond)
	send(peer, forged)
	other := reply
	other.ClusterID = "milan"
	send(peer, other)
	if _, err := peer.WriteToUDPAddrPort([]byte(`{"msgType":`), address(ours)); err != nil {
		t.Fatal(err)
	}
	send(stranger, message{Type: ping, ClusterID: "x"})
	question := message{Type: ping, ClusterID: "milan", TimeStamp: at(1)}
	send(peer, question)
	for {
		m := read(peer)
		if m.Type == ping {
			continue // our own, still eager: nothing was believed
		}
		if m.ClusterID != "milan" || !m.TimeStamp.Equal(at(1)) {
			t.Errorf("got %+v, want our question back", m)
		}
		break
	}
	if err := stranger.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := stranger.Read(make([]byte, 100)); err == nil {
		t.Errorf("stranger got %d bytes, want none", n)
	}
	for len(statuses) > 0 {
		if s := <-statuses; s.Value != Connecting {
			t.Errorf("got %s from forged answers", s.Value)
		}
	}
	send(peer, reply)
	await(t, statuses, Connected)
}
