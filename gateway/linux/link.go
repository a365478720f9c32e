//go:build linux

package linux

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// addrGenModeNone is IN6_ADDR_GEN_MODE_NONE of uapi/linux/if_link.h.
const addrGenModeNone = 1

func (s *session) readLinks() ([]gateway.Link, error) {
	link, ok := s.links[gateway.FabricDevice]
	if !ok {
		return nil, nil
	}
	attrs := link.Attrs()
	found := gateway.Link{Name: attrs.Name, Alias: attrs.Alias, MTU: attrs.MTU, Up: attrs.Flags&net.FlagUp != 0}
	copy(found.MAC[:], attrs.HardwareAddr)
	// If a device differs in something that KernelState does not describe, its VNI is read as 0.
	// That is never wanted, so the device is replaced.
	if v, ok := link.(*netlink.Vxlan); ok && !v.Learning && v.VtepDevIndex == 0 && v.SrcAddr == nil && v.Group == nil {
		found.VNI, found.Port = v.VxlanId, uint16(v.Port)
	}
	addresses, err := s.addresses6(link)
	found.IPv6 = len(addresses) > 0
	return []gateway.Link{found}, err
}

func (s *session) addresses6(link netlink.Link) ([]netlink.Addr, error) {
	found, err := dump(func() ([]netlink.Addr, error) { return s.nl.AddrList(link, netlink.FAMILY_V6) })
	if err != nil {
		return nil, fmt.Errorf("list addresses of %s: %w", link.Attrs().Name, err)
	}
	return found, nil
}

// withoutIPv6 removes a device's IPv6 addresses, and keeps the kernel from adding others. It does nothing if
// the device has no IPv6.
func (s *session) withoutIPv6(link netlink.Link) error {
	name := link.Attrs().Name
	if err := s.nl.LinkSetIP6AddrGenMode(link, addrGenModeNone); err != nil && !errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("keep the kernel from giving %s an address: %w", name, err)
	}
	addresses, err := s.addresses6(link)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if err := s.nl.AddrDel(link, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("take %s from %s: %w", a.IP, name, err)
		}
	}
	return nil
}

func (s *session) syncLinks(want gateway.KernelState) ([]string, error) {
	have, err := s.readLinks()
	if err != nil {
		return nil, err
	}
	c := gateway.DiffLinks(have, want.Links)
	var errs []error
	for _, l := range c.Add {
		var old gateway.Link
		if len(have) > 0 {
			old = have[0]
		}
		if err := s.ensureLink(old, l); err != nil {
			errs = append(errs, err)
		}
	}
	for _, l := range c.Remove {
		if err := s.nl.LinkDel(s.links[l.Name]); err != nil {
			errs = append(errs, fmt.Errorf("delete device %s: %w", l.Name, err))
		}
	}
	return c.Lines, errors.Join(errs...)
}

func (s *session) ensureLink(have, want gateway.Link) error {
	link, exists := s.links[want.Name]
	if exists && (have.VNI != want.VNI || have.Port != want.Port || have.MAC != want.MAC) {
		if err := s.nl.LinkDel(link); err != nil {
			return fmt.Errorf("replace device %s: %w", want.Name, err)
		}
		exists = false
	}
	if !exists {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.HardwareAddr = want.Name, want.MTU, want.MAC[:]
		// The device sends no UDP checksums, as RFC 7348 recommends on IPv4: kernels up to 5.8 computed wrong
		// ones for masqueraded VXLAN packets.
		link = &netlink.Vxlan{LinkAttrs: attrs, VxlanId: want.VNI, Port: int(want.Port)}
		if err := s.nl.LinkAdd(link); err != nil {
			return fmt.Errorf("create vxlan device %s: %w", want.Name, err)
		}
		have = gateway.Link{MTU: want.MTU}
	}
	if have.MTU != want.MTU {
		if err := s.nl.LinkSetMTU(link, want.MTU); err != nil {
			return fmt.Errorf("set mtu %d on %s: %w", want.MTU, want.Name, err)
		}
	}
	if have.Alias != want.Alias {
		if err := s.nl.LinkSetAlias(link, want.Alias); err != nil {
			return fmt.Errorf("set the alias of %s: %w", want.Name, err)
		}
	}
	// This comes after the MTU, because a device gets IPv6 when its MTU becomes at least 1280 bytes.
	if err := s.withoutIPv6(link); err != nil {
		return err
	}
	if want.Up && !have.Up {
		if err := s.nl.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring up %s: %w", want.Name, err)
		}
	}
	return nil
}

