package lending_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/virtualnode/decide"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// testOffloading offloads a namespace of rome to milan, and runs pods there.
func (w *pair) testOffloading(t *testing.T) {
	w.milan.runPods(t)
	w.tunnel(t)
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"a namespace", w.testNamespaceOffloaded},
		{"nothing of others is taken over", w.testNothingOfOthersIsTakenOver},
		{"a pod runs", w.testPodRuns},
		{"a pod changes", w.testPodChanges},
		{"what goes along with it", w.testAlong},
		{"pods tolerate by themselves", w.testPodsTolerate},
		{"a pod that can't go", w.testPodThatCanNotGo},
		{"a pod that is refused", w.testPodRefused},
		{"a pod ends", w.testPodEnds},
		{"a pod of another namespace", w.testStrayPod},
		{"the tunnel", w.testTunnelOfPods},
		{"the program's rights", w.testProgramsPods},
		{"the operator's rights", w.testOperatorsPods},
		{"the program crashes", w.testProgramCrashes},
		{"the operator crashes", w.testOffloadingCrashes},
		{"not offloaded any more", w.testNotOffloaded},
	} {
		if !t.Run(part.name, part.test) {
			return
		}
	}
}

// runPods acts as scheduler and kubelet for the pods of consumers until the test ends. A held pod continues
// to run when it is deleted.
func (p *plane) runPods(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			var pods corev1.PodList
			if p.List(ctx, &pods, client.HasLabels{peering.LabelPodNode}) != nil {
				continue // the test ends
			}
			for i := range pods.Items {
				p.runPod(ctx, &pods.Items[i])
			}
		}
	})
	t.Cleanup(func() { cancel(); all.Wait() })
}

// runPod may be too late for a pod, and tries again soon.
func (p *plane) runPod(ctx context.Context, pod *corev1.Pod) {
	switch {
	case pod.DeletionTimestamp != nil && !p.holdsPods.Load():
		_ = p.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case pod.Spec.NodeName == "":
		_ = p.SubResource("binding").Create(ctx, pod, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-a"}})
	case pod.Status.Phase == corev1.PodPending:
		now := metav1.Now()
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.244.3.7"}}, PodIP: "10.244.3.7", HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}}, StartTime: &now,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, Image: "x", ImageID: "x", ContainerID: "containerd://x", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}},
		}
		_ = p.Status().Update(ctx, pod)
	}
}

// tunnel gives rome other addresses for milan's pods.
func (w *pair) tunnel(t *testing.T) {
	t.Helper()
	w.rome.connected(t, "milan")
	until(t, w.rome, member(), "connected", says(corev1.NodeNetworkUnavailable, corev1.ConditionFalse, "connected"))
}

// connected gives a cluster other addresses for another cluster's pods until the test ends.
func (p *plane) connected(t *testing.T, to string) (*networkingv1beta1.Configuration, *networkingv1beta1.Connection) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-" + to, Name: to, Labels: map[string]string{"liqo.io/remote-cluster-id": to}}
	own := networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}}
	conf := &networkingv1beta1.Configuration{ObjectMeta: meta, Spec: networkingv1beta1.ConfigurationSpec{Remote: own}}
	p.create(conf)
	c := &networkingv1beta1.Connection{ObjectMeta: meta, Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer}}
	p.create(c)
	c.Status.Value = networkingv1beta1.Connected
	if err := p.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Delete(context.Background(), &networkingv1beta1.Connection{ObjectMeta: meta})
		_ = p.Delete(context.Background(), &networkingv1beta1.Configuration{ObjectMeta: meta})
	})
	return until(t, p, conf, "remapped", func(c *networkingv1beta1.Configuration) bool { return c.Status.Remote != nil }), c
}

func offloaded(p peering.OffloadingParams) *offloadingv1beta1.NamespaceOffloading {
	if p.Pods == "" {
		p.Pods = "LocalAndRemote"
	}
	if p.Mapping == "" {
		p.Mapping = "DefaultName"
	}
	return peering.Offloading("demo", p)
}

func access() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "liqo-tui-offloaded"}}
}

func mapTo(namespace string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "milan"}}
}

