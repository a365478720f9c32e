package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// Connections through routers that translate addresses, and advice where these let
// nothing through. Rome can be dialled. Milan and napoli are each behind a router that
// lets only answers in.
func TestBehindNAT(t *testing.T) {
	l := makeShape(t, "--clusters", "rome,milan,napoli", "--nat", "milan,napoli", "--load", "../../../bin/images/liqo-gateway.tar")
	l.clusters = []string{"rome", "milan", "napoli"}
	for _, cluster := range l.clusters {
		l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--cluster-id", cluster,
			"--image", labImage, "--pod-cidr", labPodCIDR).want(t, exit.OK)
		for _, node := range l.nodes(t, cluster) {
			l.apply(t, cluster, webPod(t, node))
		}
		l.must(t, "kubectl", cluster, "wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=180s")
	}
	open, both := connection{"rome", "milan"}, connection{"milan", "napoli"}
	behind := func(c connection, flags ...string) func(*testing.T) {
		return func(t *testing.T) { l.testBehindNAT(t, c, flags...) }
	}
	refused := func(t *testing.T) {
		before := map[string][]string{both.a: l.objects(t, both.a), both.b: l.objects(t, both.b)}
		got := l.between(both, "connect", "--probe", "--yes", "--timeout", "20s").want(t, exit.Preflight)
		if !strings.Contains(got.err, "--client-address") {
			t.Errorf("got %q, want what helps", got.err)
		}
		for cluster, objects := range before {
			if diff := cmp.Diff(objects, l.objects(t, cluster)); diff != "" {
				t.Errorf("objects of %s changed (-before +after):\n%s", cluster, diff)
			}
		}
	}
	t.Run("two that can't be dialled are refused before anything changes", refused)
	t.Run("what can be dialled becomes the server", behind(open, "--probe", "--server-location", "auto"))
	t.Run("so it does from the other side", behind(connection{"milan", "rome"}, "--probe", "--server-location", "auto"))
	t.Run("and where nobody has said or tried anything, after a dial in vain", behind(open))
	t.Run("a router that gives each flow another port", func(t *testing.T) {
		l.must(t, "rebind", "milan")
		defer l.must(t, "restore")
		l.testBehindNAT(t, open, "--server-location", "Local")
	})
	t.Run("a router that forgets its flows, and is given another address", func(t *testing.T) {
		l.testRouterMoves(t, open, 2*time.Second)
	})
	t.Run("a server that can't be dialled is named", func(t *testing.T) { l.testClosed(t, open) })
	t.Run("a server behind a port that is passed on", func(t *testing.T) {
		l.must(t, "forward", "milan", "5182", "31820")
		l.testBehindNAT(t, open, "--server-location", "Remote", "--server-service-type", "NodePort", "--node-port", "31820",
			"--client-address", l.state(t).wan(12), "--client-port", "5182")
	})
	t.Run("two that can't be dialled are refused where others were connected", refused)
	t.Run("two that can't be dialled, by a relay that both dial", func(t *testing.T) { l.testByRelay(t, both) })
}

// testBehindNAT connects, until packets have passed from pod to pod both ways, and then
// removes the connection.
func (l lab) testBehindNAT(t *testing.T, c connection, flags ...string) {
	t.Helper()
	defer l.removed(t, c)
	began := time.Now()
	got := l.between(c, "connect", append(flags, "--yes", "--wait=verified", "--timeout", "60s")...).want(t, exit.OK)
	t.Logf("%s verified in %.1fs\n%s", c, time.Since(began).Seconds(), got.err)
	for _, way := range c.ways() {
		eventually(t, 20*time.Second, func() error { return l.worksBetween(t, way) })
	}
	l.both(c, "check").want(t, exit.OK)
}

