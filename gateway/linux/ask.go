//go:build linux

package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

const (
	// askAtOnce is the largest number of open questions. Their answers fit into a socket's buffer.
	askAtOnce = 64
	askWait   = 500 * time.Millisecond
)

// Ask sends a question to members of the fabric over the fabric's device, and returns the members that
// answer. The question is an ARP probe (RFC 5227) to the member's MAC address. The probe takes the same path
// as the traffic. The kernel of the member answers it before filters or routes apply. Ask needs CAP_NET_RAW.
func Ask(own netip.Addr, members []netip.Addr) (answered map[netip.Addr]bool, err error) {
	device, err := net.InterfaceByName(gateway.FabricDevice)
	if err != nil {
		return nil, fmt.Errorf("ask over the fabric: %w", err)
	}
	const protocol = unix.ETH_P_ARP<<8&0xff00 | unix.ETH_P_ARP>>8 // in the network's order
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket of the fabric: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(socket)) }()
	to := unix.SockaddrLinklayer{Protocol: protocol, Ifindex: device.Index, Halen: 6}
	if err := unix.Bind(socket, &to); err != nil {
		return nil, fmt.Errorf("bind a socket to %s: %w", device.Name, err)
	}
	answered = make(map[netip.Addr]bool, len(members))
	for len(members) > 0 {
		some := members[:min(askAtOnce, len(members))]
		members = members[len(some):]
		for _, m := range some {
			mac := gateway.FabricMAC(m)
			copy(to.Addr[:], mac[:])
			// A question that can't be sent, for example because the buffer is full, gets no answer.
			_ = unix.Sendto(socket, probe(gateway.FabricMAC(own), m), 0, &to)
		}
		if err := await(socket, some, answered); err != nil {
			return nil, err
		}
	}
	return answered, nil
}

// await reads answers until all members have answered, or askWait has passed.
func await(socket int, from []netip.Addr, answered map[netip.Addr]bool) error {
	missing := len(from)
	asked := make(map[netip.Addr]bool, missing)
	for _, m := range from {
		asked[m] = true
	}
	deadline := time.Now().Add(askWait)
	packet := make([]byte, 128)
	for missing > 0 {
		left := time.Until(deadline)
		if left <= 0 {
			return nil
		}
		limit := unix.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
		if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
			return fmt.Errorf("wait for answers over the fabric: %w", err)
		}
		n, _, err := unix.Recvfrom(socket, packet, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read answers over the fabric: %w", err)
		}
		if m, ok := answerOf(packet[:n]); ok && asked[m] && !answered[m] {
			answered[m] = true
			missing--
		}
	}
	return nil
}

const (
	arpLength  = 28
	arpRequest = 1
	arpReply   = 2
)

// probe returns an ARP request without the sender's address. If a request has one, the kernel answers only if
// its route to the sender uses the fabric.
func probe(own gateway.MAC, target netip.Addr) []byte {
	p := make([]byte, 0, arpLength)
	p = binary.BigEndian.AppendUint16(p, unix.ARPHRD_ETHER)
	p = binary.BigEndian.AppendUint16(p, unix.ETH_P_IP)
	p = append(p, 6, 4)
	p = binary.BigEndian.AppendUint16(p, arpRequest)
	p = append(p, own[:]...)
	p = append(p, 0, 0, 0, 0)
	p = append(p, 0, 0, 0, 0, 0, 0)
	return append(p, target.AsSlice()...)
}

// answerOf returns the member that sent an answer. ok is false if the MAC address does not match the IP
// address. A probe goes to the MAC address that belongs to the member's IP address, so the member answers from
// this MAC address.
func answerOf(p []byte) (netip.Addr, bool) {
	if len(p) < arpLength || binary.BigEndian.Uint16(p[6:]) != arpReply {
		return netip.Addr{}, false
	}
	from := netip.AddrFrom4([4]byte(p[14:18]))
	return from, gateway.MAC(p[8:14]) == gateway.FabricMAC(from)
}
