package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

const (
	// nodeDNS is the address at which NodeLocal DNSCache answers.
	nodeDNS = "169.254.20.10"
	// nodeDNSUpstream is the Service through which it asks the cluster's DNS.
	nodeDNSUpstream = "10.96.0.11"
)

// nodeLocal is NodeLocal DNSCache as its manifest sets it up, with CoreDNS in the place of its own build of
// CoreDNS. Its own build also makes the address, which prepareDNS does here.
const nodeLocal = `
apiVersion: v1
kind: Service
metadata: {name: kube-dns-upstream, namespace: kube-system}
spec:
  clusterIP: ` + nodeDNSUpstream + `
  selector: {k8s-app: kube-dns}
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: node-local-dns, namespace: kube-system}
data:
  Corefile: |
    cluster.local:53 {
        errors
        cache {
            success 9984 30
            denial 9984 5
        }
        reload
        loop
        bind ` + nodeDNS + `
        forward . ` + nodeDNSUpstream + ` {
            force_tcp
        }
        prometheus :9253
        health ` + nodeDNS + `:8080
    }
    .:53 {
        errors
        cache 30
        reload
        loop
        bind ` + nodeDNS + `
        forward . /etc/resolv.conf
        prometheus :9253
    }
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: node-local-dns, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: node-local-dns}}
  template:
    metadata: {labels: {k8s-app: node-local-dns}}
    spec:
      hostNetwork: true
      dnsPolicy: Default
      containers:
      - name: node-cache
        image: lab.local/coredns:v1.15.0
        args: [-conf, /etc/coredns/Corefile]
        volumeMounts: [{name: config, mountPath: /etc/coredns}]
      volumes: [{name: config, configMap: {name: node-local-dns}}]
`

// resolvers are pods with programs of both C libraries. One asks the cluster's DNS, as the kubelet sets it up.
// The other one asks NodeLocal DNSCache.
const resolvers = `
apiVersion: v1
kind: Pod
metadata: {name: resolver, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: resolver, image: lab.local/resolve:v1, imagePullPolicy: IfNotPresent}]
---
apiVersion: v1
kind: Pod
metadata: {name: cached, namespace: shop}
spec:
  terminationGracePeriodSeconds: 1
  dnsPolicy: None
  dnsConfig:
    nameservers: [` + nodeDNS + `]
    searches: [shop.svc.cluster.local, svc.cluster.local, cluster.local]
    options: [{name: ndots, value: "5"}]
  containers: [{name: resolver, image: lab.local/resolve:v1, imagePullPolicy: IfNotPresent}]
`

// libraries are the C libraries of the resolvers.
func libraries() []string { return []string{"musl", "glibc"} }

// prepareDNS gives both clusters the DNS server of kubeadm, and rome NodeLocal DNSCache in front of it. It
// returns the Corefiles.
func (l lab) prepareDNS(t *testing.T) (corefiles map[string]string) {
	t.Helper()
	l.must(t, "load", "../../../bin/resolve.tar")
	l.must(t, "dns")
	for _, node := range []string{"rome-1", "rome-2"} {
		address := func(do string) { // without t's context, which ends before its cleanups
			if out, err := exec.Command(labProgram, "exec", "rome", node, "--", "ip", "address", do, nodeDNS+"/32", "dev", "lo").CombinedOutput(); err != nil {
				t.Errorf("%s: %s %s: %v %s", node, do, nodeDNS, err, out)
			}
		}
		address("add")
		t.Cleanup(func() { address("del") })
	}
	l.apply(t, "rome", nodeLocal)
	l.must(t, "kubectl", "rome", "rollout", "status", "-n", "kube-system", "daemonset/node-local-dns", "--timeout=60s")
	return l.corefiles(t)
}

func (l lab) corefiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, cluster := range l.clusters {
		all[cluster] = l.must(t, "kubectl", cluster, "get", "configmap", "-n", "kube-system", "coredns", "-o", "jsonpath={.data.Corefile}")
	}
	all["rome's cache"] = l.must(t, "kubectl", "rome", "get", "configmap", "-n", "kube-system", "node-local-dns", "-o", "jsonpath={.data.Corefile}")
	return all
}