func (s *session) readNeighbors() ([]gateway.Neighbor, error) {
	var found []gateway.Neighbor
	entries, err := s.fabricEntries(unix.AF_INET)
	for _, e := range entries {
		// The kernel's own entries are in other states than NUD_PERMANENT.
		if e.State&unix.NUD_PERMANENT != 0 {
			found = append(found, gateway.Neighbor{Device: gateway.FabricDevice, IP: addr(e.IP), MAC: mac(e.HardwareAddr)})
		}
	}
	return found, err
}

func (s *session) readForwards() ([]gateway.Forward, error) {
	var found []gateway.Forward
	entries, err := s.fabricEntries(unix.AF_BRIDGE)
	for _, e := range entries {
		found = append(found, gateway.Forward{Device: gateway.FabricDevice, MAC: mac(e.HardwareAddr), To: addr(e.IP)})
	}
	return found, err
}

func (s *session) fabricEntries(family int) ([]netlink.Neigh, error) {
	link, ok := s.links[gateway.FabricDevice]
	if !ok {
		return nil, nil
	}
	entries, err := dump(func() ([]netlink.Neigh, error) { return s.nl.NeighList(link.Attrs().Index, family) })
	if err != nil {
		return nil, fmt.Errorf("list neighbours of %s: %w", gateway.FabricDevice, err)
	}
	return entries, nil
}

func (s *session) syncNeighbors(want gateway.KernelState) ([]string, error) {
	have, err := s.neighbors()
	if err != nil {
		return nil, err
	}
	c := gateway.DiffNeighbors(have, want.Neighbors)
	return c.Lines, s.applyEntries(entries(c.Add, neighborEntry), entries(c.Remove, neighborEntry))
}

func (s *session) syncForwards(want gateway.KernelState) ([]string, error) {
	have, err := s.forwards()
	if err != nil {
		return nil, err
	}
	c := gateway.DiffForwards(have, want.Forwards)
	return c.Lines, s.applyEntries(entries(c.Add, forwardEntry), entries(c.Remove, forwardEntry))
}

func entries[T any](items []T, convert func(T) netlink.Neigh) []netlink.Neigh {
	list := make([]netlink.Neigh, len(items))
	for i, item := range items {
		list[i] = convert(item)
	}
	return list
}

func neighborEntry(n gateway.Neighbor) netlink.Neigh {
	return netlink.Neigh{Family: unix.AF_INET, State: unix.NUD_PERMANENT, IP: n.IP.AsSlice(), HardwareAddr: n.MAC[:]}
}

func forwardEntry(f gateway.Forward) netlink.Neigh {
	return netlink.Neigh{
		Family: unix.AF_BRIDGE, Flags: unix.NTF_SELF, State: unix.NUD_PERMANENT | unix.NUD_NOARP,
		IP: f.To.AsSlice(), HardwareAddr: f.MAC[:],
	}
}

func (s *session) applyEntries(add, remove []netlink.Neigh) error {
	if len(add)+len(remove) == 0 {
		return nil
	}
	link, ok := s.links[gateway.FabricDevice]
	if !ok {
		return fmt.Errorf("set neighbours: no device %s", gateway.FabricDevice)
	}
	var errs []error
	// Entries are removed first: the removal of a wrong target of a MAC would also remove the new target of
	// the same MAC.
	for _, e := range remove {
		e.LinkIndex = link.Attrs().Index
		if err := s.nl.NeighDel(&e); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("delete neighbour %s %s: %w", e.IP, e.HardwareAddr, err))
		}
	}
	for _, e := range add {
		e.LinkIndex = link.Attrs().Index
		if err := s.nl.NeighSet(&e); err != nil {
			errs = append(errs, fmt.Errorf("set neighbour %s %s: %w", e.IP, e.HardwareAddr, err))
		}
	}
	return errors.Join(errs...)
}
