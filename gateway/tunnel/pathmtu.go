//go:build linux

package tunnel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/probe"
)

const (
	// verifyInterval is how often a path that is in use is asked whether it
	// still carries the longest packets: for about so long a path that shrinks
	// without saying so stalls.
	verifyInterval = 2 * time.Second
	// raiseInterval is how often a path that carries less than the device is
	// asked for more (RFC 8899, PMTU_RAISE_TIMER).
	raiseInterval = 10 * time.Minute
	// retryInterval is the same for a peer that answers no probes, in the end: ours
	// does when it is there, if sometimes late, Liqo's does not.
	retryInterval = time.Minute
	// answersPerSecond keeps a peer from using us as an echo for its floods.
	answersPerSecond = 200
	udpHeaders       = 28 // IPv4 20, UDP 8
	// inUse is above what pings carry between two verifications, in bytes.
	inUse    = 3000
	tries    = 3
	smallest = 64 // a probe that passes wherever anything does
)

// A probe is a datagram of the size in question, to ProbePort in the tunnel:
// magic, kind, three zeros, a number, padding. The answer is the same with
// another kind and as long, so a path must carry it both ways, and both ends
// find the same.
var probeMagic = []byte("liqo-tui")

const (
	probeKind     = 8 // offset
	probeNumber   = 12
	probeHeader   = 16
	probeQuestion = 'Q'
	probeAnswer   = 'A'
)

// measure finds out how long a packet may be, and keeps an eye on it.
func (t *Tunnel) measure(ctx context.Context) error {
	select {
	case <-t.up:
	case <-ctx.Done():
		return nil
	}
	// Without fragments, and whatever the kernel believes of the path: the
	// question is what passes.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var option error
		err := c.Control(func(fd uintptr) {
			option = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		})
		return errors.Join(err, option)
	}}
	socket, err := config.ListenPacket(ctx, "udp4", t.own(gateway.ProbePort).String())
	if err != nil {
		return fmt.Errorf("listen for probes of the path: %w", err)
	}
	p := prober{socket: socket.(*net.UDPConn), peer: t.peers(gateway.ProbePort), answers: make(chan answer, 64)}
	go p.serve()
	go func() {
		<-ctx.Done()
		_ = socket.Close()
	}()
	m := meter{tunnel: t, prober: &p}
	timer := time.NewTimer(UntilBeat(verifyInterval))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(UntilBeat(verifyInterval))
		case <-t.connected:
		}
		m.step(ctx, time.Now())
	}
}

// meter decides when to probe.
type meter struct {
	tunnel   *Tunnel
	prober   *prober
	endpoint netip.AddrPort // for which the rest holds
	link     int            // MTU of the device that it was searched for
	found    int            // by the last search; 0: none of the probes was answered
	searched time.Time
	// unanswered is how often it was searched since a probe was last answered.
	unanswered int
	carried    int64 // bytes of others, when the path was last verified; only differences of it mean something
}

func (m *meter) step(ctx context.Context, now time.Time) {
	t := m.tunnel
	t.mu.Lock()
	pings, peer, link := t.pings, t.peer, t.linkMTU
	t.mu.Unlock()
	if pings.Value != probe.Connected || link == 0 {
		return
	}
	// Probes that were sent while nobody was there are counted by us alone, so
	// this may begin below zero.
	carried := int64(peer.Sent+peer.Received) - int64(m.prober.bytes.Load())
	wait := max(100*time.Millisecond, 2*pings.Latency+50*time.Millisecond)
	again := raiseInterval
	if m.found == 0 {
		again = min(retryInterval, verifyInterval<<min(m.unanswered, 5))
	}
	switch {
	case m.endpoint != peer.Endpoint || m.link != link || m.found < link && now.Sub(m.searched) >= again:
		m.search(ctx, link, wait)
		m.endpoint, m.link, m.searched = peer.Endpoint, link, now
	case m.found > 0 && carried-m.carried > inUse && m.shrunk(ctx, wait):
		m.search(ctx, link, wait)
		m.searched = now
	}
	m.carried = carried
	best := m.found
	if cached, err := linux.CachedMTU(peer.Endpoint.Addr()); err == nil && cached > 0 {
		if inner := cached - gateway.Overhead; inner < link && (best == 0 || inner < best) {
			best = inner
		}
	}
	t.setPathMTU(best)
}

