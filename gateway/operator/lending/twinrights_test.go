package lending_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// abuse is a request that has to be refused, and the sentence of the refusal.
type abuse struct {
	name string
	want string
	do   func() error
}

func tryAll(t *testing.T, who string, attempts []abuse) {
	t.Helper()
	for _, a := range attempts {
		err := a.do()
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s, %s: got %v, want a refusal", who, a.name, err)
		} else if !strings.Contains(err.Error(), a.want) {
			t.Errorf("%s, %s: it was refused for another reason than %q: %v", who, a.name, a.want, err)
		}
		abuses.Refused(t, who, a.name, err)
	}
}

// testTwinRights makes an attacker's requests with the consumer's real credentials, and requests that nobody
// may make. Control requests prove that refused requests reach the API server's checks.
func (l *lent) testTwinRights(t *testing.T) {
	ctx, c := t.Context(), l.slice
	s := shadow("demo-rome", "good", nil)
	l.want(t, s)
	pod := l.has(t, s)
	abuses.Permitted(t, "the consumer, by a ShadowPod", "a pod", nil)
	merge := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	object := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	create := func(o client.Object) func() error { return func() error { return c.Create(ctx, o) } }
	patch := func(o client.Object, text string) func() error {
		return func() error { return c.Patch(ctx, o, merge(text)) }
	}
	turin := lend(t, l.milan, "turin", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("5")})
	turin.maps(t, map[string]string{"demo": "demo-turin", "stolen": "demo-rome"})
	turin.says(t, "demo", offloadingv1beta1.MappingAccepted)
	turin.says(t, "stolen", offloadingv1beta1.MappingCreationLoopBackOff)
	theirs := shadow("demo-turin", "theirs", nil)
	turin.want(t, theirs)
	turin.has(t, theirs)
	impersonating := func(user string, groups ...string) client.Client {
		config := rest.CopyConfig(l.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		other, err := client.New(config, client.Options{Scheme: l.milan.Scheme(), Mapper: l.milan.RESTMapper()})
		if err != nil {
			t.Fatal(err)
		}
		return other
	}
	for name, may := range map[string]func() error{
		"change its ShadowPod": func() error { return c.Patch(ctx, s.DeepCopy(), merge(`{"metadata":{"annotations":{"a":"b"}}}`)) },
		"list pods":            func() error { return c.List(ctx, &corev1.PodList{}, client.InNamespace("demo-rome")) },
		"list events":          func() error { return c.List(ctx, &corev1.EventList{}, client.InNamespace("demo-rome")) },
		"list ShadowPods": func() error {
			return c.List(ctx, &offloadingv1beta1.ShadowPodList{}, client.InNamespace("demo-rome"))
		},
	} {
		abuses.Permitted(t, "the consumer", name, may())
	}
	const rbac = "cannot"
	tryAll(t, "the consumer", []abuse{
		{"a finalizer", "no finalizers and no owners", patch(s.DeepCopy(), `{"metadata":{"finalizers":["x.io/y"]}}`)},
		{"an owner", "no finalizers and no owners", patch(s.DeepCopy(), `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`)},
		{"the provider's word", "are the provider's", patch(s.DeepCopy(), `{"metadata":{"annotations":{"liqo-tui.dev/problem":"x"}}}`)},
		{"another's origin", "is that of the consumer", patch(s.DeepCopy(), `{"metadata":{"labels":{"offloading.liqo.io/origin":"turin"}}}`)},
		{"a new one with a finalizer", "no finalizers and no owners", create(shadow("demo-rome", "x", func(s *offloadingv1beta1.ShadowPod) { s.Finalizers = []string{"x.io/y"} }))},
		{"its pod's status", rbac, func() error { return c.Status().Patch(ctx, s.DeepCopy(), merge(`{"status":{"phase":"Failed"}}`)) }},
		{"a pod", rbac, create(&corev1.Pod{ObjectMeta: object("demo-rome", "x"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}})},
		{"its pod, changed", rbac, patch(pod.DeepCopy(), `{"metadata":{"labels":{"a":"b"}}}`)},
		{"its pod, deleted", rbac, func() error { return c.Delete(ctx, pod.DeepCopy()) }},
		{"a ShadowPod elsewhere", rbac, create(shadow("default", "x", nil))},
		{"a ShadowPod in its tenant namespace", rbac, create(shadow("liqo-tenant-rome", "x", nil))},
		{"a ShadowPod of another", rbac, create(shadow("demo-turin", "x", nil))},
		{"another's pods", rbac, func() error { return c.List(ctx, &corev1.PodList{}, client.InNamespace("demo-turin")) }},
		{"all pods", rbac, func() error { return c.List(ctx, &corev1.PodList{}) }},
		{"a namespace", rbac, create(&corev1.Namespace{ObjectMeta: object("", "x")})},
		{"its namespace's level", rbac, patch(&corev1.Namespace{ObjectMeta: object("", "demo-rome")}, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)},
		{"its quota", rbac, patch(&corev1.ResourceQuota{ObjectMeta: object("demo-rome", "liqo-tui-twin")}, `{"spec":{"hard":{"pods":"1000"}}}`)},
		{"its limits", rbac, func() error {
			return c.Delete(ctx, &corev1.LimitRange{ObjectMeta: object("demo-rome", "liqo-tui-twin")})
		}},
		{"more rights", rbac, create(&rbacv1.RoleBinding{ObjectMeta: object("demo-rome", "x"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}})},
		{"endpoints", rbac, create(&discoveryv1.EndpointSlice{ObjectMeta: object("demo-rome", "x"), AddressType: discoveryv1.AddressTypeIPv4})},
		{"an account", rbac, create(&corev1.ServiceAccount{ObjectMeta: object("demo-rome", "x")})},
		{"another's Secrets", rbac, func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace("demo-turin")) }},
		{"Secrets of its tenant namespace", rbac, func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace("liqo-tenant-rome")) }},
		{"nodes", rbac, func() error { return c.List(ctx, &corev1.NodeList{}) }},
		{"a map with a slice's certificate", rbac, create(l.mapped(nil))},
		{"somebody else", rbac, func() error {
			return impersonating("system:admin", "system:masters").List(ctx, &corev1.SecretList{})
		}},
	})
	plane := l.plane
	abuses.Permitted(t, "its control plane", "a map", client.NewDryRunClient(plane).Patch(ctx, l.mapped(nil), merge(`{"spec":{"desiredMapping":{"x":"x-rome"}}}`)))
	tryAll(t, "its control plane", []abuse{
		{"a ShadowPod", rbac, func() error { return plane.Create(ctx, shadow("demo-rome", "x", nil)) }},
		{"what its map came to", rbac, func() error {
			return plane.Status().Patch(ctx, l.mapped(nil), merge(`{"status":{"currentMapping":{"x":{"remoteNamespace":"kube-system","phase":"Accepted"}}}}`))
		}},
		{"a second map", "one NamespaceMap: milan", func() error {
			m := l.mapped(map[string]string{"a": "b"})
			m.Name = "second"
			return plane.Create(ctx, m)
		}},
		{"another's map", rbac, func() error {
			return plane.Patch(ctx, turin.mapped(nil), merge(`{"spec":{"desiredMapping":{"x":"y"}}}`))
		}},
		{"a map that is no copy", "the labels of a copy", func() error {
			return plane.Patch(ctx, l.mapped(nil), merge(`{"metadata":{"labels":{"liqo.io/originID":"turin"}}}`))
		}},
		{"a map with a finalizer", "no finalizers and no owners", func() error {
			return plane.Patch(ctx, l.mapped(nil), merge(`{"metadata":{"finalizers":["x.io/y"]}}`))
		}},
		{"the provider's annotations", "annotations are the provider's", func() error {
			return plane.Patch(ctx, l.mapped(nil), merge(`{"metadata":{"annotations":{"liqo-tui.dev/x":"y"}}}`))
		}},
	})
	t.Run("others' objects", func(t *testing.T) { l.testOthersInTwins(t) })
	t.Run("what goes along with pods", func(t *testing.T) { l.testRefusedAlong(t) })
	t.Run("sessions", func(t *testing.T) { l.testSessions(t, pod) })
	t.Run("endpoints of others", func(t *testing.T) { l.testForeignServices(t) })
	t.Run("ShadowPods", func(t *testing.T) { l.testRefusedShadowPods(t) })
	t.Run("pods of anybody", func(t *testing.T) { l.testRefusedPods(t) })
	t.Run("the operator", func(t *testing.T) { l.testOperatorOfTwins(t) })
	if err := c.Delete(ctx, s); err != nil {
		t.Fatal(err)
	}
	untilGone(t, l.milan, pod)
	// A deleted consumer leaves no objects.
	tenant := &authv1beta1.Tenant{ObjectMeta: object("liqo-tenant-turin", "turin")}
	if err := l.milan.Delete(ctx, tenant); err != nil {
		t.Fatal(err)
	}
	untilGone(t, l.milan, &corev1.Namespace{ObjectMeta: object("", "demo-turin")})
	untilGone(t, l.milan, turin.mapped(nil))
}