// testRouterMoves connects, and gives the router of the client's cluster another address
// while pods of the server's cluster send: they can't know the client's new address. The
// kernel forgets its translations to the old address.
func (l lab) testRouterMoves(t *testing.T, c connection, bound time.Duration) {
	defer l.removed(t, c)
	l.between(c, "connect", "--server-location", "Local", "--yes", "--wait=verified", "--timeout", "60s").want(t, exit.OK)
	state := l.state(t)
	before, after := state.wan(12), state.wan(202) // the lab's program lists the owners of addresses
	router, wan := state.Name+"-"+c.b+"-nat", state.Name+"-wan"
	in := func(namespace, command string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "ip", append([]string{"netns", "exec", namespace}, strings.Fields(command)...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s in %s: %v %s", command, namespace, err, out)
		}
		return string(out)
	}
	move := func(from, prefix string) {
		t.Helper()
		to, _, _ := strings.Cut(prefix, "/")
		in(wan, "ip route replace "+to+" dev "+c.b)
		in(router, "ip addr add "+prefix+" dev eth0")
		in(router, "ip addr del "+from+" dev eth0")
		in(router, "ip route replace "+state.wan(254)+" dev eth0 src "+to)
		in(router, "ip route replace default via "+state.wan(254)+" src "+to)
	}
	in(wan, "nft add table inet seen")
	defer in(wan, "nft delete table inet seen")
	in(wan, "nft add chain inet seen forward { type filter hook forward priority 0 ; }")
	in(wan, "nft add rule inet seen forward ip saddr "+after+" meta l4proto udp counter")
	var moved time.Time
	o := l.senderBetween(t, c, c.a+"-1", c.b+"-1").during(t, 8, 4*time.Second, func() {
		moved = time.Now()
		move(before+"/24", after+"/32")
	})
	if seen := in(wan, "nft list table inet seen"); strings.Contains(seen, "packets 0") {
		t.Errorf("nothing came from the router's other address: %s", seen)
	}
	move(after+"/32", before+"/24")
	o.report(t, "router of "+c.b+" has another address", moved, bound)
}

// testClosed lets the client dial a port that its router does not let in.
func (l lab) testClosed(t *testing.T, c connection) {
	defer l.removed(t, c)
	got := l.between(c, "connect", "--server-location", "Remote", "--yes", "--timeout", "15s")
	if got.code == exit.OK {
		t.Fatalf("it connected:\n%s", got.out)
	}
	t.Logf("exit code %d\n%s", got.code, got.err)
	said := l.both(c, "check")
	t.Logf("check: exit code %d\n%s", said.code, said.out)
	for _, want := range []string{"UDP", "--server-location"} {
		if !slices.ContainsFunc([]string{got.err, said.out}, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("nothing says %q", want)
		}
	}
}

// testByRelay connects two clusters that dial a machine outside of both.
func (l lab) testByRelay(t *testing.T, c connection) {
	defer l.removed(t, c)
	state := l.state(t)
	relay := state.wan(254) + ":4500"
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", state.Name+"-wan", "../../../bin/liqo-gateway", "relay", "--port", "4500", "--allow", state.wan(0)+"/24")
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	stop := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	running := start()
	defer func() { stop(running) }()
	got := l.between(c, "connect", "--relay", relay, "--yes", "--wait=verified", "--timeout", "60s").want(t, exit.OK)
	t.Logf("connected and verified by a relay\n%s", got.err)
	for _, way := range c.ways() {
		eventually(t, 20*time.Second, func() error { return l.worksBetween(t, way) })
	}
	l.both(c, "check").want(t, exit.OK)
	t.Run("Services by name", func(t *testing.T) {
		pair := lab{l.kubeconfig, []string{c.a, c.b}}
		pair.exportAll(t, []connection{c})
		pair.importsAll(t, []connection{c})
		pair.endExports(t)
	})
	if again := l.between(c, "connect", "--yes").want(t, exit.OK); !strings.Contains(again.err, "the relay stays "+relay) {
		t.Errorf("connecting again says %q, want that the relay stays", again.err)
	}

	stop(running)
	eventually(t, 30*time.Second, func() error {
		if said := l.both(c, "check"); !strings.Contains(said.out, "liqo-gateway relay has to run at "+relay) {
			return fmt.Errorf("exit code %d, and no word of the relay:\n%s", said.code, said.out)
		}
		return nil
	})
	back := time.Now()
	running = start()
	eventually(t, 20*time.Second, func() error { return l.worksBetween(t, c.ways()[0]) })
	t.Logf("%.1fs after the relay was back pods reached each other", time.Since(back).Seconds())
}

// removed removes the connection, and waits until Kubernetes has removed its objects.
func (l lab) removed(t *testing.T, c connection) {
	t.Helper()
	l.between(c, "reset", "--yes", "--timeout", "60s").want(t, exit.OK)
	l.waitForNamespacesGone(t)
}
