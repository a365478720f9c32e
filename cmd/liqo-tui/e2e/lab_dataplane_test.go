package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// The lab of these tests: rome is connected with both others, whose addresses
// are the same. Every kind of network and of kube-proxy occurs at least once.
//
//	         network   kube-proxy   pods
//	rome     calico    nftables     10.244.0.0/17 and 10.200.0.0/16, in blocks
//	milan    vpc       iptables     10.244.0.0/16, each node's pods any of them
//	napoli   flannel   nftables     10.244.0.0/16
func useThreeClusters(t *testing.T) lab {
	t.Helper()
	l := makeShape(t, "--clusters", "rome,milan,napoli", "--nodes", "2", "--cni", "rome=calico,milan=vpc,napoli=flannel", "--proxy", "milan=iptables",
		"--pods", "rome=10.244.0.0/17+10.200.0.0/16", "--load", "../../../bin/images/liqo-gateway.tar")
	l.clusters = []string{"rome", "milan", "napoli"}
	return l
}

// populate installs liqo-tui in each cluster, and makes a pod on each node, and another one in
// the node's own network. The pod range of the cluster called stated is given.
func (l lab) populate(t *testing.T, stated string) {
	t.Helper()
	for _, cluster := range l.clusters {
		install := []string{"install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-" + cluster, "--cluster-id", cluster, "--image", labImage}
		if cluster == stated {
			install = append(install, "--pod-cidr", labPodCIDR)
		}
		l.tui(install...).want(t, exit.OK)
		for _, node := range l.nodes(t, cluster) {
			l.apply(t, cluster, webPod(t, node))
			l.apply(t, cluster, hostPod(node))
		}
	}
	for _, cluster := range l.clusters {
		l.must(t, "kubectl", cluster, "wait", "--for=condition=Ready", "pod", "-l", "app in (web, host)", "--timeout=180s")
	}
}

// connection is two connected clusters.
type connection struct{ a, b string }

func (c connection) String() string { return c.a + " and " + c.b }

// ways are the two directions.
func (c connection) ways() [2]connection { return [2]connection{c, {c.b, c.a}} }

