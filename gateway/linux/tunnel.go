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

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// tunnelNames lists the devices that have one of our tunnels' names.
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

// readTunnels describes the existing tunnels. It needs want to compare endpoints.
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

// address returns the wanted address if it is the device's only address, otherwise another
// address of the device.
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

// syncDevices creates the tunnels' devices, and sets everything except their peers.
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
	// Peers are set later, by syncPeers.
	have.PublicKey, have.Endpoint, have.Keepalive, have.NextKey = want.PublicKey, want.Endpoint, want.Keepalive, want.NextKey
	lines := gateway.ExplainTunnel(have, want)
	if len(lines) == 0 {
		return nil, nil
	}
	return lines, k.configureDevice(s, link, have, want)
}

// createTunnel creates the device, and configures it without a peer.
func (k *Kernel) createTunnel(s *session, want gateway.Tunnel) error {
	// Values that this process remembers under this name belong to another device.
	k.closeUserspace(want.Device)
	delete(k.dialed, want.Device)
	err := errors.ErrUnsupported
	if want.Implementation != gateway.Userspace {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = want.Device
		err = s.nl.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs})
		if errors.Is(err, unix.EOPNOTSUPP) && want.Implementation == gateway.InKernel {
			return fmt.Errorf("create tunnel %s: the kernel has no WireGuard: %w", want.Device, err)
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		err = k.createUserspace(want.Device)
	}
	if err != nil {
		return fmt.Errorf("create tunnel %s: %w", want.Device, err)
	}
	link, err := s.nl.LinkByName(want.Device)
	if err != nil {
		return fmt.Errorf("create tunnel %s: %w", want.Device, err)
	}
	return k.configureDevice(s, link, gateway.Tunnel{}, want)
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
		if u, ok := wg.(*userspaceTunnel); ok {
			u.tun.resize(want.MTU)
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
			// The device is started on this thread, so that its sockets belong to this thread's namespace. Up
			// does nothing if the device is already up.
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

// setAddress makes want the device's only IPv4 address. It deletes the other addresses first: if the first
// address of a subnet is deleted, the kernel also deletes the later addresses of that subnet.
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
		// The kernel may have deleted this address together with the previous one.
		if err := s.nl.AddrDel(link, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("delete address %s from %s: %w", a.IPNet, name, err)
		}
	}
	if err := s.nl.AddrReplace(link, &netlink.Addr{IPNet: ipNet(want)}); err != nil {
		return fmt.Errorf("set address %s on %s: %w", want, name, err)
	}
	return nil
}
