package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// labProgram is where the Makefile puts the lab and all it needs.
const labProgram = "../../bin/lab"

// e2e is a lab of its own, beside any other that runs on the machine.
type e2e struct {
	t       *testing.T
	program string
	dir     string
}

func newE2E(t *testing.T) e2e {
	t.Helper()
	cannot := t.Skipf
	if os.Getenv("REQUIRE_LAB") != "" {
		cannot = t.Fatalf
	}
	if os.Geteuid() != 0 {
		cannot("needs root")
	}
	program, err := filepath.Abs(labProgram)
	if err != nil {
		t.Fatal(err)
	}
	for _, needed := range []string{program, filepath.Join(filepath.Dir(program), "kubelab"), filepath.Join(filepath.Dir(program), "kubectl")} {
		if _, err := os.Stat(needed); err != nil {
			cannot("needs the built lab: %v", err)
		}
	}
	if missing := missingPackages(); len(missing) > 0 {
		cannot("needs the packages %v", missing)
	}
	dir, err := os.MkdirTemp("/run", "lab-e2e-") // short: it holds Unix sockets
	if err != nil {
		t.Fatal(err)
	}
	e := e2e{t: t, program: program, dir: dir}
	t.Cleanup(func() {
		if _, err := os.Stat(dir); err == nil {
			if out, err := e.command(context.Background(), "", "down").CombinedOutput(); err != nil {
				t.Errorf("lab down: %v\n%s", err, out)
			}
		}
	})
	return e
}

func (e e2e) command(ctx context.Context, stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.program, args...)
	cmd.Env = append(os.Environ(), dirVariable+"="+e.dir)
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// try runs the lab and returns its standard output.
func (e e2e) try(stdin string, args ...string) (string, error) {
	out, err := e.command(e.t.Context(), stdin, args...).Output()
	return string(out), err
}

func (e e2e) must(stdin string, args ...string) string {
	e.t.Helper()
	out, err := e.try(stdin, args...)
	if err != nil {
		detail := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			detail = string(exit.Stderr)
		}
		e.t.Fatalf("lab %s: %v\n%s%s", strings.Join(args, " "), err, out, detail)
	}
	return out
}

const e2ePods = `
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec:
  terminationGracePeriodSeconds: 0
  nodeName: solo-1
  containers:
  - name: pod
    image: lab.local/pod:v1
    args: [serve]
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  nodeName: solo-2
  containers: [{name: pod, image: lab.local/pod:v1, securityContext: {capabilities: {add: [NET_ADMIN]}}}]
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec:
  type: LoadBalancer
  selector: {app: server}
  ports: [{port: 80, targetPort: 8080, nodePort: 30080}]
`

// TestPodsAnswerOnAllPathsAndNothingIsLeft is the lab's promise in one run: two
// nodes, every way to reach a pod, a node that dies, and a clean machine.
func TestPodsAnswerOnAllPathsAndNothingIsLeft(t *testing.T) {
	e := newE2E(t)
	up := []string{"up", "--name=e2e", "--wan=172.29.0.0/24", "--clusters=solo,peer", "--nodes=2"}
	e.must("", up...)
	e.must("", up...) // the second is harmless
	e.must(e2ePods, "kubectl", "solo", "apply", "-f", "-")
	e.must("", "kubectl", "solo", "wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
	e.must("", "kubectl", "solo", "wait", "--for=jsonpath={.status.loadBalancer.ingress}", "service/server", "--timeout=10s")
	field := func(object, path string) string {
		return e.must("", "kubectl", "solo", "get", object, "-o=jsonpath={"+path+"}")
	}
	clientIP := field("pod/client", ".status.podIP")
	for _, tt := range []struct {
		path, url string
		seen      string // the client's address as the server sees it; "": any
	}{
		{"pod on another node", field("pod/server", ".status.podIP") + ":8080", clientIP},
		{"service", field("service/server", ".spec.clusterIP"), clientIP},
		{"node port", "172.29.0.11:30080", ""},
		{"load balancer", field("service/server", ".status.loadBalancer.ingress[0].ip"), ""},
	} {
		var answer struct{ Hostname, Client, Path string }
		get := []string{"kubectl", "solo", "exec", "client", "--", "/pod", "get", "http://" + tt.url + "/e2e"}
		// The client's node learns that a pod is ready a moment after kubectl does.
		out, err := e.try("", get...)
		for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline); {
			time.Sleep(100 * time.Millisecond)
			out, err = e.try("", get...)
		}
		if err != nil {
			out = e.must("", get...)
		}
		if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Hostname != "server" || answer.Path != "/e2e" {
			t.Errorf("%s: got %q, %v, want an answer of server", tt.path, out, err)
		}
		if tt.seen != "" && !strings.HasPrefix(answer.Client, tt.seen+":") {
			t.Errorf("%s: server saw %s, want the client's own address %s", tt.path, answer.Client, tt.seen)
		}
	}
	for _, n := range []string{"solo-1 10.244.0.0/24", "solo-2 10.244.1.0/24"} {
		name, want, _ := strings.Cut(n, " ")
		if got := field("node/"+name, ".spec.podCIDR"); got != want {
			t.Errorf("pod CIDR of %s: got %s, want %s", name, got, want)
		}
	}

	e.testCut()
	e.testNodeDeath(up)

	e.must("", "down")
	assertNothingLeft(t, e.dir)
}

