package lending_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// lent is a consumer on milan, with its real credentials.
type lent struct {
	id       wire.ClusterID
	milan    *plane
	plane    client.Client // with the certificate of its operator
	slice    client.Client // with the slice's certificate
	consumer consumer
	config   *rest.Config // of the slice
}

func (l *lent) namespace() string { return "liqo-tenant-" + string(l.id) }

// lend gives a consumer access and resources, as its operator would get them.
func lend(t testing.TB, milan *plane, id wire.ClusterID, amounts corev1.ResourceList) *lent {
	t.Helper()
	l := &lent{id: id, milan: milan, consumer: newConsumer(t, id)}
	there := render.Tenant{Namespace: l.namespace(), Remote: id}
	milan.create(render.TenantNamespace(there))
	secret := peering.Nonce(there)
	milan.create(secret)
	until(t, milan, secret, "filled", func(s *corev1.Secret) bool { return len(s.Data[peering.KeyNonce]) > 0 })
	tenant := peering.Tenant(there, peering.Applicant{ID: id, Request: l.consumer.request, Signature: l.consumer.sign(t, secret.Data[peering.KeyNonce])})
	milan.create(tenant)
	until(t, milan, tenant, "accepted", func(o *authv1beta1.Tenant) bool { return o.Status.AuthParams != nil })
	config := func(p *authv1beta1.AuthParams) (*rest.Config, client.Client) {
		t.Helper()
		c := &rest.Config{Host: milan.server, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: milan.config.CAData, CertData: p.SignedCRT, KeyData: l.consumer.private}}
		c.Wrap(abuses.Watch(t))
		api, err := client.New(c, client.Options{Scheme: milan.Scheme(), Mapper: milan.RESTMapper()})
		if err != nil {
			t.Fatal(err)
		}
		return c, api
	}
	_, l.plane = config(tenant.Status.AuthParams)
	s := l.ask(t, "milan", amounts)
	l.config, l.slice = config(s.Status.AuthParams)
	return l
}

// ask requests resources as the consumer.
func (l *lent) ask(t testing.TB, name string, amounts corev1.ResourceList) *authv1beta1.ResourceSlice {
	t.Helper()
	s := peering.SliceCopy(slice("", name), l.id, l.namespace())
	csr, err := peering.SliceUser(name, l.id).Request(l.consumer.private, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Spec = authv1beta1.ResourceSliceSpec{ConsumerClusterID: new(corev1beta1.ClusterID(l.id)), Class: authv1beta1.ResourceSliceClassDefault, Resources: amounts, CSR: csr.CSR}
	if err := l.plane.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return until(t, l.milan, s, "granted", func(s *authv1beta1.ResourceSlice) bool {
		return s.Status.AuthParams != nil && len(s.Status.Resources) > 0
	})
}

func (l *lent) mapped(names map[string]string) *offloadingv1beta1.NamespaceMap {
	return peering.MapCopy(&offloadingv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{peering.LabelDestination: "milan"}}, Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: names},
	}, l.id, l.namespace())
}

// maps requests these mapped namespaces as the consumer.
func (l *lent) maps(t testing.TB, names map[string]string) *offloadingv1beta1.NamespaceMap {
	t.Helper()
	m := l.mapped(names)
	live := l.mapped(nil)
	err := l.plane.Get(t.Context(), client.ObjectKeyFromObject(m), live)
	switch {
	case apierrors.IsNotFound(err):
		err = l.plane.Create(t.Context(), m)
	case err == nil:
		before := live.DeepCopy()
		live.Spec = m.Spec
		err = l.plane.Patch(t.Context(), live, client.MergeFrom(before))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// says waits until milan reports this state of a namespace of the consumer; "" for no report.
func (l *lent) says(t testing.TB, original string, phase offloadingv1beta1.MappingPhase) {
	t.Helper()
	until(t, l.milan, l.mapped(nil), fmt.Sprintf("with %q for %s", phase, original), func(m *offloadingv1beta1.NamespaceMap) bool {
		return m.Status.CurrentMapping[original].Phase == phase
	})
}

func shadow(namespace, name string, change func(*offloadingv1beta1.ShadowPod)) *offloadingv1beta1.ShadowPod {
	s := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web", "offloading.liqo.io/nodename": "milan"}}}
	s.Spec.Pod.Containers = []corev1.Container{{Name: "c", Image: "registry.example/web:1", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
	}}}
	if change != nil {
		change(s)
	}
	return s
}

func podOf(s *offloadingv1beta1.ShadowPod) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
}