func TestThreeClusters(t *testing.T) {
	l := useThreeClusters(t)
	connections := []connection{{"rome", "milan"}, {"rome", "napoli"}}
	l.populate(t, "milan") // nothing in Kubernetes states its ranges; those of the others are found
	before := l.kernels(t)
	for _, c := range connections {
		got := l.between(c, "connect", "--server-service-type", "NodePort", "--yes", "--timeout", "120s").want(t, exit.OK)
		t.Logf("%s:\n%s", c, got.out)
	}
	t.Run("pods, nodes and pods in their node's network reach pods", func(t *testing.T) {
		for _, c := range connections {
			for _, way := range c.ways() {
				l.testReach(t, way)
			}
		}
	})
	t.Run("pods reach the endpoints of a remote Service", func(t *testing.T) {
		for _, c := range connections {
			for _, way := range c.ways() {
				l.testEndpoints(t, way)
			}
		}
	})
	t.Run("a NodePort leads to a remote pod from every node", func(t *testing.T) {
		for _, c := range connections {
			for _, way := range c.ways() {
				l.testNodePort(t, way, fromOutside(t))
			}
		}
	})
	t.Run("pods reach a host outside the remote cluster", func(t *testing.T) {
		for _, c := range connections {
			for _, way := range c.ways() {
				l.testHost(t, way)
			}
		}
	})
	t.Run("a NetworkPolicy knows remote pods by their remapped addresses", func(t *testing.T) {
		l.testPolicy(t, connection{"milan", "rome"}) // its Calico enforces policies
	})
	t.Run("two peers with the same five-tuple at the same time", l.testSameFlow)
	t.Run("each side was told what the other advertises", func(t *testing.T) {
		for _, c := range connections {
			for _, way := range c.ways() {
				l.testAdvertised(t, way)
			}
		}
	})
	t.Run("Services by name", func(t *testing.T) { // they stay during all changes and faults
		l.exportAll(t, connections)
		l.importsAll(t, connections)
	})
	t.Run("a connection that is changed", func(t *testing.T) { l.testLiveChanges(t, connections[0]) })
	t.Run("a port that kube-proxy hears of late", func(t *testing.T) { l.testLateProxy(t, connections[0], 2*time.Second) })
	t.Run("keys that are replaced", func(t *testing.T) { l.testRotate(t, connections[0], 100*time.Millisecond) })
	t.Run("a peer that is renumbered", func(t *testing.T) {
		before, err := l.clustersetIP(t, connections[0].a, "web")
		if err != nil {
			t.Fatal(err)
		}
		l.testRenumber(t, connections[0], 100*time.Millisecond)
		l.importsAll(t, connections)
		if after, err := l.clustersetIP(t, connections[0].a, "web"); after != before {
			t.Errorf("the Service has the address %q, %v, want %s as before", after, err, before)
		}
	})
	t.Run("a path that was cut", func(t *testing.T) { l.testCutPath(t, connections[0], time.Second) })
	t.Run("a path that became narrower", func(t *testing.T) { l.testNarrow(t, connections[0], 5*time.Second) })
	t.Run("a client whose address is translated to others", func(t *testing.T) {
		l.testRebind(t, connections[0], 500*time.Millisecond)
	})
	ways := connections[0].ways()
	t.Run("a gateway that was killed", func(t *testing.T) {
		for _, way := range some(t, ways[:], 1) {
			l.testKill(t, way, time.Second)
		}
	})
	t.Run("a gateway that moved to another node", func(t *testing.T) {
		for _, way := range some(t, ways[:], 1) {
			l.testMove(t, way, 3*time.Second)
		}
	})
	t.Run("a server whose endpoint changes, where delegate was run", func(t *testing.T) {
		l.testEndpointMoves(t, connections[0], 2*time.Second)
	})
	// These take two minutes each.
	const standby, broken, nodes = "the pod that holds the tunnel is lost, and another one is there", "faults at random",
		"a block of addresses that moves, a node that goes, and one that joins"
	long := some(t, []string{standby, broken, nodes}, 2)
	if slices.Contains(long, standby) {
		t.Run(standby, func(t *testing.T) { l.testReplicas(t, connections[0], 3*time.Second) })
	}
	if slices.Contains(long, broken) || os.Getenv("SOAK") != "" {
		t.Run(broken, func(t *testing.T) { l.testFaults(t, connections) })
	}
	t.Run("Services are gone with what they are of", l.endExports)
	t.Run("peers of a cluster are connected with each other", l.testShortcuts)
	t.Run("reset leaves nothing in any kernel", func(t *testing.T) {
		for _, c := range connections {
			l.between(c, "reset", "--yes", "--timeout", "120s").want(t, exit.OK)
		}
		l.waitForNamespacesGone(t)
		eventually(t, 30*time.Second, func() error {
			if diff := cmp.Diff(before, l.kernels(t)); diff != "" {
				return fmt.Errorf("the nodes' kernels differ (-before +after):\n%s", diff)
			}
			return nil
		})
	})
	if !slices.Contains(long, nodes) {
		return
	}
	t.Run(nodes, func(t *testing.T) { // another node has another kernel
		for _, c := range connections {
			l.between(c, "connect", "--server-service-type", "NodePort", "--yes", "--timeout", "120s").want(t, exit.OK)
		}
		l.testBlockMoves(t, connection{"milan", "rome"}, time.Second)
		// Four ways: of three, the seed would always pick the same one with this part of the tests.
		for _, way := range some(t, []connection{{"milan", "rome"}, {"rome", "milan"}, {"rome", "napoli"}, {"napoli", "rome"}}, 1) {
			l.testNodeJoins(t, way, time.Second)
		}
	})
}

