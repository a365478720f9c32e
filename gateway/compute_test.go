package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/internal/golden"
)

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i, p := range s {
		out[i] = netip.MustParsePrefix(p)
	}
	return out
}

// key is a fixed private key, so that goldens are stable.
func key(n byte) PrivateKey {
	k := PrivateKey{0: 8, 31: 64}
	k[1] = n
	return k
}

func serverInputs() Inputs {
	return Inputs{
		PodIP: netip.MustParseAddr("10.244.1.5"), NodeIP: netip.MustParseAddr("192.168.1.11"), UnderlayMTU: 1500,
		Local: CIDRs{Pod: prefixes("10.244.0.0/16"), External: prefixes("10.70.0.0/16")},
		Nodes: []Node{
			{Name: "worker", IP: netip.MustParseAddr("192.168.1.11"), Pods: prefixes("10.244.1.0/24"), Addresses: addrs("192.168.1.11", "172.17.0.1")},
			{Name: "control", IP: netip.MustParseAddr("192.168.1.10"), Pods: prefixes("10.244.0.0/24", "10.244.1.77/32")},
		},
		Peers: []Peer{{
			ClusterID: "rome", Role: Server, ListenPort: 51840, MTU: 1340, PrivateKey: key(1), PublicKey: key(2).Public(),
			Real:     CIDRs{Pod: prefixes("10.244.0.0/16"), External: prefixes("10.70.0.0/16")},
			Remapped: CIDRs{Pod: prefixes("10.60.0.0/16"), External: prefixes("10.71.0.0/16")},
		}},
	}
}

func clientInputs() Inputs {
	in := serverInputs()
	p := &in.Peers[0]
	p.Role, p.ListenPort, p.Endpoint = Client, 0, netip.MustParseAddrPort("203.0.113.2:51840")
	// The peer's pods need no other addresses.
	p.Real.Pod, p.Remapped.Pod = prefixes("10.200.0.0/16"), prefixes("10.200.0.0/16")
	p.MTU = 1500
	return in
}

func hubInputs() Inputs {
	in := clientInputs()
	second := serverInputs().Peers[0]
	second.ClusterID, second.Index, second.ListenPort, second.Implementation = "oslo", 1, 51841, Userspace
	second.Remapped.External = prefixes("10.72.0.0/16")
	second.PublicKey = wgtypes.Key{}
	in.Peers = append([]Peer{second}, in.Peers...)
	return in
}

// renumberingInputs returns the inputs of a server whose peer gets another range for its pods. Both ranges
// are listed all the time, and the newer range is already in use.
func renumberingInputs() Inputs {
	in := serverInputs()
	before, after := prefixes("10.244.0.0/16")[0], prefixes("240.5.0.0/16")[0]
	p := &in.Peers[0]
	p.Also = []Alias{{p.Remapped.Pod[0], before}, {after, before}}
	p.Remapped.Pod = []netip.Prefix{after}
	return in
}

// closedInputs returns the inputs of a server whose peer may open connections to only two ports of a pod.
func closedInputs() Inputs {
	in := serverInputs()
	pod := netip.MustParseAddr("10.244.1.7")
	in.Peers[0].Closed, in.Peers[0].Open = true, []Endpoint{{pod, UDP, 53}, {pod, TCP, 5432}, {pod, UDP, 53}}
	return in
}

func nodeInputs() NodeInputs {
	return NodeInputs{
		NodeIP: netip.MustParseAddr("192.168.1.11"), UnderlayMTU: 1500, PodCIDRs: prefixes("10.244.0.0/16"),
		Gateways: []Gateway{
			{Name: "gw-rome", PodIP: netip.MustParseAddr("10.244.1.5"), MTU: 1340, RemoteCIDRs: prefixes("10.71.0.0/16", "10.60.0.0/16"), NodeIPs: addrs("192.168.1.11")},
			{Name: "gw-oslo", PodIP: netip.MustParseAddr("10.244.0.9"), MTU: 9000, RemoteCIDRs: prefixes("10.62.0.0/16"), NodeIPs: addrs("192.168.1.10")},
			{Name: "gw-riga", PodIP: netip.MustParseAddr("10.244.0.9"), MTU: 1340, RemoteCIDRs: prefixes("10.63.0.0/16"), Gone: true},
		},
	}
}

