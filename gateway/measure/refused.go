package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// hearRefusals makes the kernel keep the ICMP errors that answer the socket's packets: ip(7), IP_RECVERR.
func hearRefusals(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var option error
	err = raw.Control(func(fd uintptr) { option = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1) })
	return errors.Join(err, option)
}

// refusal returns the last of the received ICMP errors, as text; "" if there is none.
func refusal(conn *net.UDPConn) (last string) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return ""
	}
	buffer, control := make([]byte, headerSize), make([]byte, 512)
	_ = raw.Control(func(fd uintptr) {
		for {
			_, n, _, _, err := unix.Recvmsg(int(fd), buffer, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return // the queue is empty
			}
			messages, err := unix.ParseSocketControlMessage(control[:n])
			if err != nil {
				continue
			}
			for _, m := range messages {
				if words := refusedBy(m); words != "" {
					last = words
				}
			}
		}
	})
	return last
}

// refusedBy returns the reason in an ICMP error about a packet that did not arrive. The data is a struct
// sock_extended_err of linux/errqueue.h, and the address of the host that sent the error.
func refusedBy(m unix.SocketControlMessage) string {
	const size, address = 16, 8 // bytes
	said := m.Data
	if m.Header.Level != unix.IPPROTO_IP || m.Header.Type != unix.IP_RECVERR || len(said) < size+address {
		return ""
	}
	origin, kind, code, offender := said[4], said[5], said[6], said[size:]
	if origin != unix.SO_EE_ORIGIN_ICMP || kind != unreachable || binary.NativeEndian.Uint16(offender) != unix.AF_INET {
		return ""
	}
	why := ""
	switch code {
	case 0, 6, 11:
		why = "network unreachable"
	case 1, 7, 12:
		why = "host unreachable"
	case 3:
		why = "port unreachable"
	case 4:
		return "" // the packet was too long, which the search for the largest packet expects
	case 9, 10, 13:
		why = "administratively prohibited"
	default:
		why = fmt.Sprintf("unreachable, code %d", code)
	}
	return fmt.Sprintf("%s, says %s", why, netip.AddrFrom4([4]byte(offender[4:address])))
}

// unreachable is ICMP's type of "destination unreachable", RFC 792 and RFC 1812.
const unreachable = 3
