package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

// A turn is a command of the released liqoctl or of ours, with the expected result.
type turn struct {
	who, command string
	args         []string
	connects     bool
}

// testTurns changes one connection by liqoctl and our program in turn, in any order. After
// each turn packets pass, or no gateway is left.
func (l lab) testTurns(t *testing.T, c connection) {
	serverFlags := []string{"--gw-server-service-type", "NodePort"}
	turns := []turn{
		{"liqoctl", "connect", append(serverFlags, "--wait", "--timeout", "120s"), true},
		{"liqo-tui", "connect", append(serverFlags, "--yes", "--timeout", "120s"), true},
		{"liqoctl", "disconnect", []string{"--skip-confirm"}, false},
		{"liqo-tui", "disconnect", []string{"--yes", "--timeout", "60s"}, false},
		{"liqoctl", "reset", []string{"--skip-confirm"}, false},
		{"liqo-tui", "reset", []string{"--yes", "--timeout", "60s"}, false},
	}
	random := rand.New(rand.NewPCG(sample.Seed(t), 0)) //nolint:gosec // it has to be the same again
	// All: 200 turns of the three pairs for which this test runs.
	for step := range sample.Of(6, 67) {
		next := turns[random.IntN(len(turns))]
		if step%2 == 0 {
			next = turns[random.IntN(2)] // otherwise most turns would find nothing to remove
		}
		began := time.Now()
		if next.who == "liqoctl" {
			l.liqoctl(t, l.argsOf(c, append([]string{"network", next.command}, next.args...)...)...)
		} else {
			l.between(c, next.command, next.args...).want(t, exit.OK)
		}
		t.Logf("%d: %s network %s: %.1fs", step, next.who, next.command, time.Since(began).Seconds())
		for _, way := range c.ways() {
			if next.connects {
				eventually(t, 20*time.Second, func() error { return l.worksBetween(t, way) })
				l.testSaid(t, way)
				continue
			}
			eventually(t, 30*time.Second, func() error {
				left, err := l.try(t, "kubectl", way.a, "get", "connections,gatewayservers,gatewayclients", "-A", "-l", "liqo.io/remote-cluster-id="+way.b, "-o", "name")
				if err == nil && strings.TrimSpace(left) != "" {
					err = fmt.Errorf("left on %s: %s", way.a, left)
				}
				return err
			})
		}
		for _, way := range c.ways() { // liqoctl fails while a namespace is being deleted
			eventually(t, 30*time.Second, func() error {
				ending, err := l.try(t, "kubectl", way.a, "get", "namespaces", "-o", `jsonpath={.items[?(@.status.phase=="Terminating")].metadata.name}`)
				if err == nil && ending != "" {
					err = fmt.Errorf("%s is ending on %s", ending, way.a)
				}
				return err
			})
		}
	}
	// The next test expects namespaces of ours. The program that made them removes them:
	// that was liqoctl, if it connected first after a reset.
	l.between(c, "reset", "--yes", "--timeout", "120s").want(t, exit.OK)
	for _, way := range c.ways() {
		l.must(t, "kubectl", way.a, "delete", "namespace", "liqo-tenant-"+way.b, "--ignore-not-found", "--timeout=60s")
	}
	l.between(c, "connect", append(serverFlags, "--yes", "--timeout", "120s")...).want(t, exit.OK)
}
