// Package measure measures the path between two pods: latency, loss, the largest
// packet, and throughput. Each pod answers the other's packets and sends its
// own, so the sending side measures each direction.
//
// A datagram is a token that both pods know, one byte for its kind and four for its number, then padding. An
// answer has one byte instead of the padding: this byte says whether its sender has begun to measure. So a
// size is tested in one direction only.
package measure

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Token is a secret of the two pods. Packets without it are not answered.
type Token [16]byte

const (
	kindAsk    = 1
	kindAnswer = 2
	kindBye    = 3 // its sender has finished its measurements

	stateWaits = 1 // in an answer: its sender does not know its target yet
	stateBegun = 2

	headerSize = len(Token{}) + 1 + 4 // bytes
	ipHeaders  = 20 + 8               // bytes, of IPv4 and UDP
)

type datagram struct {
	kind   byte
	number uint32
}

func (d datagram) append(b []byte, token Token) []byte {
	b = append(b, token[:]...)
	b = append(b, d.kind)
	return binary.BigEndian.AppendUint32(b, d.number)
}

func parse(b []byte, token Token) (datagram, bool) {
	if len(b) < headerSize || !bytes.Equal(b[:len(token)], token[:]) {
		return datagram{}, false
	}
	return datagram{kind: b[len(token)], number: binary.BigEndian.Uint32(b[len(token)+1:])}, true
}

// Server answers the other pod.
type Server struct {
	token   Token
	packets *net.UDPConn
	streams *net.TCPListener
	done    chan struct{}
	once    sync.Once

	mu    sync.Mutex
	heard time.Time // the time of the last packet of the other pod; zero: never
	busy  int       // streams that are open
	begun bool      // this side has its target
	count int       // questions of the other pod
	from  []netip.Addr
}

// Listen opens the UDP and the TCP port. Port 0 of address means any free port.
func Listen(address netip.AddrPort, token Token) (*Server, error) {
	streams, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(address))
	if err != nil {
		return nil, fmt.Errorf("listen for streams: %w", err)
	}
	packets, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(streams.Addr().(*net.TCPAddr).AddrPort()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for packets: %w", err), streams.Close())
	}
	return &Server{token: token, packets: packets, streams: streams, done: make(chan struct{})}, nil
}

// Begin tells the other pod that this pod has begun, so that the other pod need not wait.
func (s *Server) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
}

func (s *Server) state() byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return stateBegun
	}
	return stateWaits
}

// PeerDone is closed when the other pod has finished its measurements.
func (s *Server) PeerDone() <-chan struct{} { return s.done }

// Heard returns the time since the last packet of the other pod; ok is false if there was none.
func (s *Server) Heard(now time.Time) (ago time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy > 0 {
		return 0, true
	}
	return now.Sub(s.heard), !s.heard.IsZero()
}

// maxSenders limits the number of stored sender addresses. A few are enough to recognize a NAT with many
// addresses.
const maxSenders = 4

// Arrived returns the number of packets that came from the other pod, and the first few
// addresses that sent them.
func (s *Server) Arrived() (packets int, from []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, slices.Clone(s.from)
}

func (s *Server) arrived(from netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if len(s.from) < maxSenders && !slices.Contains(s.from, from.Unmap()) {
		s.from = append(s.from, from.Unmap())
	}
}

// hears notes that the other pod sends now, and adds streams to the number of its open streams.
func (s *Server) hears(streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	s.busy += streams
}

// Serve answers until ctx ends. It returns nil then.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		_ = s.packets.Close()
		_ = s.streams.Close()
	})
	defer stop()
	go s.serveStreams(ctx)
	buffer := make([]byte, 1<<16)
	var answer []byte
	for {
		n, from, err := s.packets.ReadFromUDPAddrPort(buffer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read packets: %w", err)
		}
		switch d, ok := parse(buffer[:n], s.token); {
		case !ok:
		case d.kind == kindBye:
			s.once.Do(func() { close(s.done) })
		case d.kind == kindAsk:
			s.hears(0)
			s.arrived(from.Addr())
			answer = append(datagram{kind: kindAnswer, number: d.number}.append(answer[:0], s.token), s.state())
			// An answer that can't be sent is lost, like any other packet.
			_, _ = s.packets.WriteToUDPAddrPort(answer, from)
		}
	}
}

// A stream begins with the token and the time, in milliseconds, for each direction. The server counts the
// bytes that the client then sends. When the client ends, the server sends the number of bytes, and then data
// for the same time.
const maxStream = 10 * time.Second

func (s *Server) serveStreams(ctx context.Context) {
	for {
		stream, err := s.streams.AcceptTCP()
		if err != nil {
			return // closed
		}
		go func() {
			defer func() { _ = stream.Close() }()
			_ = s.serveStream(stream) // the client notices an early end
		}()
		if ctx.Err() != nil {
			return
		}
	}
}

func (s *Server) serveStream(stream *net.TCPConn) error {
	if err := stream.SetDeadline(time.Now().Add(3 * maxStream)); err != nil {
		return err
	}
	var header [len(Token{}) + 4]byte
	if _, err := io.ReadFull(stream, header[:]); err != nil {
		return err
	}
	if !bytes.Equal(header[:len(s.token)], s.token[:]) {
		return errors.New("another token")
	}
	s.hears(1)
	defer s.hears(-1)
	lasts := min(time.Duration(binary.BigEndian.Uint32(header[len(s.token):]))*time.Millisecond, maxStream)
	count, err := io.Copy(io.Discard, stream)
	if err != nil {
		return err
	}
	if err := binary.Write(stream, binary.BigEndian, count); err != nil {
		return err
	}
	return pour(stream, lasts)
}

// pour writes as much as possible for the given time.
func pour(stream net.Conn, lasts time.Duration) error {
	chunk := make([]byte, 1<<17)
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		if _, err := stream.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}
