//go:build linux

package linux_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// The figures of the data plane, as ratios of two things that are measured in
// turn, because a machine that others use too is slow and fast by the minute.
// They are benchmarks, so that tests run without them; each runs once:
//
//	go test -run '^$' -bench Figure -benchtime 1x ./gateway/linux

const pairs = 10

// compare measures a and b in turn and reports how often a is b.
func compare(b *testing.B, what, bound string, first, second func() float64) {
	b.Helper()
	ratios, firsts, seconds := make([]float64, pairs), make([]float64, pairs), make([]float64, pairs)
	for i := range pairs {
		firsts[i], seconds[i] = first(), second()
		ratios[i] = firsts[i] / seconds[i]
	}
	for _, v := range [][]float64{ratios, firsts, seconds} {
		slices.Sort(v)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(ratios), "median-ratio")
	b.Logf("%s: %.2f (%.2f to %.2f), wanted %s; medians %.4g and %.4g", what, median(ratios), ratios[0], ratios[pairs-1],
		bound, median(firsts), median(seconds))
}

func median(sorted []float64) float64 {
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// throughput sends for a second over one TCP connection, and returns how many
// bytes arrived per second.
func throughput(b *testing.B, from, to *netns.Namespace, source, address string) float64 {
	b.Helper()
	const duration = time.Second
	listener := to.Listen(":0")
	defer listener.Close()
	received := make(chan float64, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			received <- 0
			return
		}
		defer c.Close()
		start := time.Now()
		n, _ := io.Copy(io.Discard, c)
		received <- float64(n) / time.Since(start).Seconds()
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	var c net.Conn
	var err error
	dialer := net.Dialer{Timeout: 5 * time.Second}
	if source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	from.Do(func() { c, err = dialer.DialContext(b.Context(), "tcp4", net.JoinHostPort(address, port)) })
	if err != nil {
		b.Fatalf("%s to %s: %v", from.Name, address, err)
	}
	chunk := make([]byte, 128<<10)
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if _, err := c.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Close()
	return <-received
}

// Both ways go over the same devices: pod, node, overlay, gateway, tunnel, and
// the same again. Without NAT, the pods have the addresses that the other
// cluster knows them by, and no gateway or node has our table.
func BenchmarkFigureTunnelWithNAT(b *testing.B) {
	x, y := linuxtest.NewPair(b)
	podX, podY := x.Pod(1, "podA", "10.244.2.2"), y.Pod(1, "podB", "10.244.2.2")
	sides := []struct {
		c         *linuxtest.Cluster
		pod       *netns.Namespace
		own, peer string // as the peers see pods, with and without NAT
	}{{x, podX, "10.61", "10.60"}, {y, podY, "10.60", "10.61"}}
	for _, s := range sides {
		s.pod.Run("ip", "addr", "add", s.own+".2.2/32", "dev", "lo")
		s.c.Nodes[1].Run("ip", "route", "add", s.own+".2.2/32", "dev", "v-"+s.pod.Name)
		s.c.Gateway.Script("ip rule add pref 5 iif liqo-fabric to " + s.peer + ".0.0/16 lookup 4242\nip rule add pref 6 iif liqo-tunnel to " + s.own + ".0.0/16 lookup 4242")
		s.c.Gateway.Script("ip route add " + s.peer + ".0.0/16 dev liqo-tunnel table 4242\n" +
			"ip route add " + s.own + ".2.2/32 via " + s.c.NodeIP(1) + " dev liqo-fabric onlink table 4242")
	}
	compare(b, "throughput with NAT against without", "≥ 0.95", func() float64 {
		for _, s := range sides { // as Sync would have it
			_, _ = s.c.Gateway.Try("ip", "rule", "del", "pref", "5")
			_, _ = s.c.Gateway.Try("ip", "rule", "del", "pref", "6")
		}
		x.SyncAll(y)
		y.SyncAll(x)
		return throughput(b, podX, podY, "", "10.60.2.2")
	}, func() float64 {
		for _, s := range sides {
			for _, n := range append([]*netns.Namespace{s.c.Gateway}, s.c.Nodes[:]...) {
				n.Run("nft", "delete", "table", "ip", gateway.TableName)
			}
			_, _ = s.c.Gateway.Try("ip", "rule", "add", "pref", "5", "iif", "liqo-fabric", "to", s.peer+".0.0/16", "lookup", "4242")
			_, _ = s.c.Gateway.Try("ip", "rule", "add", "pref", "6", "iif", "liqo-tunnel", "to", s.own+".0.0/16", "lookup", "4242")
		}
		return throughput(b, podX, podY, "10.61.2.2", "10.60.2.2")
	})
}

// wireGuard is a pair of userspace devices in processes of their own, whose CPU
// time is known, with addresses 10.9.0.1 and 10.9.0.2.
type wireGuard struct {
	ends  [2]*netns.Namespace
	pids  [2]int
	bytes float64 // that arrived
	cpu   time.Duration
}

const wireGuardMTU = 1420

// startWireGuard runs a program at each end, which makes a device of this name.
func startWireGuard(b *testing.B, device string, command func(end int, keys [2]wgtypes.Key) *exec.Cmd) *wireGuard {
	b.Helper()
	w := &wireGuard{}
	for i, name := range []string{"left", "right"} {
		w.ends[i] = netns.New(b, name)
	}
	netns.Veth(w.ends[0], "eth0", w.ends[1], "eth0")
	var keys [2]wgtypes.Key
	for i := range keys {
		w.ends[i].Run("ip", "addr", "add", fmt.Sprintf("192.0.2.%d/24", i+1), "dev", "eth0")
		var err error
		if keys[i], err = wgtypes.GeneratePrivateKey(); err != nil {
			b.Fatal(err)
		}
	}
	for i, n := range w.ends {
		c := command(i, keys)
		c.Stderr = os.Stderr
		input, err := c.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		output, err := c.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		n.Do(func() { err = c.Start() }) // inherits the namespace of the thread
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = input.Close() // ends it
			_ = c.Wait()
		})
		if _, err := io.ReadFull(output, make([]byte, len("ready\n"))); err != nil {
			b.Fatalf("%s did not start: %v", c.Path, err)
		}
		w.pids[i] = c.Process.Pid
		n.Run("ip", "addr", "add", fmt.Sprintf("10.9.0.%d/24", i+1), "dev", device)
		n.Run("ip", "link", "set", device, "up")
	}
	return w
}

