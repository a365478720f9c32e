//go:build linux

package tunnel_test

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

// An admin changes the MTU of a tunnel that carries traffic, and back.
func TestMTUIsChanged(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	p.podA.Whoami(":8080")
	p.podB.Whoami(":8080")
	for _, mtu := range []int{1300, 1440, 1340} {
		p.server.MTU, p.client.MTU = mtu, mtu
		p.server.SyncNodes()
		p.client.SyncNodes()
		p.ofServer.Set(p.wanted(p.server, p.client))
		p.ofClient.Set(p.wanted(p.client, p.server))
		p.waitForMTU(mtu, mtu)
		expect(t, p.podA, "10.60.2.2", "podB sees 10.61.2.2")
		expect(t, p.podB, "10.61.2.2", "podA sees 10.60.2.2")
	}
}
