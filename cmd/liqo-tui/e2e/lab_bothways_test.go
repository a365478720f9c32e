package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// testBothWays lets two clusters with our operator lend to each other. Each pod runs on the
// other cluster, and the end of lending one way does not affect the other way.
func (l lab) testBothWays(t *testing.T) {
	both := []connection{{"rome", "milan"}, {"milan", "rome"}}
	for _, way := range both {
		install := func(args ...string) {
			l.tui(append([]string{"install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-" + way.b}, args...)...).want(t, exit.OK)
		}
		install("--peering", "both", "--api-server", l.apiServer(t, way.b), "--lend", "cpu=1,memory=1Gi")
		t.Cleanup(func() { install("--peering", "none") })
	}
	for _, way := range both {
		eventually(t, 30*time.Second, func() error { // the installation's, which the operator makes
			_, err := l.try(t, "kubectl", way.b, "-n", "liqo", "get", "ips.ipam.liqo.io", "api-server-proxy")
			return err
		})
	}
	l.lendsEachWay(t, both)
}

// lendsEachWay sets up lending each way, uses it, and leaves nothing.
func (l lab) lendsEachWay(t *testing.T, ways []connection) {
	t.Helper()
	first := ways[0]
	before := l.everything(t, first.a, first.b)
	pair := func(way connection, command ...string) result {
		return l.tui(append(command, "--kubeconfig", l.kubeconfig, "--context", "lab-"+way.a, "--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-"+way.b, "--yes", "--timeout", "180s")...).want(t, exit.OK)
	}
	for _, way := range ways {
		began := time.Now()
		got := pair(way, "peer", "--cpu", "500m", "--memory", "512Mi", "--server-service-type", "NodePort")
		t.Logf("%s: peer: %.1f s\n%s%s", way, time.Since(began).Seconds(), got.err, got.out)
		if got := pair(way, "peer", "--cpu", "500m", "--memory", "512Mi", "--server-service-type", "NodePort"); !strings.HasPrefix(got.out, "No changes.\n") {
			t.Errorf("%s: a second time: got %q, want it to start with No changes.", way, got.out)
		}
	}
	for _, way := range ways {
		l.lends(t, way)
	}
	for i, way := range ways {
		l.returns(t, way)
		got := pair(way, "unpeer")
		t.Logf("%s: unpeer:\n%s%s", way, got.err, got.out)
		for _, other := range ways[i+1:] {
			l.asks(t, other.a, lentOf(other))
			l.asks(t, other.b, lentOf(other)+"-"+other.a)
		}
	}
	l.isAsBefore(t, before)
}

// lentOf is the namespace that a consumer offloads.
func lentOf(way connection) string { return "lent-by-" + way.b }

// lends runs a Deployment of the consumer on the provider, and asks its Service in both
// clusters.
func (l lab) lends(t *testing.T, way connection) {
	t.Helper()
	namespace := lentOf(way)
	l.must(t, "kubectl", way.a, "create", "namespace", namespace)
	l.tui("offload", "namespace", namespace, "--kubeconfig", l.kubeconfig, "--context", "lab-"+way.a, "--yes", "--timeout", "60s").want(t, exit.OK)
	l.apply(t, way.a, abroad(lentWeb(namespace)))
	l.must(t, "kubectl", way.a, "-n", namespace, "rollout", "status", "deployment/web", "--timeout=180s")
	if on := l.must(t, "kubectl", way.a, "-n", namespace, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"); on != way.b {
		t.Errorf("%s: the Deployment's pod is on %q, want %s", way, on, way.b)
	}
	l.asks(t, way.a, namespace)
	l.asks(t, way.b, namespace+"-"+way.a)
}

// returns undoes lends.
func (l lab) returns(t *testing.T, way connection) {
	t.Helper()
	l.tui("unoffload", "namespace", lentOf(way), "--kubeconfig", l.kubeconfig, "--context", "lab-"+way.a, "--yes", "--timeout", "120s").want(t, exit.OK)
	l.must(t, "kubectl", way.a, "delete", "namespace", lentOf(way), "--timeout=180s")
}

// abroad returns the Deployment with pods that run only on virtual nodes.
func abroad(deployment string) string {
	return strings.Replace(deployment, "      containers:\n", `      nodeSelector: {liqo.io/type: virtual-node}
      tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists}]
      containers:
`, 1)
}
