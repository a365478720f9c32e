package render

import (
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// filledServer returns the objects that the operator makes from our own template.
func filledServer(t *testing.T, g Gateway) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	templates, err := GatewayTemplates("liqo", "image", 1, PodSettings{})
	if err != nil {
		t.Fatal(err)
	}
	spec := networkingv1beta1.GatewayServerSpec{Endpoint: networkingv1beta1.Endpoint{Port: 51840, ServiceType: corev1.ServiceTypeNodePort}}
	filled, err := Template(templates[0].(*networkingv1beta1.WgGatewayServerTemplate).Spec.Template.Object, Values{
		Spec: spec, Name: g.Name, Namespace: "liqo-tenant-milan", ClusterID: "milan", SecretName: "gw-milan",
	})
	if err != nil {
		t.Fatal(err)
	}
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	for part, into := range map[string]any{"deployment": d, "service": s} {
		fields, _, err := unstructured.NestedMap(filled, "spec", part)
		if err != nil {
			t.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, into); err != nil {
			t.Fatal(err)
		}
	}
	return d, s
}

// TestPodsOfTemplatesReachNothingElse tests that the pods of our own template pass, and that pods with access
// beyond the gateway do not.
func TestPodsOfTemplatesReachNothingElse(t *testing.T) {
	g := Gateway{Name: "milan"}
	volume := func(s corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { p.Volumes = append(p.Volumes, corev1.Volume{Name: "v", VolumeSource: s}) }
	}
	security := func(change func(*corev1.SecurityContext)) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { change(p.Containers[0].SecurityContext) }
	}
	probe := func(host string) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) {
			p.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: host, Port: intstr.FromInt32(80)}}}
		}
	}
	foreign := corev1.LocalObjectReference{Name: "admin-token"}
	for _, c := range []struct {
		name, want string
		change     func(*corev1.PodSpec)
	}{
		{"our own", "", func(*corev1.PodSpec) {}},
		{"a sysctl of its network", "", func(p *corev1.PodSpec) {
			p.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.ip_forward", Value: "1"}}}
		}},
		{"a type that containers have anyway", "", security(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Type: "container_t"} })},
		{"a priority of an admin's", "", func(p *corev1.PodSpec) { p.PriorityClassName = "gateways" }},
		{"a probe of itself", "", probe("")},
		{"no confinement by SELinux", "seLinuxOptions: container \"tunnel\"", security(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} })},
		{"no confinement of the pod by SELinux", "seLinuxOptions: pod", func(p *corev1.PodSpec) {
			p.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{User: "system_u", Role: "system_r"}}
		}},
		{"no AppArmor, as it was said before", "forbidden AppArmor profile: ", nil},
		{"a probe of another", `probe or lifecycle host: container "tunnel" uses probe or lifecycle host "169.254.169.254"`, probe("169.254.169.254")},
		{"a hook to another", "probe or lifecycle host: ", func(p *corev1.PodSpec) {
			p.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.FromInt32(10250)}}}
		}},
		{"another runtime", "runtimeClassName", func(p *corev1.PodSpec) { p.RuntimeClassName = new("kata-privileged") }},
		{"its node", "nodeName", func(p *corev1.PodSpec) { p.NodeName = "control-plane-1" }},
		{"the priority of kubelets' programs", "priorityClassName system-node-critical", func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" }},
		{"the priority of the cluster's programs", "priorityClassName system-cluster-critical", func(p *corev1.PodSpec) { p.PriorityClassName = "system-cluster-critical" }},
		{"a process of a Windows host", "hostProcess", security(func(s *corev1.SecurityContext) {
			s.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}
		})},
		{"a scratch directory", "", volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})},
		{"the host's network", "host namespaces: hostNetwork=true", func(p *corev1.PodSpec) { p.HostNetwork = true }},
		{"the host's processes", "host namespaces: hostPID=true", func(p *corev1.PodSpec) { p.HostPID = true }},
		{"the host's memory", "host namespaces: hostIPC=true", func(p *corev1.PodSpec) { p.HostIPC = true }},
		{"the host's files", "hostPath /", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})},
		{"a disk of others", `volume "v"`, volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "db"}})},
		{"a driver", `volume "v"`, volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io"}})},
		{"another Secret", `Secret "admin-token"`, volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "admin-token"}})},
		{"another Secret, projected", `Secret "admin-token"`, volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: foreign}}},
		}})},
		{"another Secret as variable", `Secret "admin-token"`, func(p *corev1.PodSpec) {
			p.Containers[0].Env = append(p.Containers[0].Env, corev1.EnvVar{Name: "T", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: foreign, Key: "token"}}})
		}},
		{"another Secret as variables", `Secret "admin-token"`, func(p *corev1.PodSpec) {
			p.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: foreign}}}
		}},
		{"another account", `serviceAccountName "admin" instead of "milan"`, func(p *corev1.PodSpec) { p.ServiceAccountName = "admin" }},
		{"another account by its old name", "serviceAccountName", func(p *corev1.PodSpec) { p.DeprecatedServiceAccount = "admin" }},
		{"the namespace's account", "serviceAccountName", func(p *corev1.PodSpec) { p.ServiceAccountName = "" }},
		{"privileged", `privileged: container "tunnel"`, security(func(s *corev1.SecurityContext) { s.Privileged = new(true) })},
		{"another capability", "capability SYS_ADMIN", security(func(s *corev1.SecurityContext) { s.Capabilities.Add = append(s.Capabilities.Add, "SYS_ADMIN") })},
		{"no seccomp", `seccompProfile: container "tunnel"`, security(func(s *corev1.SecurityContext) {
			s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		})},
		{"no AppArmor", "forbidden AppArmor profile: ", security(func(s *corev1.SecurityContext) {
			s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		})},
		{"the whole /proc", `procMount: container "tunnel"`, security(func(s *corev1.SecurityContext) { s.ProcMount = new(corev1.UnmaskedProcMount) })},
		{"a port of the host", `hostPort: container "tunnel" uses hostPort 22`, func(p *corev1.PodSpec) { p.Containers[0].Ports[0].HostPort = 22 }},
		{"a sysctl of the node", "forbidden sysctls: kernel.msgmax", func(p *corev1.PodSpec) {
			p.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		}},
		{"in an init container", `privileged: container "init"`, func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "init", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := filledServer(t, g)
			if c.change == nil {
				d.Spec.Template.Annotations["container.apparmor.security.beta.kubernetes.io/tunnel"] = "unconfined"
			} else {
				c.change(&d.Spec.Template.Spec)
			}
			got := ""
			if err := g.CheckPods(d, "gw-milan"); err != nil {
				got = err.Error()
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The error names the refused field.
func TestWhatATemplateMayNotHaveHasItsField(t *testing.T) {
	g := Gateway{Name: "milan"}
	d, s := filledServer(t, g)
	pod := &d.Spec.Template.Spec
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}})
	pod.HostNetwork, pod.Containers[0].SecurityContext.Privileged = true, new(true)
	pod.NodeName = "node-a"
	const at = ".spec.deployment.spec.template.spec"
	want := `its pods may not have host namespaces: hostNetwork=true (` + at + `), hostPath /etc (` + at + `.volumes[1]), nodeName (` + at + `.nodeName), ` +
		`privileged: container "tunnel" must not set securityContext.privileged=true (` + at + `.containers[0])`
	if err := g.CheckPods(d, "gw-milan"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	s.Spec.ExternalIPs = []string{"192.0.2.1"}
	if err := g.CheckService(s); err == nil || !strings.HasSuffix(err.Error(), "(.spec.service.spec.externalIPs)") {
		t.Errorf("got %v", err)
	}
}

func TestServicesOfTemplatesLeadToTheGatewayOnly(t *testing.T) {
	g := Gateway{Name: "milan"}
	for _, c := range []struct {
		name, want string
		change     func(*corev1.ServiceSpec)
	}{
		{"our own", "", func(*corev1.ServiceSpec) {}},
		{"others' addresses", "externalIPs", func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.1"} }},
		{"another name", "type ExternalName", func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeExternalName }},
		{"other pods", "a selector of other pods", func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"app": "db"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s := filledServer(t, g)
			c.change(&s.Spec)
			got := ""
			if err := g.CheckService(s); err != nil {
				got = err.Error()
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
