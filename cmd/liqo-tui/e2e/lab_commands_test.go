package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
)

// TestLabCommands runs the commands of the manual in the lab, with packets.
func TestLabCommands(t *testing.T) {
	l := useLab(t)
	l.prepare(t)
	podRanges := func(cidrs string) {
		t.Helper()
		l.tui("install", "--kubeconfig", l.kubeconfig, "--context", "lab-milan", "--pod-cidr", cidrs, "--yes", "--timeout", "90s").want(t, exit.OK)
	}

	l.tui(append(l.pair("network", "init"), "--yes", "--timeout", "60s")...).want(t, exit.OK)
	if got := l.seenAs(t); got == "" {
		t.Error("after init, rome does not know how it will see milan's pods")
	}
	l.connect("--server-service-type", "NodePort", "--yes", "--wait=verified").want(t, exit.OK)
	before := l.seenAs(t)

	t.Run("verify measures between pods", func(t *testing.T) {
		out := l.tui(append(l.pair("network", "verify"), "-o", "json")...).want(t, exit.OK).out
		var v report.Verification
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatal(err)
		}
		if !v.Verified || v.Between != "pods" || v.AToB.Received == 0 || v.BToA.Received == 0 || v.AToB.AvgMicros == 0 {
			t.Errorf("got %+v, want packets of pods both ways", v)
		}
	})
	t.Run("info peer says what the gateways report", func(t *testing.T) {
		for i, cluster := range l.clusters {
			other := l.clusters[1-i]
			got := strings.TrimSpace(l.tui("info", "peer", other, "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--get", "state").want(t, exit.OK).out)
			if got != "connected" {
				t.Errorf("%s says of %s: %q, want connected", cluster, other, got)
			}
		}
	})
	t.Run("check finds nothing wrong", func(t *testing.T) {
		l.tui(l.pair("check")...).want(t, exit.OK)
	})
	t.Run("a cluster that announces itself is found in its LAN", l.testDiscover)
	t.Run("rotate-keys gives both gateways other keys", func(t *testing.T) {
		before := l.publicKeys(t)
		l.tui(append(l.pair("network", "rotate-keys"), "--yes", "--timeout", "90s")...).want(t, exit.OK)
		for i, key := range l.publicKeys(t) {
			if key == before[i] || key == "" {
				t.Errorf("%s has key %q, want another than before", l.clusters[i], key)
			}
		}
		l.tui(l.pair("network", "verify")...).want(t, exit.OK)
	})
	t.Run("a range of pods that is new is passed on by connect", func(t *testing.T) {
		podRanges(labPodCIDR + ",10.122.0.0/16")
		l.connect("--yes").want(t, exit.OK) // without a wait: install has waited for the operator
		if got := l.seenAs(t); strings.Count(got, "/") != 2 || !strings.HasPrefix(got, before) {
			t.Errorf("rome sees milan's pods as %q, want %s and another range", got, before)
		}
	})
	t.Run("delegate has the operators carry a changed endpoint, and a range that is new", func(t *testing.T) {
		// Milan's operator reaches rome's API server by another address, as behind a NAT.
		const name = "kubernetes.default" // a name in the API server's certificate
		defer l.resolves(t, "milan", name, l.wan(t, 1))()
		url, passed := l.passOn(t, name, "rome")
		l.tui(append(l.pair("network", "delegate"), "--api-server", url, "--yes", "--timeout", "60s")...).want(t, exit.OK)
		l.must(t, "kubectl", "milan", "patch", "gatewayserver", "rome", "-n", "liqo-tenant-rome", "--type", "merge",
			"-p", `{"spec":{"endpoint":{"nodePort":30222}}}`)
		l.must(t, "kubectl", "rome", "wait", "gatewayclient", "milan", "-n", "liqo-tenant-milan",
			"--for=jsonpath={.spec.endpoint.port}=30222", "--timeout=30s")
		if passed.Load() == 0 {
			t.Errorf("nobody came by %s", url)
		}

		podRanges(labPodCIDR + ",10.122.0.0/16,10.123.0.0/16")
		eventually(t, 20*time.Second, func() error {
			if got := l.seenAs(t); strings.Count(got, "/") != 3 || !strings.HasPrefix(got, before) || strings.Contains(got, "10.123") {
				return fmt.Errorf("rome sees milan's pods as %q, want %s and two other ranges", got, before)
			}
			return nil
		})
		l.tui(l.pair("check")...).want(t, exit.OK)
		l.tui(l.pair("network", "verify")...).want(t, exit.OK)
	})
	t.Run("disconnect keeps the addresses", func(t *testing.T) {
		l.tui(append(l.pair("network", "disconnect"), "--yes", "--timeout", "60s")...).want(t, exit.OK)
		l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK)
		if got := l.seenAs(t); !strings.HasPrefix(got, before) {
			t.Errorf("rome sees milan's pods as %s, want %s as before", got, before)
		}
	})
	t.Run("two admins connect their clusters by two files", func(t *testing.T) {
		l.reset().want(t, exit.OK)
		l.byFiles(t, connection{"rome", "milan"})
		l.tui(l.pair("network", "verify")...).want(t, exit.OK)
	})
}

