package offload_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

func shadow(change func(*corev1.PodSpec)) *offloadingv1beta1.ShadowPod {
	s := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web", UID: "u"}}
	s.Spec.Pod.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	change(&s.Spec.Pod)
	return s
}

func TestWhatIsMadeOfAPod(t *testing.T) {
	s := shadow(func(p *corev1.PodSpec) {
		p.NodeName, p.ServiceAccountName, p.DeprecatedServiceAccount, p.SchedulerName = "milan", "admin", "admin", "mine"
		p.PriorityClassName, p.Priority, p.PreemptionPolicy = "system-node-critical", new(int32(2000001000)), new(corev1.PreemptLowerPriority)
		p.AutomountServiceAccountToken, p.EnableServiceLinks = new(true), new(true)
		p.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		p.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-5")}
		p.NodeSelector = map[string]string{corev1.LabelArchStable: "arm64", "node-role.kubernetes.io/control-plane": ""}
		p.Tolerations = []corev1.Toleration{
			{Operator: corev1.TolerationOpExists},
			{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists},
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists},
		}
		p.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}},
		}}
	})
	s.Labels = map[string]string{
		"app": "web", "app.kubernetes.io/name": "web", "example.com/x": "y", "pod-template-hash": "h",
		"offloading.liqo.io/origin": "turin", "offloading.liqo.io/destination": "milan", "offloading.liqo.io/nodename": "milan",
		"networking.liqo.io/gateway-name": "rome", "liqo.io/managed-by": "me", "liqo-tui.dev/twin": "true", "topology.kubernetes.io/zone": "a", "x-k8s.io/y": "z",
	}
	s.Annotations = map[string]string{
		"kubectl.kubernetes.io/default-container": "c", "k8s.ovn.org/pod-networks": "{}", "sidecar.istio.io/inject": "true",
		"liqo-tui.dev/shadow-pod": "forged", "note": "x",
	}
	got, err := offload.Pod(s, "rome")
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo-rome", Name: "web",
			Labels: map[string]string{
				"app": "web", "app.kubernetes.io/name": "web", "example.com/x": "y", "pod-template-hash": "h", "liqo.io/managed-by": "shadowpod",
				"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan", "offloading.liqo.io/nodename": "milan",
			},
			Annotations:     map[string]string{"kubectl.kubernetes.io/default-container": "c", "liqo-tui.dev/shadow-pod": "u"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "web", UID: "u", Controller: new(true), BlockOwnerDeletion: new(true)}},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), PriorityClassName: "liqo-tui-lent",
			NodeSelector: map[string]string{corev1.LabelArchStable: "arm64"},
			Tolerations:  []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}},
			}},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: amounts("cpu=100m memory=256Mi ephemeral-storage=512Mi"), Limits: amounts("memory=256Mi ephemeral-storage=512Mi"),
			}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.Spec.Pod.NodeName != "milan" {
		t.Error("what was asked for has changed")
	}
}

func TestPodsThatAreRefused(t *testing.T) {
	volume := func(source corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	security := func(c *corev1.SecurityContext) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{{Name: "i", SecurityContext: c}} }
	}
	for want, change := range map[string]func(*corev1.PodSpec){
		"hostNetwork: pods of consumers may not use their host": func(p *corev1.PodSpec) { p.HostNetwork = true },
		"hostPID: ":                          func(p *corev1.PodSpec) { p.HostPID = true },
		"hostIPC: ":                          func(p *corev1.PodSpec) { p.HostIPC = true },
		"containers[c].ports[0].hostPort: ":  func(p *corev1.PodSpec) { p.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
		"containers[c].ports[0].hostIP: ":    func(p *corev1.PodSpec) { p.Containers[0].Ports = []corev1.ContainerPort{{HostIP: "10.0.0.1"}} },
		"volumes[v].hostPath: ":              volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}),
		"volumes[v].csi: only emptyDir":      volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}),
		"volumes[v].persistentVolumeClaim: ": volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}),
		"volumes[v].image: ":                 volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}),
		"volumes[v].projected.sources[0].serviceAccountToken: no tok": volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}),
		"terminationGracePeriodSeconds: 601 seconds are too many":     func(p *corev1.PodSpec) { p.TerminationGracePeriodSeconds = new(int64(601)) },
		"runtimeClassName: not offered":                               func(p *corev1.PodSpec) { p.RuntimeClassName = new("gvisor") },
		"resourceClaims: not offered":                                 func(p *corev1.PodSpec) { p.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} },
		"resources: resources of a whole pod":                         func(p *corev1.PodSpec) { p.Resources = &corev1.ResourceRequirements{} },
		"containers[c].resources.requests: cpu: -1 is less":           func(p *corev1.PodSpec) { p.Containers[0].Resources.Requests = amounts("cpu=-1") },
		"containers[c].resources.limits: memory: -1Gi is less":        func(p *corev1.PodSpec) { p.Containers[0].Resources.Limits = amounts("memory=-1Gi") },
		"containers[c].livenessProbe.httpGet.host: probes ask": func(p *corev1.PodSpec) {
			p.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)}}}
		},
		"containers[c].lifecycle.postStart.tcpSocket.host: probes ask": func(p *corev1.PodSpec) {
			p.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "127.0.0.1"}}}
		},
		"initContainers[i].securityContext.privileged: ":               security(&corev1.SecurityContext{Privileged: new(true)}),
		"initContainers[i].securityContext.capabilities.add: SYS_ADM":  security(&corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CHOWN", "SYS_ADMIN"}}}),
		"initContainers[i].securityContext.procMount: ":                security(&corev1.SecurityContext{ProcMount: new(corev1.UnmaskedProcMount)}),
		"initContainers[i].securityContext.seccompProfile.type: Uncon": security(&corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}),
		"initContainers[i].securityContext.seLinuxOptions: ":           security(&corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1"}}),
		"securityContext.sysctls[kernel.msgmax].name: ": func(p *corev1.PodSpec) {
			p.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		},
		"containers[c].volumeMounts[v].mountPropagation: Bidirectional": func(p *corev1.PodSpec) {
			p.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPropagation: new(corev1.MountPropagationBidirectional)}}
		},
		"affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector: terms for pods of other": func(p *corev1.PodSpec) {
			p.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{NamespaceSelector: &metav1.LabelSelector{}}}}}
		},
		"affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.namespaces: terms for pods of": func(p *corev1.PodSpec) {
			p.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: []string{"kube-system"}}}}}}
		},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := offload.Pod(shadow(change), "rome"); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// fill gives a value to about one of n fields, at all depths.
