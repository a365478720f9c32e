package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

// TestLabLending runs a Deployment of rome on milan, both with our operators, and takes
// everything away again: over an address of milan's API server that rome's pods reach, or
// through the tunnel, or by an admin of rome who has no access to milan except the file of a
// peering user. Or each of the two runs a Deployment on the other.
func TestLabLending(t *testing.T) {
	l := useLab(t)
	l.prepare(t)
	first := sample.Seed(t)
	ways := []struct {
		name string
		test func(t *testing.T)
	}{
		{"past a load balancer", func(t *testing.T) {
			defer l.hides(t, "milan")
			l.testLending(t, l.exposes(t, "milan").balanced, "accepted, reaches https://", false)
		}},
		{"in-band", func(t *testing.T) {
			l.testLending(t, l.apiServer(t, "milan"), ":6443 through http://", false, "--in-band")
		}},
		{"as a peering user, past a NodePort", func(t *testing.T) {
			defer l.hides(t, "milan")
			l.testLending(t, l.exposes(t, "milan").nodePort, "accepted, reaches https://", true)
		}},
		{"both ways", l.testBothWays},
	}
	for i := range uint64(sample.Of(1, len(ways))) {
		way := ways[(first+i)%uint64(len(ways))]
		t.Run(way.name, way.test)
	}
}

