//go:build linux

package linux

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// PeerStats is what a tunnel knows about its peer.
type PeerStats struct {
	Handshake      time.Time // zero: never
	Received, Sent uint64    // bytes
	Endpoint       netip.AddrPort
	Implementation gateway.Implementation // InKernel or Userspace
	// NextHandshake is that of the peer's next key; zero: never.
	NextHandshake time.Time
}

// dialed is the endpoint that Sync last set. The peer may have moved since;
// only a new wish is a reason to set it again.
type dialed struct {
	peer     wgtypes.Key
	endpoint netip.AddrPort
}

// wireguard is one device, whoever implements it.
type wireguard interface {
	read() (wireguardConfig, error)
	setDevice(key gateway.PrivateKey, port uint16) error
	// setPeers makes the changes in order; replace removes all others before.
	setPeers(replace bool, changes ...peerChange) error
	implementation() gateway.Implementation
	close()
}

type wireguardConfig struct {
	key   gateway.PrivateKey
	port  uint16
	peers []wireguardPeer
}

// peerChange sets all that its peer says but the zero endpoint, which leaves
// that as it is; or removes the peer.
type peerChange struct {
	wireguardPeer
	remove bool
}

// main is the peer that may send everything, next one that may send nothing.
// Anything else is nobody's, and reads as no peer, so that it is replaced.
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

type wireguardPeer struct {
	key            wgtypes.Key
	endpoint       netip.AddrPort
	keepalive      time.Duration
	allowed        []netip.Prefix
	handshake      time.Time
	received, sent uint64
}

// everything is what a peer may send: its addresses are the firewall's concern,
// which counts what it drops.
func everything() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
}

// Peer reports on the peer of a tunnel device. If the device does not exist or
// has no peer yet, the error satisfies errors.Is(err, ErrNoPeer).
func (k *Kernel) Peer(device string) (PeerStats, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, wg, err := k.readPeer(device)
	if err != nil {
		return PeerStats{}, err
	}
	p, next := c.roles()
	s := PeerStats{
		Handshake: p.handshake, Received: p.received, Sent: p.sent,
		Endpoint: p.endpoint, Implementation: wg,
	}
	if next != nil {
		s.NextHandshake = next.handshake
	}
	return s, nil
}

// ErrNoPeer says that a tunnel has no peer.
var ErrNoPeer = errors.New("no such tunnel, or it has no peer yet")

func (k *Kernel) readPeer(device string) (wireguardConfig, gateway.Implementation, error) {
	wg, err := k.find(device)
	if err != nil {
		return wireguardConfig{}, "", err
	}
	defer wg.close()
	c, err := wg.read()
	if main, _ := c.roles(); err == nil && main == nil {
		err = fmt.Errorf("tunnel %s: %w", device, ErrNoPeer)
	}
	return c, wg.implementation(), err
}

// Redial makes the tunnel start a new handshake with its peer now. WireGuard
// itself waits 5 s before it repeats an unanswered one and 15 s before it
// notices a peer that restarted. Keys in use are forgotten. It dials where the
// peer was heard last, or endpoint if that is valid.
func (k *Kernel) Redial(device string, endpoint netip.AddrPort) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	wg, err := k.find(device)
	if err != nil {
		return fmt.Errorf("redial: %w", err)
	}
	defer wg.close()
	c, err := wg.read()
	if err != nil {
		return err
	}
	main, _ := c.roles()
	if main == nil {
		return fmt.Errorf("redial %s: %w", device, ErrNoPeer)
	}
	if endpoint.IsValid() {
		main.endpoint = endpoint
	}
	return wg.setPeers(false, peerChange{*main, true}, peerChange{*main, false})
}

// find returns the WireGuard of that name. Whoever keeps a tunnel looks several
// times a second: measured, to read all attributes of the device took a fifth of
// an idle gateway's CPU time, to ask for its number takes next to none.
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

// open returns the WireGuard behind a link.
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

