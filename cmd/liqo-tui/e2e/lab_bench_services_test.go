//go:build bench

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// TestBenchServices prints how fast changes of an exported Service arrive, and what many Services cost. make
// bench-services runs it.
func TestBenchServices(t *testing.T) {
	l := findLab(t)
	l.each(t, func(cluster string) result {
		return l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--cluster-id", cluster,
			"--pod-cidr", labPodCIDR, "--image", labImage, "--services")
	})
	l.connect("--yes").want(t, exit.OK)
	for _, cluster := range l.clusters {
		l.must(t, "kubectl", cluster, "create", "namespace", shop)
		l.apply(t, cluster, clientPod)
	}
	l.must(t, "kubectl", "rome", "wait", "-n", shop, "--for=condition=Ready", "pod", "client", "--timeout=60s")
	t.Run("changes", l.benchChanges)
	t.Run("many", l.benchMany)
	l.reset().want(t, exit.OK)
}

// addressesOf sends the ready addresses of a Service's EndpointSlices whenever these change, and the time.
func addressesOf(t *testing.T, c kubernetes.Interface, selector string) <-chan seenAddresses {
	t.Helper()
	w, err := c.DiscoveryV1().EndpointSlices(shop).Watch(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	out := make(chan seenAddresses, 1000)
	go func() {
		for e := range w.ResultChan() {
			s, ok := e.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				continue
			}
			seen := seenAddresses{at: time.Now()}
			for _, endpoint := range s.Endpoints {
				if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
					seen.ready = append(seen.ready, endpoint.Addresses...)
				}
			}
			out <- seen
		}
	}()
	return out
}

type seenAddresses struct {
	at    time.Time
	ready []string
}

// only waits until the only ready address is this one.
func only(t *testing.T, in <-chan seenAddresses, address string) time.Time {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case s := <-in:
			if slices.Equal(s.ready, []string{address}) {
				return s.at
			}
		case <-deadline:
			t.Fatalf("no EndpointSlice has %s alone", address)
		}
	}
}

