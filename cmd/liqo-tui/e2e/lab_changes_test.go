package e2e

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

// beyond is the factor by which a gap may exceed its bound on a busy machine without an
// error. The gap itself is printed.
const beyond = 5

// report prints an outage, and the part of it that remained after the repair.
func (o outage) report(t *testing.T, what string, back time.Time, bound time.Duration) {
	t.Helper()
	after := o.after(back)
	t.Logf("%s: %.2f s without answers, %.2f s of them after it was back, wanted ≤ %s", what, o.longest.Seconds(), after.Seconds(), bound)
	atMost(t, what+": without answers", after, beyond*bound)
}

// gatewayPod returns the running gateway pod and its node; "" if none runs.
func (l lab) gatewayPod(t *testing.T, cluster, peer string) (name, node string) {
	t.Helper()
	text, _ := l.try(t, "kubectl", cluster, "get", "pods", "-n", "liqo-tenant-"+peer, "-l", "networking.liqo.io/component=gateway",
		"--field-selector", "status.phase=Running", "-o", `jsonpath={range .items[*]}{.metadata.deletionTimestamp}|{.metadata.name}|{.spec.nodeName}{"\n"}{end}`)
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 3 && f[0] == "" {
			return f[1], f[2]
		}
	}
	return "", ""
}

// testMove moves the gateway of way.b to another node, and measures from the moment at
// which it runs there.
func (l lab) testMove(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	before, node := l.gatewayPod(t, way.b, way.a)
	var runs time.Time
	o := l.during(t, way, 20*time.Second, func() {
		l.must(t, "kubectl", way.b, "cordon", node)
		l.must(t, "kubectl", way.b, "delete", "pod", "-n", "liqo-tenant-"+way.a, before, "--wait=false")
		eventually(t, 20*time.Second, func() error {
			now, newNode := l.gatewayPod(t, way.b, way.a)
			if now == "" || now == before {
				return fmt.Errorf("no new gateway pod of %s runs", way.b)
			}
			runs = time.Now()
			if newNode == node {
				return fmt.Errorf("the gateway of %s is on %s again", way.b, node)
			}
			return nil
		})
		l.must(t, "kubectl", way.b, "uncordon", node)
	})
	o.report(t, "gateway of "+way.b+" moved to another node", runs, bound)
}

// testKill kills the gateway's process, not its pod. The time until the kubelet starts it
// again is not ours, so the bound is for the age of the new process at the first answer.
func (l lab) testKill(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	pod, node := l.gatewayPod(t, way.b, way.a)
	var runs time.Time
	o := l.during(t, way, 5*time.Second, func() {
		old := l.process(t, way.b, node, tunnelOf(way.a), pod)
		l.must(t, "exec", way.b, node, "--", "kill", "-9", old)
		eventually(t, 15*time.Second, func() error {
			if now := l.process(t, way.b, node, tunnelOf(way.a), pod); now == "" || now == old {
				return fmt.Errorf("the gateway of %s does not run", way.b)
			}
			runs = time.Now()
			return nil
		})
	})
	o.report(t, "gateway of "+way.b+" killed", runs, bound)
}

// tunnelOf matches the command line of the gateway to a peer.
func tunnelOf(peer string) string { return "^/liqo-gateway tunnel .*--remote-cluster-id=" + peer }

// testCutPath blocks all packets for longer than any timer by which WireGuard would notice
// it itself.
func (l lab) testCutPath(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	var back time.Time
	o := l.during(t, way, 0, func() {
		l.must(t, "cut", way.a, way.b)
		time.Sleep(6 * time.Second)
		l.must(t, "restore")
		back = time.Now()
	})
	o.report(t, "path between "+way.String()+" cut", back, bound)
}

// testRebind makes the address translation of the client's provider forget its ports,
// after it had begun to translate.
func (l lab) testRebind(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	defer l.must(t, "restore")
	for range 2 {
		var rebound time.Time
		o := l.during(t, way, 3*time.Second, func() {
			rebound = time.Now()
			l.must(t, "rebind", way.a)
		})
		rule, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", l.state(t).Name+"-wan", "nft", "list", "chain", "inet", "lab-cut", "translate").CombinedOutput()
		if err != nil || strings.Contains(string(rule), "packets 0") {
			t.Errorf("no flow of %s was translated: %v %s", way.a, err, rule)
		}
		o.report(t, "addresses of "+way.a+" translated to others", rebound, bound)
	}
}

