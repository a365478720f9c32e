package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// shop is the namespace of the Services that clusters export to each other.
const shop = "shop"

// TestLabServices exports Services between two clusters whose pods have the same addresses, and calls them by
// their clusterset IPs and by their names.
func TestLabServices(t *testing.T) {
	l := useLab(t)
	corefiles := l.prepareDNS(t)
	l.each(t, func(cluster string) result {
		return l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--cluster-id", cluster,
			"--pod-cidr", labPodCIDR, "--image", labImage, "--services", "--names")
	})
	l.connect("--yes").want(t, exit.OK)
	for _, cluster := range l.clusters {
		l.must(t, "kubectl", cluster, "create", "namespace", shop)
		l.apply(t, cluster, serverOf("web", 2))
		l.apply(t, cluster, clientPod)
	}
	for _, cluster := range l.clusters {
		l.must(t, "kubectl", cluster, "wait", "-n", shop, "--for=condition=Ready", "pod", "--all", "--timeout=60s")
	}

	t.Run("the wizard exports, and a pod of the other cluster calls", l.testWizardReaches)
	t.Run("one cluster exports", func(t *testing.T) {
		l.answersFrom(t, "rome", "web", "milan")
		l.answersFrom(t, "milan", "web", "milan") // an exporter imports, too
	})
	t.Run("by UDP", func(t *testing.T) { l.answersUDP(t, "rome", "web") })
	t.Run("both clusters export", func(t *testing.T) {
		l.export(t, "rome", "web")
		for _, cluster := range l.clusters {
			l.answersFrom(t, cluster, "web", "milan", "rome")
		}
	})
	t.Run("the way from the name to the pods", func(t *testing.T) {
		if got := l.service("rome", "list").want(t, exit.OK).out; !strings.Contains(got, "milan 2/2") || !strings.Contains(got, "rome 2/2") {
			t.Errorf("service list: got\n%s\nwant both clusters' endpoints", got)
		}
		got := l.tui(append(l.pair("service", "resolve", "web"), "--namespace", shop)...).want(t, exit.OK).out
		if strings.Contains(got, "not looked") || !strings.Contains(got, "nothing is broken") {
			t.Errorf("service resolve: got\n%s", got)
		}
		l.service("milan", "allow", "--from", "rome", "--none", "--yes").want(t, exit.OK)
		l.answersFrom(t, "milan", "web", "milan")
		l.service("milan", "allow", "--from", "rome", "--namespace", shop, "--yes").want(t, exit.OK)
		l.answersFrom(t, "milan", "web", "milan", "rome")
	})
	t.Run("a cut tunnel fails no connection for long", l.testServicesCut)
	t.Run("a headless Service", l.testHeadless)
	t.Run("--allow exported opens what is exported", l.testDoor)
	t.Run("names", l.testNames)
	t.Run("names through faults", l.testNamesThroughFaults)
	t.Run("what is not exported any more", func(t *testing.T) {
		l.unexport(t, "milan", "web")
		l.answersFrom(t, "milan", "web", "rome")
		l.answersFrom(t, "rome", "web", "rome")
	})
	t.Run("--services=off removes the imports", func(t *testing.T) {
		l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-rome", "--services=off").want(t, exit.OK)
		left := func() error {
			got := l.must(t, "kubectl", "rome", "get", "serviceimports,services,endpointslices", "-n", shop, "-l", "multicluster.kubernetes.io/service-name", "-o", "name") +
				l.must(t, "kubectl", "rome", "get", "serviceimports", "-A", "-o", "name")
			if got != "" {
				return fmt.Errorf("left: %s", got)
			}
			return nil
		}
		eventually(t, 20*time.Second, left)
		if got := l.must(t, "kubectl", "rome", "get", "services", "-n", shop, "-o", "jsonpath={.items[*].metadata.name}"); got != "web" {
			t.Errorf("got the Services %s, want the one that was there before", got)
		}
	})
	t.Run("uninstall takes the names back", func(t *testing.T) { l.testNamesRemoved(t, corefiles) })
}

