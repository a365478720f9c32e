package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/internal/sleep"
)

// Config of [Run].
type Config struct {
	Target netip.AddrPort
	Token  Token
	// Packets is the number of packets that measure latency and loss; Interval is the
	// time between two of them.
	Packets  int
	Interval time.Duration
	// WarmUp is the longest time that Run waits for a first answer.
	WarmUp time.Duration
	// Patience is the least time to wait for an answer.
	Patience time.Duration
	// Throughput is the time to measure throughput in each direction; 0: it is not measured.
	Throughput time.Duration
	// Quiet is closed when the other side has ended. Run waits for this, up to 5 s, before it measures
	// throughput, because that would disturb the other side's measurement.
	Quiet <-chan struct{}
	// Stays keeps the other side answering after the end of Run, until [Bye].
	Stays bool
}

// Result is the result of [Run].
type Result struct {
	Sent, Received int
	Min, Avg, Max  time.Duration // round trips; 0 if nothing was received
	// Largest is the size of the largest packet that arrived unfragmented, in
	// bytes with its IP header; 0 if nothing was received.
	Largest int
	// To and From are bits per second; 0 if they were not measured.
	To, From float64
	// Refused is the reason from an ICMP error, and its sender, if nothing was received; "" if there was no
	// such error.
	Refused string
}

const (
	smallest = 576  // bytes: every IPv4 path must carry this length
	largest  = 9000 // bytes: jumbo frames
	coarse   = 32   // bytes between two sizes of the first round
	copies   = 3    // of each size, because a single lost packet proves nothing about sizes
)

// Run measures the path to the target. A path without any answer is a result, not an error.
func Run(ctx context.Context, c Config) (Result, error) {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(c.Target))
	if err != nil {
		return Result{}, fmt.Errorf("dial %s: %w", c.Target, err)
	}
	defer func() { _ = conn.Close() }()
	if err := errors.Join(dontFragment(conn), hearRefusals(conn)); err != nil {
		return Result{}, err
	}
	m := &measurement{config: c, conn: conn, sent: map[uint32]time.Time{}, took: map[uint32]time.Duration{}}
	go m.receive()
	result, err := m.latency(ctx)
	if err != nil || result.Received == 0 {
		result.Refused = refusal(conn)
		m.bye()
		return result, err
	}
	m.patience = max(c.Patience, 4*result.Max)
	if result.Largest, err = m.largest(ctx); err == nil && c.Throughput > 0 {
		m.quiet(ctx)
		result.To, result.From, err = throughput(ctx, c)
	}
	m.bye()
	return result, err
}

// quiet waits for the other side to end. Meanwhile it sends packets, so that the other
// side does not believe that this side has ended.
func (m *measurement) quiet(ctx context.Context) {
	const longest, every = 5 * time.Second, 500 * time.Millisecond
	for end := time.Now().Add(longest); m.config.Quiet != nil && time.Now().Before(end); {
		select {
		case <-m.config.Quiet:
			return
		case <-ctx.Done():
			return
		case <-time.After(every):
			m.ask(pingSize)
		}
	}
}

// dontFragment makes the path drop a packet that is too large, whatever MTU the kernel
// has stored for the path.
func dontFragment(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var option error
	err = raw.Control(func(fd uintptr) {
		option = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	})
	return errors.Join(err, option)
}

type measurement struct {
	config   Config
	conn     *net.UDPConn
	patience time.Duration
	buffer   []byte

	mu   sync.Mutex
	next uint32
	sent map[uint32]time.Time
	took map[uint32]time.Duration
}

func (m *measurement) receive() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := m.conn.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		d, ok := parse(buffer[:n], m.config.Token)
		if err != nil || !ok || d.kind != kindAnswer {
			continue // an ICMP error counts as a missing answer
		}
		now := time.Now()
		m.mu.Lock()
		if at, known := m.sent[d.number]; known {
			m.took[d.number] = now.Sub(at)
			delete(m.sent, d.number) // a duplicate counts once
		}
		m.mu.Unlock()
	}
}

// ask sends one packet of size bytes with its IP header. fits is false if the
// first link can't carry it.
func (m *measurement) ask(size int) (number uint32, fits bool) {
	m.mu.Lock()
	m.next++
	number = m.next
	m.sent[number] = time.Now()
	m.mu.Unlock()
	m.buffer = datagram{kind: kindAsk, number: number}.append(m.buffer[:0], m.config.Token)
	m.buffer = append(m.buffer, make([]byte, max(0, size-ipHeaders-headerSize))...)
	_, err := m.conn.Write(m.buffer)
	// Other errors are about earlier packets, or about a path that is down.
	return number, !errors.Is(err, syscall.EMSGSIZE)
}

// Bye tells the other side that this side has finished, after a [Run] with Config.Stays.
func Bye(target netip.AddrPort, token Token) error {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(target))
	if err != nil {
		return fmt.Errorf("dial %s: %w", target, err)
	}
	(&measurement{config: Config{Token: token}, conn: conn}).bye()
	return conn.Close()
}

