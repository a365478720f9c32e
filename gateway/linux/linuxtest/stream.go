//go:build linux

package linuxtest

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// streamInterval is the time between two questions of a Stream.
const streamInterval = 5 * time.Millisecond

// Stream asks a pod every 5 ms, and notes the times of the answers.
type Stream struct {
	t       testing.TB
	socket  *net.UDPConn
	mu      sync.Mutex
	answers []time.Time
}

// Echo answers every datagram to a pod's port 7777.
func Echo(n *netns.Namespace) {
	server := n.ListenUDP("0.0.0.0:7777")
	go func() {
		buffer := make([]byte, 2000)
		for {
			k, from, err := server.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(buffer[:k], from)
		}
	}()
}

// NewStream sends questions to the Echo at an address until the test ends. It returns after the first answer.
func NewStream(t testing.TB, from *netns.Namespace, to string) *Stream {
	t.Helper()
	return NewStreamOf(t, from, to, 8)
}

// NewStreamOf is NewStream with datagrams of size bytes.
func NewStreamOf(t testing.TB, from *netns.Namespace, to string, size int) *Stream {
	t.Helper()
	socket, peer := from.ListenUDP("0.0.0.0:0"), netip.AddrPortFrom(netip.MustParseAddr(to), 7777)
	s := &Stream{t: t, socket: socket}
	go s.ask(socket, peer, size)
	go func() {
		buffer := make([]byte, 2000)
		for {
			if _, _, err := socket.ReadFromUDPAddrPort(buffer); err != nil {
				return
			}
			s.mu.Lock()
			s.answers = append(s.answers, time.Now())
			s.mu.Unlock()
		}
	}()
	WaitFor(t, "answer from "+to, func() bool { return s.Count(time.Time{}) > 0 })
	return s
}

// Stop ends the stream.
func (s *Stream) Stop() { _ = s.socket.Close() }

func (s *Stream) ask(socket *net.UDPConn, peer netip.AddrPort, size int) {
	ticker := time.NewTicker(streamInterval)
	defer ticker.Stop()
	for {
		// An ICMP error, for example about a packet that was too long, does not end the stream.
		if _, err := socket.WriteToUDPAddrPort(make([]byte, size), peer); errors.Is(err, net.ErrClosed) {
			return
		}
		<-ticker.C
	}
}

// Count returns the number of answers after since.
func (s *Stream) Count(since time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range slices.Backward(s.answers) {
		if a.Before(since) {
			break
		}
		n++
	}
	return n
}

// steady is the number of answers after which a stream counts as working again.
const steady = 50

// Gap waits until the stream works, and returns the longest time without an answer after since.
func (s *Stream) Gap(since time.Time) time.Duration {
	s.t.Helper()
	for deadline := since.Add(60 * time.Second); s.Count(since) < steady; time.Sleep(streamInterval) {
		if time.Now().After(deadline) {
			s.t.Fatalf("the stream does not flow again within a minute: %d answers", s.Count(since))
		}
	}
	// The wait shows a gap that has just begun.
	time.Sleep(200 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	longest, last := time.Duration(0), since
	for _, a := range s.answers {
		if a.Before(since) {
			continue
		}
		longest, last = max(longest, a.Sub(last)), a
	}
	return longest
}

// hiccup is the longest time for which a busy machine may not run a program.
const hiccup = 2 * time.Second

// Bound prints a measured gap, and fails only if the gap is five times the bound, because a busy machine can
// cause longer gaps.
func Bound(t testing.TB, what string, gap, bound time.Duration) {
	t.Helper()
	t.Logf("%s: gap %s (bound %s)", what, gap.Round(time.Millisecond), bound)
	if gap > max(5*bound, hiccup) {
		t.Errorf("%s: gap %s, far more than the bound %s", what, gap.Round(time.Millisecond), bound)
	}
}

// DontFragment makes a socket refuse packets that are too long.
func DontFragment(t testing.TB, socket *net.UDPConn) {
	t.Helper()
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var option error
	err = raw.Control(func(fd uintptr) {
		option = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	})
	if err = errors.Join(err, option); err != nil {
		t.Fatal(err)
	}
}
