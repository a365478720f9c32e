//go:build linux

// Package relay passes on the packets of two gateways that can't be dialled. Each gateway dials a UDP port of
// its own at the relay. The relay has no key and sees only ciphertext, so it can only interrupt a connection,
// and not change it.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Config configures a relay.
type Config struct {
	// Listen is the UDP address that one gateway dials. The other one dials the next port.
	Listen netip.AddrPort
	// Allow are the networks of allowed gateways; none: all.
	Allow []netip.Prefix
	Log   *slog.Logger
}

const longest = 1 << 16

// Run relays until ctx ends. The error names the port that can't be opened.
func Run(ctx context.Context, c Config) error {
	if c.Listen.Port() == 0 || c.Listen.Port() == 1<<16-1 {
		return fmt.Errorf("listen at UDP port %d: want a port below 65535 that is not 0, since the next one is needed too", c.Listen.Port())
	}
	var ends [2]*net.UDPConn
	for i := range ends {
		port := c.Listen.Port() + uint16(i)
		at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.Listen.Addr(), port))
		if c.Listen.Addr() == netip.IPv6Unspecified() {
			at.IP = nil // the same, but this also works if the kernel has no IPv6
		}
		conn, err := net.ListenUDP("udp", at)
		if err != nil {
			return fmt.Errorf("listen at UDP port %d: %w", port, err)
		}
		defer conn.Close()
		ends[i] = conn
	}
	return Serve(ctx, c, ends)
}

// Serve relays between two sockets until ctx ends, and closes them. It does not use
// c.Listen.
func Serve(ctx context.Context, c Config, conns [2]*net.UDPConn) error {
	var ports [2]uint16
	for i, conn := range conns {
		ports[i] = uint16(conn.LocalAddr().(*net.UDPAddr).Port)
	}
	r := &relay{sockets: [2]*socket{newSocket(conns[0]), newSocket(conns[1])}, log: c.Log, table: newTable(ports, c.Allow, machine(), c.Log)}
	g, ctx := errgroup.WithContext(ctx)
	for port := range conns {
		g.Go(func() error { return r.passFrom(port) })
	}
	g.Go(func() error {
		<-ctx.Done()
		for _, conn := range conns {
			_ = conn.Close() // ends the goroutine that reads it
		}
		return nil
	})
	return g.Wait()
}

type relay struct {
	sockets [2]*socket
	log     *slog.Logger
	mu      sync.Mutex
	table   *table
}

// group is a part of the received datagrams that is sent to the same addresses.
type group struct {
	data []byte
	to   []netip.AddrPort
}

// passFrom passes on the packets that arrive at a port, until the socket is closed.
func (r *relay) passFrom(port int) error {
	buffer, control := make([]byte, longest), make([]byte, 64)
	var groups []group
	for {
		data, size, from, err := r.sockets[port].receive(buffer, control)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("receive at UDP %s: %w", r.sockets[port].LocalAddr(), err)
		case size == 0:
			continue
		}
		groups = r.decide(groups[:0], port, from, data, size)
		for _, g := range groups {
			for _, a := range g.to {
				if err := r.sockets[1-port].send(g.data, size, a); err != nil && !errors.Is(err, net.ErrClosed) {
					r.log.Debug("pass on", "to", a, "error", err)
				}
			}
		}
	}
}

// decide splits the datagrams that have arrived at a port into groups with the same addresses, and appends
// them to groups.
func (r *relay) decide(groups []group, port int, from netip.AddrPort, data []byte, size int) []group {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := 0; at < len(data); at += size {
		end := min(at+size, len(data))
		to := r.table.pass(now, port, from, data[at:end])
		if last := len(groups) - 1; last >= 0 && slices.Equal(groups[last].to, to) {
			groups[last].data = data[at-len(groups[last].data) : end]
		} else {
			groups = append(groups, group{data[at:end], to})
		}
	}
	return groups
}

// machine returns a function that lists this machine's addresses. The function reads them again after a
// while, because they may change.
func machine() func() []netip.Addr {
	const good = 5 * time.Second
	var own []netip.Addr
	var read time.Time
	return func() []netip.Addr {
		if now := time.Now(); now.Sub(read) > good {
			read, own = now, own[:0]
			all, _ := net.InterfaceAddrs() // without the addresses, a packet in a circle is stopped when it arrives again
			for _, a := range all {
				if p, err := netip.ParsePrefix(a.String()); err == nil {
					own = append(own, p.Addr().Unmap())
				}
			}
		}
		return own
	}
}
