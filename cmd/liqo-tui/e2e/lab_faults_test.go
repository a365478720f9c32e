package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// faultRun breaks things at random, in the same order for the same seed: one at a time, or
// several at once. After each time everything has to work again, and at the end all pods of
// all nodes have to reach each other.
type faultRun struct {
	lab
	connections []connection
	faults      []fault
	nodesOf     map[string][]string // by cluster, for times when the API server is down
	senders     []sender
	streams     []*stream
	bursts      []*burst

	running sync.Mutex // one command of the program at a time
	owed    []owed     // commands that could not finish
}

// burst is a number of simultaneous faults, with the time until everything worked again.
type burst struct {
	kinds       []string
	began, over time.Time // over: all faults were undone
	works       time.Time // again, for every way
}

// owed is a command that an admin would have to repeat, because faults kept it from finishing.
type owed struct {
	way  connection
	args []string
}

// settled is the longest time until everything works again. After several faults at once,
// Kubernetes itself needs most of it.
const settled = 2 * time.Minute

// breakFor returns the length of a random run: less in CI, all in a run of all tests, or SOAK.
func breakFor(t *testing.T, less, all string) (length time.Duration, random *rand.Rand) {
	t.Helper()
	if sample.All() {
		less = all
	}
	length, err := time.ParseDuration(cmp.Or(os.Getenv("SOAK"), less))
	if err != nil {
		t.Fatalf("SOAK: %v", err)
	}
	seed := sample.Seed(t)
	t.Logf("the same again: SOAK=%s SEED=%d", length, seed)
	return length, rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it has to be the same again
}

func (l lab) newFaultRun(t *testing.T, connections []connection) *faultRun {
	t.Helper()
	r := &faultRun{lab: l, connections: connections, faults: faults(), nodesOf: map[string][]string{}}
	for _, cluster := range l.clusters {
		r.nodesOf[cluster] = l.nodes(t, cluster)
	}
	for _, c := range connections {
		for _, way := range c.ways() {
			r.senders = append(r.senders, l.sender(t, way))
		}
	}
	return r
}

func (l lab) testFaults(t *testing.T, connections []connection) {
	length, random := breakFor(t, "1m", "5m") // for half of the faults, or for all
	r := l.newFaultRun(t, connections)
	for _, s := range r.senders {
		// Gaps are measured in seconds here. Dozens of datagrams in each second, through three
		// tunnels in user space, have used all CPU time of a slow machine.
		r.streams = append(r.streams, s.stream(t, 1200, "--interval", "50ms"))
	}
	r.breakThings(t, random, length)
	last, missing := r.bursts[len(r.bursts)-1].over, ""
	for _, c := range connections {
		for _, way := range c.ways() {
			eventually(t, settled, func() error {
				err := l.worksBetween(t, way)
				if err != nil && err.Error() != missing {
					missing = err.Error()
					t.Logf("%.1f s after the last fault: %v", time.Since(last).Seconds(), err)
				}
				return err
			})
		}
	}
	t.Logf("every pod reaches every pod %.1f s after the last fault", time.Since(last).Seconds())
	var stalls []stall
	for _, stream := range r.streams {
		stalls = append(stalls, stream.stop(t)...)
	}
	for _, s := range stalls {
		if s.length() > longTime {
			t.Logf("no answers from %s to %s", s.Last.Format("15:04:05.0"), s.First.Format("15:04:05.0"))
		}
	}
	t.Logf("what was broken, and what it cost\n%s", r.table(stalls))
	for _, c := range connections {
		for _, way := range c.ways() {
			l.testReach(t, way)
		}
		l.between(c, "verify").want(t, exit.OK)
	}
	l.importsAll(t, connections)
}