func (l *lent) want(t testing.TB, s *offloadingv1beta1.ShadowPod) {
	t.Helper()
	if err := l.slice.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// has waits until a ShadowPod's pod exists.
func (l *lent) has(t testing.TB, s *offloadingv1beta1.ShadowPod) *corev1.Pod {
	t.Helper()
	return until(t, l.milan, podOf(s), "made", func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
}

// refused waits for the reason that a ShadowPod has no pod.
func (l *lent) refused(t testing.TB, s *offloadingv1beta1.ShadowPod, why string) {
	t.Helper()
	until(t, l.milan, s, "refused with "+why, func(s *offloadingv1beta1.ShadowPod) bool {
		return strings.Contains(s.Annotations[wire.AnnotationProblem], why)
	})
	if err := l.milan.Get(t.Context(), client.ObjectKeyFromObject(s), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s: there is a pod (%v)", s.Name, err)
	}
}

// In TestTwins, consumers run pods on milan, with Liqo's contract and their real credentials.
func TestTwins(t *testing.T) {
	requireAPI(t)
	abuses.Begin(t)
	milan := newPlane(t, "milan", render.PeeringProvider)
	milan.node("node-a", "16", "32Gi")
	rome := lend(t, milan, "rome", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi"), corev1.ResourcePods: resource.MustParse("50")})
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"a namespace", rome.testNamespace},
		{"a pod", rome.testPod},
		{"what is not free waits", rome.testPurse},
		{"names", rome.testNames},
		{"abuses", rome.testTwinRights},
		{"crashes", rome.testTwinCrashes},
		{"gone", rome.testTwinsEnd},
	} {
		if !t.Run(part.name, part.test) {
			return // the next part needs the end state of this part
		}
	}
}

func (l *lent) testNamespace(t *testing.T) {
	began := time.Now()
	l.maps(t, map[string]string{"demo": "demo-rome"})
	l.says(t, "demo", offloadingv1beta1.MappingAccepted)
	t.Logf("figure: a namespace in %s", time.Since(began).Round(time.Millisecond))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo-rome"}}
	furnished := func() {
		t.Helper()
		until(t, l.milan, ns, "bounded", func(n *corev1.Namespace) bool {
			return n.Labels["pod-security.kubernetes.io/enforce"] == "baseline" && n.Labels["liqo-tui.dev/twin"] == "true" && n.Labels["liqo.io/remote-cluster-id"] == "rome" &&
				n.Annotations["liqo.io/managed-by-namespace-map"] == "liqo-tenant-rome/milan" && n.Annotations["liqo.io/original-name"] == "demo"
		})
		meta := metav1.ObjectMeta{Namespace: "demo-rome", Name: "liqo-tui-twin"}
		until(t, l.milan, &rbacv1.RoleBinding{ObjectMeta: meta}, "rome's slice's", func(b *rbacv1.RoleBinding) bool {
			return len(b.Subjects) == 1 && b.Subjects[0].Kind == "User" && b.Subjects[0].Name == peering.SliceUser("milan", "rome").User
		})
		until(t, l.milan, &corev1.LimitRange{ObjectMeta: meta}, "there", func(*corev1.LimitRange) bool { return true })
		until(t, l.milan, &networkingv1.NetworkPolicy{ObjectMeta: meta}, "there", func(p *networkingv1.NetworkPolicy) bool { return len(p.Spec.Egress) == 3 })
		until(t, l.milan, &corev1.ResourceQuota{ObjectMeta: meta}, "as granted", func(q *corev1.ResourceQuota) bool {
			cpu, memory := q.Spec.Hard[corev1.ResourceRequestsCPU], q.Spec.Hard[corev1.ResourceLimitsMemory]
			return cpu.String() == "2" && memory.String() == "2Gi"
		})
		meta.Name = "liqo-tui-twin-asked"
		until(t, l.milan, &corev1.ResourceQuota{ObjectMeta: meta}, "counted", func(q *corev1.ResourceQuota) bool { return len(q.Status.Used) == 2 })
	}
	furnished()
	// The operator restores what others change.
	before := ns.DeepCopy()
	ns.Labels["pod-security.kubernetes.io/enforce"] = "privileged"
	if err := l.milan.Patch(t.Context(), ns, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{&rbacv1.RoleBinding{}, &corev1.LimitRange{}, &networkingv1.NetworkPolicy{}, &corev1.ResourceQuota{}} {
		o.SetNamespace("demo-rome")
		o.SetName("liqo-tui-twin")
		if err := l.milan.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	furnished()
	// A node that joins later is closed to consumers' pods, too.
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "joins"}}
	l.milan.create(n)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "198.51.100.9"}}
	if err := l.milan.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	reaches := func(yes bool) {
		t.Helper()
		until(t, l.milan, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "liqo-tui-twin"}}, fmt.Sprintf("for that node: %t", yes), func(p *networkingv1.NetworkPolicy) bool {
			return slices.Contains(p.Spec.Egress[2].To[0].IPBlock.Except, "198.51.100.9/32") != yes
		})
	}
	reaches(false)
	if err := l.milan.Delete(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	reaches(true)
}

