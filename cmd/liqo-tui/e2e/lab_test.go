package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report/reporttest"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/terminaltest"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// lab is the two real clusters of `make lab-up`, both with pods in 10.244.0.0/16.
type lab struct {
	kubeconfig string
	clusters   []string
}

const (
	labProgram = "../../../bin/lab"
	labImage   = "lab.local/liqo-gateway:dev"
	labPodCIDR = "10.244.0.0/16"
)

// useLab gives the lab to a test in its first state. When the test ends, its changes have to be undone, or
// the test fails.
func useLab(t *testing.T) lab {
	t.Helper()
	l := findLab(t)
	l.begin(t)
	return l
}

// useShape is useLab for a lab of another shape, given as the flags of `lab up`. It replaces the present lab
// if that has another shape.
func useShape(t *testing.T, shape ...string) lab {
	t.Helper()
	l := makeShape(t, append(shape, "--load", "../../../bin/images/liqo-gateway.tar")...)
	l.end(t)
	return l
}

// makeShape is useShape for tests that load images, without the comparison at the end.
func makeShape(t *testing.T, shape ...string) lab {
	t.Helper()
	mayMakeLab(t)
	var l lab
	l.must(t, append([]string{"fresh"}, shape...)...)
	return findLab(t)
}

// mayMakeLab skips a test if somebody's lab may be up.
func mayMakeLab(t *testing.T) {
	t.Helper()
	if os.Getenv("REQUIRE_LAB") == "" {
		t.Skip("makes a lab of its own, which takes the place of another: set REQUIRE_LAB")
	}
}

// fresh has the folder of a lab that the last test has left as it was.
var fresh struct{ labDir string }

// begin restores the lab's first state, and does so again when the test ends. A lab without a mark counts as
// fresh.
func (l lab) begin(t *testing.T) {
	t.Helper()
	dir := filepath.Dir(l.kubeconfig)
	if _, err := os.Stat(filepath.Join(dir, "mark.json")); err != nil {
		l.must(t, "mark")
	} else if fresh.labDir != dir {
		l.must(t, "reset")
	}
	l.end(t)
}

// end fails the test if the lab has leftovers that neither our own commands nor an admin removes. Pods,
// namespaces and the like are an admin's.
func (l lab) end(t *testing.T) {
	fresh.labDir = ""
	t.Cleanup(func() {
		began := time.Now()
		l.uninstall(t)
		uninstalled := time.Now()
		out, err := exec.Command(labProgram, "reset").CombinedOutput()
		if err != nil {
			t.Errorf("%s leaves something in the lab: %v\n%s", t.Name(), err, out)
		} else {
			fresh.labDir = filepath.Dir(l.kubeconfig)
		}
		t.Logf("led the lab back: our commands took %.1f s, the lab's reset %.1f s", uninstalled.Sub(began).Seconds(), time.Since(uninstalled).Seconds())
	})
}

// uninstall removes our objects by our own commands.
func (l lab) uninstall(t *testing.T) {
	t.Helper()
	connected := false
	for _, cluster := range l.clusters {
		kubectl := filepath.Join(filepath.Dir(l.kubeconfig), "bin", "kubectl")
		out, err := exec.Command(kubectl, "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster,
			"get", "namespaces", "-l", "liqo.io/tenant-namespace", "-o", "name").Output()
		if err != nil {
			t.Errorf("namespaces of %s: %v", cluster, err)
		}
		connected = connected || len(out) > 0
	}
	if connected && len(l.clusters) == 2 {
		if got := l.reset(); got.code != exit.OK {
			t.Errorf("reset: got exit code %d\n%s%s", got.code, got.out, got.err)
		}
	}
	l.each(t, func(cluster string) result {
		return l.tui("uninstall", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster)
	})
}