func TestStatesRead(t *testing.T) {
	for _, c := range []struct {
		file    string
		compute func() (KernelState, error)
	}{
		{"server.txt", func() (KernelState, error) { return Compute(serverInputs()) }},
		{"services.txt", func() (KernelState, error) { in := serverInputs(); in.Services = true; return Compute(in) }},
		{"client.txt", func() (KernelState, error) { return Compute(clientInputs()) }},
		{"hub.txt", func() (KernelState, error) { return Compute(hubInputs()) }},
		{"renumbering.txt", func() (KernelState, error) { return Compute(renumberingInputs()) }},
		{"closed.txt", func() (KernelState, error) { return Compute(closedInputs()) }},
		{"lonely.txt", func() (KernelState, error) { in := serverInputs(); in.Peers, in.Nodes = nil, nil; return Compute(in) }},
		{"node.txt", func() (KernelState, error) { return ComputeNode(nodeInputs()) }},
	} {
		t.Run(c.file, func(t *testing.T) {
			s, err := c.compute()
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, c.file, s.String())
		})
	}
}

// Peers elsewhere may all be dialled at the same port. The port is then one element.
func TestPeersWithTheSamePortShareIt(t *testing.T) {
	in := clientInputs()
	for i, name := range []string{"oslo", "riga"} {
		p := in.Peers[0]
		p.ClusterID, p.Index = name, i+1
		p.Remapped = CIDRs{
			Pod:      []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(60 + i), 0, 0}), 16)},
			External: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(80 + i), 0, 0}), 16)},
		}
		in.Peers = append(in.Peers, p)
	}
	s, err := Compute(in)
	if err != nil {
		t.Fatal(err)
	}
	want := `elements = { 51840 comment "rome and others" } }`
	i := slices.IndexFunc(s.Firewall.Sets, func(s Set) bool { return s.Name == setPortsThere })
	if i < 0 || !strings.HasSuffix(s.Firewall.Sets[i].String(), want) {
		t.Errorf("got\n%s\nwant a set of ports that ends with\n%s", s.Firewall, want)
	}
}

func TestOrderOfInputsDoesNotMatter(t *testing.T) {
	want, err := Compute(hubInputs())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		in := hubInputs()
		rand.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
		rand.Shuffle(len(in.Peers), func(i, j int) { in.Peers[i], in.Peers[j] = in.Peers[j], in.Peers[i] })
		got, err := Compute(in)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		if d := Explain(got, want); len(d) != 0 {
			t.Errorf("equal states differ: %q", d)
		}
	}
}

