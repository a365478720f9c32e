//go:build linux

package linux

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/nftables"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func local() gateway.CIDRs {
	return gateway.CIDRs{Pod: prefixes("10.244.0.0/16"), External: prefixes("10.70.0.0/16")}
}

// hubState has two peers and adjacent networks, one of them not remapped.
func hubState(t *testing.T) gateway.KernelState {
	t.Helper()
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	peer := gateway.Peer{
		ClusterID: "b", Role: gateway.Server, ListenPort: 51840, PrivateKey: gateway.PrivateKey(key), MTU: 1340,
		Real: local(), Remapped: gateway.CIDRs{Pod: prefixes("10.60.0.0/16"), External: prefixes("10.61.0.0/16")},
	}
	other := peer
	other.ClusterID, other.Index, other.ListenPort = "c", 1, 51841
	other.Real = gateway.CIDRs{Pod: prefixes("10.62.0.0/17", "10.62.128.0/17"), External: prefixes("10.70.0.0/18")}
	other.Remapped = gateway.CIDRs{Pod: prefixes("10.62.0.0/17", "10.62.128.0/17"), External: prefixes("10.63.64.0/18")}
	other.Closed, other.Open = true, []gateway.Endpoint{
		{Addr: netip.MustParseAddr("10.244.1.7"), Protocol: gateway.TCP, Port: 5432}, {Addr: netip.MustParseAddr("10.244.1.7"), Protocol: gateway.UDP, Port: 53},
	}
	s, err := gateway.Compute(gateway.Inputs{
		PodIP: netip.MustParseAddr("10.244.1.5"), NodeIP: netip.MustParseAddr("192.168.1.10"), UnderlayMTU: 1500, Local: local(),
		Nodes: []gateway.Node{{Name: "n", IP: netip.MustParseAddr("192.168.1.10"), Pods: prefixes("10.244.1.0/24")}},
		Peers: []gateway.Peer{peer, other},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The text for people and goldens, loaded by nft itself, has to be the table that Sync makes.
func TestTextAndKernelAreTheSameTable(t *testing.T) {
	node, err := gateway.ComputeNode(gateway.NodeInputs{
		NodeIP: netip.MustParseAddr("192.168.1.10"), UnderlayMTU: 1500, PodCIDRs: local().Pod,
		Gateways: []gateway.Gateway{{Name: "gw", PodIP: netip.MustParseAddr("10.244.1.5"), RemoteCIDRs: prefixes("10.60.0.0/16"), MTU: 1340}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]gateway.KernelState{"gateway": hubState(t), "node": node} {
		t.Run(name, func(t *testing.T) {
			n := netns.New(t, "text")
			n.NFT(s.Firewall.String())
			var found gateway.Table
			n.Do(func() {
				var o *session
				if o, err = open(); err != nil {
					return
				}
				defer o.close()
				found, err = o.readFirewall(s.Firewall)
			})
			if err != nil {
				t.Fatal(err)
			}
			if lines := gateway.ExplainFirewall(found, s.Firewall); len(lines) != 0 {
				t.Errorf("nft understands the text differently:\n%s", strings.Join(lines, "\n"))
			}
		})
	}
}

func TestPrefixOf(t *testing.T) {
	for _, c := range []struct{ first, last, want string }{
		{"10.0.0.0", "10.0.255.255", "10.0.0.0/16"},
		{"10.0.0.1", "10.0.0.1", "10.0.0.1/32"},
		{"0.0.0.0", "255.255.255.255", "0.0.0.0/0"},
		{"10.0.0.0", "10.0.0.6", "invalid Prefix"},
		{"10.0.0.1", "10.0.0.2", "invalid Prefix"},
		{"10.0.0.2", "10.0.0.1", "invalid Prefix"},
	} {
		first, end := netip.MustParseAddr(c.first).As4(), netip.MustParseAddr(c.last).As4()
		if got := prefixOf(first[:], end[:]).String(); got != c.want {
			t.Errorf("%s to %s: got %s, want %s", c.first, c.last, got, c.want)
		}
	}
}

// FuzzPrefixOf writes prefixes to the kernel and reads them back.
func FuzzPrefixOf(f *testing.F) {
	f.Add(uint32(0x0a000000), uint8(8))
	f.Add(uint32(0xffffffff), uint8(32))
	f.Fuzz(func(t *testing.T, n uint32, length uint8) {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n))), int(length%33)).Masked()
		set := gateway.Set{Key: gateway.KeyAddress, Value: gateway.ValuePrefix, Elements: []gateway.Element{{Prefix: p, To: p}}}
		found := decodeSet(&nftables.Set{Interval: true, IsMap: true}, compileElements(set))
		if len(found.Elements) != 1 || found.Elements[0] != set.Elements[0] {
			t.Errorf("%s came back as %v", p, found.Elements)
		}
	})
}

func TestMTUToIsThatOfTheRoute(t *testing.T) {
	n := netns.New(t, "node")
	expect := func(what, to string, want int) {
		t.Helper()
		var got int
		var err error
		n.Do(func() { got, err = MTUTo(netip.MustParseAddr(to)) })
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%s: to %s: got %d, %v, want %d", what, to, got, err, want)
		}
	}
	netns.Veth(n, "eth0", n, "peer0")
	netns.Veth(n, "eth1", n, "peer1")
	n.Script("ip link set eth0 mtu 1450\nip link set eth1 mtu 9000\nip addr add 192.0.2.2/24 dev eth0")
	expect("without a default route", "10.244.1.5", 0)
	n.Run("ip", "route", "add", "10.244.1.0/24", "dev", "eth0")
	expect("without a default route", "10.244.1.5", 1450)
	n.Script("ip route add default dev eth0 metric 100\nip route add default dev eth1 metric 50")
	expect("two default routes", "198.51.100.7", 9000)
	expect("the pod network's own", "10.244.1.5", 1450)
	n.Run("ip", "route", "add", "203.0.113.0/24", "dev", "eth1", "mtu", "1400")
	expect("a route with its own", "203.0.113.7", 1400)
	n.Run("ip", "route", "add", "10.244.9.0/24", "nexthop", "dev", "eth0", "nexthop", "dev", "eth0", "weight", "2")
	expect("several ways", "10.244.9.1", 1450)
}