func (l *lent) testPod(t *testing.T) {
	began := time.Now()
	s := shadow("demo-rome", "web", func(s *offloadingv1beta1.ShadowPod) {
		s.Annotations = map[string]string{"kubectl.kubernetes.io/default-container": "c", "k8s.ovn.org/x": "y"}
		s.Spec.Pod.NodeName = "node-a"
	})
	l.want(t, s)
	p := l.has(t, s)
	t.Logf("figure: a pod in %s", time.Since(began).Round(time.Millisecond))
	if p.Labels["app"] != "web" || p.Labels["liqo.io/managed-by"] != "shadowpod" || p.Labels["offloading.liqo.io/origin"] != "rome" || p.Labels["offloading.liqo.io/nodename"] != "milan" ||
		p.Annotations["k8s.ovn.org/x"] != "" || p.Spec.NodeName != "" || *p.Spec.AutomountServiceAccountToken || p.Spec.PriorityClassName != "liqo-tui-lent" || *p.Spec.PreemptionPolicy != corev1.PreemptNever {
		t.Errorf("the pod is: %+v", p)
	}
	phase := func(p *corev1.Pod, phase corev1.PodPhase) {
		t.Helper()
		p.Status.Phase = phase
		if err := l.milan.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		until(t, l.milan, s, "of phase "+string(phase), func(s *offloadingv1beta1.ShadowPod) bool { return s.Status.Phase == phase })
	}
	phase(p, corev1.PodRunning)
	// A user deletes the pod, and the consumer still wants it.
	if err := l.milan.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	again := until(t, l.milan, podOf(s), "made again", func(o *corev1.Pod) bool { return o.UID != p.UID })
	// The consumer relabels it.
	before := s.DeepCopy()
	s.Labels["version"] = "2"
	if err := l.slice.Patch(t.Context(), s, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	until(t, l.milan, again, "labelled", func(p *corev1.Pod) bool { return p.Labels["version"] == "2" && p.UID == again.UID })
	// The pod has ended its work, and is not created again.
	phase(again, corev1.PodSucceeded)
	if err := l.milan.Delete(t.Context(), again, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	other := shadow("demo-rome", "other", nil)
	l.want(t, other)
	l.has(t, other)
	if err := l.milan.Get(t.Context(), client.ObjectKeyFromObject(again), again); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that has ended was made again (%v)", err)
	}
	for _, s := range []*offloadingv1beta1.ShadowPod{s, other} {
		if err := l.slice.Delete(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		untilGone(t, l.milan, podOf(s))
	}
}

// counted returns the CPU that a consumer's pods request, and the number of its pods.
func (l *lent) counted(t testing.TB) (cpu resource.Quantity, pods int) {
	t.Helper()
	var all corev1.PodList
	if err := l.milan.List(t.Context(), &all, client.MatchingLabels{"offloading.liqo.io/origin": string(l.id)}); err != nil {
		t.Fatal(err)
	}
	for _, p := range all.Items {
		cpu.Add(p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU])
	}
	return cpu, len(all.Items)
}

// testPurse requests 60 pods in three namespaces at once. The resources are enough for 20. Each namespace's
// quota alone would allow 20.
func (l *lent) testPurse(t *testing.T) {
	names := []string{"demo-rome", "two-rome", "three-rome"}
	l.maps(t, map[string]string{"demo": "demo-rome", "two": "two-rome", "three": "three-rome"})
	l.says(t, "two", offloadingv1beta1.MappingAccepted)
	l.says(t, "three", offloadingv1beta1.MappingAccepted)
	most := resource.MustParse("2")
	var all []*offloadingv1beta1.ShadowPod
	began := time.Now()
	var wg sync.WaitGroup
	for n := range 60 {
		s := shadow(names[n%3], fmt.Sprintf("many-%d", n), nil)
		all = append(all, s)
		wg.Go(func() {
			if err := l.slice.Create(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
		if n == 40 {
			wg.Go(func() { // meanwhile, the operator ends and another one begins
				l.milan.stop()
				l.milan.runOperator(render.PeeringProvider)
			})
		}
	}
	wg.Wait()
	full := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			cpu, pods := l.counted(t)
			if cpu.Cmp(most) > 0 {
				t.Fatalf("%d pods have %s of %s CPU", pods, cpu.String(), most.String())
			}
			if pods == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d pods, want %d", pods, want)
			}
		}
	}
	full(20)
	t.Logf("figure: 20 of 60 pods in %s", time.Since(began).Round(time.Millisecond))
	waiting := func() (out []*offloadingv1beta1.ShadowPod) {
		for _, s := range all {
			if apierrors.IsNotFound(l.milan.Get(t.Context(), client.ObjectKeyFromObject(s), &corev1.Pod{})) {
				out = append(out, s)
			}
		}
		return out
	}
	for _, s := range waiting() {
		l.refused(t, s, "cpu: 100m asked for, and so much is not free now of the 2 that were granted")
	}
	// Another pod gets the resources that a pod gives back.
	for _, s := range all {
		if !slices.Contains(waiting(), s) {
			if err := l.slice.Delete(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			untilGone(t, l.milan, podOf(s))
			break
		}
	}
	full(20)
	// A pod that has ended does not count.
	var pods corev1.PodList
	if err := l.milan.List(t.Context(), &pods, client.InNamespace("two-rome")); err != nil {
		t.Fatal(err)
	}
	pods.Items[0].Status.Phase = corev1.PodFailed
	if err := l.milan.Status().Update(t.Context(), &pods.Items[0]); err != nil {
		t.Fatal(err)
	}
	most = resource.MustParse("2100m")
	full(21)
	// If more is granted, more pods fit.
	more := l.ask(t, "more", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("50")})
	most = resource.MustParse("3100m")
	full(31)
	may := func(users int) {
		t.Helper()
		until(t, l.milan, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "two-rome", Name: "liqo-tui-twin"}}, fmt.Sprintf("of %d users", users), func(b *rbacv1.RoleBinding) bool {
			return len(b.Subjects) == users
		})
	}
	may(2)
	if err := l.plane.Delete(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	untilGone(t, l.milan, more)
	may(1)
	for _, s := range all {
		if err := l.slice.Delete(t.Context(), s); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	full(0)
}

func (l *lent) testNames(t *testing.T) {
	l.milan.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "taken-rome", Labels: map[string]string{"liqo-tui.dev/twin": "true"}, Annotations: map[string]string{"liqo.io/managed-by-namespace-map": "liqo-tenant-rome/milan"}}})
	wanted := map[string]string{"demo": "demo-rome", "a": "kube-system", "b": "default", "c": "liqo-tenant-turin", "d": "taken-rome", "e": "demo-rome", "f": "No", "g": "liqo", "h": "kube-new", "i": "com"}
	m := l.maps(t, wanted)
	for _, original := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		l.says(t, original, offloadingv1beta1.MappingCreationLoopBackOff)
	}
	l.says(t, "demo", offloadingv1beta1.MappingAccepted)
	until(t, l.milan, m, "with all reasons", func(m *offloadingv1beta1.NamespaceMap) bool {
		why := m.Annotations[wire.AnnotationProblem]
		return strings.Contains(why, "namespace d: namespace taken-rome exists already") && strings.Contains(why, "namespace e: namespace demo-rome stands for demo already") &&
			strings.Contains(why, "namespace b: namespace default is the provider's own") && strings.Contains(why, "namespace i: namespaces of rome end in -rome")
	})
	l.maps(t, map[string]string{"demo": "demo-rome", "two": "two-rome"})
	l.says(t, "a", "")
	l.says(t, "three", offloadingv1beta1.MappingTerminating)
	for _, name := range []string{"taken-rome", "kube-system", "default"} {
		ns := until(t, l.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, "there", func(*corev1.Namespace) bool { return true })
		if ns.DeletionTimestamp != nil {
			t.Errorf("namespace %s is being deleted", name)
		}
	}
}

