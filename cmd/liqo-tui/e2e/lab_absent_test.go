package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// keeping is a pod of the consumer that runs on the provider, with a Service. Meanwhile objects around it are
// deleted and come back.
type keeping struct {
	lab
	way       connection
	namespace string
	random    *rand.Rand
}

// object names an object of a cluster for kubectl.
type object struct{ namespace, name string } // such as secrets/password

const (
	keptPod = "kept"
	// nodeMonitorPeriod is how often Kubernetes checks whether a node is ready, and then whether its pods
	// are.
	nodeMonitorPeriod = 5 * time.Second
)

// losesNoRequest deletes the objects that operators have made, and then all objects of the consumer except
// its installation and its network, in orders that the seed picks. The objects on the provider stay the same,
// and the pod answers each request and each datagram.
func (l lab) losesNoRequest(t *testing.T, way connection, namespace string) {
	k := keeping{lab: l, way: way, namespace: namespace, random: rand.New(rand.NewPCG(sample.Seed(t), 0))} //nolint:gosec // it has to be the same again
	l.apply(t, way.a, `apiVersion: v1
kind: Pod
metadata: {name: kept, namespace: `+namespace+`, labels: {app: kept}}
spec:
  terminationGracePeriodSeconds: 1
  tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists}]
  nodeSelector: {liqo.io/type: virtual-node}
  volumes: [{name: password, secret: {secretName: password}}]
  containers:
  - name: web
    image: lab.local/pod:v1
    imagePullPolicy: IfNotPresent
    args: [serve]
    envFrom: [{configMapRef: {name: settings}}]
    volumeMounts: [{name: password, mountPath: /password}]
---
apiVersion: v1
kind: Service
metadata: {name: kept, namespace: `+namespace+`}
spec:
  selector: {app: kept}
  ports: [{name: http, port: 8080}, {name: echo, port: 8080, protocol: UDP}]
`)
	l.must(t, "kubectl", way.a, "-n", namespace, "scale", "deployment/web", "--replicas=0")
	l.must(t, "kubectl", way.a, "-n", namespace, "wait", "--for=delete", "pod", "-l", "app=web", "--timeout=60s")
	k.settled(t)
	before := k.onProvider(t)
	same := func(t *testing.T) {
		t.Helper()
		if diff := cmp.Diff(before, k.onProvider(t)); diff != "" {
			t.Errorf("%s has something else (-before +now):\n%s", way.b, diff)
		}
	}
	pod := l.must(t, "kubectl", way.a, "-n", namespace, "get", "pod", keptPod, "-o", "jsonpath={.status.podIP}")
	service := func(cluster, namespace string) string {
		return l.must(t, "kubectl", cluster, "-n", namespace, "get", "service", keptPod, "-o", "jsonpath={.spec.clusterIP}")
	}
	here, there := service(way.a, namespace), service(way.b, k.twin())
	for _, part := range []struct {
		name string
		test func(*testing.T)
		home []string // addresses that pods of the consumer ask
	}{
		{"what is derived is deleted", k.deletesDerived, []string{pod, here}},
		{"a backup comes back", k.restores, []string{pod}}, // the consumer has no Service for a while
		{"the provider loses what it was shown", k.deletesShown, []string{pod, here}},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			began := time.Now()
			stops := []func(*testing.T){k.asks(t, way.a, part.home...), k.asks(t, way.b, there)}
			defer func() {
				for _, stop := range stops {
					stop(t)
				}
				t.Logf("%.1f s", time.Since(began).Seconds())
			}()
			part.test(t)
			k.settled(t)
			same(t)
		}) {
			return // the next part needs the end state of this one
		}
	}
	l.must(t, "kubectl", way.a, "-n", namespace, "delete", "pod/kept", "service/kept", "--timeout=60s")
}

func (k keeping) twin() string { return k.namespace + "-" + k.way.a }

