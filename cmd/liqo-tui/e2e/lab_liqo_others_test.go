package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

// besideAPeering lets liqoctl peer two clusters with Liqo and offload a namespace. Then the
// program works on both of them. Afterwards all objects from before are the same, and the
// offloaded pod still answers.
func (l lab) besideAPeering(t *testing.T, c connection, work func()) {
	t.Helper()
	const namespace = "abroad"
	l.liqoctl(t, l.argsOf(c, "peer", "--cpu", "1", "--memory", "1Gi", "--gw-server-service-type", "NodePort", "--timeout", "3m")...)
	l.must(t, "kubectl", c.a, "create", "namespace", namespace)
	consumer := []string{"--kubeconfig", l.kubeconfig, "--context", "lab-" + c.a}
	l.liqoctl(t, append(consumer, "offload", "namespace", namespace, "--pod-offloading-strategy", "Remote")...)
	l.apply(t, c.a, lentWeb(namespace))
	l.must(t, "kubectl", c.a, "-n", namespace, "rollout", "status", "deployment/web", "--timeout=120s")
	l.besideGateway(t, c.a, c.b, namespace)
	answers := func() {
		t.Helper()
		l.asks(t, c.a, namespace)
		l.asks(t, c.b, namespace+"-"+c.a)
	}
	answers()
	planted := l.contents(t, c.a, c.b)

	work()

	eventually(t, 60*time.Second, func() error {
		if diff := cmp.Diff(planted, l.contents(t, c.a, c.b)); diff != "" {
			return fmt.Errorf("objects of others differ (-before +after):\n%s", diff)
		}
		return nil
	})
	answers()
	l.liqoctl(t, append(consumer, "unoffload", "namespace", namespace, "--skip-confirm")...)
	l.must(t, "kubectl", c.a, "delete", "namespace", namespace, "--timeout=120s")
	l.liqoctl(t, l.argsOf(c, "unpeer", "--skip-confirm")...)
	// It keeps the tenant namespaces. One holds a Renew, with nonces and certificates that our
	// next unpeer would remove.
	for _, way := range c.ways() {
		l.must(t, "kubectl", way.a, "-n", "liqo-tenant-"+way.b, "delete", "secrets", "--all")
	}
}

// testPeeringOfOthers runs commands for connections between a third cluster and the two that
// liqoctl has peered, and kills them at random changes. A command that would break the peering
// is refused.
func (l lab) testPeeringOfOthers(t *testing.T, peered connection) {
	for _, command := range []string{"reset", "rotate-keys", "delegate"} {
		l.between(peered, command, "--yes").want(t, exit.Preflight)
	}
	for _, cluster := range []string{peered.a, peered.b} {
		l.tui("uninstall", "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--yes").want(t, exit.Preflight)
	}
	before := l.everything(t, peered.a, peered.b)
	rnd := rand.New(rand.NewPCG(sample.Seed(t), 1)) //nolint:gosec // it has to be the same again
	killed := 0
	for n := range sample.Of(6, 60) {
		with := connection{"napoli", []string{peered.a, peered.b}[n%2]}
		var said []string
		life := lifeBeside(rnd)
		for i, command := range life {
			last := i == len(life)-1 // the last command ends the connection, and is not killed
			change := 0
			if !last && rnd.IntN(2) == 0 {
				change = 1 + rnd.IntN(6)
			}
			got, died := runUntil(t, change, time.Duration(rnd.IntN(20))*time.Millisecond, append(l.argsOf(with, "network", command[0]), command[1:]...)...)
			said = append(said, fmt.Sprintf("%s: killed: %v, exit code %d", strings.Join(command, " "), died, got.code))
			if died {
				killed++
			} else if last && got.code != exit.OK {
				t.Fatalf("%s: %s\n%s", with, strings.Join(said, "\n"), got.err)
			}
		}
		t.Logf("%s: %s", with, strings.Join(said, "; "))
	}
	if killed == 0 {
		t.Error("no command was killed: this test shows little of it")
	}
	for cluster := range before {
		// Liqo v1.2 leaves this behind if a GatewayServer is deleted while Liqo makes the
		// gateway.
		l.must(t, "kubectl", cluster, "delete", "clusterrolebinding", "liqo-gateway-liqo-tenant-napoli-napoli", "--ignore-not-found")
	}
	l.isAsBefore(t, before)
}

// lifeBeside returns the commands in the life of a connection, with parts left out at random.
func lifeBeside(rnd *rand.Rand) [][]string {
	connect := []string{"connect", "--server-service-type", "NodePort", "--server-location", []string{"local", "remote"}[rnd.IntN(2)]}
	if rnd.IntN(2) == 0 {
		connect = append(connect, "--mtu", "1300")
	}
	life := [][]string{connect}
	for _, command := range [][]string{{"rotate-keys"}, {"disconnect"}, connect} {
		if rnd.IntN(2) == 0 {
			life = append(life, command)
		}
	}
	for i := range life {
		life[i] = append(slices.Clone(life[i]), "--yes", "--timeout", "20s")
	}
	return append(life, []string{"reset", "--yes", "--timeout", "120s"})
}

// runUntil runs the program, and kills it a while after its n-th change, if it makes that
// many. So it ends between two requests or during one, and can't react.
func runUntil(t *testing.T, n int, while time.Duration, args ...string) (_ result, killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t), append(args, "-o", "ndjson")...)
	var out, errs bytes.Buffer
	cmd.Stderr = &errs
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20) // the program would block for ever if nobody read a long line
	for lines.Scan() {
		out.WriteString(lines.Text() + "\n")
		if !strings.Contains(lines.Text(), `"type":"change"`) || n == 0 {
			continue
		}
		if n--; n == 0 {
			time.Sleep(while)
			killed = cmd.Process.Kill() == nil
		}
	}
	_ = cmd.Wait() // the exit code is enough
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}, killed && cmd.ProcessState.ExitCode() < 0
}

// contents returns all objects of some clusters, without those that come and go by themselves,
// and without the controllers' reports in them.
func (l lab) contents(t *testing.T, clusters ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, cluster := range clusters {
		var list unstructured.UnstructuredList
		text := l.must(t, "kubectl", cluster, "get", strings.Join(l.kinds(t, cluster), ","), "-A", "--ignore-not-found", "-o", "json")
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.GetKind() == "RouteConfiguration" && o.GetNamespace() == "liqo" {
				continue // Liqo's routes of a node to all peers, in random order
			}
			unstructured.RemoveNestedField(o.Object, "status")
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "virtual-kubelet.io/last-applied-node-status") // it has a heartbeat
			o.SetManagedFields(nil)
			o.SetResourceVersion("")
			text, err := json.MarshalIndent(o.Object, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			out[fmt.Sprintf("%s %s %s/%s", cluster, o.GetKind(), o.GetNamespace(), o.GetName())] = string(text)
		}
	}
	return out
}
