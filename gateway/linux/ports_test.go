//go:build linux

package linux_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

// Each port of a client uses an entry in the tables of all routers on the path.
func TestAClientDialsFromAFewPorts(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	a.Nodes[0].NFT(`table ip seen {
		set ports { type inet_service; size 1000; flags dynamic; }
		chain c { type filter hook prerouting priority -300; policy accept; udp dport 51840 add @ports { udp sport }; }
	}`)
	for range 35 {
		var err error
		b.Gateway.Do(func() {
			if err = b.GatewayKernel.ChangePort(gateway.TunnelName(0)); err == nil {
				err = b.GatewayKernel.Redial(gateway.TunnelName(0), netip.AddrPort{})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b.Redial()
	_, list, _ := strings.Cut(a.Nodes[0].Run("nft", "list", "set", "ip", "seen", "ports"), "elements = {")
	// The list includes the earlier port. A port that was changed at once may have sent nothing.
	if got := strings.Count(list, ",") + 1; got < 3 || got > 11 {
		t.Errorf("got %d ports, want about 10: %s", got, list)
	}
	linuxtest.PingThrough(t, b, a)
}