func TestNonsenseIsRefusedByName(t *testing.T) {
	addr, cidr := netip.MustParseAddr, prefixes
	for _, c := range []struct {
		name   string
		change func(*Inputs)
		want   error
		says   string
	}{
		{"no pod address", func(in *Inputs) { in.PodIP = netip.Addr{} }, errAddress, "gateway pod"},
		{"IPv6 pod address", func(in *Inputs) { in.PodIP = addr("fd00::1") }, ErrIPv6, "fd00::1"},
		{"underlay MTU unknown", func(in *Inputs) { in.UnderlayMTU = 0 }, errMTU, "underlay"},
		{"no external CIDR", func(in *Inputs) { in.Local.External = nil }, ErrNoCIDR, "local"},
		{"own CIDRs overlap", func(in *Inputs) { in.Local.External = cidr("10.244.3.0/24") }, ErrOverlap, "10.244.3.0/24"},
		{"default route as CIDR", func(in *Inputs) { in.Local.Pod = cidr("0.0.0.0/0") }, errPrefix, "0.0.0.0/0"},
		{"link-local CIDR", func(in *Inputs) { in.Peers[0].Real.Pod = cidr("169.254.0.0/16") }, errPrefix, "169.254.0.0/16"},
		{"multicast CIDR", func(in *Inputs) { in.Peers[0].Remapped.Pod = cidr("224.0.0.0/16") }, errPrefix, "224.0.0.0/16"},
		{"broadcast in CIDR", func(in *Inputs) { in.Peers[0].Remapped.Pod = cidr("255.255.0.0/16") }, errPrefix, "255.255.0.0/16"},
		{"host bits", func(in *Inputs) { in.Local.Pod = cidr("10.244.1.1/16") }, errPrefix, "10.244.1.1/16"},
		{"IPv6 CIDR", func(in *Inputs) { in.Local.Pod = cidr("fd00::/64") }, ErrIPv6, "fd00::/64"},
		{"own node unknown", func(in *Inputs) { in.NodeIP = netip.Addr{} }, errAddress, "the gateway pod's node"},
		{"index too big", func(in *Inputs) { in.Peers[0].Index = 64 }, errIndex, "64"},
		{"index twice", func(in *Inputs) { in.Peers = append(in.Peers, in.Peers[0]) }, errIndex, "rome"},
		{"no role", func(in *Inputs) { in.Peers[0].Role = 0 }, errRole, "rome"},
		{"no key", func(in *Inputs) { in.Peers[0].PrivateKey = PrivateKey{} }, errKey, "rome"},
		{"server without port", func(in *Inputs) { in.Peers[0].ListenPort = 0 }, errPort, "rome"},
		{"tiny MTU", func(in *Inputs) { in.Peers[0].MTU = 100 }, errMTU, "100"},
		{"open endpoint of IPv6", func(in *Inputs) { in.Peers[0].Open = []Endpoint{{netip.MustParseAddr("fd00::1"), TCP, 80}} }, ErrIPv6, "fd00::1"},
		{"open endpoint of ICMP", func(in *Inputs) { in.Peers[0].Open = []Endpoint{{netip.MustParseAddr("10.244.1.7"), 1, 80}} }, errProtocol, "10.244.1.7"},
		{"endpoint without port", func(in *Inputs) { in.Peers[0].Endpoint = netip.MustParseAddrPort("192.0.2.1:0") }, errEndpoint, "192.0.2.1:0"},
		{"IPv6 endpoint", func(in *Inputs) { in.Peers[0].Endpoint = netip.MustParseAddrPort("[2001:db8::1]:51840") }, ErrIPv6, "2001:db8::1"},
		{"not remapped", func(in *Inputs) { in.Peers[0].Remapped.Pod = nil }, errRemap, "rome"},
		{"remapped to another length", func(in *Inputs) { in.Peers[0].Remapped.Pod = cidr("10.60.0.0/17") }, errRemap, "10.60.0.0/17"},
		{"remapped onto own pods", func(in *Inputs) { in.Peers[0].Remapped.Pod = cidr("10.244.0.0/16") }, ErrOverlap, "local pod CIDR"},
		{"real networks overlap", func(in *Inputs) { in.Peers[0].Real.External = cidr("10.244.0.0/16") }, ErrOverlap, "rome"},
		{"also onto own pods", func(in *Inputs) { in.Peers[0].Also = []Alias{{cidr("10.244.0.0/16")[0], cidr("10.244.0.0/16")[0]}} }, ErrOverlap, "also as"},
		{"also to another length", func(in *Inputs) { in.Peers[0].Also = []Alias{{cidr("10.61.0.0/17")[0], cidr("10.244.0.0/16")[0]}} }, errRemap, "10.61.0.0/17"},
		{"also of whom nobody knows", func(in *Inputs) { in.Peers[0].Also = []Alias{{cidr("10.61.0.0/16")[0], cidr("10.9.0.0/16")[0]}} }, errRemap, "10.9.0.0/16"},
		{"also multicast", func(in *Inputs) { in.Peers[0].Also = []Alias{{cidr("224.0.0.0/16")[0], cidr("10.244.0.0/16")[0]}} }, errPrefix, "224.0.0.0/16"},
		{"two peers under one network", func(in *Inputs) {
			p := in.Peers[0]
			p.Index, p.ClusterID = 1, "oslo"
			in.Peers = append(in.Peers, p)
		}, ErrOverlap, "oslo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := serverInputs()
			c.change(&in)
			_, err := Compute(in)
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("got %v, want %v about %q", err, c.want, c.says)
			}
		})
	}
}

func TestNodeNonsenseIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*NodeInputs)
		want   error
	}{
		{"no address", func(in *NodeInputs) { in.NodeIP = netip.Addr{} }, errAddress},
		{"underlay MTU unknown", func(in *NodeInputs) { in.UnderlayMTU = 0 }, errMTU},
		{"gateway without address", func(in *NodeInputs) { in.Gateways[0].PodIP = netip.Addr{} }, errAddress},
		{"gateways share an address", func(in *NodeInputs) { in.Gateways[0].PodIP = in.Gateways[1].PodIP }, errDup},
		{"gateway without MTU", func(in *NodeInputs) { in.Gateways[0].MTU = 0 }, errMTU},
		{"remote on own pods", func(in *NodeInputs) { in.Gateways[0].RemoteCIDRs = prefixes("10.244.0.0/24") }, ErrOverlap},
		{"two gateways to one network", func(in *NodeInputs) { in.Gateways[0].RemoteCIDRs = in.Gateways[1].RemoteCIDRs }, ErrOverlap},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := nodeInputs()
			c.change(&in)
			if _, err := ComputeNode(in); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestExplainNamesWhatDiffers(t *testing.T) {
	want, err := Compute(clientInputs())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*KernelState)
		lines  []string
	}{
		{"nothing", func(*KernelState) {}, nil},
		{"endpoint", func(s *KernelState) { s.Tunnels[0].Endpoint = netip.MustParseAddrPort("192.0.2.1:51840") }, []string{
			"tunnel liqo-tunnel: peer endpoint 192.0.2.1:51840 → 203.0.113.2:51840",
		}},
		{"key", func(s *KernelState) { s.Tunnels[0].PrivateKey = key(7) }, []string{
			"tunnel liqo-tunnel: own key " + key(7).Public().String() + " → " + key(1).Public().String(),
		}},
		{"route to elsewhere", func(s *KernelState) { s.Routes[len(s.Routes)-1].Device = "eth0" }, []string{
			"ip route add 10.200.0.0/16 dev eth0 table 18100 proto 118 → ip route add 10.200.0.0/16 dev liqo-tunnel table 18100 proto 118",
		}},
		{"rule gone, another there", func(s *KernelState) { s.Rules[0].Mark++ }, []string{
			"missing: ip rule add pref 10 fwmark 0xc00101c0 iif liqo-fabric lookup 18100",
			"unexpected: ip rule add pref 10 fwmark 0xc00101c1 iif liqo-fabric lookup 18100",
		}},
		{"link twice as wide", func(s *KernelState) { s.Links[0].MTU = 2900 }, []string{
			"ip link add liqo-fabric up address 02:4c:0a:f4:01:05 mtu 2900 alias \"liqo-tui: between nodes and gateways\" addrgenmode none type vxlan id 4544 dstport 6092 nolearning → " + want.Links[0].String(),
		}},
		{"tunnel gone", func(s *KernelState) { s.Tunnels = nil }, []string{"missing: tunnel liqo-tunnel"}},
		{"table gone", func(s *KernelState) { s.Firewall = Table{} }, []string{"missing: nft table ip liqo-tui"}},
		{"element gone", func(s *KernelState) { s.Firewall.Sets[0].Elements = nil }, []string{`missing: nft element tunnels { "liqo-tunnel" comment "rome" }`}},
		{"rules swapped", func(s *KernelState) {
			r := s.Firewall.Chains[0].Rules
			r[0], r[1] = r[1], r[0]
		}, []string{
			`missing: nft rule classify 1: iifname @tunnels iifname . ip saddr != @peer-sources counter name "dropped-source" drop comment "a peer sends only from its own addresses"`,
			`missing: nft rule classify 2: iifname @tunnels ip daddr != @own-addresses counter name "dropped-destination" drop comment "a tunnel leads to pods and external addresses of this cluster only"`,
			`unexpected: nft rule classify 1: iifname @tunnels ip daddr != @own-addresses counter name "dropped-destination" drop comment "a tunnel leads to pods and external addresses of this cluster only"`,
			`unexpected: nft rule classify 2: iifname @tunnels iifname . ip saddr != @peer-sources counter name "dropped-source" drop comment "a peer sends only from its own addresses"`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			have, err := Compute(clientInputs())
			if err != nil {
				t.Fatal(err)
			}
			c.change(&have)
			if got := Explain(have, want); !slices.Equal(got, c.lines) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.lines, "\n"))
			}
		})
	}
}

