package lending_test

import (
	"context"
	"testing"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// ending returns pods that are being deleted and wait for a kubelet: one on the virtual node, and one on a
// real node.
func (w *pair) ending(t *testing.T, namespace string) (virtual, real *corev1.Pod) {
	t.Helper()
	virtual, real = onMilan(namespace, "ending"), onMilan(namespace, "ending-on-real", func(s *corev1.PodSpec) { s.NodeName = "real" })
	for _, p := range []*corev1.Pod{virtual, real} {
		p.Finalizers = []string{"test/hold"} // otherwise the virtual kubelet would remove the pod
		w.rome.create(p)
		w.rome.runDeleteNow(t, p)
	}
	t.Cleanup(func() {
		for _, p := range []*corev1.Pod{virtual, real} {
			if err := w.rome.Patch(context.Background(), p, mergePatch(`{"metadata":{"finalizers":null}}`)); err != nil {
				t.Errorf("let pod %s go: %v", p.Name, err)
			}
			_ = w.rome.Delete(context.Background(), p, client.GracePeriodSeconds(0)) // the pod may be gone already
		}
	})
	return virtual, real
}

// taken writes the pod's status as a kubelet, or the program of a virtual node, does when it takes the pod.
func (w *pair) taken(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if err := w.rome.Status().Patch(t.Context(), p.DeepCopy(), mergePatch(`{"status":{"hostIP":"192.0.2.9","hostIPs":[{"ip":"192.0.2.9"}]}}`)); err != nil {
		t.Fatal(err)
	}
}

// testProgramsPods makes requests about pods with the token of a node's program. The first rows prove that
// the later requests reach the API server.
func (w *pair) testProgramsPods(t *testing.T) {
	ctx := t.Context()
	c := w.rome.clientAs(t, w.rome.as("system:serviceaccount:liqo-tenant-milan:liqo-tui-node-milan", "system:serviceaccounts"))
	w.rome.node("real", "4", "8Gi")
	defer w.rome.runDelete(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}})
	real := onMilan("demo", "on-real", func(s *corev1.PodSpec) { s.NodeName = "real" })
	nowhere := onMilan("demo", "nowhere", func(s *corev1.PodSpec) { s.NodeName = "" })
	stray := onMilan("default", "stray")
	for _, p := range []*corev1.Pod{real, nowhere, stray} {
		w.rome.create(p)
		defer func() { _ = w.rome.Delete(ctx, p, client.GracePeriodSeconds(0)) }() // the operator also deletes such a pod
	}
	password := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "password"}}
	w.rome.create(password)
	defer w.rome.runDelete(t, password)
	ends, endsOnReal := w.ending(t, "demo")
	// With the operator's token, an attacker may create an account with the name of a real node's program,
	// and give it a program's rights.
	posing := w.rome.clientAs(t, w.rome.as("system:serviceaccount:liqo-tenant-milan:liqo-tui-node-real", "system:serviceaccounts"))
	onReal := func(namespace, name string) *corev1.Pod {
		p := onMilan(namespace, name, func(s *corev1.PodSpec) { s.NodeName = "real" })
		w.rome.create(p)
		t.Cleanup(func() { _ = w.rome.Delete(context.Background(), p, client.GracePeriodSeconds(0)) })
		return p
	}
	fresh, running := onReal("demo", "fresh"), onReal("demo", "running")
	w.taken(t, running)
	programs := peering.OffloadedAccess("demo", []types.NamespacedName{{Namespace: "liqo-tenant-milan", Name: "milan"}, {Namespace: "liqo-tenant-milan", Name: "real"}})
	programs.Name = "posing"
	w.rome.create(programs)
	defer w.rome.runDelete(t, programs)
	says := func(p *corev1.Pod) attempt {
		return func() error {
			return posing.Status().Patch(ctx, p.DeepCopy(), mergePatch(`{"status":{"message":"x"}}`), client.DryRunAll)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // a new binding takes effect a moment later
		err := says(fresh)()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("what it may do, a pod that no kubelet has: %v", err)
		}
	}
	abuses.Permitted(t, "an account that is called as the program of a real node", "the status of a pod that no kubelet has", says(fresh)())
	w.refused(t, "an account that is called as the program of a real node", map[string]attempt{"the status of a pod that its kubelet has": says(running)})
	web := func() *corev1.Pod { return onMilan("demo", "web") }
	status := func(p *corev1.Pod, text string) attempt {
		return func() error { return c.Status().Patch(ctx, p.DeepCopy(), mergePatch(text), client.DryRunAll) }
	}
	remove := func(p *corev1.Pod) attempt {
		return func() error { return c.Delete(ctx, p.DeepCopy(), client.GracePeriodSeconds(0), client.DryRunAll) }
	}
	for name, try := range map[string]attempt{
		"its pod's status": status(web(), `{"metadata":{"labels":{"liqo.io/shadowPod":"true"}},"status":{"message":"x"}}`),
		"its pod's end":    remove(ends),
		"its pods":         func() error { return c.List(ctx, &corev1.PodList{}, client.InNamespace("demo")) },
		"what they need":   func() error { return c.Get(ctx, client.ObjectKeyFromObject(password), &corev1.Secret{}) },
		"an event": func() error {
			return c.Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "x"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: "web"}}, client.DryRunAll)
		},
	} {
		abuses.Permitted(t, "a node's program, of pods", name, try())
	}
	in := metav1.ObjectMeta{Namespace: "demo", Name: "x"}
	w.refused(t, "a node's program, of pods", map[string]attempt{
		"the status of a pod on a real node": status(real, `{"status":{"phase":"Failed"}}`),
		"the status of a pod on no node":     status(nowhere, `{"status":{"phase":"Failed"}}`),
		"the status of a pod elsewhere":      status(stray, `{"status":{"phase":"Failed"}}`),
		"a pod's label":                      status(web(), `{"metadata":{"labels":{"app":"other"}}}`),
		"a pod's label without a value":      status(web(), `{"metadata":{"labels":{"x":""}}}`),
		"a pod's label, gone":                status(web(), `{"metadata":{"labels":{"app":null}}}`),
		"a pod's annotation":                 status(web(), `{"metadata":{"annotations":{"a":"b"}}}`),
		"a pod's finalizer":                  status(web(), `{"metadata":{"finalizers":["x.io/y"]}}`),
		"a pod's image": func() error {
			return c.Patch(ctx, web(), mergePatch(`{"spec":{"containers":[{"name":"c","image":"y"}]}}`), client.DryRunAll)
		},
		"a pod that is not being deleted": remove(web()),
		"a pod that ends on a real node":  remove(endsOnReal),
		"a pod on a real node":            remove(real),
		"a pod elsewhere":                 remove(stray),
		"all pods":                        func() error { return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("demo")) },
		"pods elsewhere":                  func() error { return c.List(ctx, &corev1.PodList{}, client.InNamespace("default")) },
		"all namespaces' pods":            func() error { return c.List(ctx, &corev1.PodList{}) },
		"a pod of its own":                func() error { return c.Create(ctx, web()) },
		"an eviction": func() error {
			return c.SubResource("eviction").Create(ctx, web(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"}})
		},
		"a binding": func() error {
			return c.SubResource("binding").Create(ctx, nowhere.DeepCopy(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "nowhere"}, Target: corev1.ObjectReference{Kind: "Node", Name: "milan"}})
		},
		"Secrets elsewhere":            func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace("default")) },
		"Secrets beside it":            func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace("liqo-tenant-milan")) },
		"a Secret, changed":            func() error { return c.Patch(ctx, password, mergePatch(`{"data":null}`)) },
		"a Secret, deleted":            func() error { return c.Delete(ctx, password) },
		"events of the namespace":      func() error { return c.List(ctx, &corev1.EventList{}, client.InNamespace("demo")) },
		"more rights in the namespace": func() error { return c.Patch(ctx, access(), mergePatch(`{"subjects":[]}`)) },
		"rights in another": func() error {
			return c.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: in, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "liqo-tui-offloaded"}})
		},
		"another namespace, offloaded": func() error {
			return c.Create(ctx, peering.Offloading("default", peering.OffloadingParams{Pods: "Local", Mapping: "DefaultName"}))
		},
		"what the provider is asked": func() error {
			return c.Patch(ctx, mapTo("liqo-tenant-milan"), mergePatch(`{"spec":{"desiredMapping":{"kube-system":"x"}}}`))
		},
		"what the provider has": func() error {
			return c.Status().Patch(ctx, mapTo("liqo-tenant-milan"), mergePatch(`{"status":{"currentMapping":null}}`))
		},
		"all maps": func() error {
			return c.List(ctx, &offloadingv1beta1.NamespaceMapList{}, client.InNamespace("liqo-tenant-milan"))
		},
		"the namespaces it looks after": func() error {
			return c.Patch(ctx, virtual(), mergePatch(`{"metadata":{"annotations":{"liqo-tui.dev/namespaces":"default"}}}`))
		},
	})
}

