package main

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestScanFindsWhatIsOpen(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	port := func(l net.Listener) string {
		return netip.MustParseAddrPort(l.Addr().String()).String()[len("127.0.0.1:"):]
	}
	var out strings.Builder
	if err := run([]string{"scan", "--ports", port(open) + "," + port(closed), "127.0.0.0/30"}, &out); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), open.Addr().String()+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := run([]string{"scan", "--ports", "x", "127.0.0.1/32"}, &out); err == nil {
		t.Error("a port that is no number is accepted")
	}
}