func TestReleases(t *testing.T) {
	for _, c := range []struct {
		release      string
		major, minor int
		ok           bool
	}{
		{"5.10.0-33-amd64", 5, 10, true},
		{"6.18-rc1", 6, 18, true},
		{"4.19.128-microsoft-standard", 4, 19, true},
		{"6", 0, 0, false},
		{"x.y.z", 0, 0, false},
	} {
		major, minor, err := parseRelease(c.release)
		if major != c.major || minor != c.minor || (err == nil) != c.ok {
			t.Errorf("%s: got %d.%d, %v", c.release, major, minor, err)
		}
	}
}

func TestConfigsOfUserspaceTunnels(t *testing.T) {
	key := strings.Repeat("01", 32)
	c, err := parseConfig("private_key=" + key + "\nlisten_port=51840\npublic_key=" + key + "\nendpoint=[::ffff:192.0.2.1]:7\n" +
		"last_handshake_time_sec=10\nlast_handshake_time_nsec=5\ntx_bytes=3\nrx_bytes=4\npersistent_keepalive_interval=15\nallowed_ip=0.0.0.0/0\nprotocol_version=1\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.port != 51840 || len(c.peers) != 1 {
		t.Fatalf("got %+v", c)
	}
	p := c.peers[0]
	if p.endpoint.String() != "192.0.2.1:7" || p.handshake.UnixNano() != 10e9+5 || p.sent != 3 || p.received != 4 || p.keepalive.Seconds() != 15 {
		t.Errorf("got %+v", p)
	}
	for _, bad := range []string{"private_key=zz", "listen_port=70000", "public_key=" + key + "\nrx_bytes=many"} {
		if _, err := parseConfig(bad); err == nil || strings.Contains(err.Error(), "zz") {
			t.Errorf("%s: got %v, want an error without the value", bad, err)
		}
	}
}
