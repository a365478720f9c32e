package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

const liqoctlProgram = "../../../bin/liqoctl"

// TestLabLiqoctl uses the released liqoctl, unmodified, and our program on the same clusters, which run our
// operator: each uses the objects of the other.
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
		made := l.uids(t)
		// Liqoctl's Configurations do not have the peer's UID. Our program writes it, and nothing else.
		l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK)
		if diff := cmp.Diff(made, l.uids(t)); diff != "" {
			t.Errorf("objects were made anew (-before +after):\n%s", diff)
		}
		before := l.versions(t)
		if got := l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK); !strings.HasPrefix(got.out, "No changes.\n") {
			t.Errorf("got %q, want it to start with No changes.\n%s", got.out, got.err)
		}
		if diff := cmp.Diff(before, l.versions(t)); diff != "" {
			t.Errorf("objects are not as liqoctl left them (-before +after):\n%s", diff)
		}
	})
	t.Run("what we see, liqoctl prints", l.testGenerate)
	t.Run("info says that the peer's network is healthy", l.testInfo)
	t.Run("we disconnect, liqoctl connects again", func(t *testing.T) {
		l.tui(append(l.pair("network", "disconnect"), "--yes")...).want(t, exit.OK)
		l.liqoctl(t, l.pair(append([]string{"network", "connect"}, nodePort...)...)...)
		l.testPaths(t)
	})
	t.Run("liqoctl disconnects, we connect again", func(t *testing.T) {
		l.liqoctl(t, l.pair("network", "disconnect", "--skip-confirm")...)
		l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK)
		l.testPaths(t)
	})
	t.Run("what we connected, liqoctl uses as it is", func(t *testing.T) {
		before := l.uids(t)
		l.liqoctl(t, l.pair(append([]string{"network", "connect"}, nodePort...)...)...)
		if diff := cmp.Diff(before, l.uids(t)); diff != "" {
			t.Errorf("objects were made anew (-before +after):\n%s", diff)
		}
		l.testPaths(t)
	})
	t.Run("liqoctl resets, and nothing is left for us", func(t *testing.T) {
		l.liqoctl(t, l.pair("network", "reset", "--skip-confirm")...)
		l.reset().want(t, exit.OK)
		for _, cluster := range l.clusters {
			if got := l.must(t, "kubectl", cluster, "get", "configurations,gatewayservers,gatewayclients,publickeies,connections", "-A", "-o", "name"); got != "" {
				t.Errorf("left on %s: %s", cluster, got)
			}
		}
	})
	t.Run("liqoctl creates each part by itself, and packets flow", l.testCreate)
	t.Run("what liqoctl created, we use and remove", func(t *testing.T) {
		before := l.uids(t)
		l.connect("--yes").want(t, exit.OK) // writes the peer's UID
		if got := l.connect("--yes").want(t, exit.OK); !strings.HasPrefix(got.out, "No changes.\n") {
			t.Errorf("got %q, want it to start with No changes.\n%s", got.out, got.err)
		}
		if diff := cmp.Diff(before, l.uids(t)); diff != "" {
			t.Errorf("objects were made anew (-before +after):\n%s", diff)
		}
		l.reset().want(t, exit.OK)
	})
}

