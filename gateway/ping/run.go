package ping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Config configures Run.
type Config struct {
	// ListenAddr is the gateway's own tunnel address, or 0.0.0.0, and the port.
	ListenAddr netip.AddrPort
	// PeerAddr is the other gateway's tunnel address. Datagrams from other
	// addresses are ignored.
	PeerAddr netip.AddrPort
	// ClusterID is the peer's ID.
	ClusterID string
	Timing    Timing
	// Hurry requests a ping at once, but no sooner than 50 ms after the last ping. It may be nil.
	Hurry <-chan struct{}
	// OnChange is called with each new Status: at the start, after each answer,
	// and when answers stop. Calls are never concurrent. It must not block.
	OnChange func(Status)
	// Recorder gets all states and pings. It may be nil.
	Recorder *Recorder
}

// Run pings the peer and answers its pings until ctx ends. Then it returns nil.
func Run(ctx context.Context, c Config) error {
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(c.ListenAddr))
	if err != nil {
		return fmt.Errorf("listen for pings on %s: %w", c.ListenAddr, err)
	}
	return serve(ctx, socket, c)
}

type datagram struct {
	at   time.Time
	from netip.AddrPort
	data []byte
}

func serve(ctx context.Context, socket *net.UDPConn, c Config) error {
	received := make(chan datagram)
	failed := make(chan error, 1)
	stopped := make(chan struct{})
	defer func() {
		// This unblocks the reader at either place where it may wait, and waits for its end.
		_ = socket.Close()
		for range received {
		}
		<-stopped
	}()
	go func() {
		defer close(stopped)
		defer close(received)
		failed <- read(socket, received)
	}()

	l := loop{socket: socket, config: c, tracker: NewTracker(c.Timing)}
	if c.Recorder != nil {
		l.tracker.Record(c.Recorder)
	}
	next := time.NewTimer(0)
	defer next.Stop()
	l.report(time.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case now := <-next.C:
			l.ping(now)
			l.report(now)
			next.Reset(l.wait(now))
		case <-c.Hurry:
			now := time.Now()
			if early := minInterval - now.Sub(l.sent); early > 0 {
				next.Reset(early) // the ping comes soon, and not only after the interval
				continue
			}
			l.ping(now)
			l.report(now)
			next.Reset(l.wait(now))
		case d, ok := <-received:
			if ok && l.handle(d) {
				l.report(d.at)
				// The first answer ends the time of frequent pings.
				next.Reset(l.wait(d.at))
			}
		}
	}
}

func read(socket *net.UDPConn, received chan<- datagram) error {
	buffer := make([]byte, maxMessage)
	for {
		n, from, err := socket.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read pings: %w", err)
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		received <- datagram{time.Now(), from, append([]byte(nil), buffer[:n]...)}
	}
}

type loop struct {
	socket   *net.UDPConn
	config   Config
	tracker  *Tracker
	reported *Status
	sent     time.Time // the last ping
	second   time.Time // the second in which answers are counted
	answers  int
}

const (
	minInterval = 50 * time.Millisecond
	// answersPerSecond keeps a peer from using us as an echo for its floods.
	answersPerSecond = 100
)

// wait returns the time until the next ping or the end of the wait for an answer, whichever is sooner. So the
// status Error is not late by up to an interval.
func (l *loop) wait(now time.Time) time.Duration {
	w := l.tracker.Interval()
	if e := l.tracker.Expires(); e.After(now) {
		// The status changes after the limit, not at it.
		w = min(w, e.Sub(now)+time.Millisecond)
	}
	return w
}

func (l *loop) ping(now time.Time) {
	b, err := newPing(l.config.ClusterID, now)
	if err != nil {
		return
	}
	l.sent = now
	l.tracker.Sent(now)
	// A ping that can't be sent, for example because there is no route yet, counts as unanswered.
	_, _ = l.socket.WriteToUDPAddrPort(b, l.config.PeerAddr)
}

// handle reports whether the datagram was an answer to one of our pings.
func (l *loop) handle(d datagram) bool {
	if d.from.Addr() != l.config.PeerAddr.Addr().Unmap() {
		return false
	}
	if reply, ok := answer(d.data); ok {
		if d.at.Sub(l.second) >= time.Second {
			l.second, l.answers = d.at, 0
		}
		if l.answers++; l.answers > answersPerSecond {
			return false
		}
		_, _ = l.socket.WriteToUDPAddrPort(reply, d.from)
		return false
	}
	m, err := parse(d.data)
	if err != nil || m.Type != pong || m.ClusterID != l.config.ClusterID {
		return false
	}
	return l.tracker.Received(d.at, m.TimeStamp)
}

func (l *loop) report(now time.Time) {
	s := l.tracker.Status(now)
	if l.reported != nil && *l.reported == s {
		return
	}
	l.reported = &s
	if l.config.OnChange != nil {
		l.config.OnChange(s)
	}
}