// asks starts requests of a cluster's pod to addresses. stop ends them, and checks that all were answered.
func (k keeping) asks(t *testing.T, cluster string, addresses ...string) (stop func(*testing.T)) {
	t.Helper()
	nodes := k.nodes(t, cluster)
	node := nodes[len(nodes)-1]
	program, err := filepath.Abs("../../../bin/pod")
	if err != nil {
		t.Fatal(err)
	}
	pid := k.process(t, cluster, node, "^/pod serve", web(node))
	if pid == "" {
		t.Fatalf("pod %s: has no process on %s", web(node), node)
	}
	command := []string{program, "requests"}
	for _, address := range addresses {
		command = append(command, "http://"+address+":8080/", "udp://"+address+":8080")
	}
	cmd := k.command(t, k.inside(cluster, node, pid, command...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) {
		t.Helper()
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("requests of %s: %v %s", cluster, err, errs.String())
		}
		told := 0
		for d := json.NewDecoder(strings.NewReader(out.String())); ; told++ {
			var o struct {
				Target     string
				Sent, Lost int
				Longest    stall
				Slowest    time.Duration
				Reasons    []string
			}
			if err := d.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("requests of %s: %v: %s", cluster, err, out.String())
			}
			t.Logf("from %s to %s: %d requests, %d answers, %s without an answer at most, from %s on; the slowest answer took %s",
				cluster, o.Target, o.Sent, o.Sent-o.Lost, o.Longest.length().Round(time.Millisecond), o.Longest.Last.Format("15:04:05.000"), o.Slowest.Round(time.Millisecond))
			if o.Lost > 0 || o.Sent == 0 {
				t.Errorf("from %s to %s: of %d requests %d were lost:\n%s", cluster, o.Target, o.Sent, o.Lost, strings.Join(o.Reasons, "\n"))
			}
		}
		if told != 2*len(addresses) {
			t.Errorf("requests of %s: got %d outcomes: %s", cluster, told, out.String())
		}
	}
}

// derived are the objects that the consumer's operator makes from its admin's objects.
func (k keeping) derived() []object {
	tenant := "liqo-tenant-" + k.way.b
	node := k.way.b
	account := wire.NodeAccessName + "-" + node
	return []object{
		{"", "nodes/" + node},
		{"kube-node-lease", "leases/" + node},
		{"", "foreignclusters/" + k.way.b},
		{k.namespace, "rolebindings/" + wire.OffloadedAccessName},
		{tenant, "virtualnodes/" + node},
		{tenant, "namespacemaps/" + k.way.b},
		{tenant, "identities/resourceslice-" + node},
		{tenant, "secrets/kubeconfig-resourceslice-" + node},
		{tenant, "secrets/kubeconfig-controlplane-" + k.way.b},
		{tenant, "deployments/vk-" + node},
		{tenant, "secrets/" + account + "-serving"},
		{tenant, "serviceaccounts/" + account},
		{tenant, "roles/" + account},
		{tenant, "rolebindings/" + account},
		{tenant, "rolebindings/" + wire.PeeringAccessName},
	}
}

// shown are the provider's copies, and the objects that its operator makes from them and from the Tenant.
func (k keeping) shown() []object {
	tenant, twin := "liqo-tenant-"+k.way.a, k.twin()
	return []object{
		{tenant, "namespacemaps/" + k.way.b},
		{tenant, "resourceslices.authentication.liqo.io/" + k.way.b},
		{tenant, "rolebindings/" + wire.ConsumerAccessName},
		{tenant, "resourcequotas/" + wire.ConsumerAccessName},
		{tenant, "secrets/liqo-remote-certificate-" + k.way.b},
		{twin, "rolebindings/" + wire.MappedAccessName},
		{twin, "rolebindings/" + wire.MappedOperatorName},
		{twin, "resourcequotas/" + wire.MappedAccessName},
		{twin, "limitranges/" + wire.MappedAccessName},
		{twin, "networkpolicies/" + wire.MappedAccessName},
		{"", "foreignclusters/" + k.way.a},
	}
}

// backup are the objects of the consumer's admin, the namespace first.
func (k keeping) backup() []object {
	tenant := "liqo-tenant-" + k.way.b
	return []object{
		{"", "namespaces/" + k.namespace},
		{tenant, "identities/controlplane-" + k.way.b},
		{tenant, "resourceslices.authentication.liqo.io/" + k.way.b},
		{k.namespace, "namespaceoffloadings/offloading"},
		{k.namespace, "pods/kept"},
		{k.namespace, "services/kept"},
		{k.namespace, "configmaps/settings"},
		{k.namespace, "secrets/password"},
		{k.namespace, "deployments/web"},
		{k.namespace, "services/web"},
	}
}

func (o object) args(verb string, more ...string) []string {
	args := []string{verb, o.name}
	if o.namespace != "" {
		args = append(args, "-n", o.namespace)
	}
	return append(args, more...)
}

func (k keeping) kubectl(t *testing.T, cluster string, args []string) string {
	t.Helper()
	return k.must(t, append([]string{"kubectl", cluster}, args...)...)
}

func (k keeping) uid(t *testing.T, cluster string, o object) string {
	t.Helper()
	return k.kubectl(t, cluster, o.args("get", "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"))
}

func (k keeping) deletes(t *testing.T, cluster string, o object) {
	t.Helper()
	k.kubectl(t, cluster, o.args("delete", "--ignore-not-found", "--wait=false"))
}