// testLending sets the provider's URL of its API server, gives peer more flags, and compares
// the description of the access.
func (l lab) testLending(t *testing.T, apiServer, access string, invited bool, more ...string) {
	const consumer, provider, namespace = "rome", "milan", "lent"
	peering := func(cluster string, args ...string) {
		t.Helper()
		l.tui(append([]string{"install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-" + cluster}, args...)...).want(t, exit.OK)
	}
	peering(consumer, "--peering", "consumer")
	peering(provider, "--peering", "provider", "--api-server", apiServer, "--lend", "cpu=1,memory=1Gi")
	t.Cleanup(func() {
		peering(consumer, "--peering", "none")
		peering(provider, "--peering", "none")
	})
	eventually(t, 30*time.Second, func() error { // the installation's, which the operator makes
		_, err := l.try(t, "kubectl", provider, "-n", "liqo", "get", "ips.ipam.liqo.io", "api-server-proxy")
		return err
	})
	alone := func(command ...string) []string {
		return append(command, "--kubeconfig", l.kubeconfig, "--context", "lab-"+consumer, "--yes", "--timeout", "60s")
	}
	before := l.everything(t, consumer, provider)
	remote := []string{"--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-" + provider}
	if invited {
		remote = []string{"--remote-kubeconfig", l.invitedUser(t, consumer, provider, apiServer)}
	}
	pair := func(command ...string) []string {
		return append(append(command, "--kubeconfig", l.kubeconfig, "--context", "lab-"+consumer, "--yes", "--timeout", "120s"), remote...)
	}
	began := time.Now()
	got := l.tui(pair(append([]string{"peer", "--cpu", "1", "--memory", "1Gi", "--server-service-type", "NodePort"}, more...)...)...).want(t, exit.OK)
	t.Logf("peer: %.1f s\n%s%s", time.Since(began).Seconds(), got.err, got.out)

	l.must(t, "kubectl", consumer, "create", "namespace", namespace)
	began = time.Now()
	got = l.tui(alone("offload", "namespace", namespace)...).want(t, exit.OK)
	t.Logf("offload: %.1f s\n%s%s", time.Since(began).Seconds(), got.err, got.out)
	began = time.Now()
	l.must(t, "kubectl", consumer, "-n", namespace, "create", "configmap", "settings", "--from-literal=A=b")
	l.must(t, "kubectl", consumer, "-n", namespace, "create", "secret", "generic", "password", "--from-literal=password=x")
	// Without the ConfigMap and the Secret its container does not start.
	l.apply(t, consumer, strings.Replace(abroad(lentWeb(namespace)), "      containers:\n      - name: web\n", `      volumes: [{name: password, secret: {secretName: password}}]
      containers:
      - name: web
        envFrom: [{configMapRef: {name: settings}}]
        volumeMounts: [{name: password, mountPath: /password}]
`, 1))
	l.must(t, "kubectl", consumer, "-n", namespace, "rollout", "status", "deployment/web", "--timeout=180s")
	t.Logf("a Deployment runs there after %.1f s", time.Since(began).Seconds())
	if on := l.must(t, "kubectl", consumer, "-n", namespace, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"); on != provider {
		t.Errorf("the Deployment's pod is on %q, want %s", on, provider)
	}
	t.Run("what info and check say of it", func(t *testing.T) { l.saysWhatIsLent(t, consumer, provider, namespace, access) })
	t.Run("its Service answers pods of the consumer", func(t *testing.T) { l.asks(t, consumer, namespace) })
	t.Run("with a pod in each cluster it answers from both, in both", func(t *testing.T) { l.answersFromBoth(t, consumer, provider, namespace) })
	t.Run("logs, exec and port-forward", func(t *testing.T) { l.kubectlReaches(t, consumer, provider, namespace) })
	t.Run("the provider's operator gets another pod", func(t *testing.T) { // in-band, the proxy gets another pod, too
		l.must(t, "kubectl", provider, "-n", "liqo", "delete", "pods", "-l", "app.kubernetes.io/name=liqo-tui-operator", "--timeout=60s")
		l.must(t, "kubectl", consumer, "-n", namespace, "scale", "deployment/web", "--replicas=2")
		l.must(t, "kubectl", consumer, "-n", namespace, "rollout", "status", "deployment/web", "--timeout=90s")
		l.must(t, "kubectl", consumer, "-n", namespace, "scale", "deployment/web", "--replicas=1")
		eventually(t, 60*time.Second, func() error {
			left, err := l.try(t, "kubectl", provider, "-n", namespace+"-"+consumer, "get", "pods", "-o", "name")
			if err == nil && len(strings.Fields(left)) != 1 {
				err = fmt.Errorf("on %s: %s, want one pod", provider, left)
			}
			return err
		})
	})
	t.Run("a pod that was deleted there runs again, and is the same here", func(t *testing.T) {
		here := func() (string, error) {
			return l.try(t, "kubectl", consumer, "-n", namespace, "get", "pods", "-l", "app=web", "-o", `jsonpath={range .items[*]}{.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}{end}`)
		}
		there := func() string {
			return l.must(t, "kubectl", provider, "-n", namespace+"-"+consumer, "get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
		}
		was, err := here()
		if err != nil {
			t.Fatal(err)
		}
		first := there()
		l.must(t, "kubectl", provider, "-n", namespace+"-"+consumer, "delete", "pods", "--all", "--wait=true", "--timeout=30s")
		eventually(t, 30*time.Second, func() error {
			is, err := here()
			if err == nil && (is != was || there() == first) {
				err = fmt.Errorf("got %q, want %q, with another pod on %s than %s", is, was, provider, first)
			}
			return err
		})
	})
	t.Run("things break at random while the Deployment is scaled", func(t *testing.T) { l.faultsWhileLending(t, connection{consumer, provider}, namespace) })
	t.Run("a pod deleted here goes there", func(t *testing.T) {
		l.must(t, "kubectl", consumer, "-n", namespace, "scale", "deployment/web", "--replicas=0")
		eventually(t, 30*time.Second, func() error {
			left, err := l.try(t, "kubectl", provider, "-n", namespace+"-"+consumer, "get", "pods,shadowpods", "-o", "name")
			if err == nil && left != "" {
				err = fmt.Errorf("left on %s: %s", provider, left)
			}
			return err
		})
		l.must(t, "kubectl", consumer, "-n", namespace, "wait", "--for=delete", "pod", "-l", "app=web", "--timeout=30s")
	})
	t.Run("no request is lost while objects are absent", func(t *testing.T) { l.losesNoRequest(t, connection{consumer, provider}, namespace) })
	l.tui(alone("unoffload", "namespace", namespace)...).want(t, exit.OK)
	l.must(t, "kubectl", consumer, "delete", "namespace", namespace, "--timeout=180s")
	got = l.tui(pair("unpeer")...).want(t, exit.OK)
	t.Logf("unpeer:\n%s%s", got.err, got.out)
	if invited {
		l.tui("delete", "peering-user", "--consumer-cluster-id", consumer, "--kubeconfig", l.kubeconfig, "--context", "lab-"+provider, "--yes").want(t, exit.OK)
		l.tui(pair("peer")...).want(t, exit.Unreachable) // the file gives no access any more
	}
	l.isAsBefore(t, before)
}

// invitedUser is the file that the provider's admin has made for the consumer's. It is good
// for lending to this consumer, and for nothing else.
func (l lab) invitedUser(t *testing.T, consumer, provider, apiServer string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "invited")
	l.tui("generate", "peering-user", "--consumer-cluster-id", consumer, "--file", file, "--api-server", apiServer,
		"--kubeconfig", l.kubeconfig, "--context", "lab-"+provider, "--yes").want(t, exit.OK)
	tenant := "liqo-tenant-" + consumer
	for question, want := range map[string]string{
		"create tenants.authentication.liqo.io/" + consumer + " -n " + tenant: "yes",
		"get secrets/liqo-nonce -n " + tenant:                                 "yes",
		"create tenants.authentication.liqo.io -n default":                    "no",
		"get secrets -n " + tenant:                                            "no",
		"list secrets -n " + tenant:                                           "no",
		"get secrets/liqo-nonce -n liqo":                                      "no",
		"list tenants.authentication.liqo.io -A":                              "no",
		"list pods -n default":                                                "no",
		"create pods -n " + tenant:                                            "no",
		"create rolebindings -n " + tenant:                                    "no",
		"create serviceaccounts/token -n " + tenant:                           "no",
		"list nodes": "no",
	} {
		args := append([]string{"--kubeconfig", file, "auth", "can-i"}, strings.Fields(question)...)
		out, _ := exec.CommandContext(t.Context(), "../../../bin/kubectl", args...).Output() // kubectl fails if the answer is no
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("can-i %s: got %q, want %s", question, got, want)
		}
	}
	return file
}