// each runs the program for all clusters side by side, because it waits most of the time.
func (l lab) each(t *testing.T, work func(cluster string) result) {
	t.Helper()
	results := make([]result, len(l.clusters))
	var wait sync.WaitGroup
	for i, cluster := range l.clusters {
		wait.Go(func() { results[i] = work(cluster) })
	}
	wait.Wait()
	for i, r := range results {
		if r.code != exit.OK {
			t.Errorf("%s: got exit code %d\n%s%s", l.clusters[i], r.code, r.out, r.err)
		}
	}
}

// findLab returns the present lab. If a lab is required, the test fails without one instead of being skipped.
func findLab(t *testing.T) lab {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), labProgram, "kubeconfig").CombinedOutput()
	if err == nil {
		return lab{kubeconfig: strings.TrimSpace(string(out)), clusters: []string{"rome", "milan"}}
	}
	why := fmt.Sprintf("the lab is not up (make lab-up, as root): %v %s", err, out)
	if os.Getenv("REQUIRE_LAB") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
	return lab{}
}

// labState is the lab's own record of its shape.
type labState struct {
	Name string       `json:"name"` // prefix of its network namespaces
	WAN  netip.Prefix `json:"wan"`  // this machine has the first address, the clusters' begin at 11
}

// wan is an address of the network between the clusters, a /24.
func (s labState) wan(last byte) string {
	a := s.WAN.Addr().As4()
	a[3] = last
	return netip.AddrFrom4(a).String()
}

func (l lab) state(t *testing.T) (s labState) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(l.kubeconfig), "lab.json"))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatalf("read the lab's state: %v", err)
	}
	return s
}

// result is one run of the program.
type result struct {
	code     int
	out, err string
}