func (w *pair) testNamespaceOffloaded(t *testing.T) {
	w.rome.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo", Labels: map[string]string{"team": "a"}}})
	began := time.Now()
	w.rome.apply(t, offloaded(peering.OffloadingParams{}))
	o := until(t, w.rome, offloaded(peering.OffloadingParams{}), "ready", func(o *offloadingv1beta1.NamespaceOffloading) bool {
		return o.Status.OffloadingPhase == offloadingv1beta1.ReadyOffloadingPhaseType && o.Status.ObservedGeneration == o.Generation
	})
	t.Logf("figure: a namespace is offloaded in %s", time.Since(began).Round(time.Millisecond))
	if o.Status.RemoteNamespaceName != "demo-rome" || len(o.Status.RemoteNamespacesConditions["milan"]) != 2 || len(o.Finalizers) > 0 {
		t.Errorf("it says %+v", o.Status)
	}
	c := until(t, w.milan, mapTo("liqo-tenant-rome"), "there", func(*offloadingv1beta1.NamespaceMap) bool { return true })
	if c.Spec.DesiredMapping["demo"] != "demo-rome" || c.Labels[peering.LabelOrigin] != "rome" || c.Labels[wire.LabelRemoteCluster] != "rome" || c.Labels[peering.LabelReplicated] != "true" {
		t.Errorf("milan is asked for %v, labels %v", c.Spec, c.Labels)
	}
	until(t, w.rome, member(), "with room for pods", func(n *corev1.Node) bool {
		return n.Status.Allocatable.Pods().Value() == 110 && says(corev1.NodeReady, corev1.ConditionTrue, "")(n)
	})
	ns := until(t, w.rome, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, "labelled", func(ns *corev1.Namespace) bool { return ns.Labels["liqo.io/scheduling-enabled"] == "true" })
	if len(ns.Annotations) > 0 {
		t.Errorf("the namespace has annotations %v", ns.Annotations)
	}
	b := until(t, w.rome, access(), "there", func(*rbacv1.RoleBinding) bool { return true })
	if len(b.Subjects) != 1 || b.Subjects[0].Name != "liqo-tui-node-milan" || b.Subjects[0].Namespace != "liqo-tenant-milan" {
		t.Errorf("rights are given to %v", b.Subjects)
	}
	// An object that a user removes comes back.
	w.rome.runDeleteNow(t, access())
	until(t, w.rome, access(), "there again", func(again *rbacv1.RoleBinding) bool { return again.UID != b.UID })
}

// testNothingOfOthersIsTakenOver offloads a namespace in which another user has objects with the names of the
// operator's objects.
func (w *pair) testNothingOfOthersIsTakenOver(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{peering.LabelOffloaded: "by-hand"}}}
	w.rome.create(ns.DeepCopy())
	theirs := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "theirs", Name: wire.OffloadedAccessName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "somebody"}},
	}
	// A user can create an object of this name in an offloaded namespace, or before the policies exist.
	o := func(nodes ...string) *offloadingv1beta1.NamespaceOffloading {
		o := peering.Offloading("theirs", peering.OffloadingParams{Pods: "Remote", Mapping: "DefaultName"})
		if len(nodes) > 0 {
			o.Spec.ClusterSelector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "name", Operator: corev1.NodeSelectorOpIn, Values: nodes}}}}
		}
		return o
	}
	w.rome.apply(t, o("none"))
	// The API server of the policy sees the NamespaceOffloading with a delay.
	deadline := time.Now().Add(20 * time.Second)
	for ; ; time.Sleep(20 * time.Millisecond) {
		err := w.rome.Create(t.Context(), theirs.DeepCopy())
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "no params found") || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	w.rome.apply(t, o())
	until(t, w.rome, o(), "refused", func(o *offloadingv1beta1.NamespaceOffloading) bool {
		all := o.Status.RemoteNamespacesConditions["milan"]
		return o.Status.OffloadingPhase == offloadingv1beta1.AllFailedOffloadingPhaseType && len(all) == 1 && all[0].Reason == "RoleBindingTaken" &&
			strings.Contains(all[0].Message, "RoleBinding liqo-tui-offloaded that is not the operator's: remove it")
	})
	check := func(when string) {
		t.Helper()
		b := until(t, w.rome, &rbacv1.RoleBinding{ObjectMeta: theirs.ObjectMeta}, "there", func(*rbacv1.RoleBinding) bool { return true })
		is := until(t, w.rome, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, "there", func(*corev1.Namespace) bool { return true })
		if b.RoleRef.Name != "view" || len(b.Labels) > 0 || len(b.Subjects) != 1 || b.Subjects[0].Name != "somebody" || is.Labels[peering.LabelOffloaded] != "by-hand" {
			t.Errorf("%s: the RoleBinding is %+v, the namespace's labels are %v", when, b, is.Labels)
		}
	}
	check("while it is offloaded")
	w.rome.runDelete(t, o())
	check("afterwards")
	// The user removes the object.
	w.rome.apply(t, o("none"))
	w.rome.runDelete(t, theirs)
	w.rome.apply(t, o())
	until(t, w.rome, o(), "ready", func(o *offloadingv1beta1.NamespaceOffloading) bool {
		return o.Status.OffloadingPhase == offloadingv1beta1.ReadyOffloadingPhaseType
	})
	w.rome.runDelete(t, o())
	untilGone(t, w.rome, &rbacv1.RoleBinding{ObjectMeta: theirs.ObjectMeta})
	w.rome.runDelete(t, ns)
}