// mostTwinWrites is the largest number of an operator's writes for a namespace and two pods in it.
const mostTwinWrites = 14

// testTwinCrashes ends the operator after each of its writes. Another operator continues, and the result is
// the same as without crashes.
func (l *lent) testTwinCrashes(t *testing.T) {
	first := sample.Seed(t)
	for n := range uint64(sample.Of(1, mostTwinWrites)) {
		writes := int64((first+n*5)%mostTwinWrites) + 1 // 5 and 14 have no common divisor
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			l.milan.stop()
			l.milan.runOperatorThatEnds(render.PeeringProvider, writes)
			name := fmt.Sprintf("new-%d-rome", writes)
			l.maps(t, map[string]string{"demo": "demo-rome", "two": "two-rome", name: name})
			l.says(t, name, offloadingv1beta1.MappingAccepted)
			var all []*offloadingv1beta1.ShadowPod
			for n := range 2 {
				s := shadow(name, fmt.Sprintf("web-%d", n), nil)
				l.want(t, s)
				all = append(all, s)
			}
			for _, s := range all {
				l.has(t, s)
			}
			if err := l.slice.Delete(t.Context(), all[0]); err != nil {
				t.Fatal(err)
			}
			untilGone(t, l.milan, podOf(all[0]))
			l.maps(t, map[string]string{"demo": "demo-rome", "two": "two-rome"})
			l.says(t, name, offloadingv1beta1.MappingTerminating)
			untilGone(t, l.milan, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "liqo-tui-twin"}})
		})
	}
	// All resources are given back, so there is room for as many pods as before.
	var all []*offloadingv1beta1.ShadowPod
	for n := range 20 {
		s := shadow("two-rome", fmt.Sprintf("room-%d", n), nil)
		l.want(t, s)
		all = append(all, s)
	}
	for _, s := range all {
		l.has(t, s)
		if err := l.slice.Delete(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// testTwinsEnd tests that the rights are removed first, and that no object is left.
func (l *lent) testTwinsEnd(t *testing.T) {
	s := shadow("demo-rome", "last", nil)
	l.want(t, s)
	l.has(t, s)
	abuses.Permitted(t, "the consumer", "read its ShadowPod", l.slice.Get(t.Context(), client.ObjectKeyFromObject(s), s.DeepCopy()))
	untilGone(t, l.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "three-rome"}})
	l.says(t, "three", "") // the namespace is gone
	// Pods that kubelets run use their whole grace period, up to the limit.
	running := map[string]*corev1.Pod{}
	for name, grace := range map[string]int64{"hasty": 5, "patient": 600, "leaving": 600} {
		s := shadow("demo-rome", name, func(s *offloadingv1beta1.ShadowPod) { s.Spec.Pod.TerminationGracePeriodSeconds = new(grace) })
		l.want(t, s)
		running[name] = l.has(t, s)
		l.milan.runPod(t.Context(), running[name])
		until(t, l.milan, running[name], "on a node", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	}
	ends := func(name string, grace int64) {
		t.Helper()
		until(t, l.milan, running[name], fmt.Sprintf("ending within %d s", grace), func(p *corev1.Pod) bool {
			return p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == grace
		})
	}
	if err := l.slice.Delete(t.Context(), shadow("demo-rome", "leaving", nil)); err != nil {
		t.Fatal(err)
	}
	ends("leaving", 600) // the consumer deletes the pod
	// When the Tenant is drained, the rights and the namespaces are removed.
	tenant := until(t, l.milan, tenantIn(l.milan), "there", func(*authv1beta1.Tenant) bool { return true })
	tenant.Spec.TenantCondition = authv1beta1.TenantConditionDrained
	if err := l.milan.Update(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	ends("hasty", 5)
	ends("patient", 30)
	ends("leaving", 30)
	abuses.Refused(t, "the consumer", "a session in a pod that takes 10 minutes to end", fmt.Errorf("the pod ends within %d s", *running["patient"].DeletionGracePeriodSeconds))
	for _, p := range running {
		l.milan.runPod(t.Context(), p)
	}
	for _, name := range []string{"demo-rome", "two-rome"} {
		untilGone(t, l.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	untilGone(t, l.milan, l.mapped(nil))
	abuses.Refused(t, "the consumer", "its ShadowPod, after the end", l.slice.Get(t.Context(), client.ObjectKeyFromObject(s), s))
}