// writesInto names, as the provider's admin, an account that may create objects in a mapped namespace.
func (p *plane) writesInto(t *testing.T, mapped string) {
	t.Helper()
	var review authenticationv1.SelfSubjectReview
	if err := p.Create(t.Context(), &review); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: mapped}}
	if err := p.Patch(t.Context(), ns, mergePatch(fmt.Sprintf(`{"metadata":{"annotations":{"liqo-tui.dev/writers":"system:x,%s"}}}`, review.Status.UserInfo.Username))); err != nil {
		t.Fatal(err)
	}
	tried := client.NewDryRunClient(p.Client)
	until(t, p, ns, "open to an account that its admin has named", func(*corev1.Namespace) bool { // policies see changes of namespaces with a delay
		return tried.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: mapped, Name: "tried"}}) == nil
	})
}

// In testOthersInTwins, programs of the provider with all rights of RBAC create objects where a consumer
// would read them.
func (l *lent) testOthersInTwins(t *testing.T) {
	ctx := t.Context()
	as := func(user string, groups ...string) client.Client {
		return client.NewDryRunClient(l.milan.clientAs(t, l.milan.as(user, append(groups, "system:masters")...)))
	}
	meta := metav1.ObjectMeta{Namespace: "demo-rome", Name: "x"}
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}},
	}
	once := *pods.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	selector := &metav1.LabelSelector{MatchLabels: pods.Labels}
	argocd := as("system:serviceaccount:argocd:argocd-application-controller", "system:serviceaccounts")
	attempts := []abuse{}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: meta}, // pods: see testRefusedPods
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: pods}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: pods}},
		&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pods}},
		&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: once}},
	} {
		attempts = append(attempts, abuse{fmt.Sprintf("%T", o), "stands for one of cluster rome", func() error { return argocd.Create(ctx, o) }})
	}
	abuses.Permitted(t, "a program of the provider", "a Secret in another namespace", argocd.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}))
	tryAll(t, "a program of the provider", attempts)
	secret := func(c client.Client) error { return c.Create(ctx, &corev1.Secret{ObjectMeta: meta}) }
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "kube-root-ca.crt"}}
	err := as("system:serviceaccount:kube-system:root-ca-cert-publisher").Create(ctx, ca)
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	abuses.Permitted(t, "others", "the API server's certificate authority", err)
	tryAll(t, "others", []abuse{
		{"an account of kube-system that is no controller", "stands for one", func() error { return secret(as("system:serviceaccount:kube-system:default")) }},
		{"an admin", "stands for one", func() error { return secret(as("ada")) }},
	})
	l.milan.writesInto(t, "demo-rome")
	if err := l.milan.Create(ctx, &corev1.Secret{ObjectMeta: meta}, client.DryRunAll); err != nil {
		t.Errorf("an account that the admin has named: %v", err)
	}
}