// onMilan returns a pod that is bound to the virtual node.
func onMilan(namespace, name string, change ...func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{
		NodeName: "milan", Tolerations: []corev1.Toleration{peering.Toleration()}, Containers: []corev1.Container{{Name: "c", Image: "x"}},
	}}
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

// testPodsTolerate creates pods as users do. On Kubernetes 1.36 and later, they get a toleration for the
// virtual node.
func (w *pair) testPodsTolerate(t *testing.T) {
	policy := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicy"}}
	err := w.rome.Get(t.Context(), client.ObjectKey{Name: wire.OffloadedAccessName}, policy)
	served := err == nil
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	made := func(namespace string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plain"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
		change(p)
		if err := client.NewDryRunClient(w.rome.Client).Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	tolerates := func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t == peering.Toleration() })
	}
	strategy := func(name string) {
		t.Helper()
		w.rome.apply(t, offloaded(peering.OffloadingParams{Pods: name}))
		if !served {
			return
		}
		// API servers see changes of parameters with a delay.
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			p := made("demo", func(*corev1.Pod) {})
			if tolerates(p) == (name != "Local") && (p.Spec.NodeSelector["liqo.io/type"] != "") == (name == "Remote") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("strategy %s: pods have tolerations %v and nodeSelector %v", name, p.Spec.Tolerations, p.Spec.NodeSelector)
			}
		}
	}
	other := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}
	strategy("LocalAndRemote")
	for name, c := range map[string]struct {
		namespace  string
		change     func(*corev1.Pod)
		tolerates  bool
		tolerances int
	}{
		"a plain one":           {"demo", func(*corev1.Pod) {}, true, 1},
		"with others":           {"demo", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{other} }, true, 2},
		"that does":             {"demo", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{peering.Toleration()} }, true, 1},
		"on the host's network": {"demo", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, false, 0},
		"with a disk of its own": {"demo", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "d"}}}}
		}, false, 0},
		"with a ConfigMap": {"demo", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "d"}}}}}
		}, true, 1},
		"with a port of its host": {"demo", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}, false, 0},
		"of a DaemonSet": {"demo", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "u"}}
		}, false, 0},
		"that is placed":            {"demo", func(p *corev1.Pod) { p.Spec.NodeName = "nowhere" }, false, 0},
		"in a namespace that stays": {"default", func(*corev1.Pod) {}, false, 0},
	} {
		p := made(c.namespace, c.change)
		tolerations := slices.DeleteFunc(slices.Clone(p.Spec.Tolerations), func(t corev1.Toleration) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
		if served && (tolerates(p) != c.tolerates || len(tolerations) != c.tolerances) {
			t.Errorf("a pod %s has tolerations %v", name, tolerations)
		}
	}
	for name, change := range fitting() {
		p := made("demo", func(p *corev1.Pod) { change(&p.Spec) })
		if why := decide.Unrunnable(&p.Spec); served && tolerates(p) != (why == "") {
			t.Errorf("a pod with %s tolerates the virtual node: %t, and the virtual node finds %q", name, tolerates(p), why)
		}
	}
	strategy("Remote")
	if p := made("demo", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"}; p.Spec.HostNetwork = true }); served && (len(p.Spec.NodeSelector) != 2 || !tolerates(p)) {
		t.Errorf("a pod that has to go has %v and %v", p.Spec.NodeSelector, p.Spec.Tolerations)
	}
	strategy("Local")
	strategy("LocalAndRemote")
	t.Logf("Kubernetes has the policy: %t", served)
}