// benchChanges moves a Service of milan from one pod to another, a hundred times, while a pod of rome asks it.
func (l lab) benchChanges(t *testing.T) {
	here, there := l.clientset(t, "rome"), l.clientset(t, "milan")
	pods := []string{"left", "right"}
	for _, name := range pods {
		p := lentPod(name, false)
		p.Labels = map[string]string{"turn": name}
		untilReady(t, there, shop, p)
	}
	move := func(to string) {
		_, err := there.CoreV1().Services(shop).Patch(t.Context(), "turn", types.MergePatchType, []byte(`{"spec":{"selector":{"turn":"`+to+`"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	l.apply(t, "milan", `{apiVersion: v1, kind: Service, metadata: {name: turn, namespace: shop}, spec: {selector: {turn: left}, ports: [{name: http, port: 80, targetPort: 8080}]}}`)
	l.export(t, "milan", "turn")
	eventually(t, 20*time.Second, func() error { _, err := l.clustersetIP(t, "rome", "turn"); return err })
	ip, _ := l.clustersetIP(t, "rome", "turn")
	real, remapped := map[string]string{}, map[string]string{}
	seen := l.translations(t, "rome", "milan")
	for _, name := range pods {
		p, err := there.CoreV1().Pods(shop).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		real[name] = p.Status.PodIP
		remapped[name] = seen.of(t, netip.MustParseAddr(p.Status.PodIP)).String()
	}
	cmd := l.command(t, "kubectl", "rome", "exec", "-i", "-n", shop, "client", "--", "/pod", "watch", "http://"+ip+"/")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	text, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	type turn struct {
		At       time.Time
		Hostname string
	}
	turns := make(chan turn, 1000)
	go func() {
		for lines := bufio.NewScanner(text); lines.Scan(); {
			var next turn
			if json.Unmarshal(lines.Bytes(), &next) == nil {
				turns <- next
			}
		}
	}()
	exported := addressesOf(t, there, "kubernetes.io/service-name=turn")
	imported := addressesOf(t, here, "multicluster.kubernetes.io/service-name=turn,endpointslice.kubernetes.io/managed-by="+importer(t, here))
	var written, answered []time.Duration
	for i := range 101 {
		name := pods[i%2]
		move(name)
		ready := only(t, exported, real[name])
		slice := only(t, imported, remapped[name])
		var first time.Time
		for first.IsZero() {
			select {
			case next := <-turns:
				if next.Hostname == name {
					first = next.At
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("%s does not answer", name)
			}
		}
		if i > 0 { // the first one also waits for what was before
			written, answered = append(written, slice.Sub(ready)), append(answered, first.Sub(ready))
		}
		time.Sleep(200 * time.Millisecond)
	}
	ninetyNine(t, "ready there to EndpointSlice written here", written, 150*time.Millisecond)
	ninetyNine(t, "ready there to first answer here", answered, 1300*time.Millisecond)
}

// importer is the value by which the operator's EndpointSlices of imports differ from copies of its own exports.
func importer(t *testing.T, c kubernetes.Interface) (manager string) {
	t.Helper()
	eventually(t, 20*time.Second, func() error {
		all, err := c.DiscoveryV1().EndpointSlices(shop).List(t.Context(), metav1.ListOptions{LabelSelector: "multicluster.kubernetes.io/service-name=turn"})
		if err == nil && len(all.Items) == 0 {
			err = fmt.Errorf("nothing is imported")
		}
		if err == nil {
			manager = all.Items[0].Labels[discoveryv1.LabelManagedBy]
		}
		return err
	})
	return manager
}

func ninetyNine(t *testing.T, what string, all []time.Duration, want time.Duration) {
	t.Helper()
	slices.Sort(all)
	p99 := all[(len(all)*99+99)/100-1]
	t.Logf("%-45s median %4d ms, p99 %4d ms, longest %4d ms (%d times), wanted p99 ≤ %d ms", what,
		all[len(all)/2].Milliseconds(), p99.Milliseconds(), all[len(all)-1].Milliseconds(), len(all), want.Milliseconds())
}

// benchMany exports a thousand Services of milan at once.
func (l lab) benchMany(t *testing.T) {
	const many = 1000
	here, there := l.clientset(t, "rome"), l.clientset(t, "milan")
	untilReady(t, there, shop, func() *corev1.Pod { p := lentPod("many", false); p.Labels = map[string]string{"many": "yes"}; return p }())
	before := l.memoryOf(t, "operator")
	own := l.writeRate(t, here)
	writes := l.writes(t, "rome")
	began := time.Now()
	exports := dynamic.NewForConfigOrDie(l.restConfig(t, "milan")).Resource(schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"}).Namespace(shop)
	var making errgroup.Group
	making.SetLimit(writers)
	for i := range many {
		making.Go(func() error {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i)}}
			service.Spec.Selector = map[string]string{"many": "yes"}
			service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}
			if _, err := there.CoreV1().Services(shop).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
				return err
			}
			export := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": map[string]any{"name": service.Name}}}
			_, err := exports.Create(t.Context(), export, metav1.CreateOptions{})
			return err
		})
	}
	if err := making.Wait(); err != nil {
		t.Fatal(err)
	}
	made := time.Since(began)
	eventually(t, 10*time.Minute, func() error {
		names := strings.Fields(l.must(t, "kubectl", "rome", "get", "serviceimports", "-n", shop, "-o", "jsonpath={range .items[?(@.spec.ips)]}{.metadata.name} {end}"))
		if len(names) < many {
			return fmt.Errorf("%d of %d are imported", len(names), many)
		}
		return nil
	})
	took := time.Since(began)
	for len(l.settledWrites(t, "rome", 10*time.Second)) > 0 && time.Since(began) < 5*time.Minute {
	}
	done := total(since(writes, l.writes(t, "rome")))
	t.Logf("%d Services: made in %.0f s, all imported after %.0f s; rome's API server had %d writes of EndpointSlices, Services and ServiceImports, %.0f a second; it alone does %.0f a second",
		many, made.Seconds(), took.Seconds(), done, float64(done)/took.Seconds(), own)
	t.Logf("operators: %d MiB before, %d MiB with %d Services, wanted at most 30 more each", before>>20, l.memoryOf(t, "operator")>>20, many)
	t.Logf("at rest: %d writes in a minute, wanted 0", total(l.settledWrites(t, "rome", time.Minute)))

	export, imports := l.writes(t, "milan"), l.writes(t, "rome")
	if _, err := there.CoreV1().Services(shop).Patch(t.Context(), "many-7", types.MergePatchType, []byte(`{"spec":{"selector":{"many":"no"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	t.Logf("an endpoint that goes: milan has %v, of which the PATCH is the test's and a PUT is Kubernetes'; rome has %v, wanted at most 2",
		since(export, l.writes(t, "milan")), since(imports, l.writes(t, "rome")))
}

// memoryOf is the memory of a program of ours in the larger of both clusters.
func (l lab) memoryOf(t *testing.T, program string) (largest int64) {
	t.Helper()
	for _, cluster := range l.clusters {
		for _, node := range l.nodes(t, cluster) {
			text, _ := l.try(t, "exec", cluster, node, "--", "sh", "-c", `for p in $(pgrep -f '^/liqo-gateway `+program+`'); do grep -E '^RssAnon' /proc/$p/status; done`)
			for line := range strings.Lines(text) {
				n, err := strconv.ParseInt(strings.Fields(line)[1], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				largest = max(largest, n<<10)
			}
		}
	}
	return largest
}

// writes are the requests that have written EndpointSlices, Services and ServiceImports of a cluster so far, by
// kind and verb. One that changes nothing counts, too.
func (l lab) writes(t *testing.T, cluster string) map[string]int {
	t.Helper()
	sums := map[string]int{}
	for line := range strings.Lines(l.must(t, "kubectl", cluster, "get", "--raw", "/metrics")) {
		m := written.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		labels := map[string]string{}
		for _, label := range label.FindAllStringSubmatch(m[1], -1) {
			labels[label[1]] = label[2]
		}
		kind, verb := labels["resource"], labels["verb"]
		if labels["subresource"] != "" || !slices.Contains([]string{"endpointslices", "services", "serviceimports"}, kind) || !slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}, verb) {
			continue
		}
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		sums[verb+" "+kind] += int(n)
	}
	return sums
}

var (
	written = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)`)
	label   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// since subtracts what was there before, and leaves out what did not change.
func since(before, now map[string]int) map[string]int {
	more := map[string]int{}
	for what, n := range now {
		if n > before[what] {
			more[what] = n - before[what]
		}
	}
	return more
}

func total(all map[string]int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return sum
}

// settledWrites are the writes during a time.
func (l lab) settledWrites(t *testing.T, cluster string, during time.Duration) map[string]int {
	t.Helper()
	before := l.writes(t, cluster)
	time.Sleep(during)
	return since(before, l.writes(t, cluster))
}

// writers is how many clients write at the same time in this measurement.
const writers = 8

// writeRate is how many objects a second these clients can write.
func (l lab) writeRate(t *testing.T, c kubernetes.Interface) float64 {
	t.Helper()
	const objects = 1000
	began := time.Now()
	var making errgroup.Group
	making.SetLimit(writers)
	for i := range objects {
		making.Go(func() error {
			s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rate-%d", i), Labels: map[string]string{"rate": "yes"}}, AddressType: discoveryv1.AddressTypeIPv4}
			_, err := c.DiscoveryV1().EndpointSlices(shop).Create(t.Context(), s, metav1.CreateOptions{})
			return err
		})
	}
	if err := making.Wait(); err != nil {
		t.Fatal(err)
	}
	rate := objects / time.Since(began).Seconds()
	if err := c.DiscoveryV1().EndpointSlices(shop).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "rate"}); err != nil {
		t.Fatal(err)
	}
	return rate
}