// testShortcuts connects rome's two peers directly, without rome.
func (l lab) testShortcuts(t *testing.T) {
	c := connection{"milan", "napoli"}
	shortcuts := []string{"network", "connect", "--shortcuts", "--kubeconfig", l.kubeconfig, "--context", "lab-rome", "--server-service-type", "NodePort", "--timeout", "120s"}
	pending := l.tui(append(shortcuts, "--dry-run")...).want(t, exit.Pending)
	if want := fmt.Sprintf("1 of 1: lab-milan of %[1]s and lab-napoli of %[1]s", l.kubeconfig); !strings.Contains(pending.err, want) {
		t.Errorf("got %s, want %s", pending.err, want)
	}
	l.tui(append(shortcuts, "--yes")...).want(t, exit.OK)
	for _, way := range c.ways() {
		eventually(t, 20*time.Second, func() error { return l.worksBetween(t, way) })
	}
	l.tui(append(shortcuts, "--dry-run")...).want(t, exit.OK) // nothing remains to be done
	l.between(c, "reset", "--yes", "--timeout", "120s").want(t, exit.OK)
}

// between runs a network command for two clusters.
func (l lab) between(c connection, command string, args ...string) result {
	return l.tui(append(l.argsOf(c, "network", command), args...)...)
}

func hostPod(node string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: host-%[1]s, namespace: default, labels: {app: host}}
spec:
  nodeName: %[1]s
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers: [{name: host, image: lab.local/pod:v1, imagePullPolicy: IfNotPresent}]
`, node)
}

// testReach asks a pod on every node of b from a pod of every node of a, from the nodes
// themselves, and from pods in their nodes' network. The answers have the address of the
// sender as b sees it.
func (l lab) testReach(t *testing.T, way connection) {
	t.Helper()
	external := l.translations(t, way.b, way.a).external
	for _, node := range l.nodes(t, way.a) {
		own := l.translations(t, way.b, way.a).of(t, l.podIP(t, way.a, web(node)))
		for _, peerNode := range l.nodes(t, way.b) {
			address := l.translations(t, way.a, way.b).of(t, l.podIP(t, way.b, web(peerNode)))
			url := fmt.Sprintf("http://%s:8080/", address)
			for _, c := range []struct {
				what    string
				command []string
				want    netip.Addr
			}{
				{"pod", []string{"kubectl", way.a, "exec", web(node), "--", "/pod", "get", "--timeout", "10s", url}, own},
				{"node", []string{"exec", way.a, node, "--", "curl", "--silent", "--show-error", "--max-time", "10", url}, external},
				{"pod in its node's network", []string{"kubectl", way.a, "exec", "host-" + node, "--", "/pod", "get", "--timeout", "10s", url}, external},
			} {
				answer, err := l.try(t, c.command...)
				if err != nil {
					t.Errorf("%s on %s to pod on %s (%s): %v", c.what, node, peerNode, address, err)
					continue
				}
				if seen := l.client(t, answer); seen != c.want {
					t.Errorf("%s on %s to pod on %s: seen as %s, want %s", c.what, node, peerNode, seen, c.want)
				}
			}
		}
	}
}

// translations are one cluster's views of another's addresses.
type translations struct {
	real, remapped []netip.Prefix
	external       netip.Addr // the first address, which stands for nodes
	// Its range, as the other cluster has it and as this one sees it.
	realExternal, remappedExternal netip.Prefix
}

// of is the address under which the cluster reaches a pod of the other.
func (x translations) of(t *testing.T, ip netip.Addr) netip.Addr {
	t.Helper()
	for i, p := range x.real {
		if p.Contains(ip) {
			seen, err := ipam.Remap(ip, p, x.remapped[i])
			if err != nil {
				t.Fatal(err)
			}
			return seen
		}
	}
	t.Fatalf("%s is in none of the peer's pod CIDRs %v", ip, x.real)
	return netip.Addr{}
}

func (l lab) translations(t *testing.T, cluster, peer string) translations {
	t.Helper()
	var c struct {
		Spec, Status struct {
			Remote struct {
				CIDR struct{ Pod, External []netip.Prefix }
			}
		}
	}
	text := l.must(t, "kubectl", cluster, "get", "configuration", "-n", "liqo-tenant-"+peer, peer, "-o", "json")
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Spec.Remote.CIDR.Pod) != len(c.Status.Remote.CIDR.Pod) || len(c.Status.Remote.CIDR.External) == 0 {
		t.Fatalf("Configuration of %s on %s: incomplete: %s", peer, cluster, text)
	}
	return translations{
		real: c.Spec.Remote.CIDR.Pod, remapped: c.Status.Remote.CIDR.Pod, external: c.Status.Remote.CIDR.External[0].Addr(),
		realExternal: c.Spec.Remote.CIDR.External[0], remappedExternal: c.Status.Remote.CIDR.External[0],
	}
}

func (l lab) podIP(t *testing.T, cluster, pod string) netip.Addr {
	t.Helper()
	ips := strings.Fields(l.must(t, "kubectl", cluster, "get", "pod", pod, "-o", "jsonpath={.status.podIPs[*].ip}"))
	i := slices.IndexFunc(ips, func(ip string) bool { return netip.MustParseAddr(ip).Is4() })
	if i < 0 {
		t.Fatalf("pod %s of %s: got addresses %v, want one of IPv4", pod, cluster, ips)
	}
	return netip.MustParseAddr(ips[i])
}

// testEndpoints asks the endpoints in b's EndpointSlices, as seen from a.
func (l lab) testEndpoints(t *testing.T, way connection) {
	t.Helper()
	l.apply(t, way.b, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {ipFamilies: [IPv4], selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`)
	defer l.must(t, "kubectl", way.b, "delete", "service", "web")
	var endpoints []string
	eventually(t, 20*time.Second, func() error {
		endpoints = strings.Fields(l.must(t, "kubectl", way.b, "get", "endpointslices", "-l", "kubernetes.io/service-name=web",
			"-o", "jsonpath={.items[*].endpoints[*].addresses[0]}"))
		if want := len(l.nodes(t, way.b)); len(endpoints) != want {
			return fmt.Errorf("Service web of %s: got endpoints %v, want %d", way.b, endpoints, want)
		}
		return nil
	})
	seen := l.translations(t, way.a, way.b)
	for _, e := range endpoints {
		url := fmt.Sprintf("http://%s:8080/", seen.of(t, netip.MustParseAddr(e)))
		if _, err := l.try(t, "kubectl", way.a, "exec", web(way.a+"-2"), "--", "/pod", "get", "--timeout", "10s", url); err != nil {
			t.Errorf("endpoint %s of %s's Service: %v", e, way.b, err)
		}
	}
}