// fitting returns changes of a pod that its policy and its virtual node have to judge alike.
func fitting() map[string]func(*corev1.PodSpec) {
	all := map[string]func(*corev1.PodSpec){
		"the host's PIDs": func(s *corev1.PodSpec) { s.HostPID = true },
		"the host's IPC":  func(s *corev1.PodSpec) { s.HostIPC = true },
		"a port":          func(s *corev1.PodSpec) { s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}} },
		"a host port of an init container": func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{Name: "i", Image: "x", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}}}
		},
		"a claimed device": func(s *corev1.PodSpec) {
			s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
		},
	}
	for name, source := range map[string]corev1.VolumeSource{
		"emptyDir":    {EmptyDir: &corev1.EmptyDirVolumeSource{}},
		"secret":      {Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
		"downwardAPI": {DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "n", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}},
		"hostPath":    {HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
		"nfs":         {NFS: &corev1.NFSVolumeSource{Server: "192.0.2.1", Path: "/"}},
		"csi":         {CSI: &corev1.CSIVolumeSource{Driver: "x.example"}},
		"projected":   {Projected: &corev1.ProjectedVolumeSource{}},
		"projected of both": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
		}}},
		"projected with a token": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}},
	} {
		for _, volume := range []string{"v", "kube-api-access-v"} { // the second name is that of a pod's own token
			all["volume "+volume+": "+name] = func(s *corev1.PodSpec) {
				s.ServiceAccountName = "default" // API servers require an account for a pod with a token
				s.Volumes = append(s.Volumes, corev1.Volume{Name: volume, VolumeSource: source})
			}
		}
	}
	return all
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (w *pair) testPodRuns(t *testing.T) {
	began := time.Now()
	w.rome.create(onMilan("demo", "web"))
	p := until(t, w.rome, onMilan("demo", "web"), "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && isReady(p) })
	t.Logf("figure: a pod runs %s after it is bound", time.Since(began).Round(time.Millisecond))
	seen := until(t, w.rome, &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}, "there", func(*networkingv1beta1.Configuration) bool { return true })
	to, _, _ := strings.Cut(string(seen.Status.Remote.CIDR.Pod[0]), ".0.0/16")
	if p.Status.PodIP != to+".3.7" || to == "10.244" || p.Status.HostIP != "" || p.Status.StartTime == nil || len(p.Status.ContainerStatuses) != 1 || !p.Status.ContainerStatuses[0].Ready {
		t.Errorf("milan's pods are seen in %v; the pod's status: %+v", seen.Status.Remote.CIDR.Pod, p.Status)
	}
	if p.Labels["liqo.io/shadowPod"] != "true" {
		t.Errorf("labels %v", p.Labels)
	}
	s := until(t, w.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web"}}, "there", func(*offloadingv1beta1.ShadowPod) bool { return true })
	if s.Labels["app"] != "web" || s.Labels["offloading.liqo.io/nodename"] != "milan" || s.Spec.Pod.NodeName != "" || len(s.Spec.Pod.Tolerations) > 0 {
		t.Errorf("milan was asked for %v %+v", s.Labels, s.Spec.Pod)
	}
	// A pod that is lost there is created again, and the status follows.
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web"}}
	if err := w.milan.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
		t.Fatal(err)
	}
	was := there.UID
	if err := w.milan.Delete(t.Context(), there, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	until(t, w.milan, there, "made again", func(p *corev1.Pod) bool { return p.UID != was })
	until(t, w.rome, p, "running again", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && isReady(p) })
}