// testWizardReaches answers the wizard's last question. The wizard exports the Service web of milan, and sends a
// request from a pod of rome.
func (l lab) testWizardReaches(t *testing.T) {
	s := l.wizard(t, program(t), 120, 40, "--context", "lab-rome", "--remote-kubeconfig", l.kubeconfig, "--remote-context", "lab-milan")
	s.Wait(30*time.Second, "Reach something?")
	s.Press("b")
	s.Wait(30*time.Second, "Choose a Service", "shop/web")
	chosen := regexp.MustCompile(`┃ .*milan +shop/web`)
	for i := 0; !chosen.MatchString(s.Screen()); i++ {
		if i == 20 {
			t.Fatalf("no key Down leads to shop/web of milan:\n%s", s.Screen())
		}
		s.Press("Down")
	}
	s.Press("Enter")
	s.Wait(30*time.Second, "milan exports shop/web", "kind: ServiceExport")
	s.Press("y")
	s.Wait(60*time.Second, "First answer from milan to a pod of rome", "HTTP status 200", "service unexport shop/web")
	s.Press("q")
	if code := s.Exit(30 * time.Second); code != "0" {
		t.Errorf("got exit code %s, want 0", code)
	}
	eventually(t, 20*time.Second, func() error {
		left, err := l.try(t, "kubectl", "rome", "get", "pods", "-A", "-l", wire.LabelAppName+"="+render.ProbeName, "-o", "name")
		if err == nil && left != "" {
			err = fmt.Errorf("left on rome: %s", left)
		}
		return err
	})
}

const clientPod = `
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: client, image: lab.local/pod:v1, imagePullPolicy: IfNotPresent}]
`

// serverOf is a Deployment of servers, and its Service.
func serverOf(name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: shop}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: server, image: lab.local/pod:v1, imagePullPolicy: IfNotPresent, args: [serve]}]
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: shop}
spec:
  selector: {app: %[1]s}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: udp, port: 81, targetPort: 8080, protocol: UDP}]