// clusterset is the name of a Service in all clusters.
func clusterset(service string) string { return service + "." + shop + ".svc.clusterset.local" }

// lookUp returns the addresses that a pod of rome finds for a name by a C library.
func (l lab) lookUp(t *testing.T, pod, library, name string) ([]string, error) {
	t.Helper()
	text, err := l.try(t, "kubectl", "rome", "exec", "-n", shop, pod, "--", "/"+library, name)
	return strings.Fields(text), err
}

// found waits until the pods of rome find as many addresses for a name by each library, and returns them.
func (l lab) found(t *testing.T, name string, count int) (addresses []string) {
	t.Helper()
	for _, pod := range []string{"resolver", "cached"} {
		for _, library := range libraries() {
			eventually(t, time.Minute, func() (err error) {
				if addresses, err = l.lookUp(t, pod, library, name); err == nil && len(addresses) != count {
					err = fmt.Errorf("pod %s, %s: %s has the addresses %v, want %d", pod, library, name, addresses, count)
				}
				return err
			})
		}
	}
	return addresses
}

// testNames calls Services of milan by their names, from pods of rome. The Service web is exported by both.
func (l lab) testNames(t *testing.T) {
	l.apply(t, "rome", resolvers)
	l.must(t, "kubectl", "rome", "wait", "-n", shop, "--for=condition=Ready", "pod", "resolver", "cached", "--timeout=60s")
	ip, err := l.clustersetIP(t, "rome", "web")
	if err != nil {
		t.Fatal(err)
	}
	if got := l.found(t, clusterset("web"), 1)[0]; got != ip {
		t.Errorf("web is %s by its name, want %s", got, ip)
	}
	if _, err := l.answer(t, "rome", "http://"+clusterset("web")+"/"); err != nil {
		t.Error(err)
	}

	t.Run("a name that is asked for before it exists", func(t *testing.T) {
		l.apply(t, "milan", strings.ReplaceAll(serverOf("late", 1), "app: late", "app: web"))
		if found, err := l.lookUp(t, "resolver", "musl", clusterset("late")); err == nil {
			t.Fatalf("late has the addresses %v before its export", found)
		}
		l.export(t, "milan", "late")
		exported := time.Now()
		eventually(t, 20*time.Second, func() error {
			_, err := l.answer(t, "rome", "http://"+clusterset("late")+"/")
			return err
		})
		took := time.Since(exported)
		t.Logf("figure: a name answers %.1f s after its export, wanted ≤ 5 s", took.Seconds())
		atMost(t, "a name after its export", took, beyond*5*time.Second)
	})
	t.Run("pods of a StatefulSet have names", func(t *testing.T) {
		l.apply(t, "milan", statefulSet)
		l.must(t, "kubectl", "milan", "rollout", "status", "-n", shop, "statefulset/db", "--timeout=60s")
		l.export(t, "milan", "db")
		l.found(t, clusterset("db"), 2)
		for _, pod := range []string{"db-0", "db-1"} {
			name := pod + ".milan." + clusterset("db")
			l.found(t, name, 1)
			if got, err := l.answer(t, "rome", "http://"+name+":8080/"); err != nil || got != pod {
				t.Errorf("%s: %q answers, %v, want %s", name, got, err, pod)
			}
		}
	})
	t.Run("a client stays at one pod if the Service asks for it", func(t *testing.T) {
		l.apply(t, "milan", `{apiVersion: v1, kind: Service, metadata: {name: sticky, namespace: shop}, spec: {selector: {app: web}, sessionAffinity: ClientIP, ports: [{name: http, port: 80, targetPort: 8080}]}}`)
		l.export(t, "milan", "sticky")
		l.found(t, clusterset("sticky"), 1)
		answered := map[string]int{}
		for range 12 {
			pod, err := l.answer(t, "rome", "http://"+clusterset("sticky")+"/")
			if err != nil {
				t.Fatal(err)
			}
			answered[pod]++
		}
		if len(answered) != 1 {
			t.Errorf("got answers of the pods %v, want one pod", answered)
		}
	})
	t.Run("cluster.local answers without our server", l.testNamesBroken)
}

const statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  serviceName: db
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: server, image: lab.local/pod:v1, imagePullPolicy: IfNotPresent, args: [serve]}]
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec:
  clusterIP: None
  selector: {app: db}
  ports: [{name: http, port: 8080}]
`

// testNamesBroken removes our DNS server's pods, and starts the cluster's DNS anew. The cluster's own names go
// on. When our pods are back, so are their names.
func (l lab) testNamesBroken(t *testing.T) {
	scale := func(replicas int) {
		l.must(t, "kubectl", "rome", "scale", "-n", "liqo", "deployment/liqo-tui-dns", fmt.Sprintf("--replicas=%d", replicas))
	}
	scale(0)
	l.must(t, "kubectl", "rome", "wait", "-n", "liqo", "--for=delete", "pod", "-l", "app.kubernetes.io/name=liqo-tui-dns", "--timeout=60s")
	l.must(t, "kubectl", "rome", "rollout", "restart", "-n", "kube-system", "deployment/coredns")
	l.must(t, "kubectl", "rome", "rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=90s")
	api := l.found(t, "kubernetes.default.svc.cluster.local", 1)[0]
	if want := "10.96.0.1"; api != want {
		t.Errorf("the API server is %s, want %s", api, want)
	}
	if found, err := l.lookUp(t, "resolver", "glibc", clusterset("never")); err == nil {
		t.Errorf("without a server, a name that does not exist has the addresses %v", found)
	}
	scale(2)
	l.found(t, clusterset("web"), 1)
}

// testNamesThroughFaults breaks the parts on which a name depends, at random. Afterwards each import has the
// endpoints of its export, and the name leads to them.
func (l lab) testNamesThroughFaults(t *testing.T) {
	length, random := breakFor(t, "20s", "10m")
	l.connect("--yes", "--remote-allow", "all").want(t, exit.OK) // the senders' pods are not exported
	l.runPods(t)
	connections := []connection{{"rome", "milan"}}
	r := l.newFaultRun(t, connections)
	parts := []string{"delete the gateway's pod", "delete the operator's pod", "replace the exported pods", "kill the API server", "cut the path"}
	r.faults = slices.DeleteFunc(r.faults, func(f fault) bool { return !slices.Contains(parts, f.name) })
	r.faults = append(r.faults,
		fault{name: "delete our DNS server's pods", apply: deletePods("app.kubernetes.io/name=liqo-tui-dns")},
		fault{name: "delete the cluster's DNS pods", apply: func(d damage) (string, error) {
			_, err := d.kubectl("delete", "pods", "-n", "kube-system", "-l", "k8s-app=kube-dns", "--wait=false")
			return "", err
		}})
	r.breakThings(t, random, length)
	t.Logf("what was broken\n%s", r.table(nil))
	l.importsAll(t, connections)
	l.found(t, clusterset("web"), 1)
	eventually(t, settled, func() error {
		_, err := l.answer(t, "rome", "http://"+clusterset("web")+"/")
		return err
	})
}

// testNamesRemoved damages milan: its API server forgets the definition of imports, and our DNS server starts
// anew without it. The cluster's own names go on. Then it uninstalls. The DNS of both clusters has its former
// Corefiles again; rome's has them since it exchanges no Services.
func (l lab) testNamesRemoved(t *testing.T, corefiles map[string]string) {
	if is := l.corefiles(t)["rome"]; is != corefiles["rome"] {
		t.Errorf("rome has the Corefile\n%s\nafter --services=off, want\n%s", is, corefiles["rome"])
	}
	l.must(t, "kubectl", "milan", "delete", "customresourcedefinition", "serviceimports.multicluster.x-k8s.io")
	l.must(t, "kubectl", "milan", "rollout", "restart", "-n", "liqo", "deployment/liqo-tui-dns")
	eventually(t, 20*time.Second, func() error {
		_, err := l.answer(t, "milan", "http://web."+shop+".svc.cluster.local/")
		return err
	})
	l.reset().want(t, exit.OK)
	l.uninstall(t)
	for where, is := range l.corefiles(t) {
		if is != corefiles[where] {
			t.Errorf("%s has the Corefile\n%s\nafter uninstall, want\n%s", where, is, corefiles[where])
		}
	}
}