func TestPrivateKeysDoNotPrint(t *testing.T) {
	s, err := Compute(serverInputs())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b"} {
		fmt.Fprintf(&out, verb+"\n", s.Tunnels[0].PrivateKey)
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", []any{&s.Tunnels[0], serverInputs()})
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", s.Tunnels[0].PrivateKey, "state", s)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", s.Tunnels[0].PrivateKey, "state", s)
	if err := json.NewEncoder(&out).Encode(s); err != nil {
		t.Fatal(err)
	}
	out.WriteString(strings.Join(Explain(KernelState{}, s), "\n"))
	k := s.Tunnels[0].PrivateKey
	for _, form := range []string{wgtypes.Key(k).String(), fmt.Sprintf("%x", k[:]), fmt.Sprintf("%X", k[:]), strings.Trim(fmt.Sprintf("%d", k[:]), "[]")} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the key is in the output as %s", form)
		}
	}
	if !strings.Contains(out.String(), redacted) {
		t.Error("no placeholder in the output: the test saw nothing")
	}
}

// The operator makes keys from random bytes. WireGuard returns them with some bits set, and this is no
// difference to repair.
func TestKeysAreWantedAsWireGuardKeepsThem(t *testing.T) {
	in := serverInputs()
	for i := range in.Peers[0].PrivateKey {
		in.Peers[0].PrivateKey[i] = 0xff
	}
	s, err := Compute(in)
	if err != nil {
		t.Fatal(err)
	}
	got := s.Tunnels[0].PrivateKey
	if got[0] != 0xf8 || got[31] != 0x7f || got.Public() != in.Peers[0].PrivateKey.Public() {
		t.Errorf("got bytes %x and %x, want f8 and 7f, and the same public key", got[0], got[31])
	}
}

// Otherwise nft would print and write the marks of our maps backwards.
func TestMarksAreTheSameBackwards(t *testing.T) {
	seen := map[uint32]bool{0: true, errorMark: true}
	for index := range MaxIndex + 1 {
		m := Mark(index)
		if seen[m] || bits.ReverseBytes32(m) != m {
			t.Errorf("mark of %d: got %#08x, want one that no other has, the same backwards", index, m)
		}
		seen[m] = true
	}
}

func TestTunnelAddressesAreLiqos(t *testing.T) {
	for _, c := range []struct {
		role        Role
		index       int
		own, theirs string
	}{
		{Server, 0, "169.254.18.1/30", "169.254.18.2/30"},
		{Client, 0, "169.254.18.2/30", "169.254.18.1/30"},
		{Client, 3, "169.254.18.14/30", "169.254.18.13/30"},
		{Server, MaxIndex, "169.254.18.253/30", "169.254.18.254/30"},
	} {
		if got := TunnelAddr(c.role, c.index).String(); got != c.own {
			t.Errorf("%s of tunnel %d: got %s, want %s", c.role, c.index, got, c.own)
		}
		if got := PeerTunnelAddr(c.role, c.index).String(); got != c.theirs {
			t.Errorf("peer of %s of tunnel %d: got %s, want %s", c.role, c.index, got, c.theirs)
		}
	}
}