func fill(r *rand.Rand, v reflect.Value, n, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), n, depth+1)
	case reflect.Struct:
		if q, ok := reflect.TypeAssert[*resource.Quantity](v.Addr()); ok {
			*q = *resource.NewMilliQuantity(r.Int64N(20000)-2000, resource.DecimalSI)
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && r.IntN(n) == 0 {
				fill(r, v.Field(i), n, depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(2), 2))
		for i := range v.Len() {
			fill(r, v.Index(i), n, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(r, key, n, depth+1)
		fill(r, value, n, depth+1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString([]string{"", "cpu", "memory", "default", "Always", "NoExecute", "Unconfined", "SYS_ADMIN", "node.kubernetes.io/not-ready", "127.0.0.1", "Default"}[r.IntN(11)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(r.Int64N(2000) - 100)
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	default: // no field of a pod is of another kind
	}
}

// TestAnyPodIsRefusedOrNeverWider uses arbitrary pods. The resulting pod has no dangerous setting, and counts
// at least the requests of its containers.
func TestAnyPodIsRefusedOrNeverWider(t *testing.T) {
	r := rand.New(rand.NewPCG(sample.Seed(t), 1))
	made := 0
	for range sample.Of(20000, 200000) {
		s := shadow(func(p *corev1.PodSpec) { fill(r, reflect.ValueOf(p).Elem(), 4+r.IntN(40), 0) })
		fill(r, reflect.ValueOf(&s.ObjectMeta).Elem(), 4, 0)
		p, err := offload.Pod(s, "rome")
		if err != nil {
			continue
		}
		made++
		for _, why := range dangers(p, s) {
			t.Errorf("%s: %+v", why, p.Spec)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("figure: %d were made", made)
	if made < 1000 {
		t.Errorf("only %d pods were made: the test looks at too few", made)
	}
}

// dangers lists the dangerous settings independently of the table of fields.
func dangers(p *corev1.Pod, s *offloadingv1beta1.ShadowPod) (out []string) {
	bad := func(is bool, why string) {
		if is {
			out = append(out, why)
		}
	}
	x := p.Spec
	bad(x.HostNetwork || x.HostPID || x.HostIPC, "of the host")
	bad(x.NodeName != "" || x.SchedulerName != "", "chooses its node")
	bad(x.ServiceAccountName != "" || x.DeprecatedServiceAccount != "" || x.AutomountServiceAccountToken == nil || *x.AutomountServiceAccountToken, "an account")
	bad(x.PriorityClassName != "liqo-tui-lent" || x.Priority != nil || x.PreemptionPolicy != nil, "a priority")
	bad(x.RuntimeClassName != nil || x.ResourceClaims != nil || x.Resources != nil || x.Overhead != nil, "resources of another kind")
	bad(x.TerminationGracePeriodSeconds != nil && *x.TerminationGracePeriodSeconds > 600, "does not end")
	bad(len(p.Finalizers) > 0 || len(p.OwnerReferences) != 1 || p.OwnerReferences[0].UID != s.UID, "metadata")
	for _, t := range x.Tolerations {
		bad(t.Effect != corev1.TaintEffectNoExecute || t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable, "tolerates")
	}
	for _, v := range x.Volumes {
		rest := v.VolumeSource
		rest.EmptyDir, rest.ConfigMap, rest.Secret, rest.DownwardAPI, rest.Projected = nil, nil, nil, nil, nil
		bad(rest != corev1.VolumeSource{}, "a volume")
		if v.Projected != nil {
			for _, source := range v.Projected.Sources {
				source.ConfigMap, source.Secret, source.DownwardAPI = nil, nil, nil
				bad(source != corev1.VolumeProjection{}, "a projection")
			}
		}
	}
	sum := offload.Sum(&x)
	for _, c := range slices.Concat(x.InitContainers, x.Containers) {
		if sc := c.SecurityContext; sc != nil {
			bad(sc.Privileged != nil && *sc.Privileged, "privileged")
			bad(sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, "SYS_ADMIN"), "a capability")
			bad(sc.SeccompProfile != nil && sc.SeccompProfile.Type == "Unconfined", "unconfined")
		}
		for _, port := range c.Ports {
			bad(port.HostPort != 0 || port.HostIP != "", "a port of the host")
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			bad(probe != nil && (probe.HTTPGet != nil && probe.HTTPGet.Host != "" || probe.TCPSocket != nil && probe.TCPSocket.Host != ""), "probes another")
		}
		bad(len(c.VolumeDevices) > 0 || len(c.Resources.Claims) > 0, "devices")
		cpu, memory := c.Resources.Requests[corev1.ResourceCPU], c.Resources.Limits[corev1.ResourceMemory]
		bad(cpu.Sign() < 0 || memory.Sign() < 0 || cpu.Cmp(sum[corev1.ResourceCPU]) > 0 || memory.Cmp(sum[corev1.ResourceMemory]) > 0, "counts too little: "+fmt.Sprint(sum))
	}
	return out
}
