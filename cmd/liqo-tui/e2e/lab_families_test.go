package e2e

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// TestBothFamilies connects two clusters that have IPv4 and IPv6. In milan, IPv6 comes
// first: Services that ask for no family, the API server's Service and pods' first
// addresses have IPv6. The connection is one of IPv4 in any case.
func TestBothFamilies(t *testing.T) {
	l := useShape(t, "--nodes", "2", "--ipv6", "rome=second,milan=first")
	c := connection{"rome", "milan"}
	l.populate(t, "") // nothing is stated: the ranges of IPv4 have to be found
	for _, kind := range []string{"NodePort", "LoadBalancer"} {
		t.Run(kind, func(t *testing.T) {
			l.between(c, "connect", "--server-service-type", kind, "--yes", "--timeout", "120s").want(t, exit.OK)
			for _, way := range c.ways() {
				l.testReach(t, way)
				l.testEndpoints(t, way)
				l.testNodePort(t, way, fromOutside(t))
			}
			l.between(c, "verify", "--all-nodes").want(t, exit.OK)
			l.both(c, "check").want(t, exit.OK)
			l.between(c, "reset", "--yes", "--timeout", "120s").want(t, exit.OK)
			l.waitForNamespacesGone(t)
		})
	}
}