// testNodePort makes a Service in a whose only endpoint is a pod of b, and asks it through
// every node of a. None of these nodes has the pod. ask gets a URL.
func (l lab) testNodePort(t *testing.T, way connection, ask func(url string) ([]byte, error)) {
	t.Helper()
	pod := web(way.b + "-2")
	l.apply(t, way.a, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: far, namespace: default}
spec: {type: NodePort, ipFamilies: [IPv4], ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: far, namespace: default, labels: {kubernetes.io/service-name: far}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
`, l.translations(t, way.a, way.b).of(t, l.podIP(t, way.b, pod))))
	defer l.must(t, "kubectl", way.a, "delete", "service/far", "endpointslice/far")
	port := l.must(t, "kubectl", way.a, "get", "service", "far", "-o", "jsonpath={.spec.ports[0].nodePort}")
	addresses := strings.FieldsSeq(l.must(t, "kubectl", way.a, "get", "nodes", "-o",
		`jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))
	for address := range addresses {
		if !netip.MustParseAddr(address).Is4() {
			continue
		}
		eventually(t, 20*time.Second, func() error { // until kube-proxy has the Service
			answer, err := ask(fmt.Sprintf("http://%s:%s/", address, port))
			if err != nil {
				return fmt.Errorf("to node %s of %s, for a pod of %s: %w: %s", address, way.a, way.b, err, answer)
			}
			var who struct{ Hostname string }
			if err := json.Unmarshal(answer, &who); err != nil || who.Hostname != pod {
				return fmt.Errorf("node %s of %s: answer %q, want it from %s", address, way.a, answer, pod)
			}
			return nil
		})
	}
}

