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
