package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// outage is how long pods could not talk, as seen by a stream of datagrams from
// a pod of way.a to one of way.b while something is broken and comes back.
type outage struct {
	longest time.Duration
	end     time.Time // of the longest
}

// during streams while it breaks something. The stream ends afterwards, and
// must have recovered by then.
func (l lab) during(t *testing.T, way connection, length time.Duration, breakIt func()) outage {
	t.Helper()
	to := l.translations(t, way.a, way.b).of(t, l.podIP(t, way.b, web(way.b+"-2")))
	cmd := exec.CommandContext(t.Context(), labProgram, "kubectl", way.a, "exec", web(way.a+"-2"), "--",
		"/pod", "stream", to.String()+":8080", "--for", length.String())
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	breakIt()
	if err := cmd.Wait(); err != nil {
		t.Errorf("stream of %s: %v %s", way, err, errs.String())
	}
	var o outage
	for d := json.NewDecoder(strings.NewReader(out.String())); d.More(); {
		var stall struct{ Last, First time.Time }
		if err := d.Decode(&stall); err != nil {
			t.Fatalf("stream of %s: %q: %v", way, out.String(), err)
		}
		if length := stall.First.Sub(stall.Last); length > o.longest {
			o = outage{length, stall.First}
		}
	}
	return o
}

// gatewayPod is the one that runs, and its node; "" if none does.
func (l lab) gatewayPod(t *testing.T, cluster, peer string) (name, node string) {
	t.Helper()
	text := l.must(t, "kubectl", cluster, "get", "pods", "-n", "liqo-tenant-"+peer, "-l", "networking.liqo.io/component=gateway",
		"--field-selector", "status.phase=Running", "-o", `jsonpath={range .items[*]}{.metadata.deletionTimestamp}|{.metadata.name}|{.spec.nodeName}{"\n"}{end}`)
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 3 && f[0] == "" {
			return f[1], f[2]
		}
	}
	return "", ""
}