// fromOutside asks from this machine, which is in none of the clusters.
func fromOutside(t *testing.T) func(string) ([]byte, error) {
	return func(url string) ([]byte, error) {
		return exec.CommandContext(t.Context(), "curl", "--silent", "--show-error", "--max-time", "5", url).CombinedOutput()
	}
}

// testPolicy closes b's pods to everybody, and then opens them to a's pods by the addresses
// under which b sees these. b's network has to enforce policies.
func (l lab) testPolicy(t *testing.T, way connection) {
	t.Helper()
	pod := web(way.b + "-2")
	url := fmt.Sprintf("http://%s:8080/", l.translations(t, way.a, way.b).of(t, l.podIP(t, way.b, pod)))
	ask := func() error {
		_, err := l.try(t, "kubectl", way.a, "exec", web(way.a+"-2"), "--", "/pod", "get", "--timeout", "2s", url)
		return err
	}
	policy := func(rule string) {
		l.apply(t, way.b, fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: default}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [%s]}
`, rule))
	}
	policy("")
	defer l.must(t, "kubectl", way.b, "delete", "networkpolicy", "closed")
	eventually(t, 20*time.Second, func() error {
		if ask() == nil {
			return fmt.Errorf("a pod of %s still reaches %s, which a policy of %s closes to all", way.a, pod, way.b)
		}
		return nil
	})
	var from []string
	for _, p := range l.translations(t, way.b, way.a).remapped {
		from = append(from, fmt.Sprintf("{ipBlock: {cidr: %s}}", p))
	}
	policy(fmt.Sprintf("{from: [%s]}", strings.Join(from, ", ")))
	eventually(t, 20*time.Second, ask)
}

// testHost offers a server on this machine, which is outside of b, by an IP resource of b,
// and asks it from a pod on every node of a.
func (l lab) testHost(t *testing.T, way connection) {
	t.Helper()
	outside := l.state(t).wan(1)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", outside+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"client":%q}`, r.RemoteAddr)
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	l.apply(t, way.b, "{apiVersion: ipam.liqo.io/v1alpha1, kind: IP, metadata: {name: outside, namespace: default}, spec: {ip: "+outside+"}}")
	defer l.must(t, "kubectl", way.b, "delete", "ips.ipam.liqo.io", "outside")
	var given string
	eventually(t, 10*time.Second, func() error {
		given = l.must(t, "kubectl", way.b, "get", "ips.ipam.liqo.io", "outside", "-o", "jsonpath={.status.ip}")
		if given == "" {
			return errors.New("the IP has no address yet")
		}
		return nil
	})
	seen := l.translations(t, way.a, way.b)
	address, err := ipam.Remap(netip.MustParseAddr(given), seen.realExternal, seen.remappedExternal)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	nodes := strings.Fields(l.must(t, "kubectl", way.b, "get", "nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))
	for _, node := range l.nodes(t, way.a) {
		eventually(t, 10*time.Second, func() error { // until the gateway has the IP
			answer, err := l.try(t, "kubectl", way.a, "exec", web(node), "--", "/pod", "get", "--timeout", "2s", fmt.Sprintf("http://%s:%s/", address, port))
			if err != nil {
				return err
			}
			if from := l.client(t, answer).String(); !slices.Contains(nodes, from) {
				return fmt.Errorf("pod on %s: the host saw %s, want a node of %s: %v", node, from, way.b, nodes)
			}
			return nil
		})
	}
}

// testSameFlow asks the same pod of rome from pods of milan and of napoli with the same
// address and port, until both have asked twenty times.
func (l lab) testSameFlow(t *testing.T) {
	defer func() {
		for _, cluster := range []string{"milan", "napoli"} {
			l.must(t, "kubectl", cluster, "delete", "pods", "-l", "app=twin")
		}
	}()
	ofMilan, ofNapoli := l.twins(t, "milan", "napoli")
	target := l.podIP(t, "rome", web("rome-2"))
	type asker struct{ cluster, pod string }
	var wait sync.WaitGroup
	for _, a := range []asker{{"milan", ofMilan}, {"napoli", ofNapoli}} {
		want := l.translations(t, "rome", a.cluster).of(t, l.podIP(t, a.cluster, a.pod))
		url := fmt.Sprintf("http://%s:8080/%s", l.translations(t, a.cluster, "rome").of(t, target), a.cluster)
		wait.Go(func() {
			out, err := l.try(t, "kubectl", a.cluster, "exec", a.pod, "--", "/pod", "get", "--timeout", "10s", "--times", "20", "--from-port", "4444", url)
			if err != nil {
				t.Errorf("%s: %v", a.cluster, err)
				return
			}
			answers := 0
			for d := json.NewDecoder(strings.NewReader(out)); d.More(); answers++ {
				var got struct{ Client, Path string }
				if err := d.Decode(&got); err != nil {
					t.Errorf("%s: answer %q: %v", a.cluster, out, err)
					return
				}
				if want := netip.AddrPortFrom(want, 4444).String(); got.Client != want || got.Path != "/"+a.cluster {
					t.Errorf("%s: rome saw %s ask for %s, want %s", a.cluster, got.Client, got.Path, want)
				}
			}
			if answers != 20 {
				t.Errorf("%s: got %d answers, want 20", a.cluster, answers)
			}
		})
	}
	wait.Wait()
}

// twins returns pods of two clusters with the same address. It creates pods until there are
// some.
func (l lab) twins(t *testing.T, a, b string) (ofA, ofB string) {
	t.Helper()
	addresses := map[string]map[string]string{a: {}, b: {}} // cluster, address, pod
	for i := range 20 {
		for cluster, known := range addresses {
			name := fmt.Sprintf("twin-%d", i)
			l.apply(t, cluster, strings.NewReplacer("web-"+cluster+"-2", name, "app: web", "app: twin").Replace(webPod(t, cluster+"-2")))
			l.must(t, "kubectl", cluster, "wait", "--for=condition=Ready", "pod/"+name, "--timeout=180s")
			known[l.podIP(t, cluster, name).String()] = name
		}
		for address, pod := range addresses[a] {
			if other, ok := addresses[b][address]; ok {
				t.Logf("%s of %s and %s of %s have %s", pod, a, other, b, address)
				return pod, other
			}
		}
	}
	t.Fatalf("no two pods of %s and %s have the same address: %v", a, b, addresses)
	return "", ""
}

// testAdvertised checks the data that another implementation of the peer reads: our CIDRs
// in its Configuration, the external one among them, and objects with our ID in a label.
func (l lab) testAdvertised(t *testing.T, way connection) {
	t.Helper()
	network := func(kind string) []string {
		return strings.Fields(l.must(t, "kubectl", way.a, "get", "networks.ipam.liqo.io", "-n", "liqo", "-l", "ipam.liqo.io/network-type="+kind,
			"-o", "jsonpath={.items[*].status.cidr}"))
	}
	for kind, field := range map[string]string{"pod-cidr": "pod", "external-cidr": "external"} {
		want := network(kind)
		got := l.must(t, "kubectl", way.b, "get", "configuration", "-n", "liqo-tenant-"+way.a, way.a, "-o", "jsonpath={.spec.remote.cidr."+field+"[*]}")
		if fields := strings.Fields(got); len(want) == 0 || !slices.Equal(sorted(fields), sorted(want)) {
			t.Errorf("%s CIDRs of %s in the Configuration on %s: got %v, want %v", field, way.a, way.b, fields, want)
		}
	}
	for _, kind := range []string{"configurations", "publickeies"} {
		got := l.must(t, "kubectl", way.b, "get", kind, "-n", "liqo-tenant-"+way.a, "-l", "liqo.io/remote-cluster-id="+way.a, "-o", "name")
		if len(strings.Fields(got)) != 1 {
			t.Errorf("%s on %s with the ID of %s: got %q, want one", kind, way.b, way.a, got)
		}
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