// byFiles connects two clusters, each by its own admin: the first one invites.
func (l lab) byFiles(t *testing.T, c connection) {
	t.Helper()
	invitation, answer := filepath.Join(t.TempDir(), "invitation.yaml"), filepath.Join(t.TempDir(), "answer.yaml")
	alone := func(cluster string, words ...string) {
		t.Helper()
		l.tui(append(words, "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--yes", "--timeout", "90s")...).want(t, exit.OK)
	}
	alone(c.a, "network", "invite", "--for", c.b, "--server-service-type", "NodePort", "--file", invitation)
	alone(c.b, "network", "join", invitation, "--file", answer)
	alone(c.a, "network", "accept", answer)
}

// seenAs is the range under which rome sees milan's pods.
func (l lab) seenAs(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(l.tui("info", "peer", "milan", "--kubeconfig", l.kubeconfig, "--context", "lab-rome",
		"--get", "network.cidr.remapped.pod").want(t, exit.OK).out)
}

// publicKeys are the gateways' public keys, in the order of the clusters.
func (l lab) publicKeys(t *testing.T) []string {
	t.Helper()
	keys := make([]string, len(l.clusters))
	for i, cluster := range l.clusters {
		other := l.clusters[1-i]
		keys[i] = strings.TrimSpace(l.tui("info", "peer", other, "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster,
			"--get", "network.gateway.publicKey").want(t, exit.OK).out)
	}
	return keys
}

// discovered has the fields of `discover -o json` that a script reads.
type discovered struct {
	Clusters []struct {
		ID       string              `json:"clusterID"`
		Server   string              `json:"server"`
		Answers  bool                `json:"answers"`
		Contexts []discoveredContext `json:"contexts"`
	} `json:"clusters"`
}

type discoveredContext struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// testDiscover asks from a machine in rome's LAN: one of its nodes.
func (l lab) testDiscover(t *testing.T) {
	program, err := filepath.Abs("../../../bin/liqo-tui")
	if err != nil {
		t.Fatal(err)
	}
	nodes := l.nodes(t, "rome")
	server := l.must(t, "kubectl", "rome", "get", "endpointslice", "kubernetes", "-o", "jsonpath=https://{.endpoints[0].addresses[0]}:{.ports[0].port}")
	announce := func(what string) {
		t.Helper()
		l.tui("install", "--kubeconfig", l.kubeconfig, "--context", "lab-rome", "--announce", what, "--yes", "--timeout", "90s").want(t, exit.OK)
	}
	ask := func() (d discovered, err error) {
		t.Helper()
		out, err := l.try(t, "exec", "rome", nodes[len(nodes)-1], "--", program, "discover", "--kubeconfig", l.kubeconfig, "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &d)
		}
		return d, err
	}
	defer announce("none")
	announce(server)
	eventually(t, 20*time.Second, func() error {
		d, err := ask()
		if err != nil || len(d.Clusters) != 1 {
			return fmt.Errorf("got %+v, %w, want one cluster", d, err)
		}
		if c := d.Clusters[0]; c.ID != "rome" || c.Server != server || !c.Answers || !slices.Equal(c.Contexts, []discoveredContext{{Name: "lab-rome", File: l.kubeconfig}}) {
			return fmt.Errorf("got %+v, want rome at %s, with its context", c, server)
		}
		return nil
	})
	announce("none")
	eventually(t, 20*time.Second, func() error {
		if d, err := ask(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("exit status %d", exit.Unhealthy)) {
			return fmt.Errorf("got %+v, %v, want that none is found", d, err) //nolint:errorlint // it may be nil
		}
		return nil
	})
}