// testCut expects the other cluster's nodes to lose, and to get back, the path.
func (e e2e) testCut() {
	e.t.Helper()
	get := []string{"exec", "peer", "--", "curl", "-sk", "--max-time", "2", "-o", "/dev/null", "https://172.29.0.11:6443/livez"}
	e.must("", get...)
	e.must("", "cut", "solo", "peer", "--direction=peer-to-solo", "--port=tcp/6443")
	if out, err := e.try("", get...); err == nil {
		e.t.Errorf("cut path: got %q, want no answer", out)
	}
	e.must("", "restore")
	e.must("", get...)
}

// testNodeDeath kills a node and expects `up` to bring it and its pods back.
func (e e2e) testNodeDeath(up []string) {
	e.t.Helper()
	nodes, err := findNodes(e.dir)
	if err != nil {
		e.t.Fatal(err)
	}
	dir := filepath.Join(e.dir, "solo-2")
	if err := killNode(nodes[dir], dir, 10*time.Second); err != nil {
		e.t.Fatal(err)
	}
	if out, err := e.try("", "status"); err == nil {
		e.t.Errorf("status with a dead node: exit status 0\n%s", out)
	}
	e.must("", up...)
	e.must("", "status")
	// The API server may show the former state until kubelet has looked.
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, err := e.try("", "kubectl", "solo", "exec", "client", "--", "/pod", "get", "http://172.29.0.11:30080/")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("client after its node restarted: %v", err)
		}
		time.Sleep(pollInterval)
	}
}

// TestResetRemovesOrNamesWhatIsLeft leaves one of each kind of thing in a lab.
func TestResetRemovesOrNamesWhatIsLeft(t *testing.T) {
	e := newE2E(t)
	fresh := []string{"fresh", "--name=e2e", "--wan=172.29.0.0/24", "--clusters=solo,peer", "--nodes=2"}
	e.must("", fresh...)
	e.must("", "diff")

	t.Run("what an admin can remove", func(t *testing.T) {
		e := e2e{t, e.program, e.dir}
		e.leaveObjects()
		e.leavesNothingBut("", "reset")
		e.must("", "diff")
	})
	t.Run("a node that died, and one whose object was deleted", func(t *testing.T) {
		e := e2e{t, e.program, e.dir}
		e.must("", "kubectl", "peer", "delete", "node", "peer-2")
		nodes, err := findNodes(e.dir)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(e.dir, "solo-2")
		if err := killNode(nodes[dir], dir, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		e.must("", "reset")
		e.must("", "diff")
	})
	t.Run("what only a restart removes, of a node", func(t *testing.T) {
		e := e2e{t, e.program, e.dir}
		e.leaveOnNode("solo-2")
		e.leavesNothingBut("solo-2", "reset", "--patience=1s")
	})
	t.Run("what only a restart removes, of a first node and of the network", func(t *testing.T) {
		e := e2e{t, e.program, e.dir}
		e.must("", "kubectl", "solo", "create", "configmap", "kept")
		e.must("", "kubectl", "solo", "patch", "configmap", "kept", "--type=merge", `-p={"metadata":{"finalizers":["left.example/keep"]}}`)
		e.must("", "exec", "peer", "--", "ip", "link", "add", "left0", "type", "bridge")
		if out, err := exec.CommandContext(t.Context(), "ip", "-n", "e2e-wan", "rule", "add", "priority", "99", "lookup", "main").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		e.leavesNothingBut("peer-1, peer-2, solo-1, solo-2, the network", "reset", "--patience=1s")
	})
	// A fresh lab of the same shape is the same lab; one of another shape is not.
	was := e.must("", "kubectl", "peer", "get", "namespace", "default", "-o=jsonpath={.metadata.uid}")
	e.must("", fresh...)
	if is := e.must("", "kubectl", "peer", "get", "namespace", "default", "-o=jsonpath={.metadata.uid}"); is != was {
		t.Error("a lab as asked was made anew")
	}
	e.must("", "fresh", "--name=e2e", "--wan=172.29.0.0/24", "--clusters=peer")
	if is := e.must("", "kubectl", "peer", "get", "nodes", "-o=name"); is != "node/peer-1\n" {
		t.Errorf("another shape: got nodes %q, want one", is)
	}

	e.must("", "down")
	assertNothingLeft(t, e.dir)
}

// leftObjects are new.
const leftObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: left}
---
apiVersion: v1
kind: Pod
metadata: {name: left, namespace: left}
spec:
  terminationGracePeriodSeconds: 0
  nodeName: solo-2
  containers: [{name: pod, image: lab.local/pod:v1}]