// breakThings runs through the shuffled faults until time is up.
func (r *faultRun) breakThings(t *testing.T, random *rand.Rand, length time.Duration) {
	t.Helper()
	all := r.faults
	var deck []int
	for end := time.Now().Add(length); time.Now().Before(end); {
		// Two of three times one fault alone, so that its cost is known.
		count := max(1, random.IntN(5)-1)
		b := &burst{began: time.Now()}
		var wait sync.WaitGroup
		for i := range count {
			if len(deck) == 0 {
				deck = random.Perm(len(all))
			}
			f := all[deck[0]]
			deck = deck[1:]
			way := r.connections[random.IntN(len(r.connections))].ways()[random.IntN(2)]
			d := damage{r, t, way, rand.New(rand.NewPCG(random.Uint64(), 0))}
			b.kinds = append(b.kinds, f.name)
			wait.Go(func() { d.inflict(f, i) })
		}
		wait.Wait()
		b.over = time.Now()
		r.bursts = append(r.bursts, b)
		r.settle(t)
		b.works = time.Now()
	}
}

// inflict applies a fault, the n-th of several at once, and undoes it after a while.
func (d damage) inflict(f fault, n int) {
	if n > 0 {
		time.Sleep(time.Duration(d.random.IntN(2000)) * time.Millisecond)
	}
	for range 20 { // another fault may have removed an object for a moment
		detail, err := f.apply(d)
		if err == nil {
			d.t.Logf("%s %s on %s towards %s: %s", time.Now().Format("15:04:05.0"), f.name, d.way.a, d.way.b, detail)
			break
		}
		d.t.Logf("%s %s on %s towards %s: not yet: %v", time.Now().Format("15:04:05.0"), f.name, d.way.a, d.way.b, err)
		time.Sleep(500 * time.Millisecond)
	}
	if f.undo == nil {
		return
	}
	time.Sleep(time.Duration(d.random.Int64N(int64(f.lasts))))
	if err := f.undo(d); err != nil {
		d.t.Errorf("%s: undo: %v", f.name, err)
	}
}

// command runs the program for the clusters of way. If faults keep it from finishing, it is
// owed: an admin would repeat it.
func (r *faultRun) command(way connection, name string, flags ...string) (string, error) {
	r.running.Lock()
	defer r.running.Unlock()
	args := append([]string{name, "--yes"}, flags...)
	got := r.between(way, name, append(args[1:], "--timeout", "20s")...)
	told := strings.Join(args, " ")
	if got.code != exit.OK {
		r.owed = append(r.owed, owed{way, args})
		told += fmt.Sprintf(": exit code %d, to be repeated: %s", got.code, lastLines(got.err))
	}
	return told, nil
}