// built is the program as users run it. With GOCOVERDIR it writes its coverage there.
var built = sync.OnceValues(func() (_ string, err error) {
	if builtIn, err = os.MkdirTemp("", "liqo-tui-e2e-"); err != nil {
		return "", err
	}
	file := filepath.Join(builtIn, "liqo-tui")
	args := []string{"build", "-buildvcs=false", "-o", file}
	if os.Getenv("GOCOVERDIR") != "" {
		args = append(args, "-cover", "-coverpkg=github.com/liqo-tui/liqo-tui/...")
	}
	if out, err := exec.Command("go", append(args, "..")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return file, nil
})

var builtIn string // its folder; "" before the build

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

func program(t *testing.T) string {
	t.Helper()
	file, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// tui runs the program without a terminal, like a script.
func (l lab) tui(args ...string) result {
	file, err := built()
	if err != nil {
		return result{-1, "", err.Error()}
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(file, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code is enough
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func (l lab) pair(command ...string) []string {
	return append(command, "--kubeconfig", l.kubeconfig, "--context", "lab-rome",
		"--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-milan")
}

func (l lab) connect(args ...string) result {
	return l.tui(append(l.pair("network", "connect"), append([]string{"--timeout", "120s"}, args...)...)...)
}

func (l lab) reset() result {
	return l.tui(append(l.pair("network", "reset"), "--yes", "--timeout", "120s")...)
}

func (r result) want(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("got exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.code, code, r.out, r.err)
	}
	return r
}

// must runs the lab's program: kubectl in a cluster, or a command on a node.
func (l lab) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := l.try(t, args...)
	if err != nil {
		t.Fatalf("lab %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (l lab) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := l.command(t, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// command is a command of the lab's program. It starts kubectl directly, because the lab's program would only
// do the same: that saves half of the work.
func (l lab) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if args[0] != "kubectl" {
		return exec.CommandContext(t.Context(), labProgram, args...)
	}
	dir := filepath.Dir(l.kubeconfig)
	config := "--kubeconfig=" + filepath.Join(dir, args[1], "pki", "admin.kubeconfig")
	return exec.CommandContext(t.Context(), filepath.Join(dir, "bin", "kubectl"), append([]string{config}, args[2:]...)...)
}

// eventually repeats check until it succeeds, for actions of other programs, such as a node's kube-proxy.
// After a slow check it rests for as long, because the other programs need the machine, too.
func eventually(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(terminaltest.Patience * within)
	for {
		began := time.Now()
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", terminaltest.Patience*within, err)
		}
		time.Sleep(max(200*time.Millisecond, time.Since(began)))
	}
}

func TestLab(t *testing.T) {
	l := useLab(t)
	l.prepare(t)
	before := l.kernels(t)

	t.Run("refuses what can't work, and changes nothing", l.testRefusals)
	t.Run("install refuses to run beside Liqo", l.testBesideLiqo)
	t.Run("NodePort", func(t *testing.T) { l.testConnection(t, "NodePort") })
	t.Run("columns of kubectl get", l.testColumns)
	t.Run("a second run changes nothing", l.testSecondRun)
	t.Run("reset leaves nothing behind", func(t *testing.T) { l.testReset(t, before) })
	t.Run("LoadBalancer", func(t *testing.T) { l.testConnection(t, "LoadBalancer") })
	t.Run("reset leaves nothing behind again", func(t *testing.T) { l.testReset(t, before) })
	t.Run("uninstall removes what install made", l.testUninstall)
}

// prepare installs our operator on both clusters, and a pod on each node.
func (l lab) prepare(t *testing.T) {
	t.Helper()
	l.each(t, func(cluster string) result {
		return l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--cluster-id", cluster,
			"--pod-cidr", labPodCIDR, "--image", labImage)
	})
	if t.Failed() {
		t.FailNow()
	}
	l.runPods(t)
}

// runPods creates a pod on each node.
func (l lab) runPods(t *testing.T) {
	t.Helper()
	for _, cluster := range l.clusters {
		for _, node := range l.nodes(t, cluster) {
			l.apply(t, cluster, webPod(t, node))
		}
	}
	for _, cluster := range l.clusters {
		l.must(t, "kubectl", cluster, "wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=60s")
	}
}

func (l lab) testRefusals(t *testing.T) {
	same := l.tui("network", "connect", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-rome",
		"--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-rome").want(t, exit.Preflight)
	if !strings.Contains(same.err, "are the same cluster") {
		t.Errorf("the same cluster twice: got %q", same.err)
	}
	unknown := l.tui("network", "connect", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-napoli",
		"--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-milan").want(t, exit.Usage)
	if !strings.Contains(unknown.err, "lab-milan, lab-rome") {
		t.Errorf("an unknown context: got %q, want the known ones named", unknown.err)
	}
	asks := l.connect().want(t, exit.Usage)
	if !strings.Contains(asks.err, "--yes") {
		t.Errorf("without a terminal: got %q, want --yes named", asks.err)
	}
	for _, cluster := range l.clusters {
		if got := l.must(t, "kubectl", cluster, "get", "configurations,gatewayservers,gatewayclients", "-A", "-o", "name"); got != "" {
			t.Errorf("refused commands left on %s: %s", cluster, got)
		}
	}
}

// nodes are the names of a cluster's nodes. One of them runs the gateway. Pods on the others are the normal
// case.
func (l lab) nodes(t *testing.T, cluster string) []string {
	t.Helper()
	return strings.Fields(l.must(t, "kubectl", cluster, "get", "nodes", "-l", "!liqo.io/type", "-o", "jsonpath={.items[*].metadata.name}")) // not virtual ones
}

// webPod is the demonstration's pod on one node, named after the node.
func webPod(t *testing.T, node string) string {
	t.Helper()
	manifest, err := os.ReadFile("../../../testdata/demo/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(
		"  name: web\n", "  name: "+web(node)+"\n  labels: {app: web}\n",
		"spec:\n", "spec:\n  nodeName: "+node+"\n",
	).Replace(string(manifest))
}

func web(node string) string { return "web-" + node }

func (l lab) apply(t *testing.T, cluster, manifest string) {
	t.Helper()
	cmd := l.command(t, "kubectl", cluster, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("apply on %s: %v\n%s\n%s", cluster, err, out, manifest)
	}
}

// testConnection connects, and lets the pods of every node, and the nodes, talk to the pods of every node of
// the other cluster, both ways.
func (l lab) testConnection(t *testing.T, serviceType string) {
	got := l.connect("--server-service-type", serviceType, "--yes").want(t, exit.OK)
	t.Logf("connect:\n%s%s", got.err, got.out)
	l.testPaths(t)
}

// testPaths tests all paths between the two clusters.
func (l lab) testPaths(t *testing.T) {
	t.Helper()
	for _, cluster := range l.clusters {
		state := l.must(t, "kubectl", cluster, "get", "connections", "-A", "-o", "jsonpath={.items[*].status.value}")
		if state != "Connected" {
			t.Errorf("Connection of %s: got %q, want Connected", cluster, state)
		}
	}
	for _, d := range []struct{ from, to string }{{"rome", "milan"}, {"milan", "rome"}} {
		for _, from := range l.nodes(t, d.from) {
			for _, to := range l.nodes(t, d.to) {
				l.testPath(t, d.from, from, d.to, to)
			}
		}
	}
}

// testPath asks the pod on one node from the pod on another cluster's node, and from that node itself. It
// compares the source addresses in the answers.
func (l lab) testPath(t *testing.T, cluster, node, peer, peerNode string) {
	url := fmt.Sprintf("http://%s:8080/", l.seenFrom(t, cluster, peer, peerNode))
	seen := l.client(t, l.must(t, "kubectl", cluster, "exec", web(node), "--", "/pod", "get", "--timeout", "10s", url))
	if want := l.seenFrom(t, peer, cluster, node); seen != want {
		t.Errorf("pod on %s to pod on %s: seen as %s, want its remapped address %s", node, peerNode, seen, want)
	}
	seen = l.client(t, l.must(t, "exec", cluster, node, "--", "curl", "--silent", "--show-error", "--max-time", "10", url))
	if want := l.remapped(t, peer, cluster, "external").Addr(); seen != want {
		t.Errorf("node %s to pod on %s: seen as %s, want the first external address %s", node, peerNode, seen, want)
	}
}

// client is the source address of the request, as the answer has it.
func (l lab) client(t *testing.T, answer string) netip.Addr {
	t.Helper()
	var body struct{ Client string }
	if err := json.Unmarshal([]byte(answer), &body); err != nil {
		t.Fatalf("answer %q: %v", answer, err)
	}
	ap, err := netip.ParseAddrPort(body.Client)
	if err != nil {
		t.Fatalf("answer %q: %v", answer, err)
	}
	return ap.Addr()
}

// remapped is the prefix under which cluster sees the pods, or the external range, of peer.
func (l lab) remapped(t *testing.T, cluster, peer, kind string) netip.Prefix {
	t.Helper()
	text := l.must(t, "kubectl", cluster, "get", "configurations", "-A", "-l", "liqo.io/remote-cluster-id="+peer,
		"-o", "jsonpath={.items[*].status.remote.cidr."+kind+"[0]}")
	p, err := netip.ParsePrefix(text)
	if err != nil {
		t.Fatalf("%s CIDR of %s on %s: %v", kind, peer, cluster, err)
	}
	return p
}

// seenFrom is the address under which cluster's pods reach the pod on a node of peer.
func (l lab) seenFrom(t *testing.T, cluster, peer, node string) netip.Addr {
	t.Helper()
	ip := netip.MustParseAddr(l.must(t, "kubectl", peer, "get", "pod", web(node), "-o", "jsonpath={.status.podIP}"))
	seen, err := ipam.Remap(ip, netip.MustParsePrefix(labPodCIDR), l.remapped(t, cluster, peer, "pod"))
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// testColumns compares the columns with those in Liqo's documentation.
func (l lab) testColumns(t *testing.T) {
	for _, c := range []struct {
		cluster, kind, header string
		row                   []string
	}{
		{"rome", "connections", "NAMESPACE NAME TYPE STATUS AGE", []string{"liqo-tenant-milan", "gw-milan", "Client", "Connected"}},
		{"milan", "connections", "NAMESPACE NAME TYPE STATUS AGE", []string{"liqo-tenant-rome", "gw-rome", "Server", "Connected"}},
		{"rome", "gatewayclients", "NAMESPACE NAME TEMPLATE NAME IP PORT AGE", []string{"liqo-tenant-milan", "milan", "wireguard-client"}},
		{"milan", "gatewayservers", "NAMESPACE NAME TEMPLATE NAME IP PORT AGE", []string{"liqo-tenant-rome", "rome", "wireguard-server"}},
		{"rome", "configurations", "NAMESPACE NAME DESIRED POD CIDR REMAPPED POD CIDR AGE", []string{"liqo-tenant-milan", "milan"}},
		{"milan", "publickeies", "NAMESPACE NAME AGE", []string{"liqo-tenant-rome", "rome"}},
	} {
		lines := strings.Split(l.must(t, "kubectl", c.cluster, "get", c.kind, "-A"), "\n")
		if len(lines) != 2 {
			t.Errorf("%s on %s: got %d lines, want a header and one row:\n%s", c.kind, c.cluster, len(lines), strings.Join(lines, "\n"))
			continue
		}
		if got := strings.Join(strings.Fields(lines[0]), " "); got != c.header {
			t.Errorf("%s on %s: got columns %q, want %q", c.kind, c.cluster, got, c.header)
		}
		if got := strings.Fields(lines[1]); !slices.Equal(got[:min(len(got), len(c.row))], c.row) {
			t.Errorf("%s on %s: got row %q, want it to start with %q", c.kind, c.cluster, got, c.row)
		}
	}
}

func (l lab) testSecondRun(t *testing.T) {
	before := l.versions(t)
	got := l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK)
	if !strings.HasPrefix(got.out, "No changes.\n") {
		t.Errorf("got %q, want it to start with No changes.", got.out)
	}
	if diff := cmp.Diff(before, l.versions(t)); diff != "" {
		t.Errorf("a second run changed objects (-before +after):\n%s", diff)
	}
}

// versions are the resource versions of the objects that connect applies. They show real changes, because a
// write without a change keeps them.
func (l lab) versions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, cluster := range l.clusters {
		out[cluster] = l.must(t, "kubectl", cluster, "get", "configurations,gatewayservers,gatewayclients,publickeies", "-A",
			"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
	}
	return out
}

func (l lab) testReset(t *testing.T, before map[string]string) {
	got := l.reset().want(t, exit.OK)
	t.Logf("reset:\n%s%s", got.err, got.out)
	l.waitForNamespacesGone(t)
	kinds := "configurations,gatewayservers,gatewayclients,publickeies,connections,internalfabrics"
	for _, cluster := range l.clusters {
		if got := l.must(t, "kubectl", cluster, "get", kinds, "-A", "-o", "name"); got != "" {
			t.Errorf("reset left on %s:\n%s", cluster, got)
		}
	}
	eventually(t, 30*time.Second, func() error {
		if diff := cmp.Diff(before, l.kernels(t)); diff != "" {
			return fmt.Errorf("the nodes' kernels differ (-before +after):\n%s", diff)
		}
		return nil
	})
	l.reset().want(t, exit.OK) // a missing connection is no error
}

// testBesideLiqo gives milan the Deployment by which Liqo's controller-manager is known.
func (l lab) testBesideLiqo(t *testing.T) {
	manager := []string{"kubectl", "milan", "-n", "liqo"}
	l.must(t, append(manager, "create", "deployment", "liqo-controller-manager", "--image", "none", "--replicas", "0")...)
	defer l.must(t, append(manager, "delete", "deployment", "liqo-controller-manager")...)
	l.must(t, append(manager, "label", "--overwrite", "deployment", "liqo-controller-manager",
		"app.kubernetes.io/name=controller-manager", "app.kubernetes.io/part-of=liqo")...)
	got := l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-milan", "--cluster-id", "milan",
		"--pod-cidr", labPodCIDR, "--image", labImage).want(t, exit.Preflight)
	if !strings.Contains(got.err, "two operators would undo each other") {
		t.Errorf("got %q, want the reason", got.err)
	}
}

func (l lab) testUninstall(t *testing.T) {
	milan := []string{"--kubeconfig", l.kubeconfig, "--context", "lab-milan"}
	l.tui(append([]string{"uninstall"}, milan...)...).want(t, exit.Usage) // no terminal, no --yes
	lines := reporttest.CheckEvents(t, l.tui(append([]string{"uninstall", "--yes", "-o", "ndjson"}, milan...)...).want(t, exit.OK).out)
	if last := lines[len(lines)-1]; last["changed"] != true {
		t.Errorf("got %v, want something changed", last)
	}
	eventually(t, 60*time.Second, func() error {
		left := l.must(t, "kubectl", "milan", "get", "namespaces,clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/managed-by=liqo-tui", "-o", "name")
		if left != "" {
			return fmt.Errorf("uninstall left %s", left)
		}
		return nil
	})
	if got := l.tui(append([]string{"uninstall", "--yes"}, milan...)...).want(t, exit.OK); !strings.HasPrefix(got.out, "No changes") {
		t.Errorf("a second time: got %q, want No changes", got.out)
	}
	connect := l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.Preflight)
	if !strings.Contains(connect.err, "liqo-tui install --kubeconfig "+l.kubeconfig+" --context lab-milan") {
		t.Errorf("connecting without an operator: got %q, want the install command named", connect.err)
	}
}

func (l lab) waitForNamespacesGone(t *testing.T) {
	t.Helper()
	for _, cluster := range l.clusters {
		eventually(t, 30*time.Second, func() error {
			if left := l.must(t, "kubectl", cluster, "get", "namespaces", "-l", "liqo.io/tenant-namespace", "-o", "name"); left != "" {
				return fmt.Errorf("%s still has %s", cluster, left)
			}
			return nil
		})
	}
}

// kernels is the kernel state of every node as far as networking depends on it, without parts of single pods,
// and without IPv6: an interface gets its own IPv6 address a second or two after its creation.
func (l lab) kernels(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, cluster := range l.clusters {
		for name, command := range map[string]string{
			"links":  "ip -brief link",
			"rules":  "ip rule",
			"routes": "ip -4 route show table all",
			// kube-proxy keeps chains of Services that are gone until it syncs next. The
			// pod network has a chain CNI-..., or several cali-..., for each pod: an operator's pod that was
			// killed may have come back on another node.
			"firewall": "nft list tables | grep -v kube-proxy | while read _ table; do nft --stateless list table $table; done | " +
				"awk '/chain (CNI-|cali-)/ {skip = 1} !skip && !/CNI-|cali-/; /}/ {skip = 0}'",
			"overlay": "bridge fdb show | grep -v 33:33: ; ip -4 neighbour show nud permanent",
		} {
			for _, node := range l.nodes(t, cluster) {
				out[node+" "+name] = normalize(l.must(t, "exec", cluster, node, "--", "sh", "-c", command))
			}
		}
	}
	return out
}

// normalize drops lines of pods' interfaces, which Calico calls cali... and Cilium lxc..., empty ones, and the
// order, which the kernel does not promise.
func normalize(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		ofPod := slices.ContainsFunc([]string{"veth", "cali", "lxc"}, func(name string) bool { return strings.Contains(line, name) })
		if line = strings.TrimSpace(line); line != "" && !ofPod {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