// testPodChanges makes all changes that Kubernetes allows in a bound pod. The remote pod gets the change, or
// an Event says that it does not.
func (w *pair) testPodChanges(t *testing.T) {
	p := onMilan("demo", "changes", func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "i", Image: "x"}} })
	w.rome.create(p)
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "changes"}}
	until(t, w.milan, there, "running", isReady)
	patch := func(text string) error {
		return w.rome.Patch(t.Context(), onMilan("demo", "changes"), client.RawPatch(types.StrategicMergePatchType, []byte(text)))
	}
	told := func(what string) {
		t.Helper()
		began := time.Now()
		for ; time.Since(began) < 5*time.Second; time.Sleep(20 * time.Millisecond) {
			var list corev1.EventList
			if err := w.rome.List(t.Context(), &list, client.InNamespace("demo")); err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
				return e.InvolvedObject.UID == p.UID && e.Reason == "ChangeNotSent" && strings.Contains(e.Message, what)
			}) {
				return
			}
		}
		t.Errorf("no event says %q", what)
	}
	// Kubernetes' own list of the fields that may change.
	err := patch(`{"spec":{"schedulerName":"other"}}`)
	_, list, _ := strings.Cut(fmt.Sprint(err), "fields other than ")
	list, _, _ = strings.Cut(list, "\n")
	rest := list
	for field, change := range map[string]func(){
		"`spec.containers[*].image`": func() {
			try(t, patch(`{"spec":{"containers":[{"name":"c","image":"y"}]}}`))
			told("container c has image x, not y")
		},
		"`spec.initContainers[*].image`": func() {
			try(t, patch(`{"spec":{"initContainers":[{"name":"i","image":"z"}]}}`))
			told("container i has image x, not z")
		},
		"`spec.activeDeadlineSeconds`": func() {
			try(t, patch(`{"spec":{"activeDeadlineSeconds":3600}}`))
			told("activeDeadlineSeconds keeps its former value")
		},
		"`spec.tolerations`":                   func() {}, // have a meaning only for nodes of rome
		"`spec.terminationGracePeriodSeconds`": func() {}, // can only change from a negative number, which no provider accepts
	} {
		if !strings.Contains(rest, field) {
			t.Errorf("Kubernetes lets change %s, without %s", list, field)
		}
		rest = strings.Replace(rest, field, "", 1)
		change()
	}
	if strings.Contains(rest, "`") {
		t.Errorf("Kubernetes lets change what nobody has decided on: %s", rest)
	}
	until(t, w.rome, p, "there", func(*corev1.Pod) bool { return true })
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "dbg", Image: "busybox", TerminationMessagePolicy: corev1.TerminationMessageReadFile}}}
	try(t, w.rome.SubResource("ephemeralcontainers").Update(t.Context(), p))
	told("ephemeral container dbg does not start; debug the remote pod: kubectl -n demo-rome debug -it changes --image busybox --context CONTEXT-OF-milan")
	resize := w.rome.SubResource("resize").Patch(t.Context(), onMilan("demo", "changes"), client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`)))
	t.Logf("other resources: %v", resize)
	// The labels change soon, because a leader election needs this.
	began := time.Now()
	try(t, patch(`{"metadata":{"labels":{"role":"leader","app":null}}}`))
	until(t, w.milan, there, "labelled", func(p *corev1.Pod) bool { return p.Labels["role"] == "leader" && p.Labels["app"] == "" })
	t.Logf("figure: a label of a pod is on its remote pod in %s", time.Since(began).Round(time.Millisecond))
	if there.Labels["offloading.liqo.io/origin"] != "rome" || there.Spec.Containers[0].Image != "x" {
		t.Errorf("the remote pod has labels %v, and runs %v", there.Labels, there.Spec.Containers)
	}
	w.goes(t, p)
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *pair) events(t *testing.T, of client.Object, reason string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var list corev1.EventList
		if err := w.rome.List(t.Context(), &list, client.InNamespace(of.GetNamespace())); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.InvolvedObject.UID == of.GetUID() && e.Reason == reason }) {
			return
		}
	}
	t.Errorf("no event of %T %s says %s", of, of.GetName(), reason)
}

// goes deletes a pod with the grace period that users set, and waits until it is gone.
func (w *pair) goes(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := w.rome.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	untilGone(t, w.rome, pod)
}

func (w *pair) testPodThatCanNotGo(t *testing.T) {
	p := onMilan("demo", "data", func(s *corev1.PodSpec) {
		s.HostNetwork = true
		s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	})
	w.rome.create(p)
	until(t, w.rome, p, "said to be unfit", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && p.Status.Message == "milan can't run it: hostNetwork, volume data (persistentVolumeClaim)"
	})
	w.events(t, p, "OffloadingImpossible")
	if err := w.milan.Get(t.Context(), client.ObjectKey{Namespace: "demo-rome", Name: "data"}, &offloadingv1beta1.ShadowPod{}); !apierrors.IsNotFound(err) {
		t.Errorf("milan was asked all the same (%v)", err)
	}
	w.goes(t, p)
}

func (w *pair) testPodRefused(t *testing.T) {
	p := onMilan("demo", "refused", func(s *corev1.PodSpec) {
		s.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}
	})
	w.rome.create(p)
	until(t, w.rome, p, "refused", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && p.Status.Reason == "OffloadingRefused" &&
			strings.HasPrefix(p.Status.Message, "milan: refused: ") && strings.HasSuffix(p.Status.Message, "NET_ADMIN is not offered")
	})
	w.events(t, p, "OffloadingRefused")
	w.goes(t, p)
	untilGone(t, w.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "refused"}})
	// A pod that requests more than milan grants waits.
	p = onMilan("demo", "large", func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20")}
	})
	w.rome.create(p)
	until(t, w.rome, p, "waiting", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && strings.HasPrefix(p.Status.Message, "milan: ") && strings.Contains(p.Status.Message, "cpu")
	})
	t.Logf("a pod that is too large: %s: %s", p.Status.Reason, p.Status.Message)
	w.goes(t, p)
	// milan's API server answers.
	may := func(verbs ...string) {
		t.Helper()
		role := until(t, w.milan, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: wire.MappedAccessName}}, "there", func(*rbacv1.ClusterRole) bool { return true })
		role.Rules[0].Verbs = verbs
		if err := w.milan.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
	}
	may("get", "list", "watch", "delete")
	p = onMilan("demo", "late")
	w.rome.create(p)
	until(t, w.rome, p, "refused", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && p.Status.Reason == "OffloadingRefused" && strings.Contains(p.Status.Message, "forbidden")
	})
	may("get", "list", "watch", "create", "update", "patch", "delete")
	until(t, w.rome, p, "running, without anybody's doing", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && isReady(p) })
	w.goes(t, p)
}

func (w *pair) testPodEnds(t *testing.T) {
	there := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web"}}
	w.milan.holdsPods.Store(true)
	defer w.milan.holdsPods.Store(false)
	began := time.Now()
	p := onMilan("demo", "web")
	if err := w.rome.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	untilGone(t, w.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web"}})
	t.Logf("figure: milan is told of a deletion within %s", time.Since(began).Round(time.Millisecond))
	until(t, w.milan, there, "ending", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	if err := w.rome.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil || p.DeletionTimestamp == nil {
		t.Errorf("the pod runs on milan, and is not there any more, or not ending: %v (%v)", p.DeletionTimestamp, err)
	}
	w.milan.holdsPods.Store(false)
	began = time.Now()
	untilGone(t, w.rome, p)
	t.Logf("figure: a pod is gone %s after milan may end it", time.Since(began).Round(time.Millisecond))
	untilGone(t, w.milan, there)
	// A pod that is deleted here by force ends there, too.
	w.rome.create(onMilan("demo", "forced"))
	until(t, w.milan, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "forced"}}, "there", func(*corev1.Pod) bool { return true })
	if err := w.rome.Delete(t.Context(), onMilan("demo", "forced"), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	untilGone(t, w.milan, &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "forced"}})
	untilGone(t, w.milan, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "forced"}})
}

// testStrayPod tests, for example, a pod of a DaemonSet that tolerates every taint.
func (w *pair) testStrayPod(t *testing.T) {
	p := onMilan("default", "stray")
	w.rome.create(p)
	until(t, w.rome, p, "said to be stray", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && p.Status.Reason == "NamespaceNotOffloaded" && p.Status.Message == "namespace default is not offloaded to milan"
	})
	w.goes(t, p)
}

func (w *pair) testTunnelOfPods(t *testing.T) {
	p := onMilan("demo", "web")
	w.rome.create(p)
	until(t, w.rome, p, "ready", isReady)
	c := until(t, w.rome, &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}, "there", func(*networkingv1beta1.Connection) bool { return true })
	set := func(value networkingv1beta1.ConnectionStatusValue) {
		t.Helper()
		c.Status.Value = value
		if err := w.rome.Status().Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	set(networkingv1beta1.ConnectionError)
	until(t, w.rome, p, "not ready", func(p *corev1.Pod) bool {
		return !isReady(p) && p.Status.Phase == corev1.PodRunning && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == "TunnelDown" })
	})
	set(networkingv1beta1.Connected)
	until(t, w.rome, p, "ready again", isReady)
}

// stays deletes a pod of a namespace that is no longer offloaded, while its copy runs.
func (w *pair) stays(t *testing.T, p *corev1.Pod) {
	t.Helper()
	until(t, w.rome, mapTo("liqo-tenant-milan"), "about a namespace that goes", func(m *offloadingv1beta1.NamespaceMap) bool {
		return len(m.Spec.DesiredMapping) == 0 && m.Status.CurrentMapping["demo"].Phase == offloadingv1beta1.MappingTerminating
	})
	if err := w.rome.Delete(t.Context(), p.DeepCopy(), client.GracePeriodSeconds(1)); err != nil {
		t.Fatal(err)
	}
	next := onMilan("demo", "next") // handled after p
	w.rome.create(next.DeepCopy())
	until(t, w.rome, next, "looked at", func(p *corev1.Pod) bool { return p.Status.Reason == "NamespaceNotOffloaded" })
	until(t, w.rome, p, "still there", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func (w *pair) testNotOffloaded(t *testing.T) {
	p := onMilan("demo", "web")
	w.rome.create(onMilan("demo", "last"))
	until(t, w.rome, onMilan("demo", "last"), "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	w.milan.holdsPods.Store(true)
	defer w.milan.holdsPods.Store(false)
	w.rome.runDelete(t, offloaded(peering.OffloadingParams{}))
	w.stays(t, onMilan("demo", "last"))
	w.milan.holdsPods.Store(false)
	untilGone(t, w.rome, onMilan("demo", "last"))
	w.goes(t, onMilan("demo", "next"))
	if err := w.milan.Get(t.Context(), client.ObjectKey{Namespace: "demo-rome", Name: "last"}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("a pod was let go, and is still there: %v", err)
	}
	untilGone(t, w.milan, mapTo("liqo-tenant-rome"))
	untilGone(t, w.milan, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo-rome"}})
	until(t, w.rome, p, "said not to run", func(p *corev1.Pod) bool {
		return !isReady(p) && p.Status.Phase == corev1.PodPending && p.Status.Reason == "NamespaceNotOffloaded"
	})
	until(t, w.rome, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}, "without its label", func(ns *corev1.Namespace) bool { return ns.Labels["liqo.io/scheduling-enabled"] == "" })
	w.goes(t, p)
	untilGone(t, w.rome, access())
	untilGone(t, w.rome, mapTo("liqo-tenant-milan"))
	until(t, w.rome, member(), "without room for pods", func(n *corev1.Node) bool { return n.Status.Allocatable.Pods().IsZero() })
	until(t, w.rome, virtual(), "without namespaces", func(v *offloadingv1beta1.VirtualNode) bool { return v.Annotations[peering.AnnotationNamespaces] == "" })
	w.rome.runDelete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
}
