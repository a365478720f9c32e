//go:build linux

// Package pathmtu finds the longest packet that the path to a peer's gateway
// carries (RFC 8899). It sends datagrams of the sizes in question.
//
// A question consists of: magic, kind, three zeros, a number, padding. The answer has another kind, and
// otherwise the same bytes. So a path must carry the length both ways, and both ends find the same MTU.
package pathmtu

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
)

var magic = []byte("liqo-tui")

const (
	kindOffset   = 8
	numberOffset = 12
	headerSize   = 16
	kindQuestion = 'Q'
	kindAnswer   = 'A'

	// answersPerSecond keeps a peer from using us as an echo for its floods.
	answersPerSecond = 200
	udpHeaders       = 28 // IPv4 20, UDP 8
	tries            = 3
	smallest         = 64 // a question of this length passes on every path that carries anything
)

// Path sends questions and answers.
type Path struct {
	socket  *net.UDPConn
	peer    netip.AddrPort
	number  uint32 // of the last question
	answers chan answer
	bytes   atomic.Uint64
}

type answer struct {
	number uint32
	size   int
}

// Listen answers the peer's questions at the address own until ctx ends.
func Listen(ctx context.Context, own, peer netip.AddrPort) (*Path, error) {
	// The socket sends no fragments, and ignores an MTU that the kernel has stored for the path, because the
	// search tests which sizes pass.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var option error
		err := c.Control(func(fd uintptr) {
			option = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		})
		return errors.Join(err, option)
	}}
	socket, err := config.ListenPacket(ctx, "udp4", own.String())
	if err != nil {
		return nil, fmt.Errorf("listen for questions about the path's MTU: %w", err)
	}
	p := &Path{socket: socket.(*net.UDPConn), peer: peer, answers: make(chan answer, 64)}
	go p.serve()
	context.AfterFunc(ctx, func() { _ = socket.Close() })
	return p, nil
}

// Bytes returns the bytes that questions and answers have added to WireGuard's
// counters.
func (p *Path) Bytes() uint64 { return p.bytes.Load() }

// Largest returns the size of the largest packet of at most upper bytes that passes, in a tunnel that adds
// overhead bytes; 0 if no question was answered. It waits for the answers of each round for the time wait.
func (p *Path) Largest(ctx context.Context, upper, overhead int, wait time.Duration) int {
	s := newSearch(upper, overhead)
	for ctx.Err() == nil {
		sizes := s.sizes()
		if len(sizes) == 0 {
			break
		}
		passed := map[int]bool{}
		p.number++
		p.ask(ctx, sizes, wait, passed)
		s.answered(sizes, func(size int) bool { return passed[size] })
	}
	return s.passed
}

// Shrunk reports whether the path still carries small packets, but none of size bytes. One answer is enough,
// and it may come until the last try ends, because a busy machine answers late.
func (p *Path) Shrunk(ctx context.Context, size int, wait time.Duration) bool {
	passed := map[int]bool{}
	p.number++
	for range tries {
		p.ask(ctx, []int{size, smallest}, wait, passed)
		if passed[size] || ctx.Err() != nil {
			return false
		}
	}
	return passed[smallest] // otherwise the peer is gone, which proves nothing about sizes
}

// ask sends questions of all sizes that are not in passed, up to twice, and adds the sizes of the answers to
// passed.
func (p *Path) ask(ctx context.Context, sizes []int, wait time.Duration, passed map[int]bool) {
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

func (p *Path) send(size int) {
	b := make([]byte, max(size-udpHeaders, headerSize))
	copy(b, magic)
	b[kindOffset] = kindQuestion
	binary.BigEndian.PutUint32(b[numberOffset:], p.number)
	// A question that can't be sent counts as one without an answer.
	if _, err := p.socket.WriteToUDPAddrPort(b, p.peer); err == nil {
		p.count(len(b))
	}
}

func (p *Path) serve() {
	buffer := make([]byte, 1<<16)
	var second time.Time
	count := 0
	for {
		n, from, err := p.socket.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		b := buffer[:n]
		if from.Addr().Unmap() != p.peer.Addr() || n < headerSize || !bytes.HasPrefix(b, magic) {
			continue
		}
		p.count(n)
		switch b[kindOffset] {
		case kindQuestion:
			if now := time.Now(); now.Sub(second) >= time.Second {
				second, count = now, 0
			}
			if count++; count > answersPerSecond {
				continue
			}
			b[kindOffset] = kindAnswer
			if _, err := p.socket.WriteToUDPAddrPort(b, from); err == nil {
				p.count(n)
			}
		case kindAnswer:
			select {
			case p.answers <- answer{binary.BigEndian.Uint32(b[numberOffset:]), n + udpHeaders}:
			default: // nobody waits for the answer
			}
		}
	}
}

// count adds the length of a datagram in the tunnel: padded to 16 bytes, with a header and an authenticator.
func (p *Path) count(n int) {
	const header = 32
	p.bytes.Add(uint64((n+udpHeaders+15)/16*16 + header))
}
