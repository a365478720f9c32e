//go:build linux

package linux

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// settle is the time in which several events become one signal.
const settle = 50 * time.Millisecond

// Watch signals after changes to our objects in this network namespace, including our own
// changes. A burst of changes is one signal. Watch ends with ctx, and closes the channel.
//
// On a node, other programs can change hundreds of rules a second. Watch reads a message only until it knows
// that the object is not ours.
func Watch(ctx context.Context) (<-chan struct{}, error) {
	routes, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV4_NETCONF)
	if err != nil {
		return nil, fmt.Errorf("watch devices and routes: %w", err)
	}
	const nftables = 7 // NFNLGRP_NFTABLES of nfnetlink.h
	firewall, err := nl.Subscribe(unix.NETLINK_NETFILTER, nftables)
	if err != nil {
		routes.Close()
		return nil, fmt.Errorf("watch nftables: %w", err)
	}
	known, err := ourDevices()
	if err != nil {
		routes.Close()
		firewall.Close()
		return nil, err
	}
	return signal(ctx, source{routes, newRouteFilter(known)}, source{firewall, firewallMessageIsOurs}), nil
}

// WatchWays signals after changes by other programs to the addresses and routes of this network namespace. It
// ends with ctx, and closes the channel.
func WatchWays(ctx context.Context) (<-chan struct{}, error) {
	routes, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("watch addresses and routes: %w", err)
	}
	known, err := ourDevices()
	if err != nil {
		routes.Close()
		return nil, err
	}
	ours := newRouteFilter(known)
	return signal(ctx, source{routes, func(m syscall.NetlinkMessage) bool {
		switch mine := ours(m); m.Header.Type {
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			return !mine
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
			if mine || len(m.Data) < unix.SizeofRtMsg {
				return false
			}
			// An address of our devices has routes in the kernel's tables.
			device := attribute(m.Data[unix.SizeofRtMsg:], unix.RTA_OIF)
			return len(device) < 4 || !known[int32(binary.NativeEndian.Uint32(device))]
		}
		return false
	}}), nil
}

// source is a socket with messages, and a function that selects the messages that count.
type source struct {
	socket *nl.NetlinkSocket
	counts func(syscall.NetlinkMessage) bool
}

// signal turns messages that count into signals until ctx ends, and then closes the sockets.
func signal(ctx context.Context, sources ...source) <-chan struct{} {
	events := make(chan struct{}, 1)
	for _, s := range sources {
		go receive(ctx, s.socket, s.counts, events)
	}
	signals := make(chan struct{}, 1)
	go func() {
		defer close(signals)
		defer func() {
			for _, s := range sources {
				s.socket.Close()
			}
		}()
		for {
			select {
			case <-ctx.Done():
				return
			case <-events:
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(settle):
			}
			select {
			case <-events: // belongs to the same signal
			default:
			}
			select {
			case signals <- struct{}{}:
			default:
			}
		}
	}()
	return signals
}

// receive reports messages that count until the socket is closed.
func receive(ctx context.Context, socket *nl.NetlinkSocket, counts func(syscall.NetlinkMessage) bool, events chan<- struct{}) {
	for ctx.Err() == nil {
		messages, _, err := socket.Receive()
		// The socket's buffer was full. A lost message may have been relevant.
		event := errors.Is(err, unix.ENOBUFS)
		if err != nil && !event && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, m := range messages {
			event = counts(m) || event
		}
		if !event {
			continue
		}
		select {
		case events <- struct{}{}:
		default:
		}
	}
}

// ourDevices returns the numbers of our devices that exist.
func ourDevices() (map[int32]bool, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	devices := map[int32]bool{}
	for _, l := range links {
		if ourDevice([]byte(l.Attrs().Name)) {
			devices[int32(l.Attrs().Index)] = true
		}
	}
	return devices, nil
}

// newRouteFilter returns a function that selects rtnetlink messages about our objects. devices
// are the numbers of our devices; the function keeps them up to date.
func newRouteFilter(devices map[int32]bool) func(syscall.NetlinkMessage) bool {
	return func(m syscall.NetlinkMessage) bool {
		switch m.Header.Type {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			if len(m.Data) < unix.SizeofIfInfomsg {
				return false
			}
			index := int32(binary.NativeEndian.Uint32(m.Data[4:]))
			if name := attribute(m.Data[unix.SizeofIfInfomsg:], unix.IFLA_IFNAME); ourDevice(name) {
				devices[index] = m.Header.Type == unix.RTM_NEWLINK
				return true
			}
			return false
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			return len(m.Data) >= unix.SizeofIfAddrmsg && devices[int32(binary.NativeEndian.Uint32(m.Data[4:]))]
		case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
			return len(m.Data) >= unix.SizeofNdMsg && devices[int32(binary.NativeEndian.Uint32(m.Data[4:]))]
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
			if len(m.Data) < unix.SizeofRtMsg {
				return false
			}
			table := attribute(m.Data[unix.SizeofRtMsg:], unix.RTA_TABLE)
			return len(table) >= 4 && ourTable(int(binary.NativeEndian.Uint32(table)))
		case unix.RTM_NEWRULE, unix.RTM_DELRULE:
			// All messages about rules count: there are few, and one can be about the kernel's own rule.
			return true
		case unix.RTM_NEWNETCONF:
			const header = 4 // struct netconfmsg, padded
			const ifindex = 1
			if len(m.Data) < header {
				return false
			}
			index := attribute(m.Data[header:], ifindex)
			return len(index) >= 4 && devices[int32(binary.NativeEndian.Uint32(index))]
		}
		return false
	}
}

func ourDevice(name []byte) bool {
	text := string(bytes.TrimRight(name, "\x00"))
	return text == gateway.FabricDevice || strings.HasPrefix(text, gateway.TunnelDevice)
}

// firewallMessageIsOurs looks for our table's name. It is attribute 1 of every nf_tables
// message about a table or its content.
func firewallMessageIsOurs(m syscall.NetlinkMessage) bool {
	const header = 4 // struct nfgenmsg
	const table = 1  // NFTA_TABLE_NAME, NFTA_CHAIN_TABLE and so on
	return m.Header.Type>>8 == unix.NFNL_SUBSYS_NFTABLES && len(m.Data) >= header &&
		string(bytes.TrimRight(attribute(m.Data[header:], table), "\x00")) == gateway.TableName
}

// attribute returns the value of the first attribute of that type; nil if there is none.
func attribute(b []byte, kind uint16) []byte {
	for len(b) >= unix.SizeofRtAttr {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtAttr || length > len(b) {
			return nil
		}
		const flags = unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER
		if binary.NativeEndian.Uint16(b[2:])&^flags == kind {
			return b[unix.SizeofRtAttr:length]
		}
		b = b[min(len(b), (length+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1)):]
	}
	return nil
}
