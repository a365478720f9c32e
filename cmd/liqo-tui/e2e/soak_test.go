//go:build soak

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/info"
	"github.com/liqo-tui/liqo-tui/internal/weight"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const (
	sampleInterval = 30 * time.Second
	// agreeWithin is how long the screen may differ from `info peer`: the
	// dashboard asks a silent API server every 5 s, and waits 5 s for an answer.
	agreeWithin = 15 * time.Second
	// settleFor is the time after which the dashboard must not grow. growth is
	// its tolerance at the end.
	settleFor = 10 * time.Minute
	growth    = 1 << 20 // bytes
)

// soak is a dashboard that runs while things change.
type soak struct {
	lab
	t        *testing.T
	contexts map[string]string // by cluster
	folder   string            // where the program writes its size
	screen   *terminal
}

// TestDashboardSoak lets the dashboard run for SOAK=1h, in a lab of its own
// (build/soak-tui.sh), while connections break, gateways are replaced and API
// servers stop, in an order that SEED repeats. Every 30 s it compares the screen
// with `info peer -o json` of both clusters. At the end it compares the heap with
// the heap after ten minutes.
func TestDashboardSoak(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("SOAK"), "1h"))
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	s := newSoak(t)
	s.connect(t)
	s.open()
	t.Logf("SOAK=%s SEED=%d, heap in %s", length, seed, s.folder)

	ctx, stop := context.WithTimeout(t.Context(), length)
	var disturbing sync.WaitGroup
	defer func() { stop(); disturbing.Wait() }() // the goroutine writes to the test's log
	disturbing.Go(func() { s.disturb(ctx, rand.New(rand.NewPCG(seed, 0))) })
	count, longest := map[string]int{}, time.Duration(0)
	for began := time.Now(); ctx.Err() == nil; pauseFor(ctx, sampleInterval) {
		row, told, took, ok := s.agree()
		if !ok {
			t.Errorf("after %s the screen and info peer disagree for %s:\nscreen: %s\ninfo:   %s\n%s",
				time.Since(began).Round(time.Second), agreeWithin, row, told, s.screen.Screen())
			continue
		}
		count[told.state()]++
		longest = max(longest, took)
		t.Logf("%5.0f s  agree after %3.1f s  %s  (%s)", time.Since(began).Seconds(), took.Seconds(), row, s.latestWeight())
	}
	disturbing.Wait()
	t.Logf("samples that agree, by state: %v; the slowest after %.1f s", count, longest.Seconds())
	if len(count) < 2 {
		t.Errorf("got the states %v, want more than one: nothing has changed", slices.Collect(maps.Keys(count)))
	}
	s.checkGrowth(length)
	s.screen.Press("q")
	if code := s.screen.Exit(30 * time.Second); code != "0" {
		t.Errorf("got exit code %s, want 0", code)
	}
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{lab: findLab(t), t: t, contexts: map[string]string{}, folder: os.Getenv("SOAK_FOLDER")}
	if s.folder == "" {
		s.folder = t.TempDir()
	}
	config, err := clientcmd.LoadFromFile(s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.Contexts {
		_, cluster, _ := strings.Cut(name, "-") // the name of the lab comes first
		s.contexts[cluster] = name
	}
	return s
}

// connect installs our operator on both clusters, and connects them.
func (s *soak) connect(t *testing.T) {
	t.Helper()
	for _, cluster := range s.clusters {
		s.tui("install", "--yes", "--kubeconfig", s.kubeconfig, "--context", s.contexts[cluster], "--cluster-id", cluster,
			"--pod-cidr", labPodCIDR, "--image", labImage).want(t, exit.OK)
	}
	s.tui(s.network("connect")...).want(t, exit.OK)
}

func (s *soak) network(command string) []string {
	words := []string{
		"network", command, "--yes", "--timeout", "120s", "--kubeconfig", s.kubeconfig, "--context", s.contexts["rome"],
		"--remote-kubeconfig", s.kubeconfig, "--remote-context", s.contexts["milan"],
	}
	if command == "connect" {
		words = append(words, "--server-service-type", "NodePort")
	}
	return words
}

// open starts the dashboard, in a build that records its size.
func (s *soak) open() {
	s.t.Helper()
	program := filepath.Join(s.t.TempDir(), "liqo-tui")
	if out, err := exec.CommandContext(s.t.Context(), "go", "build", "-tags", "soak", "-o", program, ".").CombinedOutput(); err != nil {
		s.t.Fatalf("go build: %v\n%s", err, out)
	}
	s.screen = openTerminal(s.t, 110, 24, []string{weight.Env + "=" + s.folder}, program, "dashboard", "--kubeconfig", s.kubeconfig)
	s.screen.Wait(30*time.Second, "untested")
}

// disturb changes things at random until the end.
func (s *soak) disturb(ctx context.Context, random *rand.Rand) {
	began := time.Now()
	for pauseFor(ctx, 15*time.Second+time.Duration(random.IntN(60_000))*time.Millisecond) {
		c := s.changes()[random.IntN(len(s.changes()))]
		cluster := s.clusters[random.IntN(2)]
		length := time.Duration(5+random.IntN(50)) * time.Second
		s.t.Logf("%5.0f s  %s, %s, for %s", time.Since(began).Seconds(), c.name, cluster, length)
		if err := c.begin(cluster); err != nil {
			s.t.Errorf("%s of %s: %v", c.name, cluster, err)
		}
		if c.end == nil {
			continue
		}
		pauseFor(ctx, length)
		if err := c.end(cluster); err != nil {
			s.t.Errorf("end of %s of %s: %v", c.name, cluster, err)
		}
	}
}