// deletesDerived deletes derived objects while the provider's API server is stopped, for longer than
// Kubernetes on the consumer takes to check the virtual node.
func (k keeping) deletesDerived(t *testing.T) {
	all := k.derived()
	k.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	from := k.random.IntN(len(all) - 1)
	to := from + 1 + k.random.IntN(len(all)-1-from)
	node := k.nodes(t, k.way.b)[0]
	signal := func(name string) { k.must(t, "exec", k.way.b, node, "--", "pkill", "-"+name, "-x", "kube-apiserver") }
	resume := func() {}
	var stopped time.Time
	defer func() { resume() }()
	for i, o := range all {
		switch i {
		case from:
			signal("STOP")
			stopped = time.Now()
			t.Logf("the API server of %s stands still", k.way.b)
			resume = func() { signal("CONT") }
		case to:
			eventually(t, 30*time.Second, func() error {
				reason, err := k.try(t, "kubectl", k.way.a, "get", "node", k.way.b, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`)
				if err == nil && reason != "ProviderSilent" {
					err = fmt.Errorf("the node of %s says %q, and its API server stands still", k.way.b, reason)
				}
				return err
			})
			time.Sleep(time.Until(stopped.Add(2 * nodeMonitorPeriod)))
			resume()
			resume = func() {}
			t.Logf("the API server of %s goes on", k.way.b)
		}
		was := k.uid(t, k.way.a, o)
		t.Logf("%s deletes %s", time.Now().Format("15:04:05.000"), o.name)
		k.deletes(t, k.way.a, o)
		if (i < from || i >= to) && k.random.IntN(2) == 0 {
			k.madeAgain(t, k.way.a, o, was)
		}
	}
	k.there(t, k.way.a, all)
}

func (k keeping) madeAgain(t *testing.T, cluster string, o object, was string) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		if is := k.uid(t, cluster, o); is == "" || is == was {
			return fmt.Errorf("%s of %s is not made again", o.name, cluster)
		}
		return nil
	})
}

// byNamespace returns kubectl's arguments for all objects of each namespace.
func byNamespace(all []object) map[string][]string {
	out := map[string][]string{}
	for _, o := range all {
		if out[o.namespace] == nil {
			out[o.namespace] = []string{"-n", o.namespace}
		}
		out[o.namespace] = append(out[o.namespace], o.name)
	}
	return out
}

// there waits until a cluster has all objects, and none of them is being deleted.
func (k keeping) there(t *testing.T, cluster string, all []object) {
	t.Helper()
	for _, names := range byNamespace(all) {
		eventually(t, 30*time.Second, func() error {
			text, err := k.try(t, append([]string{"kubectl", cluster, "get", "-o", `jsonpath={.metadata.deletionTimestamp}{.items[*].metadata.deletionTimestamp}`}, names...)...)
			if err == nil && text != "" {
				err = fmt.Errorf("one of %v on %s is being deleted", names, cluster)
			}
			return err
		})
	}
}

// deletesShown deletes objects on the provider while all programs run.
func (k keeping) deletesShown(t *testing.T) {
	all := k.shown()
	k.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	was := map[object]string{}
	for _, o := range all {
		was[o] = k.uid(t, k.way.b, o)
		if was[o] == "" {
			t.Errorf("%s has no %s", k.way.b, o.name)
		}
	}
	for _, o := range all {
		t.Logf("%s deletes %s", time.Now().Format("15:04:05.000"), o.name)
		k.deletes(t, k.way.b, o)
	}
	for _, o := range all {
		k.madeAgain(t, k.way.b, o, was[o])
	}
	eventually(t, 30*time.Second, func() error {
		phase, err := k.try(t, "kubectl", k.way.b, "-n", "liqo-tenant-"+k.way.a, "get", "namespacemaps", k.way.b, "-o", "jsonpath={.status.currentMapping."+k.namespace+".phase}")
		if err == nil && phase != "Accepted" {
			err = fmt.Errorf("the NamespaceMap says %q of %s", phase, k.namespace)
		}
		return err
	})
}

// restores deletes all objects of the consumer except its installation and its network, while none of its
// programs runs. Then, while its operator runs, it restores the admin's objects one by one.
func (k keeping) restores(t *testing.T) {
	home, tenant := k.way.a, "liqo-tenant-"+k.way.b
	backup := k.backup()
	saved := map[object]string{}
	for _, o := range backup {
		saved[o] = saves(t, k.kubectl(t, home, o.args("get", "-o", "json")))
	}
	scale := func(replicas string) {
		k.must(t, "kubectl", home, "-n", "liqo", "scale", "deployment/"+wire.OperatorName, "--replicas="+replicas)
	}
	scale("0")
	defer scale("1")
	k.must(t, "kubectl", home, "-n", "liqo", "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=liqo-tui-operator", "--timeout=60s")
	k.must(t, "kubectl", home, "-n", tenant, "delete", "deployment/vk-"+k.way.b)
	k.must(t, "kubectl", home, "-n", tenant, "wait", "--for=delete", "pod", "-l", "liqo.io/virtual-node="+k.way.b, "--timeout=60s")
	k.must(t, "kubectl", home, "-n", k.namespace, "delete", "pods", "--all", "--force", "--grace-period=0", "--timeout=30s")
	for _, names := range byNamespace(append(slices.Clone(backup), k.derived()...)) {
		k.must(t, append([]string{"kubectl", home, "delete", "--ignore-not-found", "--timeout=60s"}, names...)...)
	}
	scale("1")
	of := backup[1:]
	k.random.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	for _, o := range backup {
		t.Logf("%s brings back %s", time.Now().Format("15:04:05.000"), o.name)
		eventually(t, 30*time.Second, func() error { // Kubernetes takes some time to create the pods' account
			cmd := k.command(t, "kubectl", home, "create", "-f", "-")
			cmd.Stdin = strings.NewReader(saved[o])
			_, err := cmd.Output()
			if failed, is := errors.AsType[*exec.ExitError](err); is {
				err = fmt.Errorf("%w: %s", err, failed.Stderr)
			}
			return err
		})
		time.Sleep(time.Duration(k.random.IntN(1500)) * time.Millisecond) // the operator may run in between, or not
	}
	k.there(t, home, k.derived())
}

// saves returns an object in the form in which a backup restores it.
func saves(t *testing.T, text string) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	delete(o, "status")
	meta := o["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		delete(meta, field)
	}
	out, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// settled waits until the consumer reports no problem, and no leftovers on the provider.
func (k keeping) settled(t *testing.T) {
	t.Helper()
	began := time.Now()
	for _, c := range []struct {
		what []string
		want []string
	}{
		{[]string{"-n", k.namespace, "get", "namespaceoffloadings", "offloading", "-o", "jsonpath={.status.offloadingPhase}"}, []string{"Ready"}},
		{
			[]string{"get", "node", k.way.b, "-o", `jsonpath={range .status.conditions[*]}{.type}={.status} {end}`},
			[]string{"Ready=True", "Leftovers=False"},
		},
		{
			[]string{"-n", k.namespace, "get", "pod", keptPod, "-o", `jsonpath={.status.phase} {range .status.conditions[*]}{.type}={.status} {end}`},
			[]string{"Running", "Ready=True"},
		},
		{[]string{"-n", k.namespace, "get", "endpointslices", "-l", "kubernetes.io/service-name=kept", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}"}, []string{"true"}},
	} {
		eventually(t, 60*time.Second, func() error {
			text, err := k.try(t, append([]string{"kubectl", k.way.a}, c.what...)...)
			for _, want := range c.want {
				if err == nil && !strings.Contains(" "+text+" ", " "+want+" ") {
					err = fmt.Errorf("kubectl %s says %q, want %s", strings.Join(c.what, " "), text, want)
				}
			}
			return err
		})
	}
	t.Logf("settled after %.1f s", time.Since(began).Seconds())
}

// onProvider returns the provider's objects for the consumer: the UID of each, its requests, and how often
// containers were restarted.
func (k keeping) onProvider(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, args := range [][]string{
		{"-n", k.twin(), "get", "pods,shadowpods,services,configmaps,secrets"}, {"-n", "liqo-tenant-" + k.way.a, "get", "namespacemaps"}, {"get", "namespaces", "--field-selector", "metadata.name=" + k.twin()},
	} {
		var list struct {
			Items []struct {
				Kind     string
				Metadata struct{ Name, UID, DeletionTimestamp string }
				Spec     any
				Data     any
				Status   struct {
					ContainerStatuses []struct{ RestartCount int }
				}
			}
		}
		if err := json.Unmarshal([]byte(k.kubectl(t, k.way.b, append(args, "-o", "json"))), &list); err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			uid := o.Metadata.UID
			if o.Kind == "NamespaceMap" { // a copy that was made again
				uid = ""
			}
			out[o.Kind+" "+o.Metadata.Name] = []any{uid, o.Metadata.DeletionTimestamp, o.Spec, o.Data, o.Status.ContainerStatuses}
		}
	}
	if out["Pod kept"] == nil || out["ShadowPod kept"] == nil || out["Service kept"] == nil {
		t.Fatalf("%s lacks something: %v", k.way.b, out)
	}
	return out
}
