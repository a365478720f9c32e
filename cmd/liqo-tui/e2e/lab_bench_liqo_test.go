//go:build bench

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// TestBenchBesideLiqo measures the way from pod to pod through Liqo's gateways and through ours, in turn, in one
// lab: rome and milan run Liqo, napoli and torino run our operator. make bench-liqo runs it.
func TestBenchBesideLiqo(t *testing.T) {
	const rounds, length, asked = 5, 4 * time.Second, 1000
	l := makeShape(t, "--clusters", "rome,milan,napoli,torino", "--nodes", "1", "--liqo", "rome=1.2,milan=1.2", "--load", "../../../bin/images/liqo-gateway.tar")
	l.clusters = []string{"rome", "milan", "napoli", "torino"}
	ours, theirs := connection{"napoli", "torino"}, connection{"rome", "milan"}
	for _, cluster := range l.clusters {
		if cluster == ours.a || cluster == ours.b {
			l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--cluster-id", cluster,
				"--pod-cidr", labPodCIDR, "--image", labImage).want(t, exit.OK)
		}
		l.apply(t, cluster, webPod(t, cluster+"-1"))
		l.must(t, "kubectl", cluster, "wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=180s")
	}
	var roads []*road
	for _, c := range []connection{ours, theirs} {
		l.between(c, "connect", "--server-service-type", "NodePort", "--yes", "--timeout", "120s").want(t, exit.OK)
		r := &road{
			s: l.senderBetween(t, c, c.a+"-1", c.b+"-1"), space: networkOf(t, web(c.a+"-1")),
			gateways: append(l.gatewayUIDs(t, c.a, c.b), l.gatewayUIDs(t, c.b, c.a)...),
		}
		eventually(t, 30*time.Second, func() error { return r.s.works(t) })
		roads = append(roads, r)
	}
	for i := range rounds {
		for j := range roads {
			r := roads[(i+j)%len(roads)]
			for k, streams := range []int{1, 16} {
				r.rate[k] = append(r.rate[k], r.download(t, streams, length))
			}
			r.half, r.most = r.ask(t, asked)
		}
	}
	for k, streams := range []int{1, 16} {
		a, b := middle(roads[0].rate[k]), middle(roads[1].rate[k])
		t.Logf("%2d streams: ours %4.0f MB/s, Liqo's %4.0f MB/s, %.1f times as much, wanted ≥ 4", streams, a.speed/1e6, b.speed/1e6, a.speed/b.speed)
		t.Logf("%2d streams: the gateways' CPU per GB: ours %.1f s, Liqo's %.1f s", streams, a.cost, b.cost)
	}
	t.Logf("round trip, half and 99 of 100: ours %.2f and %.2f ms, Liqo's %.2f and %.2f ms", millis(roads[0].half), millis(roads[0].most), millis(roads[1].half), millis(roads[1].most))
}

// A road is the way between two pods, with what was measured of it.
type road struct {
	s          sender
	space      *os.File // the network of the sender's pod
	gateways   []string // the UIDs of both gateways' pods, which are in the names of their cgroups
	rate       [2][]rate
	half, most time.Duration
}

// A rate is bytes per second, and the CPU seconds of the gateways per GB.
type rate struct{ speed, cost float64 }

func middle(all []rate) rate {
	slices.SortFunc(all, func(a, b rate) int { return int(a.speed - b.speed) })
	return all[len(all)/2]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// networkOf opens the network namespace of a pod. sender.pid is of no use here: it is a number of the node's own.
func networkOf(t *testing.T, pod string) *os.File {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		environ, _ := os.ReadFile(filepath.Join(p, "environ"))
		line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		if slices.Contains(strings.Split(string(environ), "\x00"), "HOSTNAME="+pod) && strings.HasPrefix(string(line), "/pod\x00serve") {
			space, err := os.Open(filepath.Join(p, "ns/net"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { space.Close() })
			return space
		}
	}
	t.Fatalf("pod %s has no process", pod)
	return nil
}

// client returns a client whose connections begin in the sender's pod.
func (r *road) client() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		type dialled struct {
			c   net.Conn
			err error
		}
		done := make(chan dialled, 1)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with its goroutine, and with it its namespace
			if err := unix.Setns(int(r.space.Fd()), unix.CLONE_NEWNET); err != nil {
				done <- dialled{nil, fmt.Errorf("enter the pod's network: %w", err)}
				return
			}
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			done <- dialled{c, err}
		}()
		d := <-done
		return d.c, d.err
	}}}
}

// download reads zeros from the other pod by several connections at once.
func (r *road) download(t *testing.T, streams int, length time.Duration) rate {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	before, began := r.cpu(t), time.Now()
	var all errgroup.Group
	sums := make([]int64, streams)
	for i := range streams {
		client := r.client()
		all.Go(func() error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.s.to+"/?bytes="+strconv.Itoa(64<<30), nil)
			if err != nil {
				return err
			}
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			sums[i], _ = io.Copy(io.Discard, response.Body) // ends with ctx
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	took, spent := time.Since(began), r.cpu(t)-before
	var sum float64
	for _, n := range sums {
		sum += float64(n)
	}
	return rate{speed: sum / took.Seconds(), cost: spent.Seconds() / (sum / 1e9)}
}

// ask sends small requests on one connection, one after the other, and returns the times of half and of 99 of 100.
func (r *road) ask(t *testing.T, times int) (half, most time.Duration) {
	t.Helper()
	client := r.client()
	var all []time.Duration
	for range times {
		began := time.Now()
		response, err := client.Get("http://" + r.s.to + "/")
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

// gatewayUIDs are the UIDs of a gateway's pods.
func (l lab) gatewayUIDs(t *testing.T, cluster, peer string) []string {
	t.Helper()
	uids := strings.Fields(l.must(t, "kubectl", cluster, "get", "pods", "-n", "liqo-tenant-"+peer, "-l", "networking.liqo.io/component=gateway", "-o", "jsonpath={.items[*].metadata.uid}"))
	if len(uids) == 0 {
		t.Fatalf("%s has no gateway for %s", cluster, peer)
	}
	return uids
}

// cpu is the CPU time of all processes of the gateways so far.
func (r *road) cpu(t *testing.T) (sum time.Duration) {
	t.Helper()
	const tick = 10 * time.Millisecond // USER_HZ
	processes, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		group, err := os.ReadFile(p)
		if err != nil || !slices.ContainsFunc(r.gateways, func(uid string) bool { return strings.Contains(string(group), uid) }) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(p), "stat"))
		if err != nil {
			continue // it has just ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(rest)[11:13] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += time.Duration(n) * tick
		}
	}
	if sum == 0 {
		t.Fatal("no process of the gateways was found")
	}
	return sum
}