// testMove has the gateway of way.b start again on another node, and measures
// from the moment at which it runs there.
func (l lab) testMove(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	before, node := l.gatewayPod(t, way.b, way.a)
	var runs time.Time
	o := l.during(t, way, 25*time.Second, func() {
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
	after := max(o.end.Sub(runs), 0)
	t.Logf("gateway of %s moved to another node: %.1f s without answers, %.1f s of them after it ran there, wanted ≤ %s",
		way.b, o.longest.Seconds(), after.Seconds(), bound)
	if after > 5*bound {
		t.Errorf("got %s, want at most %s, or five times that on a busy machine", after, bound)
	}
}

// testKill kills the gateway's process, not its pod. How long the kubelet takes
// to start it again is not ours: the new process's age when answers come again
// is.
func (l lab) testKill(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	pod, node := l.gatewayPod(t, way.b, way.a)
	var runs time.Time
	o := l.during(t, way, 20*time.Second, func() {
		old := l.tunnelProcess(t, way.b, node, pod)
		l.must(t, "exec", way.b, node, "--", "kill", "-9", old)
		eventually(t, 15*time.Second, func() error {
			if now := l.tunnelProcess(t, way.b, node, pod); now == "" || now == old {
				return fmt.Errorf("the gateway of %s does not run", way.b)
			}
			runs = time.Now()
			return nil
		})
	})
	after := max(o.end.Sub(runs), 0)
	t.Logf("gateway of %s killed: %.1f s without answers, %.1f s of them after it ran again, wanted ≤ %s",
		way.b, o.longest.Seconds(), after.Seconds(), bound)
	if after > 5*bound {
		t.Errorf("got %s, want at most %s, or five times that on a busy machine", after, bound)
	}
}

// tunnelProcess is the process ID, on its node, of the gateway in a pod; "" if
// there is none. A pod's name is the host name of its processes.
func (l lab) tunnelProcess(t *testing.T, cluster, node, pod string) string {
	t.Helper()
	return l.must(t, "exec", cluster, node, "--", "sh", "-c",
		`for p in $(pgrep -f '^/liqo-gateway tunnel'); do grep -qz '^HOSTNAME=`+pod+`$' /proc/$p/environ && echo $p; done | head -1`)
}

// testFaults breaks things at random and in the same order for the same seed,
// and ends when every path works again.
func (l lab) testFaults(t *testing.T, connections []connection) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("SOAK"), "2m"))
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	t.Logf("SEED=%d SOAK=%s", seed, length)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	faults := []struct {
		name  string
		apply func(c connection)
	}{
		{"kill the gateway's process", func(c connection) {
			if pod, node := l.gatewayPod(t, c.a, c.b); pod != "" {
				if pid := l.tunnelProcess(t, c.a, node, pod); pid != "" {
					_, _ = l.try(t, "exec", c.a, node, "--", "kill", "-9", pid)
				}
			}
		}},
		{"delete the gateway's pod", func(c connection) {
			if pod, _ := l.gatewayPod(t, c.a, c.b); pod != "" {
				l.must(t, "kubectl", c.a, "delete", "pod", "-n", "liqo-tenant-"+c.b, pod, "--wait=false")
			}
		}},
		{"delete the operator's pod", func(c connection) {
			l.must(t, "kubectl", c.a, "delete", "pod", "-n", "liqo", "-l", "app.kubernetes.io/name=liqo-tui-operator", "--wait=false")
		}},
		{"delete a node's fabric pod", func(c connection) {
			l.must(t, "kubectl", c.a, "delete", "pod", "-n", "liqo", "-l", "app.kubernetes.io/name=liqo-tui-fabric",
				"--field-selector", "spec.nodeName="+pick(l.nodes(t, c.a)), "--wait=false")
		}},
		{"delete a node's overlay device", func(c connection) {
			_, _ = l.try(t, "exec", c.a, pick(l.nodes(t, c.a)), "--", "ip", "link", "del", "liqo-fabric")
		}},
		{"flush a node's routes", func(c connection) {
			_, _ = l.try(t, "exec", c.a, pick(l.nodes(t, c.a)), "--", "ip", "route", "flush", "table", "18000")
		}},
		{"delete a node's nft table", func(c connection) {
			_, _ = l.try(t, "exec", c.a, pick(l.nodes(t, c.a)), "--", "nft", "delete", "table", "ip", "liqo-tui")
		}},
		{"cut the path", func(c connection) { l.must(t, "cut", c.a, c.b) }},
		{"cut the path in one direction", func(c connection) { l.must(t, "cut", c.a, c.b, "--direction", "a-to-b") }},
	}
	count := map[string]int{}
	for end := time.Now().Add(length); time.Now().Before(end); {
		f := faults[random.IntN(len(faults))]
		c := connections[random.IntN(len(connections))].ways()[random.IntN(2)]
		count[f.name]++
		f.apply(c)
		// A part of the run, not a wait for something: faults come while the one
		// before is being dealt with, or after it.
		time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
		if random.IntN(2) == 0 {
			l.must(t, "restore")
		}
	}
	l.must(t, "restore")
	t.Logf("faults: %v", count)
	began := time.Now()
	for _, c := range connections {
		for _, way := range c.ways() {
			eventually(t, 3*time.Minute, func() error { return l.worksBetween(t, way) })
		}
	}
	t.Logf("every connection works %.1f s after the last fault", time.Since(began).Seconds())
	for _, c := range connections {
		for _, way := range c.ways() {
			l.testReach(t, way)
		}
	}
}

// worksBetween asks a pod of every node of b from a pod of every node of a, and
// what both clusters say of the connection.
func (l lab) worksBetween(t *testing.T, way connection) error {
	t.Helper()
	state := l.must(t, "kubectl", way.a, "get", "connections", "-n", "liqo-tenant-"+way.b, "-o", "jsonpath={.items[*].status.value}")
	if state != "Connected" {
		return fmt.Errorf("Connection of %s with %s: %q", way.a, way.b, state)
	}
	seen := l.translations(t, way.a, way.b)
	for _, node := range l.nodes(t, way.a) {
		for _, peerNode := range l.nodes(t, way.b) {
			url := fmt.Sprintf("http://%s:8080/", seen.of(t, l.podIP(t, way.b, web(peerNode))))
			if _, err := l.try(t, "kubectl", way.a, "exec", web(node), "--", "/pod", "get", "--timeout", "2s", url); err != nil {
				return fmt.Errorf("pod on %s to pod on %s: %w", node, peerNode, err)
			}
		}
	}
	return nil
}