// One gateway with unusable settings must not disconnect the others.
func TestUnfitGatewaysAreLeftOut(t *testing.T) {
	add := func(g Gateway) NodeInputs {
		in := nodeInputs()
		in.Gateways = append(in.Gateways, g)
		return in
	}
	fine := Gateway{Name: "gw-turin", PodIP: netip.MustParseAddr("10.244.3.3"), MTU: 1340, RemoteCIDRs: prefixes("10.80.0.0/16")}
	for name, c := range map[string]struct {
		change func(*Gateway)
		want   error
	}{
		"fine":                  {func(*Gateway) {}, nil},
		"the address of rome's": {func(g *Gateway) { g.PodIP = netip.MustParseAddr("10.244.1.5") }, errDup},
		"MTU 500":               {func(g *Gateway) { g.MTU = 500 }, errMTU},
		"IPv6":                  {func(g *Gateway) { g.PodIP = netip.MustParseAddr("fd00::1") }, ErrIPv6},
		"a network of oslo's":   {func(g *Gateway) { g.RemoteCIDRs = prefixes("10.62.1.0/24") }, ErrOverlap},
		"a network of pods":     {func(g *Gateway) { g.RemoteCIDRs = prefixes("10.244.7.0/24") }, ErrOverlap},
	} {
		t.Run(name, func(t *testing.T) {
			g := fine
			c.change(&g)
			in, unfit := add(g).Fitting()
			if _, err := ComputeNode(in); err != nil {
				t.Fatal(err)
			}
			switch {
			case c.want == nil && (len(unfit) != 0 || len(in.Gateways) != 4):
				t.Errorf("got %v left out of %v", unfit, in.Gateways)
			case c.want != nil && (len(unfit) != 1 || unfit[0].Name != g.Name || !errors.Is(unfit[0].Err, c.want) || len(in.Gateways) != 3):
				t.Errorf("got %v left out of %v, want %v", unfit, in.Gateways, c.want)
			}
		})
	}
	in := nodeInputs()
	in.NodeIP = netip.MustParseAddr("fd00::1")
	if got, unfit := in.Fitting(); len(got.Gateways) != 3 || len(unfit) != 0 {
		t.Errorf("a bad node: got %v left out", unfit)
	}
}

