package e2e

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/examples/networking"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

// example is the deployment of one of the examples of gateway templates, or of two that
// belong together.
type example struct {
	server string // template, on milan
	client string // template, on rome; "": ours
	flags  []string
	// before prepares the clusters. undo reverts that.
	before func(*testing.T) (undo func())
	// shows compares the feature that the example shows.
	shows func(*testing.T)
}

// examples are all examples. The lab's load balancers stand for those of clouds.
// Annotations that only clouds read have no effect here.
func (l lab) examples(t *testing.T) []example {
	given := l.wan(t, 142).String() // one of milan's load balancers: the lab's program lists them
	const noLB = "--server-service-type=NodePort"
	endpoint := func(t *testing.T, want string) {
		t.Helper()
		if got := l.dials(t, connection{"rome", "milan"}); got != want {
			t.Errorf("the client dials %s, want %s", got, want)
		}
	}
	return []example{
		{
			server: "wireguard-server-no-metrics", client: "wireguard-client-no-metrics", flags: []string{noLB},
			shows: func(t *testing.T) {
				for _, way := range (connection{"rome", "milan"}).ways() {
					got := l.must(t, "kubectl", way.a, "get", "pods", "-n", "liqo-tenant-"+way.b, "-o", `jsonpath={.items[*].metadata.annotations.prometheus\.io/scrape}{.items[*].spec.containers[*].args}`)
					if !strings.Contains(got, "--metrics-address=0") || strings.HasPrefix(got, "true") {
						t.Errorf("gateway of %s: got %q, want no metrics", way.a, got)
					}
				}
			},
		},
		{
			server: "wireguard-server-nodes", client: "wireguard-client-nodes", flags: []string{noLB},
			before: func(t *testing.T) func() {
				mark := func(label, taint string) {
					for _, cluster := range l.clusters {
						l.must(t, "kubectl", cluster, "label", "node", cluster+"-2", "node-role.example/gateway"+label)
						l.must(t, "kubectl", cluster, "taint", "node", cluster+"-2", "node-role.example/gateway"+taint)
					}
				}
				mark("=true", "=true:NoSchedule")
				return func() { mark("-", ":NoSchedule-") }
			},
			shows: func(t *testing.T) {
				for _, way := range (connection{"rome", "milan"}).ways() {
					if _, node := l.gatewayPod(t, way.a, way.b); node != way.a+"-2" {
						t.Errorf("gateway of %s is on %s, want %s-2", way.a, node, way.a)
					}
				}
			},
		},
		{
			server: "wireguard-server-replicas", client: "wireguard-client-replicas", flags: []string{noLB},
			shows: func(t *testing.T) {
				for _, way := range (connection{"rome", "milan"}).ways() {
					eventually(t, 20*time.Second, func() error {
						if got := l.must(t, "kubectl", way.a, "get", "deployments", "-n", "liqo-tenant-"+way.b, "-o", "jsonpath={.items[*].status.readyReplicas}"); got != "3" {
							return fmt.Errorf("gateway of %s: %q pods are ready, want 3", way.a, got)
						}
						return nil
					})
				}
			},
		},
		{
			// The firewall between the clusters has no other port open.
			server: "wireguard-server-node-port", flags: []string{noLB}, before: l.onlyUDP(31840),
			shows: func(t *testing.T) {
				if _, port, _ := strings.Cut(l.dials(t, connection{"rome", "milan"}), ":"); port != "31840" {
					t.Errorf("the client dials port %s, want 31840", port)
				}
			},
		},
		{
			server: "wireguard-server-local", flags: []string{noLB},
			shows: func(t *testing.T) {
				_, node := l.gatewayPod(t, "milan", "rome")
				address, _, _ := strings.Cut(l.dials(t, connection{"rome", "milan"}), ":")
				if got := l.must(t, "kubectl", "milan", "get", "node", node, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`); got != address {
					t.Errorf("the client dials %s, want %s, the node with the gateway", address, got)
				}
			},
		},
		{
			server: "wireguard-server-gke", flags: []string{"--server-service-type=LoadBalancer", "--load-balancer-ip", given},
			shows: func(t *testing.T) { endpoint(t, given+":51840") },
		},
		{
			// The lab's load balancer leads to the first node, wherever the gateway is.
			server: "wireguard-server-aks", flags: []string{"--server-service-type=LoadBalancer"},
			before: func(t *testing.T) func() {
				l.must(t, "kubectl", "milan", "cordon", "milan-2")
				return func() { l.must(t, "kubectl", "milan", "uncordon", "milan-2") }
			},
			shows: func(t *testing.T) {
				if got := l.must(t, "kubectl", "milan", "get", "services", "-n", "liqo-tenant-rome", "-o", "jsonpath={.items[*].spec.externalTrafficPolicy}"); got != "Local" {
					t.Errorf("got externalTrafficPolicy %q, want Local", got)
				}
			},
		},
		{
			server: "wireguard-server-aws", flags: []string{"--server-service-type=LoadBalancer"}, before: l.provide,
			shows: func(t *testing.T) { endpoint(t, providedName+":51840") },
		},
	}
}

const providedName = "k8s-gateway.elb.aws.example"

// TestLabTemplates deploys the examples of gateway templates, two of them or all, and
// sends packets from pod to pod.
func TestLabTemplates(t *testing.T) {
	l := useLab(t)
	l.prepare(t)
	templates, err := networking.Templates(labImage)
	if err != nil {
		t.Fatal(err)
	}
	var manifests []string
	unused := map[string]bool{}
	for _, u := range templates {
		text, err := yaml.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		manifests, unused[u.GetName()] = append(manifests, string(text)), true
	}
	for _, cluster := range l.clusters {
		l.apply(t, cluster, strings.Join(manifests, "---\n"))
	}
	all := l.examples(t)
	for _, e := range all {
		delete(unused, e.server)
		delete(unused, e.client)
	}
	if len(unused) > 0 {
		t.Errorf("examples that nobody deploys: %v", unused)
	}
	t.Run("another program's tunnel", l.testAnotherTunnel)
	first := sample.Seed(t)
	for i := range uint64(sample.Of(2, len(all))) {
		e := all[(first+i)%uint64(len(all))]
		t.Run(e.server, func(t *testing.T) { l.testExample(t, e) })
	}
}

func (l lab) testExample(t *testing.T, e example) {
	began := time.Now()
	if e.before != nil {
		defer e.before(t)()
	}
	flags := append([]string{"--yes", "--wait=verified", "--server-template-name", e.server}, e.flags...)
	if e.client != "" {
		flags = append(flags, "--client-template-name", e.client)
	}
	defer func() {
		l.tui(append(l.pair("network", "disconnect"), "--yes", "--timeout", "60s")...).want(t, exit.OK)
	}()
	l.connect(flags...).want(t, exit.OK)
	t.Logf("verified after %.1f s", time.Since(began).Seconds())
	for _, way := range (connection{"rome", "milan"}).ways() {
		l.testPath(t, way.a, way.a+"-2", way.b, way.b+"-2")
	}
	e.shows(t)
}

// onlyUDP closes everything between the nodes of the two clusters, and from nodes to the
// other's load balancers, except a UDP port.
func (l lab) onlyUDP(port int) func(*testing.T) func() {
	return func(t *testing.T) func() {
		for i, cluster := range l.clusters {
			addresses := strings.Fields(l.must(t, "kubectl", l.clusters[1-i], "get", "nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`))
			others := "ip daddr { " + strings.Join(append(addresses, l.wan(t, byte(96+16*(2-i))).String()+"/28"), ", ") + " }"
			for _, node := range l.nodes(t, cluster) {
				l.must(t, "exec", cluster, node, "--", "nft", fmt.Sprintf("add table inet only; "+
					"add chain inet only out { type filter hook postrouting priority 400; }; "+
					"add rule inet only out %[1]s udp dport %[2]d accept; add rule inet only out %[1]s udp sport %[2]d accept; add rule inet only out %[1]s drop", others, port))
			}
		}
		if _, err := l.try(t, "exec", "rome", "rome-1", "--", "curl", "--silent", "--insecure", "--max-time", "1", "https://"+l.wan(t, 12).String()+":6443/"); err == nil {
			t.Error("milan's API server still answers rome's node: the test is void")
		}
		return func() {
			for _, cluster := range l.clusters {
				for _, node := range l.nodes(t, cluster) {
					l.must(t, "exec", cluster, node, "--", "nft", "delete", "table", "inet", "only")
				}
			}
		}
	}
}