// tunnelNames lists the devices that carry one of our names.
func (s *session) tunnelNames() []string {
	var names []string
	for name := range s.links {
		rest, ok := strings.CutPrefix(name, gateway.TunnelDevice)
		if !ok {
			continue
		}
		if _, err := strconv.Atoi(rest); err == nil || rest == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// readTunnels describes the tunnels that exist; want tells what to make of
// endpoints.
func (k *Kernel) readTunnels(s *session, want []gateway.Tunnel) ([]gateway.Tunnel, error) {
	var found []gateway.Tunnel
	var errs []error
	for _, name := range s.tunnelNames() {
		var w gateway.Tunnel
		if i := slices.IndexFunc(want, func(t gateway.Tunnel) bool { return t.Device == name }); i >= 0 {
			w = want[i]
		}
		t, err := k.readTunnel(s, name, w)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found = append(found, t)
	}
	return found, errors.Join(errs...)
}

func (k *Kernel) readTunnel(s *session, name string, want gateway.Tunnel) (gateway.Tunnel, error) {
	link := s.links[name]
	wg, err := k.open(link)
	if err != nil {
		return gateway.Tunnel{}, err
	}
	defer wg.close()
	c, err := wg.read()
	if err != nil {
		return gateway.Tunnel{}, err
	}
	t := gateway.Tunnel{
		Device: name, Alias: link.Attrs().Alias, Role: want.Role, Implementation: wg.implementation(),
		MTU: link.Attrs().MTU, Up: link.Attrs().Flags&net.FlagUp != 0,
		PrivateKey: c.key, ListenPort: c.port,
	}
	if t.Address, err = s.address(link, want.Address); err != nil {
		return gateway.Tunnel{}, err
	}
	main, next := c.roles()
	if main != nil {
		t.PublicKey, t.Endpoint, t.Keepalive = main.key, main.endpoint, main.keepalive
		if k.endpointStands(want, *main) {
			t.Endpoint = want.Endpoint
		}
	}
	if next != nil {
		t.NextKey = next.key
	}
	return t, nil
}

// endpointStands reports whether there is no reason to set the wanted endpoint:
// we did so already, whatever the peer did since; or we are the server of a
// peer that an earlier process left connected.
func (k *Kernel) endpointStands(want gateway.Tunnel, p wireguardPeer) bool {
	last, ok := k.dialed[want.Device]
	if ok && last.peer == p.key {
		return last.endpoint == want.Endpoint
	}
	return want.Role == gateway.Server && p.endpoint.IsValid()
}

// address returns the device's address if it is the wanted one and the only
// one, else another one that it has.
func (s *session) address(link netlink.Link, want netip.Prefix) (netip.Prefix, error) {
	addrs, err := dump(func() ([]netlink.Addr, error) { return s.nl.AddrList(link, netlink.FAMILY_V4) })
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("list addresses of %s: %w", link.Attrs().Name, err)
	}
	var found netip.Prefix
	for _, a := range addrs {
		if found = prefix(a.IPNet); found != want {
			break
		}
	}
	return found, nil
}

// syncDevices creates the tunnels' devices and sets all but their peers.
func (k *Kernel) syncDevices(s *session, want []gateway.Tunnel) ([]string, error) {
	var lines []string
	var errs []error
	for _, name := range s.tunnelNames() {
		if slices.ContainsFunc(want, func(t gateway.Tunnel) bool { return t.Device == name }) {
			continue
		}
		lines = append(lines, "unexpected: tunnel "+name)
		errs = append(errs, k.removeTunnel(s, name))
	}
	for _, t := range want {
		l, err := k.syncDevice(s, t)
		lines = append(lines, l...)
		errs = append(errs, err)
	}
	return lines, errors.Join(errs...)
}

func (k *Kernel) removeTunnel(s *session, name string) error {
	_, ours := k.userspace[name]
	k.closeUserspace(name)
	delete(k.dialed, name)
	if ours {
		return nil
	}
	if err := s.nl.LinkDel(s.links[name]); err != nil {
		return fmt.Errorf("delete device %s: %w", name, err)
	}
	return nil
}

func (k *Kernel) syncDevice(s *session, want gateway.Tunnel) ([]string, error) {
	link, exists := s.links[want.Device]
	if !exists {
		err := k.createTunnel(s, want)
		return []string{"missing: tunnel " + want.Device}, err
	}
	have, err := k.readTunnel(s, want.Device, want)
	if err != nil {
		return nil, err
	}
	if want.Implementation != gateway.Auto && have.Implementation != want.Implementation {
		lines := gateway.ExplainTunnel(have, want)
		if err := k.removeTunnel(s, want.Device); err != nil {
			return lines, err
		}
		return lines, k.createTunnel(s, want)
	}
	// The peer has its own phase.
	have.PublicKey, have.Endpoint, have.Keepalive, have.NextKey = want.PublicKey, want.Endpoint, want.Keepalive, want.NextKey
	lines := gateway.ExplainTunnel(have, want)
	if len(lines) == 0 {
		return nil, nil
	}
	return lines, k.configureDevice(s, link, have, want)
}

// createTunnel makes the device and configures it, without peer.
func (k *Kernel) createTunnel(s *session, want gateway.Tunnel) error {
	// What we knew of a device with this name is of another one.
	k.closeUserspace(want.Device)
	delete(k.dialed, want.Device)
	err := errors.ErrUnsupported
	if want.Implementation != gateway.Userspace {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = want.Device, want.MTU
		err = s.nl.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs})
		if errors.Is(err, unix.EOPNOTSUPP) && want.Implementation == gateway.InKernel {
			return fmt.Errorf("create tunnel %s: the kernel has no WireGuard: %w", want.Device, err)
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = k.createUserspace(want.Device, want.MTU)
	}
	if err != nil {
		return fmt.Errorf("create tunnel %s: %w", want.Device, err)
	}
	link, err := s.nl.LinkByName(want.Device)
	if err != nil {
		return fmt.Errorf("create tunnel %s: %w", want.Device, err)
	}
	return k.configureDevice(s, link, gateway.Tunnel{MTU: want.MTU}, want)
}