// disturbance is a change of a cluster, which may last.
type disturbance struct {
	name       string
	begin, end func(cluster string) error
}

func (s *soak) changes() []disturbance {
	other := map[string]string{"rome": "milan", "milan": "rome"}
	restore := func(string) error { return s.do("restore") }
	deleted := func(namespace func(cluster string) string, label string) func(string) error {
		return func(cluster string) error {
			return s.do("kubectl", cluster, "delete", "pods", "-n", namespace(cluster), "-l", label, "--wait=false")
		}
	}
	signal := func(name, process string) func(string) error {
		return func(cluster string) error {
			return s.do("exec", cluster, "--", "sh", "-c", "kill -"+name+" $(pgrep -x "+process+")")
		}
	}
	// The kubelet restarts an operator that has lost its API server several times
	// only after minutes.
	run := func(command string) func(string) error {
		return func(string) error {
			var r result
			for range 4 {
				if r = s.tui(s.network(command)...); r.code == exit.OK {
					return nil
				}
			}
			return fmt.Errorf("network %s: exit code %d: %s", command, r.code, r.err)
		}
	}
	return []disturbance{
		{"the path is cut", func(c string) error { return s.do("cut", c, other[c]) }, restore},
		{"the path is cut one way", func(c string) error { return s.do("cut", c, other[c], "--direction", "a-to-b") }, restore},
		{"the gateway's pod is deleted", deleted(func(c string) string { return "liqo-tenant-" + other[c] }, "networking.liqo.io/component=gateway"), nil},
		{"the operator's pod is deleted", deleted(func(string) string { return "liqo" }, "app.kubernetes.io/name=liqo-tui-operator"), nil},
		{"the API server is killed", signal("KILL", "kube-apiserver"), nil},
		{"the API server stands still", signal("STOP", "kube-apiserver"), signal("CONT", "kube-apiserver")},
		{"disconnected", run("disconnect"), run("connect")},
	}
}

// do runs the lab's program to its end, also when the time is up.
func (s *soak) do(args ...string) error {
	_, err := s.try(s.t, args...)
	return err
}

func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// agree compares both until they are equal.
func (s *soak) agree() (row screenRow, told infoOfBoth, took time.Duration, ok bool) {
	began := time.Now()
	// At least three times: an API server that does not answer takes its time.
	for n := 1; ; n++ {
		before := s.row()
		told = s.info()
		row = s.row()
		switch took = time.Since(began); {
		case told.matches(row), told.matches(before): // the state may have changed in between
			return row, told, took, true
		case took > agreeWithin && n >= 3:
			return row, told, took, false
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// info asks both clusters at once, like a script.
func (s *soak) info() infoOfBoth {
	told := infoOfBoth{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, cluster := range s.clusters {
		asking.Go(func() {
			var i info.Cluster
			r := s.tui("info", "peer", "-o", "json", "--kubeconfig", s.kubeconfig, "--context", s.contexts[cluster])
			mu.Lock()
			defer mu.Unlock()
			if r.code != exit.OK {
				s.t.Logf("        info peer of %s: %s", cluster, strings.TrimSpace(r.err))
				return
			}
			if err := json.Unmarshal([]byte(r.out), &i); err != nil {
				s.t.Errorf("info peer of %s: %v: %s", cluster, err, r.out)
			}
			told[wire.ClusterID(cluster)] = &i
		})
	}
	asking.Wait()
	return told
}

// weights are the sizes that the program has recorded so far.
func (s *soak) weights() []weight.Weight {
	f, err := os.Open(filepath.Join(s.folder, "heap"))
	if err != nil {
		s.t.Errorf("what the program holds: %v", err)
		return nil
	}
	defer f.Close()
	var all []weight.Weight
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var w weight.Weight
		if json.Unmarshal(lines.Bytes(), &w) == nil { // the last line may be incomplete
			all = append(all, w)
		}
	}
	return all
}

func (s *soak) latestWeight() weight.Weight {
	all := s.weights()
	if len(all) == 0 {
		return weight.Weight{}
	}
	return all[len(all)-1]
}

// checkGrowth compares the heap at the end with that after ten minutes, or a
// third of a shorter run. Each figure is the mean of two minutes, because the
// heap varies with the events.
func (s *soak) checkGrowth(length time.Duration) {
	s.t.Helper()
	all := s.weights()
	if len(all) == 0 {
		s.t.Fatal("the program has told nothing of its heap")
	}
	settled := all[0].At.Add(min(settleFor, length/3))
	mean := func(from, to time.Time) weight.Weight {
		var sum weight.Weight
		n := 0
		for _, w := range all {
			if !w.At.Before(from) && w.At.Before(to) {
				sum.Live += w.Live
				sum.Goroutines += w.Goroutines
				n++
			}
		}
		return weight.Weight{Live: sum.Live / uint64(max(1, n)), Goroutines: sum.Goroutines / max(1, n)}
	}
	last := all[len(all)-1].At
	before, after := mean(settled, settled.Add(2*time.Minute)), mean(last.Add(-2*time.Minute), last.Add(time.Second))
	got := int64(after.Live) - int64(before.Live)
	s.t.Logf("heap: %s after %s, %s after %s: grown by %.2f MiB", before, min(settleFor, length/3), after,
		last.Sub(all[0].At).Round(time.Second), float64(got)/(1<<20))
	if got > growth {
		s.t.Errorf("grown by %d bytes, want at most %d; profiles are in %s (SOAK_FOLDER)", got, growth, s.folder)
	}
}