// faultsWhileLending breaks the parts that lending needs, while pods are created and deleted.
// When everything works again, both clusters have the same number of pods, and no pod exists
// twice.
func (l lab) faultsWhileLending(t *testing.T, c connection, namespace string) {
	length, random := breakFor(t, "15s", "3m")
	r := l.newFaultRun(t, []connection{c})
	// network connect keeps the network for itself, and unpeer would leave it.
	r.faults = slices.DeleteFunc(r.faults, func(f fault) bool { return f.connects })
	scale := func(replicas int) error {
		_, err := l.try(t, "kubectl", c.a, "--request-timeout=5s", "-n", namespace, "scale", "deployment/web", fmt.Sprintf("--replicas=%d", replicas))
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	var scaling sync.WaitGroup
	scaled := rand.New(rand.NewPCG(random.Uint64(), 0)) //nolint:gosec // it has to be the same again
	scaling.Go(func() {
		for ctx.Err() == nil {
			_ = scale(scaled.IntN(8)) // the API server may be broken at this time
			time.Sleep(time.Duration(scaled.IntN(3000)) * time.Millisecond)
		}
	})
	r.breakThings(t, random, length)
	cancel()
	scaling.Wait()
	const replicas = 3
	var kinds []string
	for _, b := range r.bursts {
		kinds = append(kinds, b.kinds...)
	}
	began := time.Now()
	eventually(t, settled, func() error { return scale(replicas) })
	twin := namespace + "-" + c.a
	eventually(t, settled, func() error {
		counts := map[string]int{}
		for what, args := range map[string][]string{
			"pods here":        {c.a, "-n", namespace, "get", "pods", "-l", "app=web"},
			"ShadowPods there": {c.b, "-n", twin, "get", "shadowpods"},
			"pods there":       {c.b, "-n", twin, "get", "pods"},
		} {
			out, err := l.try(t, append(append([]string{"kubectl"}, args...), "-o", "name")...)
			if err != nil {
				return err
			}
			counts[what] = len(strings.Fields(out))
		}
		ready, err := l.try(t, "kubectl", c.a, "-n", namespace, "get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}")
		if err == nil && (ready != strconv.Itoa(replicas) || counts["pods here"] != replicas || counts["ShadowPods there"] != replicas || counts["pods there"] != replicas) {
			err = fmt.Errorf("of %d pods %q are ready: %v", replicas, ready, counts)
		}
		return err
	})
	t.Logf("all is as it should be %.1f s after: %s", time.Since(began).Seconds(), strings.Join(kinds, ", "))
	eventually(t, settled, func() error { return scale(1) })
	l.must(t, "kubectl", c.a, "-n", namespace, "rollout", "status", "deployment/web", "--timeout=90s")
}

// saysWhatIsLent compares the program's view of lending with the objects, when everything
// works and while a pod is refused. It also checks that the program refuses to remove the
// network.
func (l lab) saysWhatIsLent(t *testing.T, consumer, provider, namespace, access string) {
	t.Helper()
	info := func(cluster, peer string, want ...string) {
		t.Helper()
		got := l.tui("info", "peer", peer, "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster).want(t, exit.OK)
		for _, w := range want {
			if !strings.Contains(strings.Join(strings.Fields(got.out), " "), w) {
				t.Errorf("info peer %s of %s does not say %q:\n%s", peer, cluster, w, got.out)
			}
		}
	}
	info(consumer, provider, "rome uses resources of milan", access, "Slice milan: granted", "Node milan: Ready", "Namespace lent: is lent-rome there", "Quota used cpu", "Pods 1 running")
	info(provider, consumer, "milan lends resources to rome", "Access accepted", "Slice milan: granted", "Pods 1 running")
	check := func(want ...string) {
		t.Helper()
		eventually(t, 60*time.Second, func() error {
			got := l.tui(l.pair("check", "--details")...)
			for _, w := range want {
				if !strings.Contains(got.out, w) {
					return fmt.Errorf("check does not say %q:\n%s%s", w, got.out, got.err)
				}
			}
			return nil
		})
	}
	check("the provider lets it in", "milan: granted", "milan: Ready", "lent: is lent-rome there", "1 running")
	l.apply(t, consumer, `apiVersion: v1
kind: Pod
metadata: {name: refused, namespace: `+namespace+`}
spec:
  terminationGracePeriodSeconds: 0
  tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists}]
  nodeSelector: {liqo.io/type: virtual-node}
  containers: [{name: web, image: "lab.local/pod:v1", args: [serve], securityContext: {privileged: true}}]
`)
	check("1 OffloadingRefused, such as lent/refused: milan", "privileged")
	info(consumer, provider, "Waiting 1 OffloadingRefused, such as lent/refused")
	l.must(t, "kubectl", consumer, "-n", namespace, "delete", "pod", "refused", "--timeout=60s")
	got := l.tui(l.pair("network", "reset", "--yes")...).want(t, exit.Preflight)
	if want := strings.Join(l.pair("liqo-tui unpeer"), " "); !strings.Contains(got.err+got.out, want) {
		t.Errorf("reset does not name %s:\n%s%s", want, got.out, got.err)
	}
}

// answersFromBoth adds a pod on the consumer to a Service whose other pod is on the provider,
// and asks the Service in both clusters.
func (l lab) answersFromBoth(t *testing.T, consumer, provider, namespace string) {
	t.Helper()
	l.apply(t, consumer, `apiVersion: v1
kind: Pod
metadata: {name: at-home, namespace: `+namespace+`, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: web, image: "lab.local/pod:v1", imagePullPolicy: IfNotPresent, args: [serve], ports: [{containerPort: 8080}]}]
`)
	l.must(t, "kubectl", consumer, "-n", namespace, "wait", "--for=condition=Ready", "pod/at-home", "--timeout=180s")
	began := time.Now()
	lent := l.must(t, "kubectl", consumer, "-n", namespace, "get", "pods", "-l", "app=web", "--field-selector", "spec.nodeName="+provider, "-o", "jsonpath={.items[0].metadata.name}")
	twin := namespace + "-" + consumer
	for _, from := range []struct{ cluster, namespace, in, pod string }{
		{consumer, namespace, namespace, "at-home"}, {provider, twin, twin, lent}, {consumer, namespace, "default", web(l.workers(t, consumer)[0])},
	} {
		address := l.must(t, "kubectl", from.cluster, "-n", from.namespace, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
		left := map[string]bool{"at-home": true, lent: true}
		eventually(t, 60*time.Second, func() error {
			text, err := l.try(t, "kubectl", from.cluster, "-n", from.in, "exec", from.pod, "--", "/pod", "get", "--timeout", "2s", "http://"+address+":8080/")
			for name := range left {
				if err == nil && strings.Contains(text, `"hostname":"`+name+`"`) {
					delete(left, name)
				}
			}
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("pod %s of %s got no answer of %v", from.pod, from.cluster, left)
			}
			return err
		})
		t.Logf("pod %s of %s got answers of both within %.1f s", from.pod, from.cluster, time.Since(began).Seconds())
	}
	l.must(t, "kubectl", consumer, "-n", namespace, "delete", "pod", "at-home")
}

// kubectlReaches uses kubectl on a pod on the provider through the consumer's API server.
func (l lab) kubectlReaches(t *testing.T, consumer, provider, namespace string) {
	t.Helper()
	lent := l.must(t, "kubectl", consumer, "-n", namespace, "get", "pods", "-l", "app=web", "--field-selector", "spec.nodeName="+provider, "-o", "jsonpath={.items[0].metadata.name}")
	const itself = "http://127.0.0.1:8080/"
	if got := l.must(t, "kubectl", consumer, "-n", namespace, "exec", lent, "--", "/pod", "get", itself); !strings.Contains(got, lent) {
		t.Errorf("exec printed %q", got)
	}
	if got, err := l.try(t, "kubectl", consumer, "-n", namespace, "exec", lent, "--", "/pod", "nonsense"); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("a command that fails: got %q, %v", got, err)
	}
	l.apply(t, consumer, `apiVersion: v1
kind: Pod
metadata: {name: asks, namespace: `+namespace+`}
spec:
  restartPolicy: Never
  nodeSelector: {liqo.io/type: virtual-node}
  tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists}]
  containers: [{name: asks, image: "lab.local/pod:v1", imagePullPolicy: IfNotPresent, args: [get, "http://`+
		l.must(t, "kubectl", provider, "-n", namespace+"-"+consumer, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")+`:8080/"]}]
`)
	l.must(t, "kubectl", consumer, "-n", namespace, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/asks", "--timeout=180s")
	if got := l.must(t, "kubectl", consumer, "-n", namespace, "logs", "asks"); !strings.Contains(got, `"hostname":"`+lent) {
		t.Errorf("the log is %q", got)
	}
	l.must(t, "kubectl", consumer, "-n", namespace, "delete", "pod", "asks")
	forward := l.command(t, "kubectl", consumer, "-n", namespace, "port-forward", "pod/"+lent, ":8080")
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Kill()
		_ = forward.Wait() // it was killed
	}()
	line, err := bufio.NewReader(out).ReadString('\n') // Forwarding from 127.0.0.1:40123 -> 8080
	address, _, _ := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " ")
	if err != nil || address == "" {
		t.Fatalf("port-forward says %q, %v", line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), lent) {
		t.Errorf("through the forwarded port came %q, %v", text, err)
	}
}