func (k *Kernel) configureDevice(s *session, link netlink.Link, have, want gateway.Tunnel) error {
	wg, err := k.open(link)
	if err != nil {
		return err
	}
	defer wg.close()
	if have.PrivateKey != want.PrivateKey || want.ListenPort != 0 && have.ListenPort != want.ListenPort {
		if err := wg.setDevice(want.PrivateKey, want.ListenPort); err != nil {
			return fmt.Errorf("configure tunnel %s: %w", want.Device, err)
		}
	}
	if have.MTU != want.MTU {
		if err := s.nl.LinkSetMTU(link, want.MTU); err != nil {
			return fmt.Errorf("set mtu %d on %s: %w", want.MTU, want.Device, err)
		}
	}
	if have.Alias != want.Alias {
		if err := s.nl.LinkSetAlias(link, want.Alias); err != nil {
			return fmt.Errorf("set the alias of %s: %w", want.Device, err)
		}
	}
	if have.Address != want.Address {
		if err := s.setAddress(link, want.Address); err != nil {
			return err
		}
	}
	if !have.Up {
		if u, ok := wg.(*userspaceTunnel); ok {
			// From here, because its sockets then belong to this thread's
			// namespace. If it is up already, this does nothing.
			if err := u.device.Up(); err != nil {
				return fmt.Errorf("start tunnel %s: %w", want.Device, err)
			}
		}
		if err := s.nl.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring up %s: %w", want.Device, err)
		}
	}
	return nil
}

