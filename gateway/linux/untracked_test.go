//go:build linux

package linux_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

// Pods can fill the kernel's table of connections. Then their new connections fail, as in any pod network.
// The tunnel's own packets, the pings and the fabric's packets still pass, because they are not in the table.
func TestTunnelNeedsNoRoomInTheTableOfConnections(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podB.Whoami(":8080")
	linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
	linuxtest.PingThrough(t, a, b)
	linuxtest.PingThrough(t, b, a)
	b.Redial()
	ours := regexp.MustCompile(`port=(51840|6092|12345|12346)\b`)
	for _, c := range []*linuxtest.Cluster{a, b} {
		table := c.Gateway.Run("conntrack", "-L")
		if !strings.Contains(table, "dport=8080") {
			t.Errorf("%s: the pods' connection is not in the table:\n%s", c.Name, table)
		}
		for line := range strings.Lines(table) {
			if ours.MatchString(line) {
				t.Errorf("%s: is in the table: %s", c.Name, line)
			}
		}
		// Only the gateway's node counts, because pod networks masquerade packets of pods to other nodes.
		passedOn := regexp.MustCompile(`src=` + c.GatewayIP + ` dst=` + c.NodeIP(1) + ` sport=\d+ dport=6092\b`)
		for i, n := range c.Nodes {
			table := n.Run("conntrack", "-L")
			if i == 1 && !strings.Contains(table, "dport=8080") {
				t.Errorf("%s: the pods' connection is not in the table:\n%s", n.Name, table)
			}
			for line := range strings.Lines(table) {
				if strings.Contains(line, "dport=6092") && (i != 0 || !passedOn.MatchString(line)) {
					t.Errorf("%s: is in the table: %s", n.Name, line)
				}
			}
		}
	}
}