// testNarrow makes the path drop packets of the stream's length without an ICMP message.
func (l lab) testNarrow(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	defer l.must(t, "restore")
	var narrowed time.Time
	// 1200 bytes are 1228 with their headers, padded to 1232, and 1292 in the tunnel.
	o := l.sender(t, way).during(t, 1200, 0, func() {
		narrowed = time.Now()
		l.must(t, "narrow", "1280", "--hole")
		time.Sleep(time.Second) // the tunnel recovers only after the loss was detected
	})
	o.report(t, "path between "+way.String()+" narrowed to 1280 bytes", narrowed, bound)
	if o.longest == 0 {
		t.Error("the stream went on: the path was not narrowed")
	}
}

// some returns as many of all as a test runs: the seed picks them, and their order stays.
func some[T any](t *testing.T, all []T, count int) []T {
	t.Helper()
	first := sample.Seed(t)
	count = sample.Of(count, len(all))
	var picked []T
	for i, x := range all {
		if n := uint64(len(all)); (uint64(i)+n-first%n)%n < uint64(count) {
			picked = append(picked, x)
		}
	}
	return picked
}

// testRotate replaces the keys of both gateways while packets flow.
func (l lab) testRotate(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	var began time.Time
	o := l.during(t, way, 3*time.Second, func() {
		began = time.Now()
		l.between(way, "rotate-keys", "--yes", "--timeout", "60s").want(t, exit.OK)
	})
	o.report(t, "keys of "+way.String()+" replaced", began, bound)
}

// testRenumber replaces the ranges under which way.a sees way.b while packets flow both
// ways, and then restores the former ones.
func (l lab) testRenumber(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	renumber := func(flags ...string) result {
		return l.tui(append([]string{"network", "renumber", way.b, "--kubeconfig", l.kubeconfig, "--context", "lab-" + way.a, "--timeout", "60s"}, flags...)...)
	}
	renumber("--dry-run").want(t, exit.Pending)
	was := l.sender(t, way).to
	var began time.Time
	var back outage
	there := l.during(t, way, 3*time.Second, func() {
		back = l.during(t, way.ways()[1], 3*time.Second, func() {
			began = time.Now()
			renumber("--keep", "10m", "--yes").want(t, exit.OK)
		})
	})
	there.report(t, way.b+" renumbered on "+way.a+", from there", began, bound)
	back.report(t, way.b+" renumbered on "+way.a+", to there", began, bound)
	now := l.sender(t, way)
	if now.to == was {
		t.Fatalf("%s sees pods of %s at %s, as before", way.a, way.b, was)
	}
	now.untilItWorks(t) // under the next range
	if again := renumber("--keep", "10m", "--yes"); again.code != exit.OK || !strings.HasPrefix(again.out, "No changes") {
		t.Errorf("a second run: exit code %d\n%s", again.code, again.out)
	}
	o := l.during(t, way, 3*time.Second, func() {
		began = time.Now()
		renumber("--keep", "0", "--yes").want(t, exit.OK)
	})
	o.report(t, "former range of "+way.b+" given back", began, bound)
	former := now
	former.to = was
	if err := former.works(t); err == nil {
		t.Errorf("pods of %s still answer at %s", way.b, was)
	}
	for _, w := range way.ways() {
		l.sender(t, w).untilItWorks(t)
	}
	if checked := l.both(way, "check", "--details"); !strings.Contains(checked.out, "LT-D018") {
		t.Errorf("check does not speak of overlaps:\n%s", checked.out)
	}
}

// testLiveChanges connects two clusters again with other flags, while packets flow. The
// measured gap begins when the client gets the new endpoint of its server. Without a new
// endpoint, the whole gap counts.
func (l lab) testLiveChanges(t *testing.T, way connection) {
	type change struct {
		name  string
		flags []string
		bound time.Duration
	}
	changes := [][]change{
		{{"another node port", []string{"--node-port", "31555"}, 2 * time.Second}},
		{{"less MTU", []string{"--mtu", "1300"}, time.Second}, {"MTU again", []string{"--mtu", "1440"}, time.Second}},
		{
			{"a LoadBalancer", []string{"--server-service-type", "LoadBalancer"}, 2 * time.Second},
			{"a NodePort again", []string{"--server-service-type", "NodePort"}, 2 * time.Second},
		},
		{{"another port", []string{"--server-port", "51999"}, 2 * time.Second}},
		{ // the gateways are replaced by other pods
			{"the server on the other side", []string{"--server-location", "Local"}, 3 * time.Second},
			{"the server back", []string{"--server-location", "Remote"}, 3 * time.Second},
		},
	}
	for _, change := range slices.Concat(some(t, changes, 2)...) {
		told := l.followEndpoints(t, way)
		began := time.Now()
		var got result
		var took time.Duration
		o := l.during(t, way, 3*time.Second, func() {
			got = l.between(way, "connect", append(change.flags, "--yes", "--timeout", "60s")...)
			took = time.Since(began)
		})
		got.want(t, exit.OK)
		if strings.HasPrefix(got.out, "No changes") {
			t.Errorf("%s: nothing was changed:\n%s", change.name, got.out)
		}
		o.report(t, fmt.Sprintf("connected again, with %s, which took %.1f s", change.name, took.Seconds()), told.last(began), change.bound)
		for _, w := range way.ways() {
			l.sender(t, w).untilItWorks(t)
		}
	}
}

