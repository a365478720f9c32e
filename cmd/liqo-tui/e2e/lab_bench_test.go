//go:build bench

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// TestBenchPeering prints the times of lending without Liqo. make bench-peering runs it.
func TestBenchPeering(t *testing.T) {
	const consumer, provider, namespace, rounds, many = "rome", "milan", "lent", 10, 100
	l := findLab(t)
	l.prepare(t)
	on := func(cluster string, args ...string) []string {
		return append(args, "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--yes", "--timeout", "300s")
	}
	l.tui(on(consumer, "install", "--peering", "consumer")...).want(t, exit.OK)
	l.tui(on(provider, "install", "--peering", "provider", "--api-server", l.apiServer(t, provider))...).want(t, exit.OK)
	l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK)
	pair := func(args ...string) []string { return l.pair(append(args, "--yes", "--timeout", "300s")...) }
	timed := func(args ...string) time.Duration {
		began := time.Now()
		l.tui(args...).want(t, exit.OK)
		return time.Since(began)
	}
	peer := pair("peer", "--cpu", "500m", "--memory", "4Gi", "--pods", strconv.Itoa(many))
	var peers, unpeers []time.Duration
	for range rounds / 2 {
		peers = append(peers, timed(peer...))
		unpeers = append(unpeers, timed(pair("unpeer")...))
	}
	figure(t, "peer, the networks being connected", peers)
	figure(t, "unpeer, without pods", unpeers)

	l.tui(peer...).want(t, exit.OK)
	here, there := l.clientset(t, consumer), l.clientset(t, provider)
	l.must(t, "kubectl", consumer, "create", "namespace", namespace)
	l.tui(on(consumer, "offload", "namespace", namespace)...).want(t, exit.OK)
	var home, abroad, back []time.Duration
	for i := range rounds {
		name := fmt.Sprintf("pod-%d", i)
		home = append(home, untilReady(t, here, namespace, lentPod(name+"-home", false)).Sub(time.Time{}))
		remote := readyAt(t, there, namespace+"-"+consumer, name)
		began := time.Now()
		ready := untilReady(t, here, namespace, lentPod(name, true))
		abroad = append(abroad, ready.Sub(time.Time{}))
		if at := <-remote; !at.IsZero() {
			back = append(back, began.Add(ready.Sub(time.Time{})).Sub(at))
		}
	}
	figure(t, "a pod at home, created to Ready", home)
	figure(t, "a pod abroad, created to Ready here", abroad)
	figure(t, "Ready there to Ready here", back)
	l.must(t, "kubectl", consumer, "-n", namespace, "delete", "pods", "--all")

	sent, undo := l.meter(t)
	defer undo()
	before, traffic := l.all(t), sent()
	began := time.Now()
	l.apply(t, consumer, deploymentOf(namespace, many))
	peak := before
	for {
		time.Sleep(time.Second)
		peak.memory = max(peak.memory, l.all(t).memory)
		ready := l.must(t, "kubectl", consumer, "-n", namespace, "get", "deployment", "many", "-o", "jsonpath={.status.readyReplicas}")
		if ready == strconv.Itoa(many) {
			break
		}
		if time.Since(began) > 8*time.Minute {
			t.Fatalf("after %s %q of %d pods are ready", time.Since(began), ready, many)
		}
	}
	took, after := time.Since(began), l.all(t)
	t.Logf("%d pods abroad: all Ready after %.0f s; meanwhile all our programs of both clusters used %.2f processors; %d MiB at most; %.2f Mbit/s between the clusters",
		many, took.Seconds(), (after.cpu-before.cpu).Seconds()/took.Seconds(), peak.memory>>20, float64(sent()-traffic)*8/1e6/took.Seconds())
	const rest = 30 * time.Second
	before, traffic = l.all(t), sent()
	time.Sleep(rest)
	after = l.all(t)
	t.Logf("at rest: %.3f processors, %d MiB, %.3f Mbit/s", (after.cpu-before.cpu).Seconds()/rest.Seconds(), after.memory>>20, float64(sent()-traffic)*8/1e6/rest.Seconds())
	l.must(t, "kubectl", consumer, "-n", namespace, "scale", "deployment/many", "--replicas=10")
	eventually(t, time.Minute, func() error {
		left := l.must(t, "kubectl", provider, "-n", namespace+"-"+consumer, "get", "pods", "-o", "name")
		if n := len(strings.Fields(left)); n != rounds {
			return fmt.Errorf("%d pods are left, want %d", n, rounds)
		}
		return nil
	})
	t.Logf("unpeer with 10 pods: %.1f s", timed(pair("unpeer")...).Seconds())
	l.must(t, "kubectl", consumer, "delete", "namespace", namespace, "--wait=false")
	l.reset().want(t, exit.OK)
}

// figure prints the median and the extremes.
func figure(t *testing.T, what string, all []time.Duration) {
	t.Helper()
	if slices.Sort(all); len(all) > 0 {
		t.Logf("%-40s median %6.2f s, %.2f to %.2f s (%d times)", what, all[len(all)/2].Seconds(), all[0].Seconds(), all[len(all)-1].Seconds(), len(all))
	}
}

func (l lab) clientset(t *testing.T, cluster string) kubernetes.Interface {
	t.Helper()
	return kubernetes.NewForConfigOrDie(l.restConfig(t, cluster))
}

// restConfig has no limit of its own, so that a measurement finds the server's.
func (l lab) restConfig(t *testing.T, cluster string) *rest.Config {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: l.kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: "lab-" + cluster}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// lentPod is a pod that is Ready as soon as it runs.
func lentPod(name string, abroad bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "lab.local/pod:v1", ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"}}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("8Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("8Mi")}
	if abroad {
		p.Spec.NodeSelector = map[string]string{"liqo.io/type": "virtual-node"}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists}}
	}
	return p
}

// untilReady creates a pod, and returns the time until it is Ready.
func untilReady(t *testing.T, c kubernetes.Interface, namespace string, p *corev1.Pod) time.Time {
	t.Helper()
	ready := readyAt(t, c, namespace, p.Name)
	began := time.Now()
	if _, err := c.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	at := <-ready
	if at.IsZero() {
		t.Fatalf("pod %s did not become ready", p.Name)
	}
	return time.Time{}.Add(at.Sub(began))
}

// readyAt sends the time at which a pod of that name is Ready; the zero time after a
// minute.
func readyAt(t *testing.T, c kubernetes.Interface, namespace, name string) <-chan time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	w, err := c.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := make(chan time.Time, 1)
	go func() {
		defer cancel()
		defer close(at)
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if ok && p.Name == name && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
				at <- time.Now()
				return
			}
		}
	}()
	return at
}

func deploymentOf(namespace string, replicas int) string {
	return strings.NewReplacer("NAMESPACE", namespace, "REPLICAS", strconv.Itoa(replicas)).Replace(`apiVersion: apps/v1
kind: Deployment
metadata: {name: many, namespace: NAMESPACE}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: many}}
  template:
    metadata: {labels: {app: many}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {liqo.io/type: virtual-node}
      tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists}]
      containers:
      - {name: web, image: "lab.local/pod:v1", imagePullPolicy: IfNotPresent, args: [serve], resources: {requests: {cpu: 1m, memory: 8Mi, ephemeral-storage: 8Mi}}}
`)
}

// all is the usage of our programs in both clusters so far.
func (l lab) all(t *testing.T) (sum usage) {
	t.Helper()
	for _, cluster := range l.clusters {
		c := l.costs(t, cluster)
		sum.cpu, sum.memory = sum.cpu+c.cpu, sum.memory+c.memory
	}
	return sum
}
