package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/kube"
)

// TestLabVerify measures between pods of two connected clusters, on a good path
// and on one that loses every packet.
func TestLabVerify(t *testing.T) {
	l := useLab(t)
	l.prepare(t)
	l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK)
	a, b := l.open(t, "lab-rome"), l.open(t, "lab-milan")

	t.Run("a good path", func(t *testing.T) {
		v, took := verifyPath(t, a, b, engine.VerifyRequest{})
		if !v.Verified() || v.Verdict() != verify.Works {
			t.Fatalf("got %s", v.Verdict())
		}
		// 7 to 9 s, most of it the pods' start. A much longer time means a wait
		// in vain.
		atMost(t, "verification", took, 30*time.Second)
		for side, w := range v.Directions {
			if w.Avg <= 0 || w.Largest < 1280 || w.Largest > 1440 {
				t.Errorf("way %d: got latency %s and largest packet %d, want what a tunnel over 1500 bytes carries", side, w.Avg, w.Largest)
			}
		}
		l.wantNoProbes(t)
	})
	t.Run("away from the gateways' nodes, and from all nodes", func(t *testing.T) {
		v, _ := verifyPath(t, a, b, engine.VerifyRequest{})
		for side, c := range []*kube.Cluster{a, b} {
			f, err := c.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range f.Pods {
				if len(f.Nodes) > 1 && pod.Node == v.Directions[side].Node {
					t.Errorf("%s measured from node %s, where the gateway is", f.ID, pod.Node)
				}
			}
		}
		v, took := verifyPath(t, a, b, engine.VerifyRequest{AllNodes: true})
		if want := v.Nodes[flows.A] + v.Nodes[flows.B]; !v.Verified() || want != 4 || !strings.Contains(v.Measurement().Result, "verified from all 4 nodes") {
			t.Errorf("got %s\n%s", v.Verdict(), strings.Join(v.Lines(), "\n"))
		}
		atMost(t, "verification from all nodes", took, 40*time.Second)
		l.wantNoProbes(t)
	})
	t.Run("throughput", func(t *testing.T) {
		v, _ := verifyPath(t, a, b, engine.VerifyRequest{Throughput: true})
		for side, w := range v.Directions {
			if w.Throughput < 1e6 {
				t.Errorf("way %d: got %.0f bit/s", side, w.Throughput)
			}
		}
	})
	t.Run("a path that is cut", func(t *testing.T) {
		l.must(t, "cut", "rome", "milan", "--direction", "a-to-b")
		defer l.must(t, "restore")
		v, took := verifyPath(t, a, b, engine.VerifyRequest{})
		if v.Between != verify.Pods || v.Verdict() != verify.Broken || v.Verified() {
			t.Errorf("got %s between %s", v.Verdict(), v.Between)
		}
		for side, w := range v.Directions {
			if w.Loss != 1 || !strings.Contains(w.Problem, "none of 40 packets was answered") {
				t.Errorf("way %d: got loss %.2f, %q", side, w.Loss, w.Problem)
			}
		}
		// 7 to 9 s, most of it the pods' start. A much longer time means a wait
		// in vain.
		atMost(t, "verification", took, 30*time.Second)
		l.wantNoProbes(t)
	})
	t.Run("the gateway's log", func(t *testing.T) {
		f, err := a.Observe(t.Context())
		if err != nil || len(f.Pods) != 1 {
			t.Fatalf("got %d gateway pods, %v", len(f.Pods), err)
		}
		if text, err := a.Logs(t.Context(), f.Pods[0], 5); err != nil || !strings.Contains(text, `"level"`) {
			t.Errorf("got %q, %v", text, err)
		}
	})
}

func (l lab) open(t *testing.T, context string) *kube.Cluster {
	t.Helper()
	c, err := kube.Open(kube.Options{Context: flows.ContextRef{File: l.kubeconfig, Name: context}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func verifyPath(t *testing.T, a, b *kube.Cluster, r engine.VerifyRequest) (verify.Result, time.Duration) {
	t.Helper()
	started := time.Now()
	v, err := engine.VerifyPair(t.Context(), a, b, r, func(side flows.Side, text string) {
		t.Logf("%5.1fs %s %s", time.Since(started).Seconds(), side, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(started)
	t.Logf("%5.1fs\n%s", took.Seconds(), strings.Join(v.Lines(), "\n"))
	return v, took
}

func (l lab) wantNoProbes(t *testing.T) {
	t.Helper()
	for _, cluster := range l.clusters {
		eventually(t, 10*time.Second, func() error {
			left := l.must(t, "kubectl", cluster, "get", "jobs,pods", "-A", "-l", "app.kubernetes.io/name=liqo-tui-probe", "-o", "name")
			if left != "" {
				return fmt.Errorf("probes are left on %s: %s", cluster, left)
			}
			return nil
		})
	}
}
