package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// lending is a way in which a consumer gets a provider's resources.
type lending struct {
	name  string
	flags []string
	// invited: the consumer's admin has the file that the provider's admin made with
	// liqoctl, and no other rights on the provider.
	invited bool
}

// lendings are all ways. A run of CI uses one of them.
func lendings() []lending {
	return []lending{
		{name: "past the tunnel"},
		{name: "through the tunnel", flags: []string{"--in-band"}},
		{name: "as a peering user", invited: true},
	}
}

// testPeer runs a Deployment of a consumer on a provider, both with Liqo, and then
// takes everything away again.
func (l lab) testPeer(t *testing.T, consumer, provider string, how lending) {
	remote := []string{"--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-" + provider}
	if how.invited {
		user := l.peeringUser(t, consumer, provider)
		defer l.liqoctl(t, "delete", "peering-user", "--consumer-cluster-id", consumer, "--skip-confirm", "--kubeconfig", l.kubeconfig, "--context", "lab-"+provider)
		defer l.must(t, "kubectl", provider, "delete", "clusterroles,clusterrolebindings,roles,rolebindings", "-A", "-l", "app.kubernetes.io/managed-by=liqo-tui")
		remote = []string{"--remote-kubeconfig", user}
	}
	pair := func(command ...string) []string {
		command = append(command, "--kubeconfig", l.kubeconfig, "--context", "lab-"+consumer, "--yes", "--timeout", "300s")
		return append(command, remote...)
	}
	alone := func(command ...string) []string {
		return append(command, "--kubeconfig", l.kubeconfig, "--context", "lab-"+consumer, "--yes", "--timeout", "120s")
	}
	before := l.everything(t, consumer, provider)
	peer := func() result {
		return l.tui(append(pair("peer", "--cpu", "2", "--memory", "2Gi", "--server-service-type", "NodePort"), how.flags...)...)
	}
	started := time.Now()
	got := peer().want(t, exit.OK)
	t.Logf("peer: %.1f s\n%s%s", time.Since(started).Seconds(), got.err, got.out)
	if ready := l.must(t, "kubectl", consumer, "get", "node", provider, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`); ready != "True" {
		t.Errorf("Node %s is Ready: got %q", provider, ready)
	}
	if got := peer().want(t, exit.OK); !strings.HasPrefix(got.out, "No changes.\n") {
		t.Errorf("a second time: got %q, want it to start with No changes.", got.out)
	}

	const namespace = "lent"
	l.must(t, "kubectl", consumer, "create", "namespace", namespace)
	got = l.tui(alone("offload", "namespace", namespace, "--pod-offloading-strategy", "Remote")...).want(t, exit.OK)
	t.Logf("offload: %s%s", got.err, got.out)
	l.apply(t, consumer, lentWeb(namespace))
	l.must(t, "kubectl", consumer, "-n", namespace, "rollout", "status", "deployment/web", "--timeout=120s")
	if on := l.must(t, "kubectl", consumer, "-n", namespace, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"); on != provider {
		t.Errorf("the Deployment's pod is on %q, want %s", on, provider)
	}
	l.besideGateway(t, consumer, provider, namespace)
	// The lab has no DNS, so a Service is asked by its address, which differs between
	// the clusters.
	for _, from := range []struct{ cluster, namespace string }{{consumer, namespace}, {provider, namespace + "-" + consumer}} {
		l.asks(t, from.cluster, from.namespace)
	}
	l.tui(alone("unoffload", "namespace", namespace)...).want(t, exit.OK)
	l.must(t, "kubectl", consumer, "delete", "namespace", namespace, "--timeout=120s")

	got = l.tui(pair("unpeer")...).want(t, exit.OK)
	t.Logf("unpeer:\n%s%s", got.err, got.out)
	l.isAsBefore(t, before)
	if got := l.tui(pair("unpeer")...).want(t, exit.OK); !strings.HasPrefix(got.out, "No changes.\n") {
		t.Errorf("a second unpeer: got %q, want it to start with No changes.", got.out)
	}
}

// peeringUser returns a kubeconfig that liqoctl makes for a consumer's admin, with the
// additional rights that rbac prints for peer.
func (l lab) peeringUser(t *testing.T, consumer, provider string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "peering-user")
	made := l.liqoctl(t, "generate", "peering-user", "--consumer-cluster-id", consumer, "--kubeconfig", l.kubeconfig, "--context", "lab-"+provider)
	if err := os.WriteFile(file, []byte(made), 0o600); err != nil {
		t.Fatal(err)
	}
	pair := []string{"--kubeconfig", l.kubeconfig, "--context", "lab-" + consumer, "--remote-kubeconfig", file}
	refused := l.tui(append([]string{"peer", "--server-service-type", "NodePort", "--yes"}, pair...)...).want(t, exit.Unreachable)
	if !strings.Contains(refused.err, "liqo-tui rbac --peering") {
		t.Errorf("got %q, want it to name what prints the missing rights", refused.err)
	}
	roles := l.tui(append([]string{"rbac", "--peering"}, pair...)...).want(t, exit.OK).out
	_, ofProvider, found := strings.Cut(roles, "# B "+provider)
	if !found {
		t.Fatalf("got %q, want roles for %s", roles, provider)
	}
	l.apply(t, provider, "#"+ofProvider)
	return file
}

// besideGateway moves the offloaded pod to another address if it has that of the
// consumer's gateway pod: Liqo's gateway would keep packets to that address for
// itself.
func (l lab) besideGateway(t *testing.T, consumer, provider, namespace string) {
	t.Helper()
	gateway, _ := l.gatewayPod(t, consumer, provider)
	address := l.must(t, "kubectl", consumer, "-n", "liqo-tenant-"+provider, "get", "pod", gateway, "-o", "jsonpath={.status.podIP}")
	if l.must(t, "kubectl", provider, "-n", namespace+"-"+consumer, "get", "pods", "-o", "jsonpath={.items[*].status.podIP}") != address {
		return
	}
	t.Logf("the offloaded pod has the address of the gateway's pod, %s: it is made again", address)
	l.must(t, "kubectl", consumer, "-n", namespace, "delete", "pod", "-l", "app=web")
	l.must(t, "kubectl", consumer, "-n", namespace, "rollout", "status", "deployment/web", "--timeout=180s")
}

// asks asks the Service of the offloaded Deployment from an ordinary pod of a cluster.
func (l lab) asks(t *testing.T, cluster, namespace string) {
	t.Helper()
	var address string
	eventually(t, 60*time.Second, func() (err error) {
		address, err = l.try(t, "kubectl", cluster, "-n", namespace, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
		return err
	})
	node := l.workers(t, cluster)[0]
	eventually(t, 60*time.Second, func() error {
		_, err := l.try(t, "kubectl", cluster, "exec", web(node), "--", "/pod", "get", "--timeout", "5s", "http://"+address+":8080/")
		return err
	})
}

// workers are the nodes that are not virtual.
func (l lab) workers(t *testing.T, cluster string) []string {
	t.Helper()
	return strings.Fields(l.must(t, "kubectl", cluster, "get", "nodes", "-l", "!liqo.io/type", "-o", "jsonpath={.items[*].metadata.name}"))
}

// lentWeb answers HTTP behind a Service.
func lentWeb(namespace string) string {
	return strings.ReplaceAll(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: lab.local/pod:v1
        imagePullPolicy: IfNotPresent
        args: [serve]
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        resources: {requests: {cpu: 50m, memory: 32Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NAMESPACE}
spec:
  selector: {app: web}
  ports: [{port: 8080}]
`, "NAMESPACE", namespace)
}