func (w *wireGuard) run(b *testing.B) float64 {
	b.Helper()
	before := w.spent(b)
	rate := throughput(b, w.ends[0], w.ends[1], "", "10.9.0.2")
	w.cpu += w.spent(b) - before
	w.bytes += rate // for a second
	return rate
}

// spent is the CPU time of both processes.
func (w *wireGuard) spent(b *testing.B) time.Duration {
	b.Helper()
	var ticks int
	for _, pid := range w.pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest) // from the third on; proc(5) counts utime 14, stime 15
		for _, f := range fields[11:13] {
			n, err := strconv.Atoi(f)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func BenchmarkFigureAgainstWireGuardOf2022(b *testing.B) {
	netns.Require(b)
	program, err := filepath.Abs("../../bin/wireguard2022")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		b.Fatalf("%v: make bin/wireguard2022", err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	ours := startWireGuard(b, gateway.TunnelDevice, func(i int, keys [2]wgtypes.Key) *exec.Cmd {
		c := exec.CommandContext(b.Context(), self)
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s 192.0.2.%d:51820", tunnelVariable, i+1, keys[i], keys[1-i].PublicKey(), 2-i))
		return c
	})
	old := startWireGuard(b, "wg0", func(i int, keys [2]wgtypes.Key) *exec.Cmd {
		public := keys[1-i].PublicKey()
		return exec.CommandContext(b.Context(), program, "wg0", strconv.Itoa(wireGuardMTU), fmt.Sprintf(
			"private_key=%s listen_port=51820 public_key=%s allowed_ip=0.0.0.0/0 endpoint=192.0.2.%d:51820 persistent_keepalive_interval=15",
			hex.EncodeToString(keys[i][:]), hex.EncodeToString(public[:]), 2-i))
	})
	compare(b, "throughput of ours against wireguard-go of 2022", "≥ 4",
		func() float64 { return ours.run(b) }, func() float64 { return old.run(b) })
	perByte := func(w *wireGuard) float64 { return float64(w.cpu.Nanoseconds()) / w.bytes }
	b.Logf("CPU per byte of ours against wireguard-go of 2022: %.2f, wanted ≤ 0.25; %.2f and %.2f ns",
		perByte(ours)/perByte(old), perByte(ours), perByte(old))
}

// tunnelVariable makes this program one end of a tunnel: role, private key,
// peer's public key, endpoint.
const tunnelVariable = "FIGURES_TUNNEL"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(tunnelVariable); ok {
		if err := runTunnel(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runTunnel keeps a userspace tunnel until the standard input ends.
func runTunnel(text string) error {
	var role int
	var private, public, endpoint string
	if _, err := fmt.Sscan(text, &role, &private, &public, &endpoint); err != nil {
		return err
	}
	own, err := wgtypes.ParseKey(private)
	if err != nil {
		return err
	}
	peer, err := wgtypes.ParseKey(public)
	if err != nil {
		return err
	}
	k, err := linux.New(linux.Options{})
	if err != nil {
		return err
	}
	defer k.Close()
	_, err = k.Sync(gateway.State{Tunnels: []gateway.Tunnel{{
		Device: gateway.TunnelDevice, Role: gateway.Role(role), Implementation: gateway.Userspace,
		Address: gateway.TunnelAddr(gateway.Role(role), 0), MTU: wireGuardMTU, Up: true, PrivateKey: gateway.PrivateKey(own),
		ListenPort: 51820, PublicKey: peer, Endpoint: netip.MustParseAddrPort(endpoint), Keepalive: 15 * time.Second,
	}}})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// Across the overlay from a node to the gateway pod on another node, against
// the same way without it.
func BenchmarkFigureOverlay(b *testing.B) {
	x, _ := linuxtest.NewPair(b)
	node, pod := x.Nodes[1], x.Gateway
	node.Script("ip addr add 10.99.0.2/32 dev lo\nip route add 10.99.0.1/32 via " + x.GatewayIP + " dev liqo-fabric onlink src 10.99.0.2")
	pod.Script("ip addr add 10.99.0.1/32 dev lo\nip route add 10.99.0.2/32 via " + x.NodeIP(1) + " dev liqo-fabric onlink")
	compare(b, "throughput over VXLAN against the bare veth", "≥ 0.7",
		func() float64 { return throughput(b, node, pod, "10.99.0.2", "10.99.0.1") },
		func() float64 { return throughput(b, node, pod, "", x.GatewayIP) })
}

// manyGateways is the state of a node in a cluster with that many peers: this
// is where they meet, since each has a gateway pod of its own.
func manyGateways(b *testing.B, n int, change int) gateway.State {
	b.Helper()
	in := gateway.NodeInputs{NodeIP: netip.MustParseAddr("198.51.100.2"), UnderlayMTU: 1500, PodCIDRs: linuxtest.Local().Pod}
	for i := range n {
		prefix := func(base uint32) netip.Prefix { // a /22 each, of 11.0.0.0/8 and of 12.0.0.0/8
			return netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, base+uint32(i)<<10))), 22)
		}
		g := gateway.Gateway{
			Name: fmt.Sprintf("gw-%d", i), PodIP: netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), MTU: linuxtest.TunnelMTU,
			RemoteCIDRs: []netip.Prefix{prefix(11 << 24), prefix(12 << 24)},
		}
		if i == 0 {
			g.RemoteCIDRs[1] = netip.PrefixFrom(netip.AddrFrom4([4]byte{13, byte(change), 0, 0}), 22)
		}
		in.Gateways = append(in.Gateways, g)
	}
	s, err := gateway.ComputeNode(in)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

type bareNode struct {
	*netns.Namespace

	kernel *linux.Kernel
	peers  int
	change int
	pod    *netns.Namespace // of newFlows
}

func newBareNode(b *testing.B, peers int) *bareNode {
	b.Helper()
	n := &bareNode{Namespace: netns.New(b, fmt.Sprintf("node%d", peers)), peers: peers}
	var err error
	if n.kernel, err = linux.New(linux.Options{}); err != nil {
		b.Fatal(err)
	}
	other := netns.New(b, "lan")
	netns.Veth(n.Namespace, "eth0", other, "eth0")
	n.Script("ip addr add 198.51.100.2/24 dev eth0\nip route add default via 198.51.100.1")
	other.Script("ip addr add 198.51.100.1/24 dev eth0")
	return n
}

// sync returns how long it took, in milliseconds.
func (n *bareNode) sync(b *testing.B, s gateway.State) float64 {
	b.Helper()
	var took time.Duration
	var err error
	n.Do(func() {
		start := time.Now()
		_, err = n.kernel.Sync(s)
		took = time.Since(start)
	})
	if err != nil {
		b.Fatal(err)
	}
	return float64(took.Microseconds()) / 1000
}

func (n *bareNode) changeOne(b *testing.B) float64 {
	b.Helper()
	n.change++
	return n.sync(b, manyGateways(b, n.peers, n.change))
}

func BenchmarkFigureOneChangedPeer(b *testing.B) {
	many, few := newBareNode(b, 1000), newBareNode(b, 10)
	for _, n := range []*bareNode{many, few} {
		n.changeOne(b)
	}
	compare(b, "one changed peer among 1000 against one among 10, ms", "≤ 2",
		func() float64 { return many.changeOne(b) }, func() float64 { return few.changeOne(b) })
}

func BenchmarkFigureInstallPeers(b *testing.B) {
	n := newBareNode(b, 1000)
	state := manyGateways(b, 1000, 1)
	var tables, all []float64
	for range pairs {
		tables = append(tables, n.sync(b, gateway.State{Firewall: state.Firewall}))
		n.sync(b, gateway.State{})
		all = append(all, n.sync(b, state))
		n.sync(b, gateway.State{})
	}
	slices.Sort(tables)
	slices.Sort(all)
	b.Logf("installing the nft table of 1000 peers: %.1f ms (%.1f to %.1f), wanted ≤ 20", median(tables), tables[0], tables[pairs-1])
	b.Logf("with routes, neighbours and forwarding entries: %.1f ms (%.1f to %.1f)", median(all), all[0], all[pairs-1])
}

// The cost of a packet that begins a flow, on a node: most of it is conntrack
// and the chains that only such a packet sees.
func BenchmarkFigureNewFlows(b *testing.B) {
	many, few := newBareNode(b, 1000), newBareNode(b, 2)
	for _, n := range []*bareNode{many, few} {
		n.changeOne(b)
		// A pod that sends: the packets end in the overlay.
		pod := netns.New(b, "pod")
		netns.Veth(n.Namespace, "pod0", pod, "eth0")
		n.Script("ip addr add 169.254.1.1/32 dev pod0\nip route add 10.244.9.9/32 dev pod0")
		n.Sysctl("ip_forward", "1")
		pod.Script("ip addr add 10.244.9.9/32 dev eth0\nip route add 169.254.1.1 dev eth0\nip route add default via 169.254.1.1")
		n.pod = pod
	}
	compare(b, "nanoseconds of a new flow with 1000 peers against 2", "≤ 1.15",
		func() float64 { return many.newFlows(b) }, func() float64 { return few.newFlows(b) })
}

// newFlows sends one packet from each of many ports to an address of the last
// but one peer, and returns nanoseconds per packet.
func (n *bareNode) newFlows(b *testing.B) float64 {
	b.Helper()
	const flows = 20_000
	_, _ = n.Try("conntrack", "-F")
	socket := n.pod.ListenUDP("0.0.0.0:0")
	defer socket.Close()
	to := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 11<<24+uint32(n.peers-1)<<10+1)))
	payload := []byte("new")
	start := time.Now()
	for i := range flows {
		if _, err := socket.WriteToUDPAddrPort(payload, netip.AddrPortFrom(to, uint16(1024+i))); err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(start).Nanoseconds()) / flows
}
