// Package geneve replaces Liqo's package with this name in the images that the lab
// runs. It makes VXLAN devices, because not every kernel of the tests has Geneve.
// Peers, identifiers, port and MTU are the same, so Liqo's controllers see no
// difference. build/liqo.sh puts it in place.
package geneve

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// EnsureGeneveInterfacePresence makes a device with one peer, and replaces a
// device that differs.
func EnsureGeneveInterfacePresence(name, local, remote string, id uint32, disableARP bool, mtu int, port uint16) error {
	want := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu, TxQLen: 1000},
		VxlanId:   int(id), Group: net.ParseIP(remote), Port: int(port), Learning: false,
	}
	if want.Group == nil {
		return fmt.Errorf("device %s: remote %q is no IP address", name, remote)
	}
	found, err := device(name)
	if err != nil {
		return err
	}
	if v, ok := found.(*netlink.Vxlan); ok && (v.VxlanId != want.VxlanId || !v.Group.Equal(want.Group) || v.Port != want.Port || v.MTU != mtu) {
		if err := netlink.LinkDel(found); err != nil {
			return fmt.Errorf("replace device %s: %w", name, err)
		}
		found = nil
	}
	if found == nil {
		if err := netlink.LinkAdd(want); err != nil {
			return fmt.Errorf("add device %s: %w", name, err)
		}
		if found, err = device(name); err != nil {
			return err
		}
	}
	if disableARP {
		if err := netlink.LinkSetARPOff(found); err != nil {
			return fmt.Errorf("device %s without ARP: %w", name, err)
		}
	}
	if err := netlink.LinkSetUp(found); err != nil {
		return fmt.Errorf("device %s up: %w", name, err)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(local), Mask: net.CIDRMask(32, 32)}}
	if err := netlink.AddrReplace(found, address); err != nil {
		return fmt.Errorf("address %s of device %s: %w", local, name, err)
	}
	return nil
}

// EnsureGeneveInterfaceAbsence deletes the device if it exists.
func EnsureGeneveInterfaceAbsence(name string) error {
	found, err := device(name)
	if err != nil || found == nil {
		return err
	}
	return netlink.LinkDel(found)
}

// ListGeneveInterfaces returns all VXLAN devices. The callers select by name.
func ListGeneveInterfaces() ([]netlink.Link, error) {
	all, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var vxlans []netlink.Link
	for _, link := range all {
		if link.Type() == "vxlan" {
			vxlans = append(vxlans, link)
		}
	}
	return vxlans, nil
}

// device returns nil if the device does not exist.
func device(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	return link, nil
}
