package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

// useLiqo makes a lab in which two clusters run Liqo's own controllers, of the same release
// or of two, and the third runs ours.
func useLiqo(t *testing.T, milan string) lab {
	t.Helper()
	l := makeShape(t, "--clusters", "rome,milan,napoli", "--liqo", "rome=1.2,milan="+milan, "--load", "../../../bin/images/liqo-gateway.tar")
	l.clusters = []string{"rome", "milan", "napoli"}
	return l
}

// beside is two clusters of which at least one runs Liqo.
type beside struct {
	connection
	server  string // the side with the tunnel's server
	rotates bool   // one gateway is ours, and replaces its key
	older   bool   // one cluster runs a release that does not work with the liqoctl of these tests
}

func TestBesideLiqo(t *testing.T) {
	releases := []string{"1.2"}
	if sample.All() {
		releases = append(releases, "1.1")
	}
	for _, milan := range releases {
		t.Run("v1.2 and v"+milan, func(t *testing.T) { testBesideLiqo(t, useLiqo(t, milan), milan) })
	}
}

func testBesideLiqo(t *testing.T, l lab, milan string) {
	l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-napoli", "--cluster-id", "napoli", "--image", labImage, "--pod-cidr", labPodCIDR).want(t, exit.OK)
	for _, cluster := range l.clusters {
		for _, node := range l.nodes(t, cluster) {
			l.apply(t, cluster, webPod(t, node))
		}
		l.must(t, "kubectl", cluster, "wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=180s")
	}
	pairs := []beside{
		{connection: connection{"rome", "milan"}, server: "Remote", older: milan != "1.2"},
		{connection: connection{"rome", "napoli"}, server: "Remote", rotates: true},
		{connection: connection{"rome", "napoli"}, server: "Local", rotates: true},
	}
	first := sample.Seed(t)
	for i := range uint64(sample.Of(1, len(pairs))) { // each takes up to 3 minutes
		b := pairs[(first+i)%uint64(len(pairs))]
		t.Run(fmt.Sprintf("%s, server %s", b.connection, b.server), func(t *testing.T) { l.testBeside(t, b) })
	}
	ways := lendings()
	for i := range uint64(sample.Of(1, len(ways)+1)) {
		peered := connection{"rome", "milan"}
		switch n := (first + i) % uint64(len(ways)+1); {
		case n < uint64(len(ways)):
			t.Run("rome uses resources of milan, "+ways[n].name, func(t *testing.T) { l.testPeer(t, peered.a, peered.b, ways[n]) })
		case milan != "1.2": // the liqoctl of these tests does not work with it
			t.Run("napoli uses resources of milan, without Liqo", l.testPeerOfLiqo)
		default:
			t.Run("beside a peering of liqoctl's", func(t *testing.T) {
				l.besideAPeering(t, peered, func() {
					l.testPeeringOfOthers(t, peered)
					l.testPeerOfLiqo(t)
				})
			})
		}
	}
}

// testPeerOfLiqo lets a consumer with our operator use resources of a provider with Liqo.
// The other direction is refused.
func (l lab) testPeerOfLiqo(t *testing.T) {
	install := func(role string) {
		l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-napoli", "--peering", role).want(t, exit.OK)
	}
	install("consumer")
	t.Cleanup(func() { install("none") })
	eventually(t, 30*time.Second, func() error { // the installation's, which the operator makes
		_, err := l.try(t, "kubectl", "napoli", "-n", "liqo", "get", "secret", "authentication-keys")
		return err
	})
	l.lendsEachWay(t, []connection{{"napoli", "milan"}})
	refused := l.tui("peer", "--kubeconfig", l.kubeconfig, "--context", "lab-milan", "--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-napoli", "--yes").want(t, exit.Preflight)
	if !strings.Contains(refused.err, "runs Liqo, which sends labels and annotations along") {
		t.Errorf("got %q, want the reason why Liqo can't use resources of ours", refused.err)
	}
}

