//go:build linux

package linux

import (
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// The test of a machine's networks creates no VRF, because not every kernel supports VRFs.
func TestNetworksOfVRFsAreFound(t *testing.T) {
	route := func(table int, to string) netlink.Route {
		_, dst, err := net.ParseCIDR(to)
		if err != nil {
			t.Fatal(err)
		}
		return netlink.Route{Table: table, Dst: dst, Type: unix.RTN_UNICAST, Protocol: unix.RTPROT_STATIC}
	}
	rules := []netlink.Rule{{Priority: 1000}, {Priority: 32766, Table: unix.RT_TABLE_MAIN}} // the first is l3mdev
	links := []netlink.Link{&netlink.Device{}, &netlink.Vrf{Table: 1001}, &netlink.Vrf{Table: gateway.NodeTable}}
	var got []string
	for _, p := range networks(rules, links, []netlink.Route{
		route(unix.RT_TABLE_MAIN, "10.10.0.0/16"), route(1001, "10.20.0.0/16"), route(1002, "10.30.0.0/16"), route(gateway.NodeTable, "10.40.0.0/16"),
	}) {
		got = append(got, p.String())
	}
	if want := []string{"10.10.0.0/16", "10.20.0.0/16"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