---
apiVersion: v1
kind: Pod
metadata: {name: left}
spec:
  nodeName: solo-1
  containers: [{name: pod, image: lab.local/pod:v1}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: left, namespace: kube-system}
---
apiVersion: v1
kind: Service
metadata: {name: left}
spec:
  type: LoadBalancer
  selector: {app: left}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Node
metadata: {name: left}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: left}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lefts.left.example}
spec:
  group: left.example
  scope: Namespaced
  names: {plural: lefts, kind: Left}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

func (e e2e) leaveObjects() {
	e.t.Helper()
	e.must(leftObjects, "kubectl", "solo", "apply", "-f", "-")
	e.must("", "kubectl", "solo", "wait", "--for=condition=Established", "crd/lefts.left.example", "--timeout=10s")
	e.must("{apiVersion: left.example/v1, kind: Left, metadata: {name: left, namespace: left}}", "kubectl", "solo", "apply", "-f", "-")
	e.must("", "kubectl", "solo", "wait", "--for=condition=Ready", "pod/left", "--timeout=60s")
	e.must("", "kubectl", "solo", "wait", "--for=condition=Ready", "pod/left", "-n", "left", "--timeout=60s")
	e.must("", "kubectl", "solo", "label", "node", "solo-1", "left=true", "kubernetes.io/os-")
	e.must("", "kubectl", "solo", "cordon", "solo-2")
	e.must("", "kubectl", "solo", "taint", "node", "solo-2", "left=true:NoExecute")
	e.must("", "kubectl", "solo", "delete", "clusterrole", "view")
	e.must("", "kubectl", "solo", "patch", "clusterrole", "system:discovery", "--type=json", `-p=[{"op":"remove","path":"/rules/0/nonResourceURLs/0"}]`)
	e.must("", "cut", "solo", "peer")
	e.must("", "narrow", "1300")
}

// leaveOnNode leaves what Kubernetes knows nothing of.
func (e e2e) leaveOnNode(node string) {
	e.t.Helper()
	for _, command := range []string{
		"ip link add left0 type bridge && ip addr add 192.0.2.9/32 dev left0 && ip link set left0 up",
		"ip route add 198.51.100.0/24 via 172.29.0.254",
		"ip route add unreachable 198.51.100.0/24 table 77",
		"ip rule add priority 99 lookup 77",
		"nft add table inet left",
		"mkdir /run/left && mount -t tmpfs left /run/left",
		"echo left >/etc/left.conf",
		"setsid sleep 9999 </dev/null >/dev/null 2>&1 &",
	} {
		e.must("", "exec", "solo", node, "--", "sh", "-c", command)
	}
}

// leavesNothingBut resets. remade is what has to be made anew; "": nothing, and no error.
func (e e2e) leavesNothingBut(remade string, reset ...string) {
	e.t.Helper()
	out, err := e.command(e.t.Context(), "", reset...).CombinedOutput()
	e.t.Logf("%s", out)
	if remade == "" {
		if err != nil {
			e.t.Errorf("reset: %v", err)
		}
		return
	}
	if err == nil || !strings.Contains(string(out), "to be as fresh ones: "+remade) {
		e.t.Errorf("reset: got %v, want an error that names %s", err, remade)
	}
	if remade == "solo-2" {
		for _, want := range []string{
			"solo-2 links\n  there, but was not: left0", "-4 198.51.100.0/24 via 172.29.0.254 dev eth0", "-4 unreachable 198.51.100.0/24 table 77",
			"solo-2 rules\n  there, but was not: -4 99: from all lookup 77", "solo-2 nftables\n  there, but was not: table inet left",
			"solo-2 mounts\n  there, but was not: /run/left", "solo-2 files\n  there, but was not: /etc/left.conf", "solo-2 processes\n  there, but was not: sleep 9999",
		} {
			if !strings.Contains(string(out), want) {
				e.t.Errorf("reset does not say %q", want)
			}
		}
	} else {
		for _, want := range []string{"configmaps default/kept: deleted, and kept by left.example/keep", "peer-1 links\n  there, but was not: left0", "e2e-wan rules\n  there, but was not: -4 99:"} {
			if !strings.Contains(string(out), want) {
				e.t.Errorf("reset does not say %q", want)
			}
		}
	}
	e.must("", "diff")
	e.must("", "reset")
}

func assertNothingLeft(t *testing.T, dir string) {
	t.Helper()
	nodes, err := findNodes(dir)
	if err != nil || len(nodes) > 0 {
		t.Errorf("processes: got %v, %v, want none", nodes, err)
	}
	for _, pattern := range []string{
		dir, netnsFolder + "/e2e-*", "/sys/class/net/e2e*", "/sys/fs/cgroup/e2e-*", "/sys/fs/cgroup/*/e2e-*",
	} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", pattern, left, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts of %s are left (%v):\n%s", dir, err, mounts)
	}
}
