package mdns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/internal/discovery"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
)

// Announce answers questions about a cluster in the LAN of the interface that has an address, until ctx ends.
// After an error, it logs the error and tries again.
//
// It sends no announcements, neither at its start nor at its end, because other nodes of the cluster also
// answer. A program that browses would take the end of one node for the end of the cluster.
func Announce(ctx context.Context, log *slog.Logger, address netip.Addr, c discovery.Cluster) {
	for ctx.Err() == nil {
		if err := announce(ctx, log, address, c); ctx.Err() == nil {
			log.Error("the cluster can't be announced in the LAN now", "address", address, "error", err)
			sleep.For(ctx, retry)
		}
	}
}

// retry is the pause after an error.
const retry = 30 * time.Second

func announce(ctx context.Context, log *slog.Logger, address netip.Addr, c discovery.Cluster) error {
	conn, lan, err := listen(address)
	if err != nil {
		return err
	}
	return answer(ctx, log, conn, lan, c)
}

// listen receives questions that go to all machines in the LAN of an address. Packets that go only to the
// node's address are left to other programs, such as Avahi.
func listen(address netip.Addr) (*net.UDPConn, netip.Prefix, error) {
	i, lan, err := interfaceOf(address)
	if err != nil {
		return nil, lan, err
	}
	conn, err := bound()
	if err == nil {
		err = errors.Join(lead(conn, i), ipv4.NewPacketConn(conn).JoinGroup(i, &net.UDPAddr{IP: group.Addr().AsSlice()}))
		if err != nil {
			conn.Close()
		}
	}
	if err != nil {
		return nil, lan, fmt.Errorf("listen on %s: %w", i.Name, err)
	}
	return conn, lan, nil
}

// bound returns a socket that is bound to the group. Package net would bind it to the port on all addresses.
func bound() (*net.UDPConn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "mdns")
	defer file.Close() // the connection has a copy of the descriptor
	if err := errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: int(group.Port()), Addr: group.Addr().As4()}),
	); err != nil {
		return nil, err
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// If several nodes answer by multicast, each waits a random time (RFC 6762, section 6), and does not repeat
// an answer within a second.
const (
	leastDelay, mostDelay = 20 * time.Millisecond, 120 * time.Millisecond
	quiet                 = time.Second
)

// answer answers questions until ctx ends, and then closes conn. It ignores senders outside the LAN, because
// they must not get the LAN's addresses (RFC 6762, section 11).
func answer(ctx context.Context, log *slog.Logger, conn *net.UDPConn, lan netip.Prefix, c discovery.Cluster) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	buf := make([]byte, most)
	var said time.Time
	failed := slog.LevelWarn
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return err
		}
		if !lan.Contains(from.Addr().Unmap()) || from.Port() == 0 {
			continue
		}
		reply, multicast, err := c.Reply(buf[:n], from.Port() != group.Port())
		if err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		if reply == nil || multicast && time.Since(said) < quiet {
			continue
		}
		if multicast {
			said, from = time.Now(), group
			sleep.For(ctx, leastDelay+rand.N(mostDelay-leastDelay)) //nolint:gosec // no secret
		}
		// An error for one sender, for example because of a firewall, must not keep other senders from an
		// answer.
		if _, err := conn.WriteToUDPAddrPort(reply, from); err != nil && ctx.Err() == nil {
			log.Log(ctx, failed, "an answer was not sent", "to", from, "error", err)
			failed = slog.LevelDebug // only the first of many errors is a warning
		}
	}
}

// interfaceOf returns the interface that has an address, and its LAN.
func interfaceOf(address netip.Addr) (*net.Interface, netip.Prefix, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, netip.Prefix{}, fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range all {
		for _, lan := range lansOf(i) {
			if lan.Addr() == address {
				return &i, lan, nil
			}
		}
	}
	return nil, netip.Prefix{}, fmt.Errorf("no interface has the address %s", address)
}
