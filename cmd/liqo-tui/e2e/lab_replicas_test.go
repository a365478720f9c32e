package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// setReplicas sets the number of pods of each gateway of a cluster.
func (l lab) setReplicas(t *testing.T, cluster, replicas string) {
	t.Helper()
	l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--image", labImage, "--gateway-replicas", replicas).want(t, exit.OK)
}

// leader returns the pod that holds the tunnel of cluster to peer, its node and
// its address; "" if there is none, or the pod is gone.
func (l lab) leader(t *testing.T, cluster, peer string) (pod, node, address string) {
	t.Helper()
	pod, err := l.try(t, "kubectl", cluster, "get", "lease", "-n", "liqo-tenant-"+peer, "gw-"+peer, "-o", "jsonpath={.spec.holderIdentity}")
	if err != nil || pod == "" {
		return "", "", ""
	}
	is, err := l.try(t, "kubectl", cluster, "get", "pod", "-n", "liqo-tenant-"+peer, pod, "-o", "jsonpath={.spec.nodeName} {.status.podIP}")
	if err != nil {
		return "", "", ""
	}
	node, address, _ = strings.Cut(is, " ")
	return pod, node, address
}

// testReplicas gives both gateways of a connection a second pod. It loses the pod
// that holds the tunnel in several ways, or in one that the seed picks, and
// measures from the moment of the loss.
func (l lab) testReplicas(t *testing.T, c connection, bound time.Duration) {
	t.Helper()
	for _, cluster := range []string{c.a, c.b} {
		l.setReplicas(t, cluster, "2")
	}
	for _, way := range c.ways() {
		eventually(t, 60*time.Second, func() error { return l.hasStandby(t, way.a, way.b) })
	}
	ways := c.ways()
	for _, way := range some(t, ways[:], 1) {
		for _, loss := range some(t, l.losses(t, way), 1) { // each takes half a minute, most of it a wait for the Lease
			if loss.what == lostNode {
				l.leadOn(t, way, way.b+"-2") // the other one runs the API server, which a takeover needs
			}
			l.testLoss(t, way, loss.what, bound, loss.lose)
		}
	}
	for _, cluster := range []string{c.a, c.b} {
		l.setReplicas(t, cluster, "1")
	}
	for _, way := range c.ways() {
		eventually(t, 60*time.Second, func() error {
			if pods := l.gatewayPods(t, way.a, way.b); len(pods) != 1 {
				return fmt.Errorf("%s has gateway pods %v, want one again", way.a, pods)
			}
			return l.worksBetween(t, way)
		})
	}
}

const lostNode = "lost with its node"

// loss is a way to lose the pod that holds a tunnel.
type loss struct {
	what string
	lose func(pod, node string) (back func())
}

// losses are the ways to lose the leader of b's gateway.
func (l lab) losses(t *testing.T, way connection) []loss {
	return []loss{
		{"deleted", func(pod, _ string) func() {
			l.must(t, "kubectl", way.b, "delete", "pod", "-n", "liqo-tenant-"+way.a, pod, "--wait=false")
			return func() {}
		}},
		{"killed", func(pod, node string) func() {
			l.must(t, "exec", way.b, node, "--", "kill", "-9", l.process(t, way.b, node, tunnelOf(way.a), pod))
			return func() {}
		}},
		{lostNode, func(_, node string) func() {
			l.must(t, "exec", way.b, node, "--", "nft", "add table inet lost; "+
				"add chain inet lost in { type filter hook prerouting priority -400; }; add rule inet lost in iifname eth0 drop; "+
				"add chain inet lost out { type filter hook postrouting priority 400; }; add rule inet lost out oifname eth0 drop")
			return func() { l.must(t, "exec", way.b, node, "--", "nft", "delete", "table", "inet", "lost") }
		}},
	}
}

// leadOn moves the tunnel of b's gateway to a pod on a node.
func (l lab) leadOn(t *testing.T, way connection, node string) {
	t.Helper()
	if pod, is, _ := l.leader(t, way.b, way.a); is != node {
		l.must(t, "kubectl", way.b, "delete", "pod", "-n", "liqo-tenant-"+way.a, pod)
	}
	eventually(t, 60*time.Second, func() error {
		if _, is, _ := l.leader(t, way.b, way.a); is != node {
			return fmt.Errorf("the gateway of %s is on %s, want %s", way.b, is, node)
		}
		return l.hasStandby(t, way.b, way.a)
	})
}

// settled reports whether cluster's pod has held the tunnel to peer for a while.
// Otherwise its loss would look like a busy machine.
func (l lab) settled(t *testing.T, cluster, peer string) error {
	t.Helper()
	times := strings.Fields(l.must(t, "kubectl", cluster, "get", "lease", "-n", "liqo-tenant-"+peer, "gw-"+peer,
		"-o", "jsonpath={.spec.acquireTime} {.spec.renewTime}"))
	if len(times) != 2 {
		return fmt.Errorf("Lease of %s: got times %v", cluster, times)
	}
	acquired, err := time.Parse(time.RFC3339, times[0])
	renewed, err2 := time.Parse(time.RFC3339, times[1])
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("Lease of %s: %w", cluster, err)
	}
	if held := renewed.Sub(acquired); held < 20*time.Second {
		return fmt.Errorf("Lease of %s: held for %s only", cluster, held)
	}
	return nil
}