func (m *meter) search(ctx context.Context, link int, wait time.Duration) {
	s := probe.NewSearch(link, gateway.Overhead)
	for ctx.Err() == nil {
		sizes := s.Sizes()
		if len(sizes) == 0 {
			break
		}
		passed := map[int]bool{}
		m.prober.number++
		m.prober.ask(ctx, sizes, wait, passed)
		s.Answered(sizes, func(size int) bool { return passed[size] })
	}
	if m.found = s.Found(); m.found > 0 {
		m.unanswered = 0
		return
	}
	m.unanswered++
}

// shrunk reports whether the path carries small packets and no longer the ones
// that were found to pass. A machine that is busy answers late: that counts
// until the last try, and one answer of several does.
func (m *meter) shrunk(ctx context.Context, wait time.Duration) bool {
	passed := map[int]bool{}
	m.prober.number++
	for range tries {
		m.prober.ask(ctx, []int{m.found, smallest}, wait, passed)
		if passed[m.found] || ctx.Err() != nil {
			return false
		}
	}
	return passed[smallest] // else the peer is gone: that says nothing of sizes
}

type answer struct {
	number uint32
	size   int
}

// prober asks and answers.
type prober struct {
	socket  *net.UDPConn
	peer    netip.AddrPort
	number  uint32 // of the last question
	answers chan answer
	bytes   atomic.Uint64 // of probes and answers, as WireGuard counts them
}

// ask sends probes of those sizes that have not passed, twice if need be, and
// notes which came back.
func (p *prober) ask(ctx context.Context, sizes []int, wait time.Duration, passed map[int]bool) {
	for range 2 {
		missing := 0
		for _, size := range sizes {
			if !passed[size] {
				p.send(size)
				missing++
			}
		}
		if missing == 0 {
			return
		}
		deadline := time.NewTimer(wait)
		for missing > 0 {
			select {
			case <-ctx.Done():
				deadline.Stop()
				return
			case a := <-p.answers:
				if a.number == p.number && slices.Contains(sizes, a.size) && !passed[a.size] {
					passed[a.size] = true
					missing--
				}
				continue
			case <-deadline.C:
			}
			break
		}
		deadline.Stop()
	}
}

func (p *prober) send(size int) {
	b := make([]byte, max(size-udpHeaders, probeHeader))
	copy(b, probeMagic)
	b[probeKind] = probeQuestion
	binary.BigEndian.PutUint32(b[probeNumber:], p.number)
	// One that can't leave is one that does not come back.
	if _, err := p.socket.WriteToUDPAddrPort(b, p.peer); err == nil {
		p.count(len(b))
	}
}

// serve answers questions and passes answers on until the socket is closed.
func (p *prober) serve() {
	buffer := make([]byte, 1<<16)
	var second time.Time
	count := 0
	for {
		n, from, err := p.socket.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		b := buffer[:n]
		if from.Addr().Unmap() != p.peer.Addr() || n < probeHeader || !bytes.HasPrefix(b, probeMagic) {
			continue
		}
		p.count(n)
		switch b[probeKind] {
		case probeQuestion:
			if now := time.Now(); now.Sub(second) >= time.Second {
				second, count = now, 0
			}
			if count++; count > answersPerSecond {
				continue
			}
			b[probeKind] = probeAnswer
			if _, err := p.socket.WriteToUDPAddrPort(b, from); err == nil {
				p.count(n)
			}
		case probeAnswer:
			select {
			case p.answers <- answer{binary.BigEndian.Uint32(b[probeNumber:]), n + udpHeaders}:
			default: // nobody asked
			}
		}
	}
}

// count adds a datagram: padded to 16 bytes, with a header and an authenticator.
func (p *prober) count(n int) {
	const header = 32
	p.bytes.Add(uint64((n+udpHeaders+15)/16*16 + header))
}

// setPathMTU makes longer packets known to their senders, or lets them pass again.
func (t *Tunnel) setPathMTU(mtu int) {
	t.mu.Lock()
	changed := t.pathMTU != mtu
	t.pathMTU = mtu
	t.mu.Unlock()
	if !changed {
		return
	}
	t.config.Log.Info("longest packet to the peer", "bytes", mtu)
	_ = t.sync() // reported by Status
	t.config.Changed()
}
