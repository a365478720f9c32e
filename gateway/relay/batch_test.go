//go:build linux

package relay

import (
	"net"
	"slices"
	"testing"
	"time"
)

// Datagrams that arrive in one call leave with the same borders, cut by the kernel or one by one.
func TestDatagramsKeepTheirBorders(t *testing.T) {
	several := func(n, size, last int) []byte {
		data := make([]byte, (n-1)*size+last)
		for i := range data {
			data[i] = byte(i / size)
		}
		return data
	}
	for name, test := range map[string]struct {
		data   []byte
		size   int
		single bool
	}{
		"one":                          {several(1, 1400, 1400), 1400, false},
		"several":                      {several(40, 1400, 1400), 1400, false},
		"the last is shorter":          {several(3, 1400, 32), 1400, false},
		"a device without checksums":   {several(40, 1400, 32), 1400, true},
		"more than a kernel's at once": {several(200, 40, 40), 40, false},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := newSocket(listen(t, "127.0.0.1")), listen(t, "127.0.0.1")
			_ = to.SetReadBuffer(buffered)
			from.single.Store(test.single)
			if err := from.send(test.data, test.size, to.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
				t.Fatal(err)
			}
			buffer := make([]byte, longest)
			for d := range slices.Chunk(test.data, test.size) {
				_ = to.SetReadDeadline(time.Now().Add(5 * time.Second))
				if n, _, err := to.ReadFromUDPAddrPort(buffer); err != nil || !slices.Equal(buffer[:n], d) {
					t.Fatalf("got %d bytes, %v; want %d", n, err, len(d))
				}
			}
		})
	}
}

// Packets of one sender that arrive in one call are judged one by one. Copies and packets without a session
// are dropped, and each other packet goes to its own peer.
func TestPacketsThatArriveTogetherAreJudgedApart(t *testing.T) {
	ports := relayed(t)
	client, server, other := newSocket(listen(t, "127.0.0.1")), listen(t, "127.0.0.1"), listen(t, "127.0.0.1")
	shake(t, client.UDPConn, server, ports, 77)
	shake(t, client.UDPConn, other, ports, 78)
	var data []byte
	for _, p := range [][]byte{
		dataFor(77, 1, 100), dataFor(77, 2, 100), dataFor(78, 1, 100), dataFor(77, 2, 100), dataFor(5, 1, 100), dataFor(77, 3, 100), dataFor(77, 4, 0),
	} {
		data = append(data, p...)
	}
	if err := client.send(data, len(dataFor(77, 1, 100)), ports[0]); err != nil {
		t.Fatal(err)
	}
	for c, want := range map[*net.UDPConn][]uint64{server: {1, 2, 3, 4}, other: {1}} {
		var got []uint64
		for len(got) < len(want) {
			m := receive(t, c, transport, 5*time.Second)
			if m.kind == none {
				break
			}
			got = append(got, m.counter)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got packets %v, want %v", got, want)
		}
	}
}
