package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// Liqo's documents promise these costs of a cluster's programs, with one peer and 100
// pods that use it.
const (
	promisedCPUs   = 0.5
	promisedMemory = 200 << 20
	promisedRate   = 5e6 // bits per second between clusters, for the programs themselves
)

// usage is the usage of all our programs in a cluster so far.
type usage struct {
	cpu    time.Duration
	memory int64 // bytes
}

// costs adds up the processes of all nodes. Processes of a node share the pages of their
// file, so only the largest of these counts.
func (l lab) costs(t *testing.T, cluster string) (c usage) {
	t.Helper()
	const tick = 10 * time.Millisecond // USER_HZ
	for _, node := range l.nodes(t, cluster) {
		text := l.must(t, "exec", cluster, node, "--", "sh", "-c",
			`for p in $(pgrep -f '^/liqo-gateway (operator|tunnel|fabric|node)'); do cut -d' ' -f14,15 /proc/$p/stat; grep -E '^Rss(Anon|File)' /proc/$p/status; done`)
		var shared int64
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) < 2 {
				t.Fatalf("%s: got %q", node, line)
			}
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", node, err)
			}
			switch f[0] {
			case "RssAnon:":
				c.memory += n << 10
			case "RssFile:":
				shared = max(shared, n<<10)
			default:
				user, err := strconv.ParseInt(f[0], 10, 64)
				if err != nil {
					t.Fatalf("%s: %v", node, err)
				}
				c.cpu += time.Duration(user+n) * tick
			}
		}
		c.memory += shared
	}
	if c.cpu == 0 || c.memory == 0 {
		t.Fatalf("%s: no program of ours has cost anything: %+v", cluster, c)
	}
	return c
}

// TestLabResources measures the costs of our programs while the clusters are connected,
// and while pods of one ask pods of the other 100 times a second.
func TestLabResources(t *testing.T) {
	l := useLab(t)
	l.prepare(t)
	sent, undo := l.meter(t)
	defer undo()
	began, before := time.Now(), sent()
	l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK)
	took := time.Since(began)
	rate := float64(sent()-before) * 8 / took.Seconds()
	t.Logf("connecting took %.1f s and %d bytes between the clusters: %.3f Mbit/s", took.Seconds(), sent()-before, rate/1e6)
	if rate > promisedRate {
		t.Errorf("connecting takes %.1f Mbit/s between the clusters, want at most %.0f", rate/1e6, promisedRate/1e6)
	}

	url := fmt.Sprintf("http://%s:8080/", l.seenFrom(t, "rome", "milan", "milan-2"))
	measured := map[string]usage{}
	for _, cluster := range l.clusters {
		measured[cluster] = l.costs(t, cluster)
	}
	began = time.Now()
	var wait sync.WaitGroup
	for range 10 { // each asks every 100 ms
		wait.Go(func() {
			if _, err := l.try(t, "kubectl", "rome", "exec", web("rome-2"), "--", "/pod", "get", "--timeout", "10s", "--times", "80", url); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	took = time.Since(began)
	for _, cluster := range l.clusters {
		now := l.costs(t, cluster)
		cpus := (now.cpu - measured[cluster].cpu).Seconds() / took.Seconds()
		t.Logf("%s: %.3f CPUs and %d MB during %.1f s of 100 requests a second", cluster, cpus, now.memory>>20, took.Seconds())
		if cpus > promisedCPUs || now.memory > promisedMemory {
			t.Errorf("%s: our programs take %.2f CPUs and %d MB, want at most %.1f and %d", cluster, cpus, now.memory>>20, promisedCPUs, promisedMemory>>20)
		}
	}
}

// meter counts the bytes between rome's nodes and milan's until undo.
func (l lab) meter(t *testing.T) (sent func() int64, undo func()) {
	t.Helper()
	others := strings.Join(strings.Fields(l.must(t, "kubectl", "milan", "get", "nodes", "-l", "!liqo.io/type", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`)), ", ")
	for _, node := range l.nodes(t, "rome") {
		l.must(t, "exec", "rome", node, "--", "nft", fmt.Sprintf("add table inet measured; add counter inet measured between; "+
			"add chain inet measured in { type filter hook prerouting priority -400; }; add rule inet measured in iifname eth0 ip saddr { %[1]s } counter name between; "+
			"add chain inet measured out { type filter hook postrouting priority 400; }; add rule inet measured out oifname eth0 ip daddr { %[1]s } counter name between", others))
	}
	undo = func() {
		for _, node := range l.nodes(t, "rome") {
			l.must(t, "exec", "rome", node, "--", "nft", "delete", "table", "inet", "measured")
		}
	}
	return func() (sum int64) {
		for _, node := range l.nodes(t, "rome") {
			f := strings.Fields(l.must(t, "exec", "rome", node, "--", "nft", "list", "counter", "inet", "measured", "between"))
			for i := 1; i < len(f); i++ {
				if f[i-1] == "bytes" {
					n, err := strconv.ParseInt(f[i], 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					sum += n
				}
			}
		}
		return sum
	}, undo
}
