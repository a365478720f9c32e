//go:build linux

package linux_test

import (
	"os"
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

func TestTunnelsAreTheKernelsWhereItHasWireGuard(t *testing.T) {
	want := gateway.Userspace
	if _, err := netns.New(t, "trial").Try("ip", "link", "add", "trial", "type", "wireguard"); err == nil {
		want = gateway.InKernel
	}
	// A machine that has to have this implementation fails, and does not test the other one.
	if required := os.Getenv("REQUIRE_WIREGUARD"); required != "" && required != string(want) {
		t.Fatalf("this machine's WireGuard: got %s, want %s", want, required)
	}
	a, b := linuxtest.NewPair(t)
	for _, c := range []*linuxtest.Cluster{a, b} {
		got, err := c.PeerStats(0)
		if err != nil || got.Implementation != want {
			t.Errorf("gateway %s: got %q, %v, want %q", c.Name, got.Implementation, err, want)
		}
	}
}

// On a kernel with WireGuard, this is the only test of the userspace implementation, and of both together.
func TestEitherImplementationTalksToUserspace(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podA.Whoami(":8080")
	podB.Whoami(":8080")
	inUserspace := func(c, peer *linuxtest.Cluster) {
		t.Helper()
		in := c.Inputs(peer)
		in.Peers[0].Implementation = gateway.Userspace
		c.SyncTo(c.Gateway, c.GatewayKernel, c.State(in))
		b.Redial()
		if got, err := c.PeerStats(0); err != nil || got.Implementation != gateway.Userspace {
			t.Errorf("gateway %s: got %q, %v, want %q", c.Name, got.Implementation, err, gateway.Userspace)
		}
		linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
		linuxtest.ExpectFrom(t, podB, "10.61.2.2", "podA sees 10.60.2.2")
	}
	inUserspace(b, a)
	inUserspace(a, b)
}
