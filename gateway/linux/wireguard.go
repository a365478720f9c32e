//go:build linux

package linux

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// wireguard is one WireGuard device, of the kernel or of this process.
type wireguard interface {
	read() (wireguardConfig, error)
	setDevice(key gateway.PrivateKey, port uint16) error
	// changePort listens on another port; 0 means any free port.
	changePort(port uint16) error
	// setPeers makes the changes in order. If replace is set, it first removes all peers.
	setPeers(replace bool, changes ...peerChange) error
	// redial is [Kernel.Redial].
	redial(wireguardPeer) error
	implementation() gateway.Implementation
	close()
}

type wireguardConfig struct {
	key   gateway.PrivateKey
	port  uint16
	peers []wireguardPeer
}

type wireguardPeer struct {
	key            wgtypes.Key
	endpoint       netip.AddrPort
	keepalive      time.Duration
	allowed        []netip.Prefix
	handshake      time.Time
	received, sent uint64
}

// peerChange sets a peer to the given values, or removes it. A zero endpoint leaves the peer's
// endpoint as it is.
type peerChange struct {
	wireguardPeer
	remove bool
}

// anew returns the changes that remove a peer and create it again, without its keys, counters and times.
func anew(p wireguardPeer) []peerChange { return []peerChange{{p, true}, {p, false}} }

// everything returns the allowed range of a peer. WireGuard allows all addresses, because the firewall judges
// them, and counts the packets that it drops.
func everything() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
}

// roles returns the peer that may send everything (main), and the peer that may send nothing (next). If there
// are other peers, it returns neither, so that all are replaced.
func (c wireguardConfig) roles() (main, next *wireguardPeer) {
	for i := range c.peers {
		p := &c.peers[i]
		switch {
		case slices.Equal(p.allowed, everything()) && main == nil:
			main = p
		case len(p.allowed) == 0 && next == nil:
			next = p
		default:
			return nil, nil
		}
	}
	return main, next
}

// find returns the WireGuard device of that name. It reads only the number of the device, because it is
// called several times a second for each tunnel. In a measurement, reading all attributes took a fifth of an
// idle gateway's CPU time.
func (k *Kernel) find(name string) (wireguard, error) {
	index, err := interfaceIndex(name)
	if err != nil {
		return nil, fmt.Errorf("tunnel %s: %w: %w", name, ErrNoPeer, err)
	}
	if u, ok := k.userspace[name]; ok && u.index == index {
		return u, nil
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return nil, fmt.Errorf("tunnel %s: %w: %w", name, ErrNoPeer, err)
	}
	return k.open(link)
}

// interfaceIndex is SIOCGIFINDEX of netdevice(7).
func interfaceIndex(name string) (int, error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(socket)
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFINDEX, request); err != nil {
		return 0, fmt.Errorf("find device: %w", err)
	}
	return int(request.Uint32()), nil
}

func (k *Kernel) open(link netlink.Link) (wireguard, error) {
	name := link.Attrs().Name
	if u, ok := k.userspace[name]; ok && u.index == link.Attrs().Index {
		return u, nil
	}
	if link.Type() == "wireguard" {
		return openKernel(name)
	}
	return nil, fmt.Errorf("device %s (%s) belongs to another program", name, link.Type())
}