// Waits reports whether the other pod answers, and has not begun yet. Pods of earlier releases don't say
// whether they have begun; then Waits returns false.
func Waits(target netip.AddrPort, token Token) bool {
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(target))
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	m := &measurement{config: Config{Token: token}, conn: conn, sent: map[uint32]time.Time{}}
	for range copies {
		m.ask(pingSize)
	}
	var answer [headerSize + 1]byte
	if conn.SetReadDeadline(time.Now().Add(waitsAnswer)) != nil {
		return false
	}
	for {
		n, err := conn.Read(answer[:])
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return false
		}
		if d, ok := parse(answer[:n], token); err == nil && ok && d.kind == kindAnswer && n > headerSize {
			return answer[headerSize] == stateWaits
		}
	}
}

// waitsAnswer is the longest time that [Waits] takes.
const waitsAnswer = 300 * time.Millisecond

func (m *measurement) bye() {
	if m.config.Stays {
		return
	}
	for range copies {
		_, _ = m.conn.Write(datagram{kind: kindBye}.append(nil, m.config.Token))
	}
}

const pingSize = 84 // bytes: the default of ping

// warmUp sends packets until the first answer, because the other side may still be starting, and the first
// packet of a path waits for address resolution. These packets do not count.
func (m *measurement) warmUp(ctx context.Context) error {
	m.patience = m.config.Interval
	for end := time.Now().Add(m.config.WarmUp); time.Now().Before(end); {
		n, _ := m.ask(pingSize)
		if err := m.await(ctx, []uint32{n}); err != nil {
			return err
		}
		if m.answers() > 0 {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.sent)
	clear(m.took)
	return nil
}

func (m *measurement) answers() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.took)
}

func (m *measurement) latency(ctx context.Context) (Result, error) {
	if err := m.warmUp(ctx); err != nil {
		return Result{}, err
	}
	r := Result{}
	var numbers []uint32
	for range m.config.Packets {
		n, _ := m.ask(pingSize)
		numbers = append(numbers, n)
		r.Sent++
		if !sleep.For(ctx, m.config.Interval) {
			return r, ctx.Err()
		}
	}
	m.patience = m.config.Patience
	if err := m.await(ctx, numbers); err != nil {
		return r, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum time.Duration
	for _, took := range m.took {
		if r.Received == 0 || took < r.Min {
			r.Min = took
		}
		r.Max = max(r.Max, took)
		sum += took
		r.Received++
	}
	if r.Received > 0 {
		r.Avg = sum / time.Duration(r.Received)
	}
	return r, nil
}

// await returns when all packets are answered, or after the patience of m.
func (m *measurement) await(ctx context.Context, numbers []uint32) error {
	for end := time.Now().Add(m.patience); time.Now().Before(end); {
		if !sleep.For(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
		m.mu.Lock()
		missing := 0
		for _, n := range numbers {
			if _, ok := m.took[n]; !ok {
				missing++
			}
		}
		m.mu.Unlock()
		if missing == 0 {
			break
		}
	}
	return nil
}

// largest finds the largest packet in two rounds, each of many sizes at once.
func (m *measurement) largest(ctx context.Context) (int, error) {
	best, err := m.try(ctx, smallest, largest, coarse)
	if err != nil || best == 0 {
		return best, err
	}
	finer, err := m.try(ctx, best+1, min(best+coarse-1, largest), 1)
	return max(best, finer), err
}

// try returns the largest of some sizes that was answered; 0 if none was.
func (m *measurement) try(ctx context.Context, from, to, step int) (int, error) {
	var numbers []uint32
	sizes := map[uint32]int{}
sizes:
	for size := from; size <= to; size += step {
		for range copies {
			n, fits := m.ask(size)
			if !fits {
				break sizes
			}
			numbers, sizes[n] = append(numbers, n), size
		}
		// Not in one burst, because a short queue on the path would drop the largest packets.
		if !sleep.For(ctx, 2*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
	if err := m.await(ctx, numbers); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	best := 0
	for n, size := range sizes {
		if _, ok := m.took[n]; ok {
			best = max(best, size)
		}
	}
	return best, nil
}

// throughput measures one direction after the other, over TCP.
func throughput(ctx context.Context, c Config) (to, from float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*maxStream)
	defer cancel()
	conn, err := (&net.Dialer{Timeout: max(c.Patience, time.Second)}).DialContext(ctx, "tcp4", c.Target.String())
	if err != nil {
		return 0, 0, fmt.Errorf("throughput: %w", err)
	}
	stream := conn.(*net.TCPConn)
	defer func() { _ = stream.Close() }()
	defer context.AfterFunc(ctx, func() { _ = stream.Close() })()
	started := time.Now()
	header := binary.BigEndian.AppendUint32(c.Token[:], uint32(c.Throughput.Milliseconds()))
	if _, err := stream.Write(header); err != nil {
		return 0, 0, fmt.Errorf("throughput: %w", err)
	}
	if err := errors.Join(pour(stream, c.Throughput), stream.CloseWrite()); err != nil {
		return 0, 0, fmt.Errorf("throughput: %w", err)
	}
	var count int64
	if err := binary.Read(stream, binary.BigEndian, &count); err != nil {
		return 0, 0, fmt.Errorf("throughput: %w", err)
	}
	to = 8 * float64(count) / time.Since(started).Seconds()
	started = time.Now()
	count, err = io.Copy(io.Discard, stream)
	if err != nil {
		return to, 0, fmt.Errorf("throughput: %w", err)
	}
	return to, 8 * float64(count) / time.Since(started).Seconds(), nil
}