// ports returns node ports for a connection. Each connection has a hundred of its own, so no
// two ever request the same.
func (r *faultRun) ports(way connection) int {
	for i, c := range r.connections {
		if c == way || c == way.ways()[1] {
			return 31000 + 100*i
		}
	}
	panic("no connection of " + way.String())
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// settle returns when all ways work again.
func (r *faultRun) settle(t *testing.T) {
	t.Helper()
	for _, o := range r.owed {
		eventually(t, settled, func() error {
			if got := r.between(o.way, o.args[0], append(o.args[1:], "--timeout", "60s")...); got.code != exit.OK {
				return fmt.Errorf("%v between %s: exit code %d: %s", o.args, o.way, got.code, lastLines(got.err))
			}
			return nil
		})
	}
	r.owed = nil
	for _, cluster := range r.clusters {
		eventually(t, settled, func() error {
			_, err := r.try(t, "kubectl", cluster, "get", "--raw", "/readyz")
			return err
		})
	}
	for _, s := range r.senders {
		began, told := time.Now(), false
		eventually(t, settled, func() error {
			err := s.works(t)
			if err != nil && !told && time.Since(began) > longTime {
				told = true
				t.Logf("%s not within %s: %v\n%s", time.Now().Format("15:04:05.0"), longTime, err, r.gateways(t, s.way))
			}
			return err
		})
	}
}

// longTime is longer than the outage of any single fault, except one after which a kubelet
// restarts a container.
const longTime = 8 * time.Second

// gateways describes both gateways of a connection that does not work.
func (r *faultRun) gateways(t *testing.T, way connection) string {
	t.Helper()
	var out strings.Builder
	for _, w := range way.ways() {
		namespace := "liqo-tenant-" + w.b
		for _, args := range [][]string{
			{"get", "pods", "-o", "wide"},
			{"get", "connections", "-o", `jsonpath={.items[*].status.value} {.items[*].metadata.annotations.liqo-tui\.dev/status}`},
			{"get", "gatewayservers,gatewayclients", "-o", "jsonpath={range .items[*]}{.kind} {.spec.endpoint} {.status.endpoint}{end}"},
			{"logs", "--selector", "networking.liqo.io/component=gateway", "--all-containers", "--tail", "20"},
			{"get", "internalfabrics", "-o", "jsonpath={range .items[*]}{.spec.gatewayIP} {.metadata.managedFields[*].time}{end}"},
			{"get", "pods", "-n", wire.DefaultNamespace, "-o", "wide"},
			{"logs", "-n", wire.DefaultNamespace, "daemonset/" + wire.FabricName, "--all-pods", "--prefix", "--tail", "10"},
			{"logs", "-n", wire.DefaultNamespace, "deployment/" + wire.OperatorName, "--tail", "10"},
		} {
			got, err := r.try(t, append([]string{"kubectl", w.a, "--request-timeout=5s", "-n", namespace}, args...)...)
			fmt.Fprintf(&out, "%s, %s: %s\n", w.a, args[1], strings.TrimSpace(got))
			if err != nil {
				fmt.Fprintf(&out, "  %v\n", err)
			}
		}
	}
	return out.String()
}

// cost is the worst outage of one kind of fault.
type cost struct {
	times, alone   int
	longest, after time.Duration // without answers, and the part of it after the fault was over
}

// table shows for every kind of fault how often it occurred, and the longest gap among the
// times when it was alone.
func (r *faultRun) table(stalls []stall) string {
	costs := map[string]cost{}
	const several = "several at once"
	for _, b := range r.bursts {
		for _, kind := range b.kinds {
			c := costs[kind]
			c.times++
			costs[kind] = c
		}
		kind := b.kinds[0]
		if len(b.kinds) > 1 {
			kind = several
		}
		c := costs[kind]
		c.alone++
		for _, s := range stalls {
			// A gap that began before has another reason. But the packet that was sent just
			// before the fault may already be lost.
			if s.Last.Before(b.began.Add(-100*time.Millisecond)) || s.Last.After(b.works) {
				continue
			}
			c.longest, c.after = max(c.longest, s.length()), max(c.after, min(s.length(), s.First.Sub(b.over)))
		}
		costs[kind] = c
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tTIMES\tALONE\tLONGEST GAP\tOF IT AFTER THE END")
	for _, kind := range slices.Sorted(maps.Keys(costs)) {
		c := costs[kind]
		longest, after := "-", "-"
		if c.alone > 0 {
			longest, after = fmt.Sprintf("%.2f s", c.longest.Seconds()), fmt.Sprintf("%.2f s", c.after.Seconds())
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", kind, c.times, c.alone, longest, after)
	}
	_ = w.Flush()
	return out.String()
}

// worksBetween asks a pod of every node of b from a pod of every node of a, and compares both
// clusters' reports about the connection.
func (l lab) worksBetween(t *testing.T, way connection) error {
	t.Helper()
	state, err := l.try(t, "kubectl", way.a, "get", "connections", "-n", "liqo-tenant-"+way.b, "-o", "jsonpath={.items[*].status.value}")
	if err != nil {
		return err
	}
	if state != "Connected" {
		return fmt.Errorf("Connection of %s with %s: %q", way.a, way.b, state)
	}
	seen := l.translations(t, way.a, way.b)
	for _, node := range l.nodes(t, way.a) {
		for _, peerNode := range l.nodes(t, way.b) {
			url := fmt.Sprintf("http://%s:8080/?bytes=20000", seen.of(t, l.podIP(t, way.b, web(peerNode))))
			if _, err := l.try(t, "kubectl", way.a, "exec", web(node), "--", "/pod", "get", "--timeout", "2s", url); err != nil {
				return fmt.Errorf("pod on %s to pod on %s: %w", node, peerNode, err)
			}
		}
	}
	return nil
}