// testLateProxy gives the client a port before the server's nodes know it. The nodes then
// take packets to it for a flow of their own, which must not last. It measures from the
// moment at which kube-proxy continues.
func (l lab) testLateProxy(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	connect := func(flag, value string) result {
		return l.between(way, "connect", flag, value, "--yes", "--timeout", "60s")
	}
	connect("--server-service-type", "LoadBalancer").want(t, exit.OK)
	defer func() { connect("--server-service-type", "NodePort").want(t, exit.OK) }()
	nodes := l.nodes(t, way.b)
	var connected sync.WaitGroup
	defer connected.Wait()
	resume := func() {
		if err := l.resumeProxies(t, way.b, nodes); err != nil {
			t.Error(err)
		}
	}
	defer resume()
	if err := l.stopProxies(t, way.b, nodes); err != nil {
		t.Fatal(err)
	}
	var back time.Time
	o := l.during(t, way, 0, func() {
		var got result
		connected.Go(func() { got = connect("--server-port", "51998") })
		eventually(t, 20*time.Second, func() error {
			if got := l.dials(t, way); !strings.HasSuffix(got, ":51998") {
				return fmt.Errorf("the client of %s dials %s, want port 51998", way.a, got)
			}
			return nil
		})
		time.Sleep(4 * time.Second) // until the client has noticed, and has dialled the new port in vain
		resume()
		back = time.Now()
		connected.Wait()
		got.want(t, exit.OK)
	})
	o.report(t, "nodes of "+way.b+" dialled before kube-proxy knew the port", back, bound)
	if o.longest < time.Second {
		t.Error("the stream went on: kube-proxy was not late")
	}
}

const kubeProxy = "^[^ ]*/kube-proxy --" // its command line

// stopProxies stops the kube-proxy of each node of a cluster.
func (l lab) stopProxies(t *testing.T, cluster string, nodes []string) error {
	t.Helper()
	for _, node := range nodes {
		if _, err := l.try(t, "exec", cluster, node, "--", "pkill", "-STOP", "-f", kubeProxy); err != nil {
			return fmt.Errorf("stop kube-proxy of %s: %w", node, err)
		}
	}
	return nil
}

// resumeProxies lets them continue. A killed one is back within moments.
func (l lab) resumeProxies(t *testing.T, cluster string, nodes []string) error {
	t.Helper()
	for _, node := range nodes {
		var err error
		for range 20 {
			if _, err = l.try(t, "exec", cluster, node, "--", "pkill", "-CONT", "-f", kubeProxy); err == nil {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("resume kube-proxy of %s: %w", node, err)
		}
	}
	return nil
}

// endpoints records the endpoints that the GatewayClients of a connection got, and when.
type endpoints struct {
	heard chan time.Time
	stop  []func()
}

func (l lab) followEndpoints(t *testing.T, way connection) *endpoints {
	t.Helper()
	e := &endpoints{heard: make(chan time.Time, 100)}
	for _, w := range way.ways() {
		get := []string{"kubectl", w.a, "get", "gatewayclients", "-n", "liqo-tenant-" + w.b}
		last := l.must(t, append(get, "-o", "jsonpath={.items[*].spec.endpoint}")...)
		cmd := l.command(t, append(get, "--watch", "-o", `jsonpath={.spec.endpoint}{"\n"}`)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if text := lines.Text(); text != last {
					last = text
					e.heard <- time.Now()
				}
			}
		}()
		e.stop = append(e.stop, func() {
			_ = cmd.Process.Kill()
			<-read
			_ = cmd.Wait() // it was killed
		})
	}
	return e
}