// provide gives the Service of milan's gateway a load balancer with a name and without an
// address, once there is a Service of a class that the lab's load balancers leave to
// others.
func (l lab) provide(t *testing.T) func() {
	undo := l.resolves(t, "rome", providedName, l.wan(t, 1))
	node := l.wan(t, 12)
	var target atomic.Pointer[netip.AddrPort]
	l.balance(t, 51840, &target)
	var wait sync.WaitGroup
	wait.Go(func() {
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
			text, err := l.try(t, "kubectl", "milan", "get", "service", "-n", "liqo-tenant-rome", "gw-rome", "-o",
				"jsonpath={.spec.loadBalancerClass} {.spec.ports[0].nodePort}")
			class, number, _ := strings.Cut(text, " ")
			port, err2 := strconv.ParseUint(number, 10, 16)
			if err == nil && err2 == nil && class == "service.k8s.aws/nlb" {
				target.Store(new(netip.AddrPortFrom(node, uint16(port))))
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("got Service %q (%v), want one of AWS's class", text, err)
				return
			}
		}
		if _, err := l.try(t, "kubectl", "milan", "patch", "service", "-n", "liqo-tenant-rome", "gw-rome", "--subresource=status", "--type=merge",
			"-p", `{"status":{"loadBalancer":{"ingress":[{"hostname":"`+providedName+`"}]}}}`); err != nil {
			t.Error(err)
		}
	})
	return func() { wait.Wait(); undo() }
}