// testLoss loses b's leader.
func (l lab) testLoss(t *testing.T, way connection, what string, bound time.Duration, lose func(pod, node string) (back func())) {
	t.Helper()
	eventually(t, 2*time.Minute, func() error { return l.settled(t, way.b, way.a) })
	pod, node, _ := l.leader(t, way.b, way.a)
	target := ""
	for _, n := range l.nodes(t, way.b) {
		if n != node {
			target = n // programs on a lost node are lost, too
		}
	}
	var lost time.Time
	back := func() {}
	defer func() {
		if t.Failed() {
			l.tellLoss(t, way)
		}
		back() // a node that stays lost would fail later tests, too
	}()
	o := l.senderBetween(t, way, way.a+"-2", target).during(t, 8, 12*time.Second, func() {
		lost = time.Now()
		back = sync.OnceFunc(lose(pod, node))
	})
	back()
	gap := max(o.end.Sub(lost), 0)
	now, newNode, _ := l.leader(t, way.b, way.a)
	t.Logf("pod of %s's gateway that held the tunnel was %s: %.2f s until answers came again (longest gap %.2f s), wanted ≤ %s; from %s to %s",
		way.b, what, gap.Seconds(), o.longest.Seconds(), bound, node, newNode)
	if gap > bound {
		for _, p := range l.gatewayPods(t, way.b, way.a) {
			name, _, _ := strings.Cut(p, " ")
			logs, _ := l.try(t, "kubectl", way.b, "logs", "-n", "liqo-tenant-"+way.a, name, "--tail=20")
			t.Logf("%s, lost at %s, answers again at %s:\n%s", p, lost.Format("05.000"), o.end.Format("05.000"), logs)
		}
	}
	atMost(t, what+": without answers", gap, beyond*bound)
	if now == pod && what != "killed" { // a killed process may be back before the Lease has expired
		t.Errorf("%s: pod %s still holds the tunnel", what, pod)
	}
	eventually(t, 90*time.Second, func() error {
		return errors.Join(l.hasStandby(t, way.b, way.a), l.worksBetween(t, way), l.worksBetween(t, way.ways()[1]))
	})
}

// tellLoss describes the parts that a takeover of b's gateway needs, a line each.
func (l lab) tellLoss(t *testing.T, way connection) {
	t.Helper()
	in := func(cluster, peer string, args ...string) {
		out, err := l.try(t, append([]string{"kubectl", cluster, "--request-timeout=5s", "-n", "liqo-tenant-" + peer}, args...)...)
		t.Logf("%s: %s: %s %v", cluster, strings.Join(args, " "), strings.TrimSpace(out), err)
	}
	in(way.a, way.b, "get", "gatewayclient,gatewayserver", "-o", "jsonpath={range .items[*]}{.spec.endpoint} {.status.endpoint}{end}")
	in(way.b, way.a, "get", "gatewayclient,gatewayserver", "-o", "jsonpath={range .items[*]}{.spec.endpoint} {.status.endpoint}{end}")
	in(way.b, way.a, "get", "pods", "-L", "networking.liqo.io/active", "-o", "wide")
	in(way.b, way.a, "get", "role", "-o", `jsonpath={range .items[*]}{.rules[*].resourceNames}{"\n"}{end}`)
	in(way.b, way.a, "get", "endpointslices", "-o", "jsonpath={range .items[*]}{.endpoints[*].addresses}{end}")
	in(way.b, way.a, "get", "internalfabric", "-o", "jsonpath={range .items[*]}{.spec.gatewayIP}{end}")
	in(way.b, way.a, "get", "lease", "-o", "jsonpath={range .items[*]}{.spec.holderIdentity} {.spec.renewTime}{end}")
	in(way.b, way.a, "get", "pods", "-n", "liqo", "-o", "wide")
}

// gatewayPods lists the pods of the gateway of cluster to peer that are not
// ending: name, node, state, and whether they are active.
func (l lab) gatewayPods(t *testing.T, cluster, peer string) (pods []string) {
	t.Helper()
	text := l.must(t, "kubectl", cluster, "get", "pods", "-n", "liqo-tenant-"+peer, "-l", "networking.liqo.io/component=gateway",
		"-o", `jsonpath={range .items[*]}{.metadata.deletionTimestamp}|{.metadata.name} {.spec.nodeName} {.status.phase} {.metadata.labels.networking\.liqo\.io/active}{"\n"}{end}`)
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "|"); ok {
			pods = append(pods, rest)
		}
	}
	return pods
}

// hasStandby returns what is missing: two pods on two nodes, the pod with the
// Lease is active, and nodes know that pod.
func (l lab) hasStandby(t *testing.T, cluster, peer string) error {
	t.Helper()
	pods := l.gatewayPods(t, cluster, peer)
	leader, node, address := l.leader(t, cluster, peer)
	nodes := map[string]bool{}
	for _, p := range pods {
		f := strings.Fields(p)
		if active := len(f) == 4; len(f) < 3 || f[2] != "Running" || active != (f[0] == leader) {
			return fmt.Errorf("gateway of %s: %s has the Lease, and the pods are %q", cluster, leader, pods)
		}
		nodes[f[1]] = true
	}
	if len(pods) != 2 || len(nodes) != 2 {
		return fmt.Errorf("gateway of %s: got pods %q, want two on two nodes", cluster, pods)
	}
	told := l.must(t, "kubectl", cluster, "get", "internalfabric", "-n", "liqo-tenant-"+peer, peer, "-o", "jsonpath={.spec.gatewayIP}")
	if told != address {
		return fmt.Errorf("nodes of %s send to %s, want %s, which is %s on %s", cluster, told, address, leader, node)
	}
	return nil
}