// last is when a client last got another endpoint; at least since.
func (e *endpoints) last(since time.Time) time.Time {
	for _, stop := range e.stop {
		stop()
	}
	close(e.heard)
	times := []time.Time{since}
	for heard := range e.heard {
		times = append(times, heard)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// testNodeJoins switches a node of b off for good while packets pass between others, and
// then lets it join again as a new node. It measures how long packets do not pass, and
// when pods of the new node are reached.
func (l lab) testNodeJoins(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	node := way.b + "-2" // the first one runs the API server
	l.must(t, "kubectl", way.b, "cordon", node)
	if pod, is := l.gatewayPod(t, way.b, way.a); is == node {
		l.must(t, "kubectl", way.b, "delete", "pod", "-n", "liqo-tenant-"+way.a, pod)
	}
	s := l.senderBetween(t, way, way.a+"-1", way.b+"-1")
	s.untilItWorks(t)
	pid := l.nodeProcess(t, node)
	began := time.Now()
	gone := s.during(t, 8, 3*time.Second, func() {
		l.must(t, "kubectl", way.b, "delete", "node", node)
		endNode(t, node, pid)
		l.must(t, "kubectl", way.b, "delete", "pod", web(node), "--force", "--grace-period=0") // otherwise it would count as ready
	})
	gone.report(t, "a node of "+way.b+" gone", began, bound)
	var ready time.Time
	joined := s.during(t, 8, 3*time.Second, func() {
		l.must(t, "up")
		l.must(t, "kubectl", way.b, "wait", "--for=condition=Ready", "node", node, "--timeout=180s")
		ready = time.Now()
		l.apply(t, way.b, webPod(t, node))
		l.must(t, "kubectl", way.b, "wait", "--for=condition=Ready", "pod", web(node), "--timeout=180s")
	})
	joined.report(t, "a node of "+way.b+" joined", began, bound)
	l.senderBetween(t, way, way.a+"-1", node).untilItWorks(t)
	t.Logf("pods of the node that joined %s were reached %.1f s after it was ready", way.b, time.Since(ready).Seconds())
	l.senderBetween(t, connection{way.b, way.a}, node, way.a+"-1").untilItWorks(t)
	l.between(way, "verify").want(t, exit.OK)
}

// testBlockMoves assigns a block of b's addresses, which is a Calico cluster, to one node
// and then to another, with a pod under the same address on each, while packets pass to
// other pods.
func (l lab) testBlockMoves(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	const address, block = "10.200.33.5", "10-200-33-0-26"
	others := l.senderBetween(t, way, way.a+"-1", way.b+"-1")
	moving := l.senderBetween(t, way, way.a+"-1", way.b+"-1")
	moving.to = l.translations(t, way.a, way.b).of(t, netip.MustParseAddr(address)).String() + ":8080"
	began := time.Now()
	o := others.during(t, 8, 3*time.Second, func() {
		for _, node := range []string{way.b + "-2", way.b + "-1"} {
			l.apply(t, way.b, strings.Replace(webPod(t, node), "  name: "+web(node)+"\n",
				"  name: moving\n  annotations: {cni.projectcalico.org/ipAddrs: '[\""+address+"\"]'}\n", 1))
			l.must(t, "kubectl", way.b, "wait", "--for=condition=Ready", "pod", "moving", "--timeout=180s")
			ready := time.Now()
			moving.untilItWorks(t)
			t.Logf("a pod on %s, to which the block %s has moved, was reached %.1f s after it was ready", node, block, time.Since(ready).Seconds())
			l.must(t, "kubectl", way.b, "delete", "pod", "moving")
			// Calico's own controllers do the same with an empty block.
			l.must(t, "kubectl", way.b, "delete", "--ignore-not-found", "blockaffinities.crd.projectcalico.org/"+node+"-"+block, "ipamblocks.crd.projectcalico.org/"+block)
		}
	})
	o.report(t, "a block of "+way.b+" moved twice", began, bound)
}

// nodeProcess is the first process of a node. All others end with it.
func (l lab) nodeProcess(t *testing.T, node string) (pid string) {
	t.Helper()
	for line := range strings.Lines(l.must(t, "status")) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == node {
			return f[len(f)-2]
		}
	}
	t.Fatalf("the lab has no node %s", node)
	return ""
}

// endNode ends a node with all its programs, like a machine that is switched off.
func endNode(t *testing.T, node, pid string) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "kill", "-9", pid).Run(); err != nil {
		t.Fatalf("end node %s, process %s: %v", node, pid, err)
	}
	eventually(t, 20*time.Second, func() error {
		if _, err := os.Stat("/proc/" + pid); err == nil {
			return fmt.Errorf("node %s, process %s, still runs", node, pid)
		}
		return nil
	})
}
