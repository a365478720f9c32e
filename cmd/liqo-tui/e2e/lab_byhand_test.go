package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// TestLabByHand makes the eight manual steps of two admins in Liqo's documents, in the
// namespace that these use: by the released liqoctl and by our program in turn.
func TestLabByHand(t *testing.T) {
	l := useLab(t)
	if _, err := os.Stat(liqoctlProgram); err != nil {
		t.Fatalf("liqoctl has not been built (make bin/liqoctl): %v", err)
	}
	l.prepare(t)
	own := map[string]string{}
	for _, cluster := range l.clusters {
		own[cluster] = l.own(t, cluster)
	}
	for _, turns := range []struct{ odd, even string }{{"liqoctl", "liqo-tui"}, {"liqo-tui", "liqoctl"}, {"liqo-tui", "liqo-tui"}} {
		t.Run("odd steps by "+turns.odd+", even ones by "+turns.even, func(t *testing.T) {
			began := time.Now()
			l.eightSteps(t, func(step int, cluster string, args ...string) string {
				t.Helper()
				args = append(args, "--kubeconfig", own[cluster])
				if program := []string{turns.even, turns.odd}[step%2]; program == "liqoctl" {
					return l.liqoctl(t, args...)
				}
				return l.tui(args...).want(t, exit.OK).out
			})
			t.Logf("connected after %.1f s", time.Since(began).Seconds())
			l.testPaths(t)
			l.testByHand(t)
		})
	}
}

// own returns a kubeconfig with only one cluster.
func (l lab) own(t *testing.T, cluster string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(l.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.CurrentContext = "lab-" + cluster
	file := filepath.Join(t.TempDir(), "config")
	if err := errors.Join(clientcmdapi.MinifyConfig(config), clientcmd.WriteToFile(*config, file)); err != nil {
		t.Fatal(err)
	}
	return file
}

// eightSteps connects rome, the client, with milan, the server. do makes one step by
// one of the programs.
func (l lab) eightSteps(t *testing.T, do func(step int, cluster string, args ...string) string) {
	t.Helper()
	ofClient := do(1, "rome", "generate", "configuration")
	l.apply(t, "milan", ofClient)
	ofServer := do(2, "milan", "generate", "configuration")
	l.apply(t, "rome", ofServer) // the third step, by kubectl
	do(4, "milan", "create", "gatewayserver", "server", "--remote-cluster-id", "rome", "--service-type", "NodePort", "--wait")
	endpoint := strings.Fields(l.must(t, "kubectl", "milan", "get", "gatewayserver", "-n", "default", "server",
		"-o", "jsonpath={.status.endpoint.addresses[0]} {.status.endpoint.port}"))
	if len(endpoint) != 2 {
		t.Fatalf("got endpoint %q, want an address and a port", endpoint)
	}
	do(5, "rome", "create", "gatewayclient", "client", "--remote-cluster-id", "milan", "--addresses", endpoint[0], "--port", endpoint[1], "--wait")
	keyOfServer := do(6, "milan", "generate", "publickey", "--gateway-type", "server", "--gateway-name", "server")
	l.apply(t, "rome", keyOfServer)
	keyOfClient := do(7, "rome", "generate", "publickey", "--gateway-type", "client", "--gateway-name", "client")
	l.apply(t, "milan", keyOfClient) // the eighth
	for cluster, connection := range map[string]string{"rome": "gw-client", "milan": "gw-server"} {
		l.must(t, "kubectl", cluster, "wait", "-n", "default", "connection/"+connection, "--for=jsonpath={.status.value}=Connected", "--timeout=180s")
	}
}

// testByHand uses all commands on a connection that was made by hand, and removes it.
func (l lab) testByHand(t *testing.T) {
	t.Helper()
	here := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(l.tui(append(args, "--kubeconfig", l.kubeconfig, "--context", "lab-rome")...).want(t, exit.OK).out)
	}
	if got := here("info", "peer", "milan", "--get", "namespace"); got != "default" {
		t.Errorf("info: got namespace %q, want default", got)
	}
	l.tui(l.pair("check")...).want(t, exit.OK)
	l.connect("--yes").want(t, exit.OK) // a Configuration of liqoctl does not have the peer's UID: connect writes it
	before := l.versions(t)
	if got := l.connect("--yes").want(t, exit.OK); !strings.HasPrefix(got.out, "No changes.\n") {
		t.Errorf("connect: got %q, want it to start with No changes.\n%s", got.out, got.err)
	}
	if diff := cmp.Diff(before, l.versions(t)); diff != "" {
		t.Errorf("connect changed objects (-before +after):\n%s", diff)
	}
	l.tui(append(l.pair("network", "disconnect"), "--yes")...).want(t, exit.OK)
	l.reset().want(t, exit.OK)
	for _, cluster := range l.clusters {
		if got := l.must(t, "kubectl", cluster, "get", "configurations,gatewayservers,gatewayclients,publickeies,connections", "-A", "-o", "name"); got != "" {
			t.Errorf("left on %s: %s", cluster, got)
		}
	}
}