`, name, replicas)
}

// service runs a command about the Services of one cluster.
func (l lab) service(cluster, command string, args ...string) result {
	return l.tui(append([]string{"service", command, "--kubeconfig", l.kubeconfig, "--context", "lab-" + cluster}, args...)...)
}

func (l lab) export(t *testing.T, cluster, service string) {
	t.Helper()
	l.service(cluster, "export", service, "--namespace", shop, "--yes").want(t, exit.OK)
}

func (l lab) unexport(t *testing.T, cluster, service string) {
	t.Helper()
	l.service(cluster, "unexport", service, "--namespace", shop, "--yes").want(t, exit.OK)
}

// clustersetIP returns the address of an imported Service.
func (l lab) clustersetIP(t *testing.T, cluster, service string) (string, error) {
	t.Helper()
	ip, err := l.try(t, "kubectl", cluster, "get", "serviceimport", "-n", shop, service, "-o", "jsonpath={.spec.ips[0]}")
	if err == nil && ip == "" {
		err = fmt.Errorf("the ServiceImport of %s has no address", service)
	}
	return ip, err
}

// answer asks a server from the client pod of a cluster. It returns the name of the pod that has answered.
func (l lab) answer(t *testing.T, cluster, url string) (string, error) {
	t.Helper()
	text, err := l.try(t, "kubectl", cluster, "exec", "-n", shop, "client", "--", "/pod", "get", "--timeout", "2s", url)
	if err != nil {
		return "", err
	}
	var reply struct{ Hostname string }
	err = json.Unmarshal([]byte(text), &reply)
	return reply.Hostname, err
}

// answersFrom waits until a Service answers from pods of these clusters, and from no others.
func (l lab) answersFrom(t *testing.T, cluster, service string, want ...string) {
	t.Helper()
	owner := map[string]string{}
	for _, c := range l.clusters {
		for pod := range strings.FieldsSeq(l.must(t, "kubectl", c, "get", "pods", "-n", shop, "-l", "app="+service, "-o", "jsonpath={.items[*].metadata.name}")) {
			owner[pod] = c
		}
	}
	eventually(t, 20*time.Second, func() error {
		ip, err := l.clustersetIP(t, cluster, service)
		if err != nil {
			return err
		}
		var got []string
		for range 12 { // 12 answers of one of two clusters alone have a probability of 1 to 2048
			pod, err := l.answer(t, cluster, "http://"+ip+"/")
			if err != nil {
				return err
			}
			if from := owner[pod]; !slices.Contains(got, from) {
				got = append(got, from)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("%s: %s is answered by %v, want %v", cluster, service, got, want)
		}
		return nil
	})
}

func (l lab) answersUDP(t *testing.T, cluster, service string) {
	t.Helper()
	eventually(t, 20*time.Second, func() error {
		ip, err := l.clustersetIP(t, cluster, service)
		if err != nil {
			return err
		}
		cmd := l.command(t, "kubectl", cluster, "exec", "-i", "-n", shop, "client", "--", "/pod", "requests", "--timeout", "2s", "udp://"+ip+":81")
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		time.AfterFunc(time.Second, func() { _ = in.Close() }) // the program asks until then
		text, err := cmd.Output()
		if err != nil {
			return err
		}
		var outcome struct{ Sent, Lost int }
		if err = json.Unmarshal(text, &outcome); err == nil && (outcome.Sent == 0 || outcome.Lost > 0) {
			err = fmt.Errorf("got %s", text)
		}
		return err
	})
}

// testServicesCut cuts the tunnel between two clusters that both export a Service, while a pod opens 20 new
// connections a second. The endpoints of the other cluster leave the Service, and each is back after the repair.
func (l lab) testServicesCut(t *testing.T) {
	ip, err := l.clustersetIP(t, "rome", "web")
	if err != nil {
		t.Fatal(err)
	}
	cmd := l.command(t, "kubectl", "rome", "exec", "-i", "-n", shop, "client", "--", "/pod", "requests", "--interval", "50ms", "--timeout", "2s", "http://"+ip+"/")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // of requests before the cut
	defer l.must(t, "restore")
	cut := time.Now()
	l.must(t, "cut", "rome", "milan")
	time.Sleep(15 * time.Second) // of requests after it
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var asked struct {
		Sent, Lost int
		LastLost   time.Time
	}
	if err := json.Unmarshal(out.Bytes(), &asked); err != nil {
		t.Fatal(err)
	}
	last := max(0, asked.LastLost.Sub(cut))
	t.Logf("figure: of %d requests, 20 a second, %d failed; the last of these began %.1f s after the cut, wanted ≤ 3 s", asked.Sent, asked.Lost, last.Seconds())
	if asked.Sent < 150 {
		t.Errorf("only %d requests were sent", asked.Sent)
	}
	atMost(t, "requests that fail after a cut", last, beyond*3*time.Second)
	l.must(t, "restore")
	l.answersFrom(t, "rome", "web", "milan", "rome")
}

// testHeadless exports a Service without an address. The importing cluster has its endpoints, with host names
// made of the addresses that they have at home.
func (l lab) testHeadless(t *testing.T) {
	l.apply(t, "milan", `{apiVersion: v1, kind: Service, metadata: {name: peers, namespace: shop}, spec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 8080}]}}`)
	l.export(t, "milan", "peers")
	eventually(t, 20*time.Second, func() error {
		text, err := l.try(t, "kubectl", "rome", "get", "endpointslices", "-n", shop, "-l", "multicluster.kubernetes.io/service-name=peers",
			"-o", `jsonpath={range .items[*].endpoints[*]}{.addresses[0]} {.hostname}{"\n"}{end}`)
		if err != nil {
			return err
		}
		found := 0
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) != 2 || !strings.HasPrefix(f[1], "10-244-") {
				return fmt.Errorf("got %q, want an address and a host name", line)
			}
			if _, err := l.answer(t, "rome", "http://"+f[0]+":8080/"); err != nil {
				return err
			}
			found++
		}
		if found != 2 {
			return fmt.Errorf("got %d endpoints, want 2: %s", found, text)
		}
		return nil
	})
	if got := l.must(t, "kubectl", "rome", "get", "serviceimport", "-n", shop, "peers", "-o", "jsonpath={.spec.type}{.spec.ips}"); got != "Headless" {
		t.Errorf("got %s, want Headless and no address", got)
	}
	l.unexport(t, "milan", "peers")
	l.must(t, "kubectl", "milan", "delete", "service", "-n", shop, "peers")
}

func (l lab) serverIP(t *testing.T, cluster, service string) netip.Addr {
	t.Helper()
	return netip.MustParseAddr(l.must(t, "kubectl", cluster, "get", "pods", "-n", shop, "-l", "app="+service, "-o", "jsonpath={.items[0].status.podIP}"))
}

// scan returns the ports that a pod of rome finds open among the addresses of milan's pods.
func (l lab) scan(t *testing.T) []string {
	t.Helper()
	pods := l.translations(t, "rome", "milan").remapped[0].Addr().As4() // milan's nodes have a /24 each, from here on
	args := []string{"kubectl", "rome", "exec", "-n", shop, "client", "--", "/pod", "scan", "--ports", "53,80,5353,8080,8181,8443,9153"}
	for node := range l.nodes(t, "milan") {
		pods[2] = byte(node)
		args = append(args, netip.PrefixFrom(netip.AddrFrom4(pods), 24).String())
	}
	return strings.Fields(l.must(t, args...))
}

// testScan scans milan before, while and after its gateway is replaced.
func (l lab) testScan(t *testing.T) {
	seen := l.translations(t, "rome", "milan")
	var exported []string
	for ip := range strings.FieldsSeq(l.must(t, "kubectl", "milan", "get", "pods", "-n", shop, "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}")) {
		exported = append(exported, seen.of(t, netip.MustParseAddr(ip)).String()+":8080")
	}
	exactly := func() error {
		if open := l.scan(t); !slices.Equal(slices.Sorted(slices.Values(open)), slices.Sorted(slices.Values(exported))) {
			return fmt.Errorf("a scan finds %v, want %v", open, exported)
		}
		return nil
	}
	if err := exactly(); err != nil {
		t.Error(err)
	}
	l.must(t, "kubectl", "milan", "delete", "pods", "-n", "liqo-tenant-rome", "-l", "networking.liqo.io/component=gateway", "--wait=false")
	for range 2 {
		for _, open := range l.scan(t) {
			if !slices.Contains(exported, open) {
				t.Errorf("while the gateway is replaced, a scan finds %s, which milan does not export", open)
			}
		}
	}
	eventually(t, 20*time.Second, exactly)
}

// testDoor closes milan's pods to rome, except what milan exports.
func (l lab) testDoor(t *testing.T) {
	l.apply(t, "milan", serverOf("secret", 1))
	l.must(t, "kubectl", "milan", "wait", "-n", shop, "--for=condition=Ready", "pod", "-l", "app=secret", "--timeout=60s")
	seen := l.translations(t, "rome", "milan").of(t, l.serverIP(t, "milan", "secret"))
	if _, err := l.answer(t, "rome", "http://"+seen.String()+":8080/"); err != nil {
		t.Fatalf("a pod of milan, before it is closed: %v", err)
	}
	if open := l.scan(t); !slices.Contains(open, seen.String()+":8080") {
		t.Errorf("a scan finds %v, want also %s", open, seen)
	}
	l.connect("--yes", "--remote-allow", "exported").want(t, exit.OK)
	l.answersFrom(t, "rome", "web", "milan", "rome")
	t.Run("a scan finds what is exported, and nothing else", l.testScan)
	if pod, err := l.answer(t, "rome", "http://"+seen.String()+":8080/"); err == nil {
		t.Errorf("%s answers, although milan does not export it", pod)
	}
	l.export(t, "milan", "secret")
	eventually(t, 10*time.Second, func() error {
		_, err := l.answer(t, "rome", "http://"+seen.String()+":8080/")
		return err
	})
	l.unexport(t, "milan", "secret")
	eventually(t, 10*time.Second, func() error {
		if _, err := l.answer(t, "rome", "http://"+seen.String()+":8080/"); err == nil {
			return fmt.Errorf("it answers, although milan does not export it any more")
		}
		return nil
	})
}

// exportAll switches Services on in clusters that are connected already, and exports a Service of each to all.
func (l lab) exportAll(t *testing.T, connections []connection) {
	t.Helper()
	l.each(t, func(cluster string) result {
		return l.tui("install", "--yes", "--kubeconfig", l.kubeconfig, "--context", "lab-"+cluster, "--services")
	})
	for _, cluster := range l.clusters {
		l.must(t, "kubectl", cluster, "create", "namespace", shop)
		l.apply(t, cluster, serverOf("web", 2))
		l.apply(t, cluster, clientPod)
	}
	for _, cluster := range l.clusters {
		l.must(t, "kubectl", cluster, "wait", "-n", shop, "--for=condition=Ready", "pod", "--all", "--timeout=120s")
		l.export(t, cluster, "web")
	}
	for _, c := range connections {
		for _, way := range c.ways() {
			l.service(way.a, "allow", "--from", way.b, "--all", "--yes").want(t, exit.OK)
		}
	}
}

// importsAll waits until each cluster imports from each of its peers what that peer exports: the ready pods, by
// the addresses that they have here. Then pods of all of them answer.
func (l lab) importsAll(t *testing.T, connections []connection) {
	t.Helper()
	exporters := map[string][]string{}
	for _, cluster := range l.clusters {
		exporters[cluster] = []string{cluster}
	}
	for _, c := range connections {
		for _, way := range c.ways() {
			exporters[way.a] = append(exporters[way.a], way.b)
			eventually(t, settled, func() error { return l.importsFrom(t, way) })
		}
	}
	for cluster, from := range exporters {
		l.answersFrom(t, cluster, "web", slices.Sorted(slices.Values(from))...)
	}
}

// importsFrom compares the endpoints that a cluster has of its peer's pods with these pods.
func (l lab) importsFrom(t *testing.T, way connection) error {
	t.Helper()
	pods, err := l.try(t, "kubectl", way.b, "get", "endpointslices", "-n", shop, "-l", "kubernetes.io/service-name=web",
		"-o", "jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]} {end}")
	if err != nil {
		return err
	}
	imported, err := l.try(t, "kubectl", way.a, "get", "endpointslices", "-n", shop,
		"-l", "multicluster.kubernetes.io/service-name=web,multicluster.kubernetes.io/source-cluster="+way.b,
		"-o", "jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]} {end}")
	if err != nil {
		return err
	}
	seen := l.translations(t, way.a, way.b)
	var want []string
	for pod := range strings.FieldsSeq(pods) {
		want = append(want, seen.of(t, netip.MustParseAddr(pod)).String())
	}
	got := strings.Fields(imported)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(got) == 0 {
		return fmt.Errorf("%s imports the endpoints %v of %s, want %v", way.a, got, way.b, want)
	}
	return nil
}

// endExports removes what exportAll has made, except that the clusters can still exchange Services.
func (l lab) endExports(t *testing.T) {
	t.Helper()
	for _, cluster := range l.clusters {
		l.must(t, "kubectl", cluster, "delete", "namespace", shop, "--timeout=120s")
	}
	for _, cluster := range l.clusters {
		eventually(t, 20*time.Second, func() error {
			left, err := l.try(t, "kubectl", cluster, "get", "serviceimports", "-A", "-o", "name")
			if err == nil && left != "" {
				err = fmt.Errorf("%s still has %s", cluster, left)
			}
			return err
		})
	}
}