// hostile are pods that nobody may run in a mapped namespace.
var hostile = map[string]struct {
	ours   string // the reason that there is no pod; "" if the pod is made without the hostile part
	theirs string // how the API server refuses such a pod
	change func(*corev1.PodSpec)
}{
	"hostNetwork": {"hostNetwork: ", "", func(p *corev1.PodSpec) { p.HostNetwork = true }},
	"hostPID":     {"hostPID: ", "", func(p *corev1.PodSpec) { p.HostPID = true }},
	"privileged": {"privileged: ", "", func(p *corev1.PodSpec) {
		p.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
	}},
	"SYS_ADMIN": {"SYS_ADMIN", "non-default capabilities", func(p *corev1.PodSpec) {
		p.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
	}},
	"unconfined": {"seccompProfile", "seccompProfile", func(p *corev1.PodSpec) {
		p.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
	}},
	"hostPort": {"hostPort: ", "", func(p *corev1.PodSpec) {
		p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}},
	"hostPath": {"hostPath: ", "", func(p *corev1.PodSpec) {
		p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	}},
	"csi": {"csi: ", "volumes: only emptyDir", func(p *corev1.PodSpec) {
		p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}}}
	}},
	"pvc": {"persistentVolumeClaim: ", "volumes: only emptyDir", func(p *corev1.PodSpec) {
		p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	}},
	"a token": {"serviceAccountToken: ", "", func(p *corev1.PodSpec) {
		p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}}}}
	}},
	"a probe of another": {"livenessProbe.httpGet.host: ", "", func(p *corev1.PodSpec) {
		p.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)}}}
	}},
	"a hook to another": {"lifecycle.preStop.httpGet.host: ", "", func(p *corev1.PodSpec) {
		p.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.FromInt32(10250)}}}
	}},
	"away from all others": {"namespaceSelector: ", "affinity: terms for pods of other namespaces", func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: &metav1.LabelSelector{},
		}}}}
	}},
	"near to a namespace": {"namespaces: ", "affinity: terms for pods of other namespaces", func(p *corev1.PodSpec) {
		p.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, Namespaces: []string{"kube-system"}},
		}}}}
	}},
	"without end":     {"terminationGracePeriodSeconds: ", "terminationGracePeriodSeconds: at most", func(p *corev1.PodSpec) { p.TerminationGracePeriodSeconds = new(int64(31536000)) }},
	"another runtime": {"runtimeClassName: ", "", func(p *corev1.PodSpec) { p.RuntimeClassName = new("x") }},
	"devices": {"resourceClaims: ", "not offered: resourceClaims", func(p *corev1.PodSpec) {
		p.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: new("x")}}
	}},
	"more than there is": {"cpu: 100 asked for, and 2 were granted in all", "exceeded quota", func(p *corev1.PodSpec) {
		p.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100"), corev1.ResourceMemory: resource.MustParse("1Mi")}
	}},
	"more disk than there is": {"ephemeral-storage: 100Gi asked for, and 25Gi were granted in all", "exceeded quota", func(p *corev1.PodSpec) {
		p.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi")}
	}},
	"less than nothing": {"cpu: -1 is less than nothing", "must be greater than or equal to 0", func(p *corev1.PodSpec) {
		p.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("-1")
	}},
	"its node":              {"", "nodeName: the provider's scheduler", func(p *corev1.PodSpec) { p.NodeName = "node-a" }},
	"an account":            {"", "serviceAccountName: accounts", func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" }},
	"a token, mounted":      {"", "automountServiceAccountToken: no token", func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = new(true) }},
	"a priority":            {"", "", func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" }},
	"a gateway's priority":  {"", "priorityClassName: not offered", func(p *corev1.PodSpec) { p.PriorityClassName = wire.GatewayPriorityClass }},
	"a scheduler":           {"", "schedulerName: not offered", func(p *corev1.PodSpec) { p.SchedulerName = "x" }},
	"all taints":            {"", "tolerations: of what the provider", func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }},
	"a gate":                {"", "not offered: schedulingGates", func(p *corev1.PodSpec) { p.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x.io/y"}} }},
	"an image that is none": {"spec.containers[0].image: Required", "image: Required", func(p *corev1.PodSpec) { p.Containers[0].Image = "" }},
}

// testRefusedShadowPods requests hostile pods. No pod is created, or a pod without the hostile part.
func (l *lent) testRefusedShadowPods(t *testing.T) {
	for n, name := range slices.Sorted(maps.Keys(hostile)) {
		row := hostile[name]
		s := shadow("demo-rome", fmt.Sprintf("hostile-%d", n), func(s *offloadingv1beta1.ShadowPod) { row.change(&s.Spec.Pod) })
		l.want(t, s)
		if row.ours != "" {
			l.refused(t, s, row.ours)
			abuses.Refused(t, "the consumer, by a ShadowPod", name, errors.New(s.Annotations[wire.AnnotationProblem]))
		} else if p := l.has(t, s).Spec; p.NodeName != "" || p.ServiceAccountName != "" && p.ServiceAccountName != "default" || *p.AutomountServiceAccountToken || *p.Priority != 0 ||
			p.SchedulerName != corev1.DefaultSchedulerName || len(p.SchedulingGates) > 0 {
			t.Errorf("%s: the pod has it: %+v", name, p)
		}
		if err := l.slice.Delete(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		untilGone(t, l.milan, podOf(s))
	}
}

// testRefusedPods creates hostile pods as the provider's admin, because a mistake in our operator could do no
// more.
func (l *lent) testRefusedPods(t *testing.T) {
	admin := client.NewDryRunClient(l.milan.clientAs(t, l.milan.config))
	pod := func(change func(*corev1.PodSpec)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "x"}, Spec: shadow("", "", nil).Spec.Pod}
		p.Spec.AutomountServiceAccountToken = new(false)
		change(&p.Spec)
		return p
	}
	abuses.Permitted(t, "an admin", "a pod", admin.Create(t.Context(), pod(func(*corev1.PodSpec) {})))
	// The policy's cost is limited. The limit is large enough for usual pods.
	large := pod(func(p *corev1.PodSpec) {
		c := p.Containers[0]
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("1Mi")}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
		c.ReadinessProbe, c.StartupProbe = c.LivenessProbe, c.LivenessProbe
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80}}
		p.Containers = nil
		for n := range 100 {
			c.Name = fmt.Sprintf("c-%d", n)
			p.Containers = append(p.Containers, c)
			p.Volumes = append(p.Volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		}
	})
	if err := admin.Create(t.Context(), large); err != nil {
		t.Errorf("a pod with 100 containers: %v", err)
	}
	var attempts []abuse
	for name, row := range hostile {
		attempts = append(attempts, abuse{name, row.theirs, func() error { return admin.Create(t.Context(), pod(row.change)) }})
	}
	attempts = append(attempts, abuse{"a finalizer", "finalizers: they would keep", func() error {
		p := pod(func(*corev1.PodSpec) {})
		p.Finalizers = []string{"x.io/y"}
		return admin.Create(t.Context(), p)
	}})
	tryAll(t, "an admin", attempts)
}