// testBeside runs the commands for a connection, one after the other.
func (l lab) testBeside(t *testing.T, b beside) {
	before := l.everything(t, b.a, b.b)
	flags := []string{"--server-service-type", "NodePort", "--server-location", b.server, "--yes", "--timeout", "120s"}
	packets := func(t *testing.T) {
		t.Helper()
		for _, way := range b.ways() {
			eventually(t, 20*time.Second, func() error { return l.worksBetween(t, way) })
		}
	}
	if !t.Run("check --pre fails nowhere", func(t *testing.T) { l.both(b.connection, "check", "--pre").want(t, exit.OK) }) {
		return
	}
	if !t.Run("connect", func(t *testing.T) {
		began := time.Now()
		got := l.between(b.connection, "connect", flags...).want(t, exit.OK)
		t.Logf("connected in %.1fs\n%s", time.Since(began).Seconds(), got.out)
		packets(t)
	}) {
		return
	}
	t.Run("connect again changes nothing", func(t *testing.T) {
		versions := l.versionsOf(t, b.connection)
		if got := l.between(b.connection, "connect", flags...).want(t, exit.OK); !strings.HasPrefix(got.out, "No changes.\n") {
			t.Errorf("got %q, want it to start with No changes.\n%s", got.out, got.err)
		}
		if diff := cmp.Diff(versions, l.versionsOf(t, b.connection)); diff != "" {
			t.Errorf("objects changed (-before +after):\n%s", diff)
		}
	})
	t.Run("info and check say what Kubernetes says", func(t *testing.T) {
		for _, way := range b.ways() {
			l.testSaid(t, way)
		}
		l.both(b.connection, "check").want(t, exit.OK)
	})
	t.Run("verify", func(t *testing.T) {
		var v report.Verification
		out := l.between(b.connection, "verify", "--image", labImage, "-o", "json").want(t, exit.OK).out
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatal(err)
		}
		if !v.Verified || v.Between != "pods" {
			t.Errorf("got %+v, want packets of pods both ways", v)
		}
	})
	t.Run("another MTU", func(t *testing.T) {
		l.between(b.connection, "connect", append(flags, "--mtu", "1300", "--image", labImage, "--wait=verified")...).want(t, exit.OK)
	})
	t.Run("rotate-keys says what it can't, and changes nothing", func(t *testing.T) {
		versions := l.versionsOf(t, b.connection)
		got := l.between(b.connection, "rotate-keys", "--yes", "--timeout", "60s")
		if b.rotates {
			if got.want(t, exit.OK); !strings.Contains(got.out, "The key of rome's gateway was kept") {
				t.Errorf("got %q, want it to say which key was kept", got.out)
			}
			packets(t)
			return
		}
		if got.want(t, exit.Preflight); !strings.Contains(got.err, "key") {
			t.Errorf("got %q, want the reason", got.err)
		}
		if diff := cmp.Diff(versions, l.versionsOf(t, b.connection)); diff != "" {
			t.Errorf("objects changed (-before +after):\n%s", diff)
		}
	})
	t.Run("delegate says that Liqo passes no changes on", func(t *testing.T) {
		versions := l.versionsOf(t, b.connection)
		if got := l.between(b.connection, "delegate", "--yes").want(t, exit.Preflight); !strings.Contains(got.err, "connected by Liqo, which can't pass changes") {
			t.Errorf("got %q, want the reason", got.err)
		}
		if diff := cmp.Diff(versions, l.versionsOf(t, b.connection)); diff != "" {
			t.Errorf("objects changed (-before +after):\n%s", diff)
		}
	})
	if b.server == "Remote" {
		t.Run("another port, a load balancer, and the server on the other side", func(t *testing.T) {
			for _, change := range [][]string{
				{"--server-port", "51841"},
				{"--server-service-type", "LoadBalancer"},
				{"--server-location", "Local"},
			} {
				l.between(b.connection, "connect", append(change, "--yes", "--timeout", "120s")...).want(t, exit.OK)
				packets(t)
			}
			l.between(b.connection, "connect", append(flags, "--server-port", "51840")...).want(t, exit.OK)
			packets(t)
		})
	}
	t.Run("disconnect, and connect again with the same ranges", func(t *testing.T) {
		seen := l.translations(t, b.a, b.b)
		l.between(b.connection, "disconnect", "--yes", "--timeout", "60s").want(t, exit.OK)
		l.between(b.connection, "connect", flags...).want(t, exit.OK)
		packets(t)
		if again := l.translations(t, b.a, b.b); !slices.Equal(seen.remapped, again.remapped) {
			t.Errorf("%s sees %s's pods as %v, want %v as before", b.a, b.b, again.remapped, seen.remapped)
		}
	})
	if b.server == "Remote" && !b.older {
		t.Run("liqoctl and we in turn", func(t *testing.T) { l.testTurns(t, b.connection) })
	}
	reset := func(t *testing.T) {
		t.Helper()
		l.between(b.connection, "reset", "--yes", "--timeout", "120s").want(t, exit.OK)
		l.isAsBefore(t, before)
		l.between(b.connection, "reset", "--yes", "--timeout", "120s").want(t, exit.OK) // a missing connection is no error
	}
	t.Run("reset leaves what was there before", reset)
	if b.server == "Remote" {
		t.Run("two admins connect their clusters by two files", func(t *testing.T) {
			l.byFiles(t, b.connection)
			packets(t)
			reset(t)
		})
		t.Run("what export writes connects them, applied by kubectl", func(t *testing.T) {
			l.byKubectl(t, b.connection)
			packets(t)
			if got := l.between(b.connection, "connect", flags...).want(t, exit.OK); !strings.HasPrefix(got.out, "No changes.\n") {
				t.Errorf("got %q, want it to start with No changes.\n%s", got.out, got.err)
			}
			// The program that made the namespaces removes them: here kubectl.
			l.between(b.connection, "reset", "--yes", "--timeout", "120s").want(t, exit.OK)
			for _, way := range b.ways() {
				l.must(t, "kubectl", way.a, "delete", "namespace", "liqo-tenant-"+way.b, "--timeout=180s")
			}
			reset(t)
		})
	}
}

