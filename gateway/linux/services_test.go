//go:build linux

package linux_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// With Services, only the peer's gateway reaches the port of exports. A packet from the port of answers opens
// no other port.
func TestThePeersGatewayAloneAsksForServices(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	exports := fmt.Sprintf("169.254.18.1:%d", gateway.ExportsPort)
	a.Gateway.Whoami(exports)
	a.Gateway.Whoami("0.0.0.0:8082")
	if _, _, err := b.Gateway.Get("", exports, 0); err == nil {
		t.Error("the port is open without Services")
	}
	for _, c := range []struct{ here, there *linuxtest.Cluster }{{a, b}, {b, a}} {
		in := c.here.Inputs(c.there)
		in.Services = true
		c.here.SyncTo(c.here.Gateway, c.here.GatewayKernel, c.here.State(in))
	}
	ask := func() {
		t.Helper()
		// The answer needs several segments.
		if answer, n, err := b.Gateway.Get("", exports, 100_000); err != nil || n != 100_000 || answer != a.Gateway.Name+" sees 169.254.18.2" {
			t.Errorf("the peer's gateway: %q, %d bytes, %v", answer, n, err)
		}
	}
	ask()
	refused := func(who string, from *netns.Namespace, local, to string) {
		t.Helper()
		before := a.Counters()[gateway.DroppedInput].Packets
		var c net.Conn
		var err error
		from.Do(func() {
			d := net.Dialer{Timeout: 300 * time.Millisecond}
			if local != "" {
				d.LocalAddr = mustTCP(t, local)
			}
			c, err = d.DialContext(context.Background(), "tcp4", to)
		})
		if err == nil {
			_ = c.Close()
			t.Errorf("%s reaches %s", who, to)
		}
		if after := a.Counters()[gateway.DroppedInput].Packets; after == before {
			t.Errorf("%s to %s: no packet was counted as refused: %v", who, to, err)
		}
	}
	refused("the peer's gateway", b.Gateway, "", "169.254.18.1:8082")
	refused("the peer's gateway, from the port of answers", b.Gateway, fmt.Sprintf("169.254.18.2:%d", gateway.ExportsPort), "169.254.18.1:8082")
	// The peer's gateway lets a pod's packets pass.
	b.Gateway.Script("ip address add 10.244.2.3/32 dev lo")
	refused("a pod of the peer", b.Gateway, "10.244.2.3:0", exports)
	// A pod of this cluster.
	local := a.Pod(0, "local", "10.244.1.66")
	a.Nodes[0].Script("ip route add 169.254.18.1/32 via " + a.GatewayIP)
	refused("a pod of this cluster", local, "", exports)
	ask()
}

func mustTCP(t *testing.T, address string) *net.TCPAddr {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
