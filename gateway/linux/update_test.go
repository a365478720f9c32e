//go:build linux

package linux_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// lonelyNode is a node whose gateways a test chooses.
type lonelyNode struct {
	*netns.Namespace

	t      testing.TB
	kernel *linux.Kernel
}

func newLonelyNode(t testing.TB) *lonelyNode {
	t.Helper()
	n := &lonelyNode{Namespace: netns.New(t, "node"), t: t, kernel: newKernel(t)}
	lan := netns.New(t, "lan")
	netns.Veth(n.Namespace, "eth0", lan, "eth0")
	n.Script("ip addr add 198.51.100.2/24 dev eth0\nip route add default via 198.51.100.1")
	return n
}

func newKernel(t testing.TB) *linux.Kernel {
	t.Helper()
	k, err := linux.New(linux.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// state returns the state of a node with these gateways. Each gateway leads to its own network.
func (n *lonelyNode) state(gateways ...int) gateway.KernelState {
	n.t.Helper()
	in := gateway.NodeInputs{NodeIP: netip.MustParseAddr("198.51.100.2"), UnderlayMTU: 1500, PodCIDRs: linuxtest.Local().Pod}
	for _, g := range gateways {
		in.Gateways = append(in.Gateways, gateway.Gateway{
			Name: fmt.Sprintf("gw-%d", g), PodIP: netip.AddrFrom4([4]byte{10, 244, 9, byte(g)}), MTU: linuxtest.TunnelMTU,
			RemoteCIDRs: linuxtest.Prefixes(fmt.Sprintf("11.%d.0.0/16", g)),
		})
	}
	s, err := gateway.ComputeNode(in)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func (n *lonelyNode) update(s gateway.KernelState) []string {
	n.t.Helper()
	return n.bring(n.kernel.Update, s)
}

func (n *lonelyNode) bring(how func(gateway.KernelState) ([]string, error), s gateway.KernelState) []string {
	n.t.Helper()
	var lines []string
	var err error
	n.Do(func() { lines, err = how(s) })
	if err != nil {
		n.t.Fatal(err)
	}
	return lines
}

// expect compares the kernel with s, in a process that does not know the earlier changes.
func (n *lonelyNode) expect(s gateway.KernelState) {
	n.t.Helper()
	if lines := n.bring(newKernel(n.t).Sync, s); len(lines) > 0 {
		n.t.Fatalf("the node differs from what was wanted:\n  %s", strings.Join(lines, "\n  "))
	}
}

func TestUpdateChangesWhatDiffers(t *testing.T) {
	n := newLonelyNode(t)
	random := rand.New(rand.NewPCG(1, 2))
	last := gateway.KernelState{}
	for range 30 {
		next := n.state(random.Perm(40)[:random.IntN(20)]...)
		if random.IntN(10) == 0 {
			next = gateway.KernelState{}
		}
		got, want := n.update(next), gateway.Explain(last, next)
		// The device's neighbours and routes are removed with the device.
		if len(next.Links) == len(last.Links) && !slices.Equal(got, want) {
			t.Fatalf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		n.expect(next)
		last = next
	}
}

func TestUpdateLeavesDamageToSync(t *testing.T) {
	n := newLonelyNode(t)
	n.update(n.state(1, 2))
	for _, c := range []struct {
		damage  string
		noticed bool // Update meets the damage
	}{
		{"ip route del 11.1.0.0/16 table 18000", false},
		{"ip neigh flush dev liqo-fabric nud permanent", false},
		{"bridge fdb del 02:4c:0a:f4:09:01 dev liqo-fabric dst 10.244.9.1", false},
		{"nft flush chain ip liqo-tui keep-source", false},
		{"nft delete element ip liqo-tui remotes { 11.1.0.0/16 }", false},
		{"nft flush set ip liqo-tui remotes", true}, // the element to delete does not exist
		{"nft delete table ip liqo-tui", true},
		{"ip link set liqo-fabric down", true}, // Update sets it up again, without its routes
		{"ip link del liqo-fabric", true},
		{"ip rule del pref 105", true},
	} {
		n.Run(strings.Fields(c.damage)...)
		n.update(n.state(1, 3))
		lines := n.bring(newKernel(t).Sync, n.state(1, 3))
		if c.noticed && len(lines) > 0 {
			t.Errorf("%s: still there after Update:\n  %s", c.damage, strings.Join(lines, "\n  "))
		}
		if !c.noticed && len(lines) == 0 {
			t.Errorf("%s: gone after Update: it reads what it should not", c.damage)
		}
		if lines := n.bring(n.kernel.Sync, n.state(1, 2)); len(lines) == 0 {
			t.Errorf("%s: Sync has found nothing to change", c.damage)
		}
		n.expect(n.state(1, 2))
	}
}

// After an error, the state of the kernel is unknown.
func TestUpdateAfterAFailureReads(t *testing.T) {
	n := newLonelyNode(t)
	n.update(n.state(1))
	broken := n.state(1, 2)
	broken.Routes = append(broken.Routes, gateway.Route{
		Table: gateway.NodeTable, Type: gateway.Unicast, Destination: netip.MustParsePrefix("11.9.0.0/16"), Device: "missing",
	})
	var err error
	n.Do(func() { _, err = n.kernel.Update(broken) })
	if err == nil || !strings.Contains(err.Error(), "no device missing") {
		t.Fatalf("got %v, want the route's error", err)
	}
	n.Run("ip", "route", "del", "11.1.0.0/16", "table", "18000")
	lines := n.update(n.state(1, 2))
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "missing: ip route add 11.1.0.0/16") || !strings.HasPrefix(lines[1], "unexpected: ip route add blackhole 11.9.0.0/16") {
		t.Errorf("got %q, want the route that is missing, and what closed the one that failed", lines)
	}
	n.expect(n.state(1, 2))
}

// Another program has replaced a set with a set for only one element. Additional elements are refused each
// time.
func TestATableThatRefusesChangesIsReplaced(t *testing.T) {
	n := newLonelyNode(t)
	n.update(n.state(1))
	n.NFT(`flush table ip liqo-tui
		delete set ip liqo-tui remotes
		table ip liqo-tui { set remotes { type ipv4_addr; size 1; flags interval; comment "other clusters, as seen from here"; }
		}`)
	n.bring(n.kernel.Sync, n.state(1, 2, 3))
	n.expect(n.state(1, 2, 3))
}