// byKubectl applies the output of export by kubectl, until export knows all values.
func (l lab) byKubectl(t *testing.T, c connection) {
	t.Helper()
	made, err := os.MkdirTemp("", "export") // a test's own folder has its name with a comma, at which kubectl splits
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(made)
	for folder := filepath.Join(made, "first"); ; folder += "-next" {
		got := l.between(c, "connect", "--server-service-type", "NodePort", "--export", folder).want(t, exit.OK)
		for _, cluster := range []string{c.a, c.b} {
			l.must(t, "kubectl", cluster, "apply", "-f", filepath.Join(folder, cluster))
		}
		if !strings.Contains(got.err+got.out, "left out:") {
			return
		}
		if strings.Count(folder, "-next") == 30 {
			t.Fatalf("after 30 rounds export still says:\n%s%s", got.out, got.err)
		}
		time.Sleep(time.Second) // export waits for values of the operators
	}
}

// both runs a command for two clusters that is not one of network's.
func (l lab) both(c connection, command ...string) result { return l.tui(l.argsOf(c, command...)...) }

func (l lab) argsOf(c connection, command ...string) []string {
	return append(command, "--kubeconfig", l.kubeconfig, "--context", "lab-"+c.a,
		"--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-"+c.b)
}

// testSaid compares info's output about a peer with the objects.
func (l lab) testSaid(t *testing.T, way connection) {
	t.Helper()
	said := map[string]string{}
	for _, key := range []string{"state", "network.cidr.remapped.pod", "network.cidr.remapped.external"} {
		said[key] = strings.TrimSpace(l.tui("info", "peer", way.b, "--kubeconfig", l.kubeconfig, "--context", "lab-"+way.a, "--get", key).want(t, exit.OK).out)
	}
	seen := l.translations(t, way.a, way.b)
	want := map[string]string{
		"state":                          strings.ToLower(l.must(t, "kubectl", way.a, "get", "connections", "-n", "liqo-tenant-"+way.b, "-o", "jsonpath={.items[*].status.value}")),
		"network.cidr.remapped.pod":      seen.remapped[0].String(),
		"network.cidr.remapped.external": seen.remappedExternal.String(),
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("info peer %s on %s (-objects +said):\n%s", way.b, way.a, diff)
	}
}

// versionsOf returns the objects of the connection, with the versions of their specs.
func (l lab) versionsOf(t *testing.T, c connection) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, way := range c.ways() {
		out[way.a] = l.must(t, "kubectl", way.a, "get", "configurations,gatewayservers,gatewayclients,publickeies,deployments,services,secrets", "-n", "liqo-tenant-"+way.b,
			"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.generation}{"\n"}{end}`)
	}
	return out
}

// everything returns the names of all objects of some clusters.
func (l lab) everything(t *testing.T, clusters ...string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, cluster := range clusters {
		all[cluster] = l.objects(t, cluster)
	}
	return all
}

// isAsBefore waits until the clusters have exactly the objects from before.
func (l lab) isAsBefore(t *testing.T, before map[string][]string) {
	t.Helper()
	eventually(t, 60*time.Second, func() error {
		if diff := cmp.Diff(before, l.everything(t, slices.Collect(maps.Keys(before))...)); diff != "" {
			return fmt.Errorf("objects differ (-before +after):\n%s", diff)
		}
		return nil
	})
}

// objects returns the names of all objects of a cluster, without those that come and go by
// themselves.
func (l lab) objects(t *testing.T, cluster string) []string {
	t.Helper()
	names := strings.Split(l.must(t, "kubectl", cluster, "get", strings.Join(l.kinds(t, cluster), ","), "-A", "--ignore-not-found",
		"-o", `jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}`), "\n")
	slices.Sort(names)
	return names
}

// kinds returns the kinds whose objects stay.
func (l lab) kinds(t *testing.T, cluster string) []string {
	t.Helper()
	// Liqo keeps a ForeignCluster of each cluster that it ever knew.
	passing := []string{
		"foreignclusters.core.liqo.io", "bindings", "componentstatuses", "endpoints", "certificatesigningrequests.certificates.k8s.io", "endpointslices.discovery.k8s.io", "events", "events.events.k8s.io",
		"leases.coordination.k8s.io", "pods", "replicasets.apps", "controllerrevisions.apps",
	}
	return slices.DeleteFunc(strings.Fields(l.must(t, "kubectl", cluster, "api-resources", "--verbs=list", "-o", "name")),
		func(kind string) bool { return slices.Contains(passing, kind) })
}
