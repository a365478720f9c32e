// Package relay passes the packets of two gateways on to each other, of which neither
// can be dialled: each dials a UDP port of its own at the relay. It sees ciphertext
// alone, and has no key: what it can do to a connection is to end it.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Config of a relay.
type Config struct {
	// Listen is the UDP address that one gateway dials. The other one dials the next port.
	Listen netip.AddrPort
	// Allow are the networks that gateways may be in; none: any.
	Allow []netip.Prefix
	Log   *slog.Logger
}

const (
	// holdFor is how long a gateway keeps its port after its last packet. Gateways send
	// pings every 2 s, and dial several times a second where nobody answers. So somebody
	// else gets the port only where the gateway has gone.
	holdFor = 5 * time.Second
	// initiation is the length of the message that begins a handshake, and initiates
	// its first byte (WireGuard's paper, section 5.4.2).
	initiation, initiates = 148, 1
	longest               = 1 << 16
)

// Run relays until ctx ends. The error says which port can't be listened at.
func Run(ctx context.Context, c Config) error {
	if c.Listen.Port() == 0 || c.Listen.Port() == 1<<16-1 {
		return fmt.Errorf("listen at UDP port %d: want a port below 65535 that is not 0, since the next one is needed too", c.Listen.Port())
	}
	var ends [2]*net.UDPConn
	for i := range ends {
		port := c.Listen.Port() + uint16(i)
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.Listen.Addr(), port)))
		if err != nil {
			return fmt.Errorf("listen at UDP port %d: %w", port, err)
		}
		defer conn.Close()
		ends[i] = conn
	}
	return Serve(ctx, c, ends)
}

// Serve relays between two sockets until ctx ends, and closes them. Of c it does not need
// Listen.
func Serve(ctx context.Context, c Config, conns [2]*net.UDPConn) error {
	var ends [2]*end
	for i, conn := range conns {
		ends[i] = &end{conn: conn, log: c.Log.With("port", conn.LocalAddr().(*net.UDPAddr).Port), allow: c.Allow}
	}
	g, ctx := errgroup.WithContext(ctx)
	for i, from := range ends {
		to := ends[1-i]
		g.Go(func() error { return from.passTo(to) })
	}
	g.Go(func() error {
		<-ctx.Done()
		for _, conn := range conns {
			_ = conn.Close() // ends what reads it
		}
		return nil
	})
	return g.Wait()
}

// end is one of the two ports.
type end struct {
	conn  *net.UDPConn
	log   *slog.Logger
	allow []netip.Prefix

	mu    sync.Mutex
	peer  netip.AddrPort // the gateway that has the port; zero: none yet
	heard time.Time
}

// passTo passes on what comes in, until the socket is closed.
func (e *end) passTo(other *end) error {
	buffer := make([]byte, longest)
	for {
		n, from, err := e.conn.ReadFromUDPAddrPort(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("receive at UDP %s: %w", e.conn.LocalAddr(), err)
		}
		if !e.admit(time.Now(), from, buffer[:n]) {
			continue
		}
		if to := other.gateway(); to.IsValid() {
			if _, err := other.conn.WriteToUDPAddrPort(buffer[:n], to); err != nil && !errors.Is(err, net.ErrClosed) {
				e.log.Debug("pass on", "error", err)
			}
		}
	}
}

func (e *end) gateway() netip.AddrPort {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.peer
}

// admit reports whether a packet is of the gateway that has the port. The first one
// that begins a handshake gets the port, and another one when that has gone silent. A
// router may give the same gateway another port at any time: what comes from its
// address is its own.
func (e *end) admit(now time.Time, from netip.AddrPort, packet []byte) bool {
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	e.mu.Lock()
	defer e.mu.Unlock()
	if from == e.peer {
		e.heard = now
		return true
	}
	begins := len(packet) == initiation && packet[0] == initiates
	silent := now.Sub(e.heard) > holdFor || from.Addr() == e.peer.Addr()
	if !begins || !silent || !allowed(e.allow, from.Addr()) {
		return false
	}
	e.log.Info("a gateway has come", "from", from, "before", e.peer)
	e.peer, e.heard = from, now
	return true
}

func allowed(allow []netip.Prefix, a netip.Addr) bool {
	for _, p := range allow {
		if p.Contains(a) {
			return true
		}
	}
	return len(allow) == 0
}