// apiServer is the address of a cluster's API server in the kubeconfig.
func (l lab) apiServer(t *testing.T, cluster string) string {
	t.Helper()
	return l.must(t, "kubectl", cluster, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
}

// exposed are the URLs of an API server behind a Service.
type exposed struct{ nodePort, balanced string }

// exposes makes an admin's Service for an API server, for a cluster whose API server can't be
// reached from outside of its network.
func (l lab) exposes(t *testing.T, cluster string) exposed {
	t.Helper()
	server := l.apiServer(t, cluster)
	address, port, err := net.SplitHostPort(strings.TrimPrefix(server, "https://"))
	if err != nil {
		t.Fatalf("API server of %s: %v", cluster, err)
	}
	const service = `apiVersion: v1
kind: Service
metadata: {name: api-server-for-peers, namespace: default}
spec:
  type: LoadBalancer
  loadBalancerIP: BALANCED
  ports: [{name: https, port: 443, targetPort: PORT}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: api-server-for-peers, namespace: default, labels: {kubernetes.io/service-name: api-server-for-peers}}
addressType: IPv4
endpoints: [{addresses: [ADDRESS], conditions: {ready: true}}]
ports: [{name: https, port: PORT}]
`
	balanced := l.wan(t, map[string]byte{"rome": 127, "milan": 143}[cluster]).String() // an address in its certificate
	l.apply(t, cluster, strings.NewReplacer("BALANCED", balanced, "ADDRESS", address, "PORT", port).Replace(service))
	nodePort := l.must(t, "kubectl", cluster, "get", "service", "api-server-for-peers", "-o", "jsonpath={.spec.ports[0].nodePort}")
	return exposed{nodePort: "https://" + net.JoinHostPort(address, nodePort), balanced: "https://" + balanced}
}

func (l lab) hides(t *testing.T, cluster string) {
	t.Helper()
	l.must(t, "kubectl", cluster, "delete", "service,endpointslice", "api-server-for-peers")
}