// setAddress leaves the device with this one IPv4 address. Others go first:
// with a subnet's first address go the later ones of the same subnet.
func (s *session) setAddress(link netlink.Link, want netip.Prefix) error {
	name := link.Attrs().Name
	addrs, err := dump(func() ([]netlink.Addr, error) { return s.nl.AddrList(link, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list addresses of %s: %w", name, err)
	}
	for _, a := range addrs {
		if prefix(a.IPNet) == want {
			continue
		}
		// It may have gone with the one before.
		if err := s.nl.AddrDel(link, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("delete address %s from %s: %w", a.IPNet, name, err)
		}
	}
	if err := s.nl.AddrReplace(link, &netlink.Addr{IPNet: ipNet(want)}); err != nil {
		return fmt.Errorf("set address %s on %s: %w", want, name, err)
	}
	return nil
}

// syncPeers lets the peers in.
func (k *Kernel) syncPeers(s *session, want []gateway.Tunnel) ([]string, error) {
	var lines []string
	var errs []error
	for _, t := range want {
		if _, ok := s.links[t.Device]; !ok {
			continue // its creation failed and was reported
		}
		l, err := k.syncPeer(s, t)
		lines = append(lines, l...)
		errs = append(errs, err)
	}
	return lines, errors.Join(errs...)
}

func (k *Kernel) syncPeer(s *session, want gateway.Tunnel) ([]string, error) {
	have, err := k.readTunnel(s, want.Device, want)
	if err != nil {
		return nil, err
	}
	// Reported already.
	have.Alias, have.Address, have.MTU, have.Up = want.Alias, want.Address, want.MTU, want.Up
	have.PrivateKey, have.ListenPort, have.Implementation = want.PrivateKey, want.ListenPort, want.Implementation
	lines := gateway.ExplainTunnel(have, want)
	if len(lines) == 0 {
		k.dialed[want.Device] = dialed{want.PublicKey, want.Endpoint}
		return nil, nil
	}
	wg, err := k.open(s.links[want.Device])
	if err != nil {
		return lines, err
	}
	defer wg.close()
	replace, changes := peerChanges(have, want)
	if err := wg.setPeers(replace, changes...); err != nil {
		return lines, fmt.Errorf("set peer of %s: %w", want.Device, err)
	}
	k.dialed[want.Device] = dialed{want.PublicKey, want.Endpoint}
	return lines, nil
}

// peerChanges are the way from one pair of peers to another.
func peerChanges(have, want gateway.Tunnel) (replace bool, changes []peerChange) {
	none := wgtypes.Key{}
	if want.PublicKey == none {
		return true, nil
	}
	p := wireguardPeer{key: want.PublicKey, keepalive: want.Keepalive, allowed: everything()}
	switch want.PublicKey {
	case have.PublicKey:
		if have.Endpoint != want.Endpoint {
			p.endpoint = want.Endpoint
		}
	case have.NextKey:
		// What the peer may send moves from the old key to the new one. A client
		// has dialled with it, so where it is, is known; a server perhaps not yet.
		if want.Role == gateway.Client {
			p.endpoint = want.Endpoint
		}
	default:
		replace, p.endpoint = true, want.Endpoint
	}
	changes = append(changes, peerChange{p, false})
	if want.NextKey != none {
		changes = append(changes, peerChange{wireguardPeer{key: want.NextKey}, false})
	}
	if replace {
		return true, changes
	}
	for _, old := range []wgtypes.Key{have.PublicKey, have.NextKey} {
		if old != none && old != want.PublicKey && old != want.NextKey {
			changes = append(changes, peerChange{wireguardPeer{key: old}, true})
		}
	}
	return false, changes
}

// kernelTunnel configures a device of the kernel.
type kernelTunnel struct {
	name   string
	client *wgctrl.Client
}

func openKernel(name string) (*kernelTunnel, error) {
	c, err := wgctrl.New()
	if err != nil {
		return nil, fmt.Errorf("open wireguard: %w", err)
	}
	return &kernelTunnel{name, c}, nil
}

func (k *kernelTunnel) close()                                 { _ = k.client.Close() }
func (k *kernelTunnel) implementation() gateway.Implementation { return gateway.InKernel }

func (k *kernelTunnel) read() (wireguardConfig, error) {
	d, err := k.client.Device(k.name)
	if err != nil {
		return wireguardConfig{}, fmt.Errorf("read tunnel %s: %w", k.name, err)
	}
	c := wireguardConfig{key: gateway.PrivateKey(d.PrivateKey), port: uint16(d.ListenPort)}
	for _, p := range d.Peers {
		peer := wireguardPeer{
			key: p.PublicKey, keepalive: p.PersistentKeepaliveInterval, handshake: p.LastHandshakeTime,
			received: uint64(p.ReceiveBytes), sent: uint64(p.TransmitBytes),
		}
		if p.Endpoint != nil {
			e := p.Endpoint.AddrPort()
			peer.endpoint = netip.AddrPortFrom(e.Addr().Unmap(), e.Port())
		}
		for _, a := range p.AllowedIPs {
			peer.allowed = append(peer.allowed, prefix(&a))
		}
		c.peers = append(c.peers, peer)
	}
	return c, nil
}

func (k *kernelTunnel) setDevice(key gateway.PrivateKey, port uint16) error {
	private := wgtypes.Key(key)
	c := wgtypes.Config{PrivateKey: &private}
	if port != 0 {
		p := int(port)
		c.ListenPort = &p
	}
	return k.client.ConfigureDevice(k.name, c)
}

func (k *kernelTunnel) setPeers(replace bool, changes ...peerChange) error {
	config := wgtypes.Config{ReplacePeers: replace}
	for _, c := range changes {
		peer := wgtypes.PeerConfig{PublicKey: c.key, Remove: c.remove}
		if !c.remove {
			peer.ReplaceAllowedIPs, peer.PersistentKeepaliveInterval = true, &c.keepalive
			for _, a := range c.allowed {
				peer.AllowedIPs = append(peer.AllowedIPs, *ipNet(a))
			}
			if c.endpoint.IsValid() {
				peer.Endpoint = net.UDPAddrFromAddrPort(c.endpoint)
			}
		}
		config.Peers = append(config.Peers, peer)
	}
	return k.client.ConfigureDevice(k.name, config)
}
