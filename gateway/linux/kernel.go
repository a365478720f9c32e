//go:build linux

// Package linux makes the kernel match a gateway.KernelState: WireGuard and VXLAN
// devices, routes, rules, neighbours and one nftables table.
//
// All functions act in the network namespace of the calling thread. A program that uses
// several namespaces must lock its goroutines to threads.
package linux

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// Options configure a Kernel. The zero value works.
type Options struct {
	Logger *slog.Logger // the log of userspace WireGuard; nil: no log
}

// Kernel makes a network namespace match a KernelState. It remembers the userspace tunnels that this process
// runs, and the endpoints that it has set. Its methods may be called concurrently.
type Kernel struct {
	log *slog.Logger

	mu        sync.Mutex
	userspace map[string]*userspaceTunnel // by device
	dialed    map[string]dialed           // by device
	ports     map[string][]uint16         // the ports that ChangePort has used, by device; the oldest first
	reached   *gateway.KernelState        // the state after the last call; nil if it failed
}

// New returns a Kernel, and changes nothing yet. It fails if the machine lacks something that
// every KernelState needs: Linux 5.10 or newer, nftables.
func New(o Options) (*Kernel, error) {
	if err := checkKernel(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Kernel{log: o.Logger, userspace: map[string]*userspaceTunnel{}, dialed: map[string]dialed{}, ports: map[string][]uint16{}}, nil
}

// session holds the sockets of one call. Each call opens its own sockets, because a socket belongs to the
// namespace of the thread that opened it, and unread replies of a failed batch would reach the next call.
type session struct {
	nl    *netlink.Handle
	nft   *nftables.Conn
	links map[string]netlink.Link
	names map[int]string
	// known contains routes and the other long lists as an earlier call left them. nil: this call reads them.
	known *gateway.KernelState
}

func open() (*session, error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	s := &session{nl: nl}
	if err := s.openFirewall(); err != nil {
		nl.Close()
		return nil, err
	}
	if err := s.listLinks(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openFirewall opens the socket to nftables, and closes the one before.
func (s *session) openFirewall() error {
	// A table with a few hundred rules does not fit into the default buffers. The kernel would answer "no
	// buffer space available".
	nft, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(largeBuffers))
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	if s.nft != nil {
		_ = s.nft.CloseLasting() // the socket is not used any more
	}
	s.nft = nft
	return nil
}

// largeBuffers is generic so that it fits the socket type of nftables' netlink library without an
// import of that library.
func largeBuffers[C interface {
	SetReadBuffer(int) error
	SetWriteBuffer(int) error
}](c C) error {
	const size = 32 << 20
	return errors.Join(c.SetReadBuffer(size), c.SetWriteBuffer(size))
}

// close closes the sockets in the background, because the kernel first waits until no CPU uses the deleted
// objects of a table: 9 ms on average in a measurement.
func (s *session) close() {
	go func() {
		s.nl.Close()
		_ = s.nft.CloseLasting() // the socket is not used any more
	}()
}

// listLinks refreshes the view of the devices.
func (s *session) listLinks() error {
	links, err := dump(s.nl.LinkList)
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	s.links, s.names = make(map[string]netlink.Link, len(links)), make(map[int]string, len(links))
	for _, l := range links {
		s.links[l.Attrs().Name] = l
		s.names[l.Attrs().Index] = l.Attrs().Name
	}
	return nil
}

// dump repeats a listing after a concurrent change, because an interrupted listing can lack entries.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	var items []T
	var err error
	for range 5 {
		items, err = list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return items, err
}

// Sync makes the namespace match want. It returns the differences that it found, as gateway.Explain describes
// them. If there are none, it has written nothing. If a part fails, Sync still applies the parts that don't
// depend on it. Without the firewall, it sets no peer. Call Sync again to retry.
func (k *Kernel) Sync(want gateway.KernelState) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sync(want, nil)
}

// Update is a Sync after a change of the wanted state. It does not read routes, neighbours, forwarding
// entries and the firewall: it assumes that they are as the last Sync or Update left them. So the cost of a
// change depends little on the number of entries. The next Sync repairs changes by other programs. Watch
// signals such changes. The caller must not change want afterwards.
func (k *Kernel) Update(want gateway.KernelState) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.reached
	lines, err := k.sync(want, known)
	if err != nil && known != nil {
		// The failure may come from other programs' changes.
		var more []string
		more, err = k.sync(want, nil)
		lines = append(lines, more...)
	}
	return lines, err
}

// sync applies the differences between known and want. If known is nil, it reads the state first.
func (k *Kernel) sync(want gateway.KernelState, known *gateway.KernelState) ([]string, error) {
	k.reached = nil
	s, err := open()
	if err != nil {
		return nil, err
	}
	defer s.close()

	var lines []string
	var errs []error
	do := func(phase func(gateway.KernelState) ([]string, error)) error {
		l, err := phase(want)
		lines = append(lines, l...)
		if err != nil {
			errs = append(errs, err)
		}
		return err
	}
	// Only the firewall sets marks, so rules and routes come before it: a translated packet never meets a
	// routing table without a route for it. Peers are set last, after the rules that judge their packets.
	if known == nil {
		_ = do(func(w gateway.KernelState) ([]string, error) { return nil, s.closeIPv6(w) })
	}
	_ = do(s.syncLinks)
	_ = do(func(w gateway.KernelState) ([]string, error) { return k.syncDevices(s, w.Tunnels) })
	if err := s.listLinks(); err != nil {
		return lines, errors.Join(append(errs, err)...)
	}
	all := want
	if known != nil && len(lines) == 0 { // if devices have changed, known is outdated: a new device has no routes
		var have gateway.KernelState
		have, want = onlyDifferences(*known, want)
		s.known = &have
	}
	_ = do(s.syncSettings)
	_ = do(s.syncNeighbors)
	_ = do(s.syncForwards)
	_ = do(s.syncRoutes)
	_ = do(s.syncRules)
	if err := do(s.syncFirewall); err == nil {
		_ = do(func(w gateway.KernelState) ([]string, error) { return k.syncPeers(s, w.Tunnels) })
	}
	if len(errs) == 0 {
		k.reached = &all
	}
	return lines, errors.Join(errs...)
}

// Found returns the present state of our objects. If want leaves a choice to the kernel (such as the endpoint
// after roaming), the found value equals want's. gateway.Explain(found, want) is the list that Sync would
// return.
func (k *Kernel) Found(want gateway.KernelState) (gateway.KernelState, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := open()
	if err != nil {
		return gateway.KernelState{}, err
	}
	defer s.close()
	var found gateway.KernelState
	var errs [8]error
	found.Links, errs[7] = s.readLinks()
	found.Tunnels, errs[0] = k.readTunnels(s, want.Tunnels)
	found.Settings, errs[6] = s.readSettings(want)
	found.Neighbors, errs[1] = s.readNeighbors()
	found.Forwards, errs[2] = s.readForwards()
	found.Routes, errs[3] = s.readRoutes()
	found.Rules, errs[4] = s.readRules(movesLocal(want.Rules))
	found.Firewall, errs[5] = s.readFirewall(want.Firewall)
	return found, errors.Join(errs[:]...)
}

// Remove deletes all our objects, made by this process or by an earlier one, and nothing else.
// It succeeds if there are none.
func (k *Kernel) Remove() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.sync(gateway.KernelState{}, nil)
	return err
}

// Close ends the userspace tunnels of this process, and with them their
// devices. Everything else stays as it is.
func (k *Kernel) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.userspace {
		k.closeUserspace(name)
	}
}