// A node's agent can report wrong values about its node. They must not harm other nodes.
func TestAWrongNodeHarmsItselfAlone(t *testing.T) {
	lead := func(to, via string) Route {
		return Route{Table: LocalTable, Type: Unicast, Destination: netip.MustParsePrefix(to), Via: netip.MustParseAddr(via), Device: FabricDevice}
	}
	third := func(change func(*Node)) Node {
		n := Node{Name: "third", IP: netip.MustParseAddr("192.168.1.12"), Pods: prefixes("10.244.2.0/24"), Revision: 5}
		change(&n)
		return n
	}
	for _, c := range []struct {
		name   string
		node   Node
		says   string // the end of the message: the node and the reason
		want   []Route
		absent []Route
	}{
		{"fine", third(func(*Node) {}), "", []Route{lead("10.244.2.0/24", "192.168.1.12")}, nil},
		{"no address", third(func(n *Node) { n.IP = netip.Addr{} }), "third: its address", nil, []Route{lead("10.244.2.0/24", "192.168.1.12")}},
		{
			"the address of one that wrote earlier", third(func(n *Node) { n.IP = netip.MustParseAddr("192.168.1.10") }), "control: its address 192.168.1.10: named twice: it is that of node third",
			[]Route{lead("10.244.2.0/24", "192.168.1.10")},
			[]Route{lead("10.244.0.0/24", "192.168.1.10")},
		},
		{
			"pods of one that wrote earlier", third(func(n *Node) { n.Pods = prefixes("10.244.1.77/32") }), "control: its pods 10.244.1.77/32: named twice: they are those of node third",
			[]Route{lead("10.244.1.77/32", "192.168.1.12"), lead("10.244.0.0/24", "192.168.1.10")},
			[]Route{lead("10.244.1.77/32", "192.168.1.10")},
		},
		{
			"pods of one that wrote later", third(func(n *Node) { n.Pods, n.Revision = prefixes("10.244.1.77/32", "10.244.9.0/26"), 0 }), "third: its pods 10.244.1.77/32: named twice: they are those of node control",
			[]Route{lead("10.244.1.77/32", "192.168.1.10"), lead("10.244.9.0/26", "192.168.1.12")},
			nil,
		},
		{
			"addresses within another one's", third(func(n *Node) { n.Pods = prefixes("10.244.0.128/25", "10.244.1.9/32") }), "",
			[]Route{lead("10.244.0.128/25", "192.168.1.12"), lead("10.244.1.9/32", "192.168.1.12"), lead("10.244.0.0/24", "192.168.1.10")},
			nil,
		},
		{"everything", third(func(n *Node) { n.Pods = prefixes("10.0.0.0/8") }), "third: its pods 10.0.0.0/8: not a usable IPv4 network: larger", nil, []Route{lead("10.0.0.0/8", "192.168.1.12")}},
		{"the default route", third(func(n *Node) { n.Pods = prefixes("0.0.0.0/0") }), "third: its pods 0.0.0.0/0: not a usable", nil, nil},
		{"a host elsewhere", third(func(n *Node) { n.Pods = prefixes("198.51.100.7/32") }), "", nil, []Route{lead("198.51.100.7/32", "192.168.1.12")}},
		{"all of the cluster's pods", third(func(n *Node) { n.Pods = prefixes("10.244.0.0/16") }), "", []Route{lead("10.244.0.0/16", "192.168.1.12"), lead("10.244.0.0/24", "192.168.1.10")}, []Route{lead("10.244.0.0/16", "192.168.1.11")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := serverInputs()
			in.Nodes[1].Revision = 2
			in.Nodes = append(in.Nodes, c.node)
			s, err := Compute(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range append(c.want, lead("10.244.1.0/24", "192.168.1.11")) {
				if !slices.Contains(s.Routes, r) {
					t.Errorf("missing: %s", r)
				}
			}
			for _, r := range c.absent {
				if slices.Contains(s.Routes, r) {
					t.Errorf("unexpected: %s", r)
				}
			}
			_, unfit := in.Fitting()
			var says string
			for _, u := range unfit {
				says += u.Name + ": " + u.Err.Error()
			}
			if (says == "") != (c.says == "") || !strings.HasPrefix(says, c.says) {
				t.Errorf("it says %q, want %q", says, c.says)
			}
		})
	}
}

// While no node has reported which nodes run the gateways' pods, packets of gateways may come from any
// address, because the pod network may change the source.
func TestNodesTakeAllSendersUntilTheyAreKnown(t *testing.T) {
	in := nodeInputs()
	in.Gateways[0].NodeIPs = nil
	s, err := ComputeNode(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Firewall.Chains {
		for _, r := range c.Rules {
			if c.Name == "arrive" && strings.Contains(r.String(), "udp dport 6092") {
				t.Errorf("got %v, want no rule about senders", r)
			}
		}
	}
}

// The gateway's node leads to a host outside of the cluster. If the host is a pod, the pod's own node leads
// to it, because pod networks drop packets of another node with a remote pod's address.
func TestHostsThatArePodsAreReachedByTheirNode(t *testing.T) {
	in := serverInputs()
	outside, pod := netip.MustParseAddr("192.0.2.7"), in.Nodes[0].Pods[0].Addr().Next()
	in.Hosts = []Host{{Real: outside}, {Real: pod}}
	to := map[netip.Prefix]bool{}
	for _, r := range in.localRoutes(nil) {
		to[r.Destination] = true
	}
	if !to[netip.PrefixFrom(outside, 32)] || to[netip.PrefixFrom(pod, 32)] || !to[in.Nodes[0].Pods[0]] {
		t.Errorf("got routes to %v", to)
	}
}