// uids are the objects' UIDs. liqoctl writes all objects again, with its own empty fields in the specs, so
// their versions change.
func (l lab) uids(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, cluster := range l.clusters {
		out[cluster] = l.must(t, "kubectl", cluster, "get", "configurations,gatewayservers,gatewayclients,publickeies,deployments", "-A",
			"-l", "liqo.io/remote-cluster-id", "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.spec.publicKey}{"\n"}{end}`)
	}
	return out
}

// testInfo reads liqoctl's output about the ForeignClusters that our operator keeps.
func (l lab) testInfo(t *testing.T) {
	var local struct {
		Local    struct{ ClusterID string }
		Peerings struct {
			Peers []struct{ ClusterID, NetworkingStatus, AuthenticationStatus, OffloadingStatus string }
		}
	}
	l.liqoctlJSON(t, &local, "info")
	peers := local.Peerings.Peers
	if local.Local.ClusterID != "rome" || len(peers) != 1 || peers[0].ClusterID != "milan" || peers[0].NetworkingStatus != "Healthy" ||
		peers[0].AuthenticationStatus != "Disabled" || peers[0].OffloadingStatus != "Disabled" {
		t.Errorf("info: got %+v, want rome with one peer, milan, whose network alone is enabled, and healthy", local)
	}
	type cidr struct{ Pod []string }
	var remote map[string]struct {
		Network struct {
			Status string
			CIDRs  struct{ Remote, Remapped cidr }
		}
	}
	l.liqoctlJSON(t, &remote, "info", "peer", "milan")
	network := remote["milan"].Network
	if network.Status != "Healthy" || !slices.Equal(network.CIDRs.Remote.Pod, []string{labPodCIDR}) ||
		!slices.Equal(network.CIDRs.Remapped.Pod, []string{l.remapped(t, "rome", "milan", "pod").String()}) {
		t.Errorf("info peer: got %+v, want a healthy network and what the operator decided", network)
	}
}

func (l lab) liqoctlJSON(t *testing.T, into any, args ...string) {
	t.Helper()
	out := l.liqoctl(t, append(args, "--kubeconfig", l.kubeconfig, "--context", "lab-rome", "-o", "json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("liqoctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// testCreate uses liqoctl without a kubeconfig of both clusters: each admin makes their part, and sends the
// other one the values that it needs.
func (l lab) testCreate(t *testing.T) {
	const gateway = "by-hand" // the two names may differ
	on := func(cluster, peer string, args ...string) string {
		return l.liqoctl(t, append(args, "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "-n", "liqo-tenant-"+peer)...)
	}
	for _, side := range [][2]string{{"rome", "milan"}, {"milan", "rome"}} {
		cluster, peer := side[0], side[1]
		l.apply(t, cluster, fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: liqo-tenant-%[1]s, labels: {
			liqo.io/tenant-namespace: "true", liqo.io/remote-cluster-id: %[1]s, pod-security.kubernetes.io/enforce: privileged}}}`, peer))
		l.apply(t, cluster, inNamespace(t, on(peer, cluster, "generate", "configuration"), "liqo-tenant-"+peer))
	}
	on("milan", "rome", "create", "gatewayserver", gateway, "--remote-cluster-id", "rome", "--service-type", "NodePort", "--wait")
	endpoint := strings.Fields(l.must(t, "kubectl", "milan", "get", "gatewayserver", "-n", "liqo-tenant-rome", gateway,
		"-o", "jsonpath={.status.endpoint.addresses[0]} {.status.endpoint.port}"))
	on("rome", "milan", "create", "gatewayclient", gateway, "--remote-cluster-id", "milan", "--addresses", endpoint[0], "--port", endpoint[1], "--wait")
	for _, way := range [][3]string{{"rome", "milan", "client"}, {"milan", "rome", "server"}} {
		key := on(way[0], way[1], "generate", "publickey", "--gateway-type", way[2], "--gateway-name", gateway)
		l.apply(t, way[1], inNamespace(t, key, "liqo-tenant-"+way[0]))
	}
	for _, side := range [][2]string{{"rome", "milan"}, {"milan", "rome"}} {
		l.must(t, "kubectl", side[0], "wait", "-n", "liqo-tenant-"+side[1], "connection/gw-"+gateway, "--for=jsonpath={.status.value}=Connected", "--timeout=60s")
	}
	l.testPaths(t)
}

// inNamespace is a manifest of liqoctl for a namespace: the admin who applies it chooses the namespace.
func inNamespace(t *testing.T, manifest, namespace string) string {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &o); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	metadata, ok := o["metadata"].(map[string]any)
	if !ok {
		t.Fatalf("no metadata in\n%s", manifest)
	}
	metadata["namespace"] = namespace
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
