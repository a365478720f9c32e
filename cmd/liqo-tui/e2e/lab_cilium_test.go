package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows/check"
)

// ciliumModes are those of milan's pod network, with the largest packet from pods of rome and
// of milan. Of 1500 bytes the tunnel takes 60, and what leaves it in Cilium's VXLAN 50 more.
// Rome's tunnel is wider than that, so its packets are padded to 16 bytes. Pools of several
// ranges (multipool) are not there: the operator does not read them.
var ciliumModes = []struct {
	cni     string
	largest [2]int
	// nodePorts lead from outside of the cluster to remote pods. Without kube-proxy, Cilium
	// translates answers back on the devices that it has taken, and liqo-fabric is none.
	nodePorts bool
}{
	{"cilium", [2]int{1376, 1390}, true},
	{"cilium:kpr", [2]int{1376, 1390}, false},
	{"cilium:native+nodecidr", [2]int{1440, 1440}, true},
	{"cilium:kpr+native", [2]int{1440, 1440}, false},
}

// TestCilium connects rome, whose pods are on a bridge, with milan, whose pod network is
// Cilium. Milan's NodePort is dialled.
func TestCilium(t *testing.T) {
	mayMakeLab(t)
	for _, mode := range some(t, ciliumModes, 1) {
		t.Run(mode.cni, func(t *testing.T) {
			l := makeShape(t, "--nodes", "2", "--cni", "milan="+mode.cni, "--load", "../../../bin/images/liqo-gateway.tar")
			l.testCilium(t, connection{"rome", "milan"}, mode.largest, mode.nodePorts)
		})
	}
}

