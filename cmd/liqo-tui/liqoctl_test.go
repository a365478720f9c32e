package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const liqoctlProgram = "../../bin/liqoctl"

// TestLabLiqoctl has the released liqoctl, unmodified, and our program work on
// the same clusters, which run our operator: what one made, the other uses.
func TestLabLiqoctl(t *testing.T) {
	l := useLab(t)
	if _, err := os.Stat(liqoctlProgram); err != nil {
		t.Fatalf("liqoctl has not been built (make bin/liqoctl): %v", err)
	}
	l.prepare(t)
	nodePort := []string{"--gw-server-service-type", "NodePort", "--wait", "--timeout", "120s"}

	t.Run("liqoctl connects, and packets flow", func(t *testing.T) {
		l.liqoctl(t, l.pair(append([]string{"network", "connect"}, nodePort...)...)...)
		l.testPaths(t)
	})
	t.Run("what liqoctl connected, we use as it is", func(t *testing.T) {
		before := l.versions(t)
		if got := l.connect("--server-service-type", "NodePort", "--yes").want(t, exitOK); !strings.HasPrefix(got.out, "No changes.\n") {
			t.Errorf("got %q, want it to start with No changes.\n%s", got.out, got.err)
		}
		if diff := cmp.Diff(before, l.versions(t)); diff != "" {
			t.Errorf("objects are not as liqoctl left them (-before +after):\n%s", diff)
		}
	})
	t.Run("what we see, liqoctl prints", l.testGenerate)
	t.Run("we disconnect, liqoctl connects again", func(t *testing.T) {
		l.tui(append(l.pair("network", "disconnect"), "--yes")...).want(t, exitOK)
		l.liqoctl(t, l.pair(append([]string{"network", "connect"}, nodePort...)...)...)
		l.testPaths(t)
	})
	t.Run("liqoctl disconnects, we connect again", func(t *testing.T) {
		l.liqoctl(t, l.pair("network", "disconnect", "--skip-confirm")...)
		l.connect("--server-service-type", "NodePort", "--yes").want(t, exitOK)
		l.testPaths(t)
	})
	t.Run("liqoctl resets, and nothing is left for us", func(t *testing.T) {
		l.liqoctl(t, l.pair("network", "reset", "--skip-confirm")...)
		l.reset().want(t, exitOK)
		for _, cluster := range l.clusters {
			if got := l.must(t, "kubectl", cluster, "get", "configurations,gatewayservers,gatewayclients,publickeies,connections", "-A", "-o", "name"); got != "" {
				t.Errorf("left on %s: %s", cluster, got)
			}
		}
	})
}

func (l lab) testGenerate(t *testing.T) {
	conf := l.liqoctl(t, "generate", "configuration", "--kubeconfig", l.kubeconfig, "--context", "lab-rome")
	for _, want := range []string{"liqo.io/remote-cluster-id: rome", labPodCIDR, "10.70.0.0/16"} {
		if !strings.Contains(conf, want) {
			t.Errorf("generate configuration: got\n%s\nwant %s in it", conf, want)
		}
	}
	key := l.liqoctl(t, "generate", "publickey", "--kubeconfig", l.kubeconfig, "--context", "lab-rome",
		"-n", "liqo-tenant-milan", "--gateway-type", "client", "--gateway-name", "milan")
	published := l.must(t, "kubectl", "rome", "get", "gatewayclient", "-n", "liqo-tenant-milan", "milan",
		"-o", `jsonpath={.metadata.annotations.liqo-tui\.dev/public-key}`)
	if published == "" || !strings.Contains(key, "publicKey: "+published) {
		t.Errorf("generate publickey: got\n%s\nwant the key that the operator published, %q", key, published)
	}
}

func (l lab) liqoctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), liqoctlProgram, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("liqoctl %s: %v\n%s%s", strings.Join(args, " "), err, out, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