// testOperatorsPods makes an attacker's requests with the operator's token.
func (w *pair) testOperatorsPods(t *testing.T) {
	ctx := t.Context()
	c := w.rome.clientAs(t, w.rome.as(operatorUser, "system:serviceaccounts"))
	w.rome.node("real", "4", "8Gi")
	defer w.rome.runDelete(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}})
	real := onMilan("default", "on-real", func(s *corev1.PodSpec) { s.NodeName = "real" })
	w.rome.create(real)
	defer func() { _ = w.rome.Delete(ctx, real, client.GracePeriodSeconds(0)) }()
	nowhere := onMilan("default", "nowhere", func(s *corev1.PodSpec) { s.NodeName = "" })
	w.rome.create(nowhere)
	defer func() { _ = w.rome.Delete(ctx, nowhere, client.GracePeriodSeconds(0)) }()
	runs := onMilan("default", "runs", func(s *corev1.PodSpec) { s.NodeName = "real" })
	w.rome.create(runs)
	defer func() { _ = w.rome.Delete(ctx, runs, client.GracePeriodSeconds(0)) }()
	runs.Status.Phase = corev1.PodRunning
	if err := w.rome.Status().Update(ctx, runs); err != nil {
		t.Fatal(err)
	}
	// Every user may write this, and the operator makes no mapped namespace for it.
	marked := onMilan("default", "marked", func(s *corev1.PodSpec) { s.NodeName = "real" })
	marked.Labels[peering.LabelMadeBy] = peering.MadeByShadowPod
	w.rome.create(marked)
	defer func() { _ = w.rome.Delete(ctx, marked, client.GracePeriodSeconds(0)) }()
	mapped := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "marked", Annotations: map[string]string{peering.AnnotationMapped: "x/y"}}}
	w.rome.create(mapped)
	defer w.rome.runDelete(t, mapped)
	of, ends := w.ending(t, "default")
	ofKubelet := onMilan("default", "of-kubelet", func(s *corev1.PodSpec) { s.NodeName, s.TerminationGracePeriodSeconds = "real", new(int64(30)) })
	pending := onMilan("default", "pending", func(s *corev1.PodSpec) { s.NodeName = "real" })
	for _, p := range []*corev1.Pod{ofKubelet, pending} {
		w.rome.create(p)
		defer func() { _ = w.rome.Delete(ctx, p, client.GracePeriodSeconds(0)) }()
		w.taken(t, p)
	}
	if err := w.rome.Delete(ctx, ofKubelet.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	// The program of a virtual node also writes the node of a pod, and labels the pod.
	w.taken(t, of)
	if err := w.rome.Patch(ctx, of.DeepCopy(), mergePatch(`{"metadata":{"labels":{"liqo.io/shadowPod":"true"}}}`)); err != nil {
		t.Fatal(err)
	}
	status := func(p *corev1.Pod, text string) attempt {
		return func() error { return c.Status().Patch(ctx, p.DeepCopy(), mergePatch(text), client.DryRunAll) }
	}
	remove := func(p *corev1.Pod) attempt {
		return func() error { return c.Delete(ctx, p.DeepCopy(), client.GracePeriodSeconds(0), client.DryRunAll) }
	}
	namespace := func(name, text string) attempt {
		return func() error {
			return c.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, mergePatch(text), client.DryRunAll)
		}
	}
	binding := func(change func(*rbacv1.RoleBinding)) attempt {
		return func() error {
			b := peering.OffloadedAccess("demo", []types.NamespacedName{{Namespace: "liqo-tenant-milan", Name: "milan"}})
			change(b)
			u, err := apply.Wanted(b)
			if err != nil {
				return err
			}
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("liqo-tui-operator"), client.ForceOwnership, client.DryRunAll)
		}
	}
	for name, try := range map[string]attempt{
		"a label":              namespace("default", `{"metadata":{"labels":{"liqo.io/scheduling-enabled":"true"}}}`),
		"a pod that ends":      remove(ends),
		"a virtual node's pod": remove(of),
		"a pod that can't run": status(real, `{"status":{"phase":"Pending","reason":"NamespaceNotOffloaded","message":"x"}}`),
		"rights":               binding(func(*rbacv1.RoleBinding) {}),
	} {
		abuses.Permitted(t, "the operator, of pods and namespaces", name, try())
	}
	w.refused(t, "the operator, of pods and namespaces", map[string]attempt{
		"another label":                         namespace("default", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`),
		"a label without a value":               namespace("default", `{"metadata":{"labels":{"x":""}}}`),
		"a label, gone":                         namespace("demo", `{"metadata":{"labels":{"team":null}}}`),
		"a peer's label":                        namespace("demo", `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"milan"}}}`),
		"a namespace's annotation":              namespace("demo", `{"metadata":{"annotations":{"liqo.io/managed-by-namespace-map":"x"}}}`),
		"a namespace's finalizer":               namespace("demo", `{"metadata":{"finalizers":["x.io/y"]}}`),
		"a namespace":                           func() error { return c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}) },
		"a namespace, deleted":                  func() error { return c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}) },
		"a marked namespace's label":            namespace("marked", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`),
		"a namespace that becomes a consumer's": namespace("demo", `{"metadata":{"labels":{"liqo-tui.dev/twin":"true"}}}`),
		"a marked pod":                          remove(marked),
		"a pod that ends, of a kubelet":         remove(ofKubelet),
		"a pod that a kubelet pulls images for": status(pending, `{"status":{"phase":"Pending","reason":"NamespaceNotOffloaded","hostIP":null,"hostIPs":null}}`),
		"a marked pod's status":                 status(marked, `{"status":{"phase":"Running"}}`),
		"a pod on a real node":                  remove(real),
		"a pod on no node":                      remove(nowhere),
		"all pods":                              func() error { return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default")) },
		"a pod that runs":                       status(runs, `{"status":{"phase":"Pending","reason":"NamespaceNotOffloaded"}}`),
		"a pod that is said to run":             status(real, `{"status":{"phase":"Running"}}`),
		"a pod that is said to fail":            status(real, `{"status":{"phase":"Failed","reason":"NamespaceNotOffloaded"}}`),
		"a pod's address":                       status(real, `{"status":{"phase":"Pending","reason":"NamespaceNotOffloaded","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`),
		"a pod's label":                         status(real, `{"metadata":{"labels":{"app":"x"}},"status":{"phase":"Pending","reason":"NamespaceNotOffloaded"}}`),
		"a pod's image": func() error {
			return c.Patch(ctx, real.DeepCopy(), mergePatch(`{"spec":{"containers":[{"name":"c","image":"y"}]}}`), client.DryRunAll)
		},
		"a pod":                        func() error { return c.Create(ctx, onMilan("default", "x")) },
		"rights where nobody offloads": binding(func(b *rbacv1.RoleBinding) { b.Namespace = "kube-system" }),
		"rights of somebody else":      binding(func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "default" }),
		"rights of a user": binding(func(b *rbacv1.RoleBinding) {
			b.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "liqo-tui-node-x"}}
		}),
		"other rights": binding(func(b *rbacv1.RoleBinding) {
			b.RoleRef.Name = "cluster-admin"
		}),
		"rights under another name": binding(func(b *rbacv1.RoleBinding) { b.Name = "x" }),
		"a namespace that is offloaded": func() error {
			return c.Create(ctx, peering.Offloading("default", peering.OffloadingParams{Pods: "Local", Mapping: "DefaultName"}))
		},
		"more in the role": func() error {
			return c.Patch(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tui-offloaded"}}, mergePatch(`{"rules":[]}`))
		},
	})
}