func (l lab) testCilium(t *testing.T, c connection, largest [2]int, nodePorts bool) {
	l.populate(t, c.a) // where nothing in Kubernetes says it; Cilium's is found
	before := l.kernels(t)
	l.between(c, "connect", "--server-service-type", "NodePort", "--yes", "--timeout", "120s").want(t, exit.OK)
	t.Run("pods, nodes and pods in their node's network reach pods", func(t *testing.T) {
		for _, way := range c.ways() {
			l.testReach(t, way)
		}
	})
	t.Run("large answers arrive", func(t *testing.T) {
		for _, way := range c.ways() {
			for path, err := range l.askAll(t, way, 300_000) {
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	})
	t.Run("a NodePort leads to a remote pod from every node", func(t *testing.T) {
		ask := fromOutside(t)
		if !nodePorts {
			ask = func(url string) ([]byte, error) {
				answer, err := l.try(t, "kubectl", c.b, "exec", web(c.b+"-1"), "--", "/pod", "get", "--timeout", "5s", url)
				return []byte(answer), err
			}
		}
		l.testNodePort(t, connection{c.b, c.a}, ask)
	})
	t.Run("policies of Cilium see a peer's pods as outside of the cluster", func(t *testing.T) { l.testIdentity(t, c) })
	t.Run("check reads Cilium's policies as Cilium enforces them", func(t *testing.T) { l.testCiliumPolicies(t, c) })
	t.Run("verify finds the largest packet", func(t *testing.T) {
		var v report.Verification
		out := l.between(c, "verify", "-o", "json").want(t, exit.OK).out
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatal(err)
		}
		for i, way := range []report.Way{v.AToB, v.BToA} {
			if !v.Verified || way.LargestPacket != largest[i] {
				t.Errorf("%s to %s: verified %t, largest packet %d, want %d", way.From, way.To, v.Verified, way.LargestPacket, largest[i])
			}
		}
	})
	t.Run("check finds nothing wrong", func(t *testing.T) { l.both(c, "check").want(t, exit.OK) })
	t.Run("Services by name", func(t *testing.T) {
		l.exportAll(t, []connection{c})
		l.importsAll(t, []connection{c})
		l.endExports(t)
	})
	t.Run("Cilium does not take our device for one of the node's", l.testDevices)
	t.Run("reset leaves nothing in any kernel", func(t *testing.T) {
		l.between(c, "reset", "--yes", "--timeout", "120s").want(t, exit.OK)
		l.waitForNamespacesGone(t)
		eventually(t, 30*time.Second, func() error {
			if diff := cmp.Diff(before, l.kernels(t)); diff != "" {
				return fmt.Errorf("the nodes' kernels differ (-before +after):\n%s", diff)
			}
			return nil
		})
	})
}

// askAll has the pods of a, those in their node's network too, ask for that many bytes from
// a pod on each node of b, all at once.
func (l lab) askAll(t *testing.T, way connection, bytes int) map[string]error {
	t.Helper()
	seen := l.translations(t, way.a, way.b)
	var wait sync.WaitGroup
	var mu sync.Mutex
	paths := map[string]error{}
	for _, peerNode := range l.nodes(t, way.b) {
		url := fmt.Sprintf("http://%s:8080/?bytes=%d", seen.of(t, l.podIP(t, way.b, web(peerNode))), bytes)
		for _, node := range l.nodes(t, way.a) {
			for _, pod := range []string{web(node), "host-" + node} {
				wait.Go(func() {
					answer, err := l.try(t, "kubectl", way.a, "exec", pod, "--", "/pod", "get", "--timeout", "5s", url)
					if err == nil && len(answer) < bytes {
						err = fmt.Errorf("got %d bytes, want %d", len(answer), bytes)
					}
					mu.Lock()
					defer mu.Unlock()
					paths[pod+" to "+web(peerNode)] = err
				})
			}
		}
	}
	wait.Wait()
	return paths
}

// testIdentity tries policies of b that know a's ranges, and ones that let in all of b
// itself. On the node of b's gateway, a's packets come out of a packet of the gateway's pod,
// and must not be taken for that pod's.
func (l lab) testIdentity(t *testing.T, way connection) {
	policy := func(rules ...string) {
		l.apply(t, way.b, fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: identity, namespace: default}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{from: [%s]}]}
`, strings.Join(rules, ", ")))
	}
	defer l.must(t, "kubectl", way.b, "delete", "networkpolicy", "identity")
	seen := l.translations(t, way.b, way.a)
	var peer []string
	for _, p := range append(slices.Clone(seen.remapped), seen.remappedExternal) {
		peer = append(peer, fmt.Sprintf("{ipBlock: {cidr: %s}}", p))
	}
	policy(peer...)
	eventually(t, 20*time.Second, func() error {
		var errs []error
		for path, err := range l.askAll(t, way, 0) {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s, with %v let in: %w", path, peer, err))
			}
		}
		return errors.Join(errs...)
	})
	policy("{namespaceSelector: {}}")
	eventually(t, 20*time.Second, func() error {
		var errs []error
		for path, err := range l.askAll(t, way, 0) {
			if err == nil {
				errs = append(errs, fmt.Errorf("%s passes, where only pods of %s may", path, way.b))
			}
		}
		return errors.Join(errs...)
	})
}

// ciliumPolicies are specs of policies that select the pods with app: web, by whether these let
// in another cluster's pods, whose range is %s. Those that check can't judge are in the tests of
// flows/policy.
var ciliumPolicies = []struct {
	kind, spec string
	opens      bool
}{
	{"CiliumNetworkPolicy", `ingress: [{}]`, false},
	{"CiliumNetworkPolicy", `ingress: [{fromEndpoints: [{}]}]`, false},
	{"CiliumNetworkPolicy", `ingress: [{fromEntities: [world]}]`, true},
	{"CiliumClusterwideNetworkPolicy", `ingress: [{fromEndpoints: [{}]}]`, false},
	{"CiliumNetworkPolicy", `ingress: [{fromEntities: [cluster]}]`, false},
	{"CiliumNetworkPolicy", `ingress: [{fromCIDR: ["%s"]}]`, true},
	{"CiliumClusterwideNetworkPolicy", `ingress: [{fromEntities: [world]}]`, true},
	{"CiliumNetworkPolicy", `ingress: [{fromEntities: [all]}], ingressDeny: [{fromEntities: [world]}]`, false},
	{"CiliumNetworkPolicy", `ingress: [{toPorts: [{ports: [{port: "8080", protocol: TCP}]}]}]`, true},
	{"CiliumNetworkPolicy", `ingress: [{fromCIDRSet: [{cidr: 240.0.0.0/4}]}]`, true},
	{"CiliumNetworkPolicy", `ingress: [{fromCIDRSet: [{cidr: 240.0.0.0/4, except: ["%s"]}]}]`, false},
	{"CiliumNetworkPolicy", `ingress: [{fromCIDR: [203.0.113.0/24]}]`, false},
	{"CiliumNetworkPolicy", `ingress: [{}], enableDefaultDeny: {ingress: false}`, true},
	{"CiliumNetworkPolicy", `ingress: [{fromEndpoints: [{matchExpressions: [{key: "k8s:io.kubernetes.pod.namespace", operator: Exists}]}]}]`, false},
	{"CiliumClusterwideNetworkPolicy", `ingress: [{fromCIDR: ["%s"]}]`, true},
	{"CiliumNetworkPolicy", `ingress: [{icmps: [{fields: [{family: IPv4, type: 8}]}]}]`, false},
	{"CiliumClusterwideNetworkPolicy", `ingress: [{fromEntities: [host, remote-node]}]`, false},
	{"CiliumNetworkPolicy", `ingress: [{fromEntities: [all]}], ingressDeny: [{fromEndpoints: [{}]}]`, true},
	{"CiliumNetworkPolicy", `ingress: [{fromEndpoints: []}]`, false},
}

// testCiliumPolicies compares check's reading of policies of b with packets of a's pods.
func (l lab) testCiliumPolicies(t *testing.T, way connection) {
	apply := func(kind, spec string) {
		l.must(t, "kubectl", way.b, "delete", "ciliumnetworkpolicies,ciliumclusterwidenetworkpolicies", "--all", "--namespace", "default")
		if kind == "" {
			return
		}
		l.apply(t, way.b, fmt.Sprintf("apiVersion: cilium.io/v2\nkind: %s\nmetadata: {name: tried, namespace: default}\nspec: {endpointSelector: {matchLabels: {app: web}}, %s}\n", kind, spec))
	}
	defer apply("", "")
	reached := func(policy string, want bool) {
		t.Helper()
		eventually(t, 20*time.Second, func() error {
			var errs []error
			for path, err := range l.askAll(t, way, 0) {
				if strings.HasPrefix(path, "web-") && (err == nil) != want {
					errs = append(errs, fmt.Errorf("%s: %s: answered: %t, want %t", policy, path, err == nil, want))
				}
			}
			return errors.Join(errs...)
		})
	}
	peer := l.translations(t, way.b, way.a).remapped[0].String()
	for _, p := range some(t, ciliumPolicies, 3) {
		// Before, the opposite holds, so that the packets show that Cilium knows the policy.
		if p.opens {
			apply("CiliumNetworkPolicy", `ingress: [{}]`)
		} else {
			apply("", "")
		}
		reached("before "+p.spec, !p.opens)
		spec := strings.ReplaceAll(p.spec, "%s", peer)
		apply(p.kind, spec)
		reached(p.kind+" "+spec, p.opens)
		var checked report.CheckDocument
		out := l.both(way, "check", "-o", "json").out
		if err := json.Unmarshal([]byte(out), &checked); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(checked.Checks, func(c report.Check) bool { return c.ID == check.Policies && slices.Equal(c.Sides, []string{"b"}) })
		want := map[bool]string{true: "pass", false: "warn"}[p.opens]
		if i < 0 || checked.Checks[i].Result != want {
			t.Errorf("%s %s: got %+v, want LT-D017 to be %s", p.kind, spec, checked.Checks, want)
		}
	}
}

// testDevices asks milan's agents which devices are the node's. An agent that took
// liqo-fabric for one would make all MTUs smaller, again and again, and masquerade what
// leaves there.
func (l lab) testDevices(t *testing.T) {
	for _, node := range l.nodes(t, "milan") {
		out := l.must(t, "exec", "milan", node, "--", "cilium-dbg", "shell", "--", "db/show", "--columns=Name,Selected", "devices")
		selected := map[string]string{}
		for line := range strings.Lines(out) {
			if words := strings.Fields(line); len(words) == 2 {
				selected[words[0]] = words[1]
			}
		}
		if selected["eth0"] != "true" || selected["liqo-fabric"] != "false" {
			t.Errorf("%s: got these devices, want eth0 selected and liqo-fabric not:\n%s", node, out)
		}
	}
}