// testAnotherTunnel lets another program make both gateways from its own kinds of
// templates, with a tunnel that is not WireGuard.
func (l lab) testAnotherTunnel(t *testing.T) {
	began := time.Now()
	l.must(t, "load", "../../../bin/udptunnel.tar")
	for _, cluster := range l.clusters {
		for _, file := range []string{"../../../examples/networking/another-kind/udp.yaml", "../../../testdata/udptunnel/deploy.yaml"} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, 20*time.Second, func() error { // a kind is served shortly after its definition
				cmd := l.command(t, "kubectl", cluster, "apply", "-f", "-")
				cmd.Stdin = bytes.NewReader(text)
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("%s on %s: %w: %s", file, cluster, err, out)
				}
				return nil
			})
		}
		defer l.must(t, "kubectl", cluster, "delete", "--wait=false", "namespace/udptunnel", "clusterrole/udptunnel", "clusterrolebinding/udptunnel",
			"clusterrole/liqo-tui-operator-udp", "clusterrolebinding/liqo-tui-operator-udp", "crd/udpservers.tunnels.example", "crd/udpclients.tunnels.example",
			"crd/udpservertemplates.tunnels.example", "crd/udpclienttemplates.tunnels.example")
	}
	l.tui(append(l.pair("network", "init"), "--yes", "--timeout", "60s")...).want(t, exit.OK)
	l.apply(t, "milan", `
apiVersion: networking.liqo.io/v1beta1
kind: GatewayServer
metadata: {name: rome, namespace: liqo-tenant-rome, labels: {liqo.io/remote-cluster-id: rome}}
spec:
  mtu: 1400
  endpoint: {port: 4790, serviceType: NodePort}
  serverTemplateRef: {apiVersion: tunnels.example/v1, kind: UDPServerTemplate, name: udp-server, namespace: liqo}
`)
	defer func() { l.reset().want(t, exit.OK); l.waitForNamespacesGone(t) }()
	var endpoint []string
	eventually(t, 30*time.Second, func() error {
		endpoint = strings.Fields(l.must(t, "kubectl", "milan", "get", "gatewayserver", "-n", "liqo-tenant-rome", "rome", "-o", "jsonpath={.status.endpoint.addresses[0]} {.status.endpoint.port}"))
		if len(endpoint) != 2 {
			return fmt.Errorf("got endpoint %q", endpoint)
		}
		return nil
	})
	l.apply(t, "rome", fmt.Sprintf(`
apiVersion: networking.liqo.io/v1beta1
kind: GatewayClient
metadata: {name: milan, namespace: liqo-tenant-milan, labels: {liqo.io/remote-cluster-id: milan}}
spec:
  mtu: 1400
  endpoint: {addresses: [%s], port: %s}
  clientTemplateRef: {apiVersion: tunnels.example/v1, kind: UDPClientTemplate, name: udp-client, namespace: liqo}
`, endpoint[0], endpoint[1]))
	l.connect("--yes", "--wait=verified").want(t, exit.OK)
	t.Logf("verified after %.1f s", time.Since(began).Seconds())
	l.testPaths(t)
	for _, way := range (connection{"rome", "milan"}).ways() {
		if got := l.must(t, "kubectl", way.a, "get", "deployments", "-n", "liqo-tenant-"+way.b, "-o", "name"); got != "" {
			t.Errorf("our operator has made a gateway on %s, too: %s", way.a, got)
		}
	}
}
