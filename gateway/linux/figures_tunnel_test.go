//go:build linux

package linux_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
)

// Both paths use the same devices: pod, node, overlay and gateway, then the tunnel, and the same on the other
// side. Without NAT, the pods have the addresses that the other cluster uses for them, and no gateway or node
// has our table.
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
		s.c.Gateway.Script("ip route add " + s.peer + ".0.0/16 dev liqo-tunnel table 4242\n" +
			"ip route add " + s.own + ".2.2/32 via " + s.c.NodeIP(1) + " dev liqo-fabric onlink table 4242")
	}
	with, without := inTurn(func() transfer {
		for _, s := range sides { // removes the rules of the other measurement
			_, _ = s.c.Gateway.Try("ip", "rule", "del", "pref", "5")
			_, _ = s.c.Gateway.Try("ip", "rule", "del", "pref", "6")
		}
		x.SyncAll(y)
		y.SyncAll(x)
		return send(b, podX, podY, "", "10.60.2.2", ownTime)
	}, func() transfer {
		for _, s := range sides {
			for _, n := range append([]*netns.Namespace{s.c.Gateway}, s.c.Nodes[:]...) {
				_, _ = n.Try("nft", "delete", "table", "ip", gateway.TableName)
			}
			_, _ = s.c.Gateway.Try("ip", "rule", "add", "pref", "5", "iif", "liqo-fabric", "to", s.peer+".0.0/16", "lookup", "4242")
			_, _ = s.c.Gateway.Try("ip", "rule", "add", "pref", "6", "iif", "liqo-tunnel", "to", s.own+".0.0/16", "lookup", "4242")
		}
		return send(b, podX, podY, "10.61.2.2", "10.60.2.2", ownTime)
	})
	rate, perByte := transfer.megabytesPerSecond, transfer.nanosecondsPerByte
	row(b, "pod to pod, throughput with NAT against without", "≥ 0.95", ratios(each(with, rate), each(without, rate)))
	row(b, "pod to pod, work per CPU second with NAT against without", "≥ 0.95", ratios(each(without, perByte), each(with, perByte)))
	row(b, "  with NAT, MB/s", "", each(with, rate))
	row(b, "  without NAT, MB/s", "", each(without, rate))
}

// BenchmarkFigureAgainstWireGuardOf2022 has the same two clusters twice. In the first pair, the gateways are
// processes of ours. In the second pair, only the device differs: it belongs to the old program.
func BenchmarkFigureAgainstWireGuardOf2022(b *testing.B) {
	ours, old := newTunnelOfOurs(b), newTunnelOf2022(b)
	a, c := inTurn(func() transfer { return ours.send(b) }, func() transfer { return old.send(b) })
	rate, perByte := transfer.megabytesPerSecond, transfer.nanosecondsPerByte
	row(b, "pod to pod, throughput against wireguard-go of 2022", "≥ 4", ratios(each(a, rate), each(c, rate)))
	row(b, "both gateways, CPU per byte against wireguard-go of 2022", "≤ 0.25", ratios(each(a, perByte), each(c, perByte)))
	row(b, "  ours, MB/s", "", each(a, rate))
	row(b, "  of 2022, MB/s", "", each(c, rate))
	row(b, "  ours, ns of CPU per byte", "", each(a, perByte))
	row(b, "  of 2022, ns of CPU per byte", "", each(c, perByte))
}

// tunnelUnderTest is two clusters with known gateway processes.
type tunnelUnderTest struct {
	clusters [2]*linuxtest.Cluster
	pods     [2]*netns.Namespace
	pids     [2]int
}

func newTunnelUnderTest(b *testing.B) *tunnelUnderTest {
	b.Helper()
	t := &tunnelUnderTest{}
	t.clusters[0], t.clusters[1] = linuxtest.NewClusters(b)
	for i, c := range t.clusters {
		c.SyncNodes()
		t.pods[i] = c.Pod(1, "pod"+c.Name, "10.244.2.2")
	}
	return t
}

// send sends from the server's pod to the client's pod.
func (t *tunnelUnderTest) send(b *testing.B) transfer {
	b.Helper()
	return send(b, t.pods[0], t.pods[1], "", "10.60.2.2", func() time.Duration { return clock(ofProcess(t.pids[0])) + clock(ofProcess(t.pids[1])) })
}

func newTunnelOfOurs(b *testing.B) *tunnelUnderTest {
	b.Helper()
	t := newTunnelUnderTest(b)
	for i, c := range t.clusters {
		in := c.Inputs(t.clusters[1-i])
		in.Peers[0].Implementation = gateway.Userspace
		t.pids[i] = c.Start(tunnel.Wanted{Inputs: in}).PID()
	}
	return t
}

// oldDevice has no name of ours, so the wanted state of the kernel does not include it.
const oldDevice = "wg2022"

func newTunnelOf2022(b *testing.B) *tunnelUnderTest {
	b.Helper()
	program, err := filepath.Abs("../../bin/wireguard2022")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		b.Fatalf("%v: make bin/wireguard2022", err)
	}
	t := newTunnelUnderTest(b)
	for i, c := range t.clusters {
		s := c.State(c.Inputs(t.clusters[1-i]))
		t.pids[i] = startOld(b, c.Gateway, program, s.Tunnels[0])
		c.SyncTo(c.Gateway, c.GatewayKernel, onDevice(s, oldDevice))
	}
	return t
}