// testOperatorOfTwins makes an attacker's requests with the operator's token.
func (l *lent) testOperatorOfTwins(t *testing.T) {
	ctx := t.Context()
	c := l.milan.clientAs(t, l.milan.as(operatorUser, "system:serviceaccounts"))
	merge := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	namespace := func(name string, change func(*corev1.Namespace)) *corev1.Namespace {
		ns := peering.MappedNamespace(l.mapped(nil), "rome", "demo", name)
		change(ns)
		return ns
	}
	create := func(o client.Object) func() error {
		return func() error { return client.NewDryRunClient(c).Create(ctx, o) }
	}
	as := func(*corev1.Namespace) {}
	abuses.Permitted(t, "the operator", "a namespace", create(namespace("fine", as))())
	ip := func(name string) client.Object {
		return &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name}, Spec: ipamv1alpha1.IPSpec{IP: "169.254.169.254"}}
	}
	err := create(ip(peering.ProxyIPName))()
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	abuses.Permitted(t, "the operator", "its proxy's IP", err)
	ofAdmin := ip("of-an-admin")
	l.milan.create(ofAdmin)
	defer l.milan.runDelete(t, ofAdmin)
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}}
	ofTenant := func(text string) func() error {
		return func() error { return client.NewDryRunClient(c).Patch(ctx, tenant.DeepCopy(), merge(text)) }
	}
	abuses.Permitted(t, "the operator", "a word on a Tenant", ofTenant(`{"metadata":{"annotations":{"liqo-tui.dev/problem":"x"}}}`)())
	binding := func(namespace, name, role string, subject rbacv1.Subject) func() error {
		b := &rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject},
		}
		return func() error {
			u, err := apply.Wanted(b)
			if err != nil {
				return err
			}
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.ForceOwnership, client.DryRunAll)
		}
	}
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "eve"}
	self := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo", Name: wire.OperatorName}
	abuses.Permitted(t, "the operator", "its rights over a consumer's pods", binding("demo-rome", "liqo-tui-twin-operator", "liqo-tui-twin-operator", self)())
	named := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	tryAll(t, "the operator", []abuse{
		{"another IP", "one IP, that of its proxy", create(ip("x"))},
		{"an admin's IP, changed", "one IP, that of its proxy", func() error {
			return client.NewDryRunClient(c).Patch(ctx, ofAdmin, merge(`{"metadata":{"labels":{"a":"b"}}}`))
		}},
		{"an admin's IP, deleted", "one IP, that of its proxy", func() error { return client.NewDryRunClient(c).Delete(ctx, ofAdmin) }},
		{"a consumer's pod's annotation", "change labels only", func() error {
			return client.NewDryRunClient(c).Patch(ctx, podOf(shadow("demo-rome", "good", nil)), merge(`{"metadata":{"annotations":{"a":"b"}}}`))
		}},
		{"a Tenant in another condition", "annotations and the status", ofTenant(`{"spec":{"tenantCondition":"Cordoned"}}`)},
		{"a consumer that is lent more", "is lent is an admin's to say", ofTenant(`{"metadata":{"annotations":{"liqo-tui.dev/lend":"cpu=1000"}}}`)},
		{"a plain namespace", "those that it makes for consumers", create(named("x"))},
		{"a namespace without a level", "Pod Security", create(namespace("x", func(n *corev1.Namespace) { delete(n.Labels, peering.LabelEnforce) }))},
		{"a privileged namespace", "Pod Security", create(namespace("x", func(n *corev1.Namespace) { n.Labels[peering.LabelEnforce] = "privileged" }))},
		{"a namespace of the cluster", "not for consumers", create(namespace("kube-x", as))},
		{"a label", "those that it makes for consumers", func() error {
			return c.Patch(ctx, named("taken-rome"), merge(`{"metadata":{"labels":{"liqo-tui.dev/twin":"true","liqo.io/remote-cluster-id":"rome"},"annotations":{"liqo-tui.dev/created":"taken-rome"}}}`))
		}},
		{"the end of a namespace of others", "those that it makes for consumers", func() error { return client.NewDryRunClient(c).Delete(ctx, named("liqo-tenant-rome")) }},
		{"the end of a namespace that only has the label", "those that it makes for consumers", func() error { return client.NewDryRunClient(c).Delete(ctx, named("taken-rome")) }},
		{"another consumer", "never another's", func() error {
			return c.Patch(ctx, named("demo-rome"), merge(`{"metadata":{"labels":{"liqo.io/remote-cluster-id":"turin"}}}`))
		}},
		{"no level any more", "Pod Security", func() error {
			return c.Patch(ctx, named("demo-rome"), merge(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))
		}},
		{"its rights over pods elsewhere", "the operator gives rights", binding("kube-system", "liqo-tui-twin-operator", "liqo-tui-twin-operator", self)},
		{"rights over pods in a tenant namespace", "the operator gives rights", binding("liqo-tenant-rome", "liqo-tui-twin-operator", "liqo-tui-twin-operator", self)},
		{"its rights for somebody", "the operator gives rights", binding("demo-rome", "liqo-tui-twin-operator", "liqo-tui-twin-operator", user)},
		{"a consumer's rights elsewhere", "the operator gives rights", binding("default", "liqo-tui-twin", "liqo-tui-twin", user)},
		{"an admin's rights", "", binding("demo-rome", "liqo-tui-twin", "admin", user)},
		{"the Secrets of a twin", "the operator gives rights", binding("demo-rome", "liqo-tui-peering", "liqo-tui-peering", self)},
		{"a pod elsewhere", "cannot create", create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, Spec: shadow("", "", nil).Spec.Pod})},
		{"a quota elsewhere", "cannot create", create(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})},
	})
}
