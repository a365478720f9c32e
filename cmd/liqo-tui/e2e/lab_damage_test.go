package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// fault is one way to break something.
type fault struct {
	name string
	// lasts is its longest duration; 0 if it is over at once.
	lasts time.Duration
	// apply breaks way.a, on its way to way.b, and returns a description. Each
	// fault has random numbers of its own, so that a seed has the same effect at
	// any speed.
	apply func(d damage) (string, error)
	undo  func(d damage) error // nil if there is nothing to undo
	// connects marks a fault in which an admin runs network connect.
	connects bool
}

// damage is where and how a fault is applied.
type damage struct {
	*faultRun
	t      *testing.T
	way    connection
	random *rand.Rand
}

func (d damage) node() string {
	nodes := d.nodesOf[d.way.a]
	return nodes[d.random.IntN(len(nodes))]
}

func (d damage) tenant() string { return "liqo-tenant-" + d.way.b }

// kubectl repeats its request if the cluster's API server was killed meanwhile.
func (d damage) kubectl(args ...string) (string, error) {
	var err error
	for range 20 {
		var out string
		if out, err = d.try(d.t, append([]string{"kubectl", d.way.a}, args...)...); err == nil {
			return out, nil
		}
		time.Sleep(500 * time.Millisecond)
	}
	return "", err
}

// onNode runs a command on a node.
func onNode(command ...string) func(damage) (string, error) {
	return func(d damage) (string, error) {
		node := d.node()
		_, err := d.try(d.t, append([]string{"exec", d.way.a, node, "--"}, command...)...)
		return node, err
	}
}

var errNoGateway = errors.New("no gateway runs there just now")

// gateway returns the process of way.a's gateway to way.b, and its node.
func (d damage) gateway() (node, pid string, err error) {
	for _, node := range d.nodesOf[d.way.a] {
		if pid := d.process(d.t, d.way.a, node, tunnelOf(d.way.b), ""); pid != "" {
			return node, pid, nil
		}
	}
	return "", "", errNoGateway
}

// inGateway runs a command in the network namespace of a gateway.
func inGateway(command ...string) func(damage) (string, error) {
	return func(d damage) (string, error) {
		node, pid, err := d.gateway()
		if err == nil {
			_, err = d.try(d.t, d.inside(d.way.a, node, pid, command...)...)
		}
		return node, err
	}
}

func killGateway(d damage) (string, error) {
	node, pid, err := d.gateway()
	if err == nil {
		_, err = d.try(d.t, "exec", d.way.a, node, "--", "kill", "-9", pid)
	}
	return node, err
}

func deletePods(selector string) func(damage) (string, error) {
	return func(d damage) (string, error) {
		_, err := d.kubectl("delete", "pods", "-n", "liqo", "-l", selector, "--wait=false")
		return "", err
	}
}

