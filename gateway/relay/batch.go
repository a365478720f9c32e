//go:build linux

package relay

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// socket is one port of a relay. If the kernel supports it, several datagrams of one sender and of one length
// arrive in one system call (UDP_GRO of udp(7)), and leave in one (UDP_SEGMENT).
type socket struct {
	*net.UDPConn
	// single is set after a device has refused several datagrams at once.
	single atomic.Bool
}

// buffered is the size in bytes of a socket's buffers, if the kernel's limits allow it. It is enough for 60
// ms at 500 Mbit/s.
const buffered = 4 << 20

func newSocket(conn *net.UDPConn) *socket {
	_ = conn.SetReadBuffer(buffered)
	_ = conn.SetWriteBuffer(buffered)
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			// Kernels before 5.12 have errors in this function, and don't report whether it is on.
			if _, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO); err == nil {
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1)
			}
		})
	}
	return &socket{UDPConn: conn}
}

// receive reads datagrams of one sender. They have size bytes each, and follow each other in the buffer. Only
// the last datagram may be shorter.
func (s *socket) receive(buffer, control []byte) (read []byte, size int, from netip.AddrPort, err error) {
	n, c, _, from, err := s.ReadMsgUDPAddrPort(buffer, control)
	if err != nil {
		return nil, 0, from, err
	}
	size = n
	messages, _ := unix.ParseSocketControlMessage(control[:c])
	for _, m := range messages {
		if m.Header.Level == unix.SOL_UDP && m.Header.Type == unix.UDP_GRO && len(m.Data) >= 4 {
			size = int(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return buffer[:n], size, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), nil
}

// send sends datagrams of size bytes, which follow each other in data, to an address. Only the last datagram
// may be shorter.
func (s *socket) send(data []byte, size int, to netip.AddrPort) error {
	if len(data) > size && !s.single.Load() {
		_, _, err := s.WriteMsgUDPAddrPort(data, segments(size), to)
		switch {
		case err == nil, errors.Is(err, net.ErrClosed):
			return err
		case errors.Is(err, unix.EIO): // the device computes no checksums
			s.single.Store(true)
		}
		// The kernel also refuses datagrams that are longer than the device's MTU, and too many datagrams at
		// once. It accepts them one by one.
	}
	var failed error
	for d := range slices.Chunk(data, size) {
		if _, err := s.WriteToUDPAddrPort(d, to); err != nil {
			failed = err
		}
	}
	return failed
}

// segments returns the control message by which the kernel cuts data into datagrams of size bytes.
func segments(size int) []byte {
	h := unix.Cmsghdr{Level: unix.SOL_UDP, Type: unix.UDP_SEGMENT}
	h.SetLen(unix.CmsgLen(2))
	control, _ := binary.Append(nil, binary.NativeEndian, h) // its fields have fixed sizes
	control = binary.NativeEndian.AppendUint16(control, uint16(size))
	return append(control, make([]byte, unix.CmsgSpace(2)-len(control))...)
}
