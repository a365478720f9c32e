package measure

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAnErrorThatAnswersAPacketIsKept(t *testing.T) {
	closed, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	target := closed.LocalAddr().(*net.UDPAddr).AddrPort()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), config(target))
	if err != nil || r.Received != 0 || r.Refused != "port unreachable, says 127.0.0.1" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := Run(t.Context(), config(serve(t).address())); err != nil || r.Refused != "" {
		t.Errorf("a path that works: got %+v, %v", r, err)
	}
}

func TestWhatICMPErrorsSay(t *testing.T) {
	said := func(origin, kind, code byte) string {
		m := unix.SocketControlMessage{Data: []byte{113, 0, 0, 0, origin, kind, code, 0, 0, 0, 0, 0, 0, 0, 0, 0, unix.AF_INET, 0, 0, 0, 10, 244, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}}
		m.Header.Level, m.Header.Type = unix.IPPROTO_IP, unix.IP_RECVERR
		return refusedBy(m)
	}
	for _, c := range []struct {
		origin, kind, code byte
		want               string
	}{
		{unix.SO_EE_ORIGIN_ICMP, 3, 13, "administratively prohibited, says 10.244.1.1"},
		{unix.SO_EE_ORIGIN_ICMP, 3, 10, "administratively prohibited, says 10.244.1.1"},
		{unix.SO_EE_ORIGIN_ICMP, 3, 1, "host unreachable, says 10.244.1.1"},
		{unix.SO_EE_ORIGIN_ICMP, 3, 0, "network unreachable, says 10.244.1.1"},
		{unix.SO_EE_ORIGIN_ICMP, 3, 4, ""},   // too long
		{unix.SO_EE_ORIGIN_LOCAL, 3, 13, ""}, // of this host's own search for the path's MTU
		{unix.SO_EE_ORIGIN_ICMP, 11, 0, ""},  // time exceeded
		{unix.SO_EE_ORIGIN_ICMP, 3, 99, "unreachable, code 99, says 10.244.1.1"},
	} {
		if got := said(c.origin, c.kind, c.code); got != c.want {
			t.Errorf("origin %d, type %d, code %d: got %q, want %q", c.origin, c.kind, c.code, got, c.want)
		}
	}
}