// moveGateway moves the gateway's pod to another node.
func moveGateway(d damage) (string, error) {
	pod, node := d.gatewayPod(d.t, d.way.a, d.way.b)
	if pod == "" {
		return "", errNoGateway
	}
	if _, err := d.kubectl("cordon", node); err != nil {
		return "", err
	}
	defer func() {
		if _, err := d.kubectl("uncordon", node); err != nil {
			d.t.Errorf("%s is left cordoned: %v", node, err)
		}
	}()
	if _, err := d.kubectl("delete", "pod", "-n", d.tenant(), pod, "--wait=false"); err != nil {
		return "", err
	}
	for range 50 {
		if now, there := d.gatewayPod(d.t, d.way.a, d.way.b); there != "" && there != node {
			return node + " to " + there + " as " + now, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "from " + node, nil // another fault prevents the move
}

// killComponent kills one of Kubernetes' own processes on a node. The node starts
// it again.
func killComponent(name string, node func(damage) string) func(damage) (string, error) {
	return func(d damage) (string, error) {
		on := node(d)
		pid := d.process(d.t, d.way.a, on, "^[^ ]*/"+name+" --", "")
		if pid == "" {
			return on, fmt.Errorf("%s does not run", name)
		}
		_, err := d.try(d.t, "exec", d.way.a, on, "--", "kill", "-9", pid)
		return on, err
	}
}

// changePortEarly gives the client a port that the server's nodes do not know for
// a while.
func changePortEarly(d damage) (string, error) {
	clusters := []string{d.way.a, d.way.b} // one of them has the server
	lasts := time.Duration(d.random.Int64N(int64(4 * time.Second)))
	var errs []error
	for _, cluster := range clusters {
		errs = append(errs, d.stopProxies(d.t, cluster, d.nodesOf[cluster]))
	}
	resumed := make(chan error)
	go func() {
		time.Sleep(lasts)
		var errs []error
		for _, cluster := range clusters {
			errs = append(errs, d.resumeProxies(d.t, cluster, d.nodesOf[cluster]))
		}
		resumed <- errors.Join(errs...)
	}()
	port := strconv.Itoa(51840 + d.random.IntN(100))
	told, err := d.command(d.way, "connect", "--server-port", port)
	if err := <-resumed; err != nil {
		d.t.Errorf("a kube-proxy stands still for ever: %v", err)
	}
	return told + ", kube-proxy stopped for " + lasts.String(), errors.Join(append(errs, err)...)
}

func firstNode(d damage) string { return d.nodesOf[d.way.a][0] }

// path changes the path between the clusters.
func path(args func(d damage) []string) func(damage) (string, error) {
	return func(d damage) (string, error) {
		a := args(d)
		_, err := d.try(d.t, a...)
		return strings.Join(a, " "), err
	}
}

func restore(d damage) error {
	_, err := d.try(d.t, "restore")
	return err
}

// again connects the two clusters again, with other flags.
func again(flags func(d damage) []string) func(damage) (string, error) {
	return func(d damage) (string, error) { return d.command(d.way, "connect", flags(d)...) }
}

func anyOf(r *rand.Rand, values ...string) string { return values[r.IntN(len(values))] }

// faults are all faults. Changes by the program are among them: an admin changes a
// connection without regard to pods that restart.
func faults() []fault {
	return []fault{
		{name: "kill the gateway's process", apply: killGateway},
		{name: "delete the gateway's pod", apply: func(d damage) (string, error) {
			_, err := d.kubectl("delete", "pods", "-n", d.tenant(), "-l", "networking.liqo.io/component=gateway", "--wait=false")
			return "", err
		}},
		{name: "delete the gateway's Deployment", apply: func(d damage) (string, error) {
			_, err := d.kubectl("delete", "deployments", "-n", d.tenant(), "--all", "--wait=false")
			return "", err
		}},
		{name: "move the gateway to another node", apply: moveGateway},
		{name: "delete the operator's pod", apply: deletePods("app.kubernetes.io/name=liqo-tui-operator")},
		{name: "delete the fabric's pods", apply: deletePods("app.kubernetes.io/name=liqo-tui-fabric")},
		{name: "replace the exported pods", apply: func(d damage) (string, error) {
			_, err := d.kubectl("delete", "pods", "-n", shop, "-l", "app=web", "--wait=false")
			return "", err
		}},
		{name: "kill the API server", apply: killComponent("kube-apiserver", firstNode)},
		{name: "kill a kubelet", apply: killComponent("kubelet", damage.node)},
		{name: "kill a kube-proxy", apply: killComponent("kube-proxy", damage.node)},

		{name: "delete a node's overlay", apply: onNode("ip", "link", "del", "liqo-fabric")},
		{name: "flush a node's routes", apply: onNode("ip", "route", "flush", "table", "18000")},
		{name: "delete a node's rule", apply: onNode("ip", "rule", "del", "pref", strconv.Itoa(gateway.NodePref))},
		{name: "delete a node's nft table", apply: onNode("nft", "delete", "table", "ip", "liqo-tui")},
		{name: "forget a node's flows", apply: onNode("conntrack", "-F")},

		{name: "delete the gateway's tunnel", apply: inGateway("ip", "link", "del", "liqo-tunnel")},
		{name: "take the gateway's tunnel down", apply: inGateway("ip", "link", "set", "liqo-tunnel", "down")},
		{name: "delete the gateway's overlay", apply: inGateway("ip", "link", "del", "liqo-fabric")},
		{name: "flush the gateway's routes", apply: inGateway("ip", "route", "flush", "table", "18100")},
		{name: "flush the gateway's routes to pods", apply: inGateway("ip", "route", "flush", "table", "18001")},
		{name: "delete a rule of the gateway", apply: func(d damage) (string, error) {
			return inGateway("ip", "rule", "del", "pref", anyOf(d.random, "10", "20", "30"))(d)
		}},
		{name: "delete the gateway's nft table", apply: inGateway("nft", "delete", "table", "ip", "liqo-tui")},
		{name: "forget the gateway's flows", apply: inGateway("conntrack", "-F")},

		{name: "cut the path", lasts: 8 * time.Second, undo: restore, apply: path(func(d damage) []string {
			return []string{"cut", d.way.a, d.way.b}
		})},
		{name: "cut the path in one direction", lasts: 8 * time.Second, undo: restore, apply: path(func(d damage) []string {
			return []string{"cut", d.way.a, d.way.b, "--direction", "a-to-b"}
		})},
		{name: "translate addresses to others", lasts: 8 * time.Second, undo: restore, apply: path(func(d damage) []string {
			return []string{"rebind", d.way.a}
		})},
		{name: "narrow the path", lasts: 8 * time.Second, undo: restore, apply: path(func(d damage) []string {
			return []string{"narrow", strconv.Itoa(1280 + 4*d.random.IntN(50)), "--hole=" + anyOf(d.random, "true", "false")}
		})},

		{name: "rotate keys", apply: func(d damage) (string, error) { return d.command(d.way, "rotate-keys") }},
		{name: "change the node port", connects: true, apply: again(func(d damage) []string {
			return []string{"--server-service-type", "NodePort", "--node-port", strconv.Itoa(d.ports(d.way) + d.random.IntN(100))}
		})},
		{name: "change the port", connects: true, apply: again(func(d damage) []string {
			return []string{"--server-port", strconv.Itoa(51840 + d.random.IntN(100))}
		})},
		{name: "change the port while kube-proxy stands still", connects: true, apply: changePortEarly},
		{name: "change the Service's type", connects: true, apply: again(func(d damage) []string {
			return []string{"--server-service-type", anyOf(d.random, "NodePort", "LoadBalancer")}
		})},
		{name: "change the MTU", connects: true, apply: again(func(d damage) []string {
			return []string{"--mtu", anyOf(d.random, "1300", "1340", "1400")}
		})},
		{name: "move the server", connects: true, apply: again(func(d damage) []string {
			return []string{"--server-location", anyOf(d.random, "Local", "Remote")}
		})},
	}
}
