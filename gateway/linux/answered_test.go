//go:build linux

package linux_test

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

// The counters of a gateway prove that pods reach each other. They do not grow with questions, or with
// answers that are lost on the last part of their path.
func TestGatewaysCountOnlyWhatIsAnswered(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podB.Whoami(":8080")
	passed := func(c *linuxtest.Cluster) bool {
		n := c.Counters()
		return n[gateway.PodsSent].Packets > 0 && n[gateway.PodsReceived].Packets > 0
	}
	linuxtest.PingThrough(t, a, b)
	podA.NFT(`table ip lost { chain in { type filter hook input priority 0; tcp sport 8080 drop; }; }`)
	if got, _, err := podA.Get("", "10.60.2.2:8080", 10); err == nil {
		t.Fatalf("answered %q, although nothing reaches the pod", got)
	}
	for _, c := range []*linuxtest.Cluster{a, b} {
		if passed(c) {
			t.Errorf("%s: %v, although no answer reached the pod", c.Name, c.Counters())
		}
	}
	podA.Run("nft", "delete", "table", "ip", "lost")
	linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
	for _, c := range []*linuxtest.Cluster{a, b} {
		if !passed(c) {
			t.Errorf("%s: %v, although a pod has got an answer", c.Name, c.Counters())
		}
	}
}