// startOld runs the old program with the settings of one of our tunnels.
func startOld(b *testing.B, n *netns.Namespace, program string, w gateway.Tunnel) int {
	b.Helper()
	private, public := wgtypes.Key(w.PrivateKey), w.PublicKey
	config := fmt.Sprintf("private_key=%s listen_port=%d public_key=%s allowed_ip=0.0.0.0/0",
		hex.EncodeToString(private[:]), w.ListenPort, hex.EncodeToString(public[:]))
	if w.Endpoint.IsValid() {
		config += fmt.Sprintf(" endpoint=%s persistent_keepalive_interval=%d", w.Endpoint, int(w.Keepalive/time.Second))
	}
	c := exec.Command(program, oldDevice, strconv.Itoa(w.MTU), config)
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
		_ = input.Close() // ends the program
		_ = c.Wait()
	})
	if _, err := io.ReadFull(output, make([]byte, len("ready\n"))); err != nil {
		b.Fatalf("%s did not start: %v", program, err)
	}
	n.Run("ip", "addr", "add", w.Address.String(), "dev", oldDevice)
	n.Run("ip", "link", "set", oldDevice, "up")
	return c.Process.Pid
}

// onDevice returns a state without the devices of its tunnels. The tunnels use existing devices of another
// name.
func onDevice(s gateway.KernelState, device string) gateway.KernelState {
	s.Tunnels = nil
	rename := func(name *string) {
		if rest, ours := strings.CutPrefix(*name, gateway.TunnelDevice); ours {
			*name = device + rest
		}
	}
	for i := range s.Settings {
		rename(&s.Settings[i].Device)
	}
	for i := range s.Rules {
		rename(&s.Rules[i].Input)
	}
	for i := range s.Routes {
		rename(&s.Routes[i].Device)
	}
	for _, set := range s.Firewall.Sets {
		for i := range set.Elements {
			rename(&set.Elements[i].Interface)
		}
	}
	for _, chain := range s.Firewall.Chains {
		for _, r := range chain.Rules {
			for i := range r.Statements {
				rename(&r.Statements[i].Name)
			}
		}
	}
	return s
}

// The paths lead from a node to the gateway pod on another node, with and without the overlay.
func BenchmarkFigureOverlay(b *testing.B) {
	x, _ := linuxtest.NewPair(b)
	node, pod := x.Nodes[1], x.Gateway
	node.Script("ip addr add 10.99.0.2/32 dev lo\nip route add 10.99.0.1/32 via " + x.GatewayIP + " dev liqo-fabric onlink src 10.99.0.2")
	pod.Script("ip addr add 10.99.0.1/32 dev lo\nip route add 10.99.0.2/32 via " + x.NodeIP(1) + " dev liqo-fabric onlink")
	// Neither end is a peer, so the rules would drop the packets.
	node.Run("nft", "insert", "rule", "ip", gateway.TableName, "fabric", "ip", "saddr", "10.99.0.1", "accept")
	pod.Run("nft", "insert", "rule", "ip", gateway.TableName, "classify", "ip", "saddr", "10.99.0.2", "accept")
	overlay, veth := inTurn(
		func() transfer { return send(b, node, pod, "10.99.0.2", "10.99.0.1", ownTime) },
		func() transfer { return send(b, node, pod, "", x.GatewayIP, ownTime) })
	rate := transfer.megabytesPerSecond
	row(b, "node to gateway, throughput over VXLAN against the bare veth", "≥ 0.7", ratios(each(overlay, rate), each(veth, rate)))
	row(b, "  over VXLAN, MB/s", "", each(overlay, rate))
}

// BenchmarkFigureExported sends to one of a thousand endpoints of exported Services, and to the same endpoint
// while the peer may open all connections.
func BenchmarkFigureExported(b *testing.B) {
	x, y := linuxtest.NewPair(b)
	podX, podY := x.Pod(1, "podA", "10.244.2.2"), y.Pod(1, "podB", "10.244.2.2")
	x.SyncAll(y)
	y.SyncNodes()
	podY.Run("sysctl", "-q", "-w", "net.ipv4.ip_local_port_range=40000 40999")
	exported, all := y.Inputs(x), y.Inputs(x)
	p := &exported.Peers[0]
	p.Closed = true
	for port := range uint16(1000) {
		p.Open = append(p.Open, gateway.Endpoint{Addr: netip.MustParseAddr("10.244.2.2"), Protocol: gateway.TCP, Port: 40000 + port})
	}
	to := func(in gateway.Inputs) transfer {
		y.SyncTo(y.Gateway, y.GatewayKernel, y.State(in))
		return send(b, podX, podY, "", "10.60.2.2", ownTime)
	}
	some, every := inTurn(func() transfer { return to(exported) }, func() transfer { return to(all) })
	rate, perByte := transfer.megabytesPerSecond, transfer.nanosecondsPerByte
	row(b, "pod to pod, throughput with 1000 exported endpoints against all", "≥ 0.97", ratios(each(some, rate), each(every, rate)))
	row(b, "pod to pod, work per CPU second with 1000 against all", "≥ 0.97", ratios(each(every, perByte), each(some, perByte)))
}
