package render_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// TestPodsOfAnInstallation tests that no pod can be on a node that can't run it, and that all pods, also
// those of gateways, follow the admin's settings.
func TestPodsOfAnInstallation(t *testing.T) {
	asked, err := render.ParsePods([]byte(`
imagePullSecrets: [{name: registry}]
nodeSelector: {zone: a}
labels: {team: net, app.kubernetes.io/name: mine}
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: disk, operator: Exists}]}, {matchExpressions: [{key: pool, operator: Exists}]}]}}}
gateway: {nodeSelector: {edge: "true"}, priorityClassName: high, resources: {limits: {cpu: "2"}}}
fabric: {tolerations: [{key: gpu, operator: Exists}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := render.Install(render.InstallParams{ClusterID: "rome", Image: "registry.example/gateway:1", Pods: asked})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if d, ok := o.(*appsv1.Deployment); ok {
			if diff := cmp.Diff(asked, render.OperatorParams(d).Pods); diff != "" {
				t.Errorf("what is asked for is remembered as (-want +got):\n%s", diff)
			}
		}
	}
	if _, err := render.ParsePods([]byte("nodeselector: {zone: a}\nnodes: 2")); err == nil {
		t.Error("a setting that does not exist is taken")
	}
	pods := podsOf(t, objects)
	if len(pods) != 4 {
		t.Fatalf("got pods of %d programs, want operator, fabric, and gateways of both roles", len(pods))
	}
	for name, pod := range pods {
		gateway := name == wire.ServerTemplate || name == wire.ClientTemplate
		selector := map[string]string{"kubernetes.io/os": "linux", "zone": "a"}
		if gateway {
			selector = map[string]string{"kubernetes.io/os": "linux", "edge": "true"}
		}
		if diff := cmp.Diff(selector, pod.Spec.NodeSelector); diff != "" {
			t.Errorf("%s: node selector (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "registry"}}, pod.Spec.ImagePullSecrets); diff != "" {
			t.Errorf("%s: pull secrets (-want +got):\n%s", name, diff)
		}
		for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			var keys []string
			for _, e := range term.MatchExpressions {
				keys = append(keys, e.Key)
			}
			if len(keys) != 4 || keys[1] != "liqo.io/type" {
				t.Errorf("%s: a term asks for %v only: virtual nodes would do", name, keys)
			}
		}
		if pod.Labels["team"] != "net" || pod.Labels["app.kubernetes.io/name"] == "mine" {
			t.Errorf("%s: got labels %v, want the admin's besides the program's own", name, pod.Labels)
		}
		if got := pod.Spec.SecurityContext.SeccompProfile; got == nil || got.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: got seccomp profile %v", name, got)
		}
		if root := pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem; root == nil || !*root {
			t.Errorf("%s: its root can be written", name)
		}
		if got := pod.Spec.PriorityClassName; gateway && got != "high" {
			t.Errorf("%s: got priority class %q", name, got)
		}
		if got := pod.Spec.Containers[0].Resources.Limits.Cpu().String(); gateway && got != "2" {
			t.Errorf("%s: got a limit of %s CPUs", name, got)
		}
		if got := pod.Spec.Containers[0].Resources.Requests; gateway && (got.Cpu().String() != "10m" || got.Memory().String() != "32Mi") {
			t.Errorf("%s: got requests %v: a limit alone would request as much", name, got)
		}
	}
	if got := pods["liqo-tui-fabric"].Spec.Tolerations; len(got) != 2 {
		t.Errorf("fabric: got tolerations %v, want the program's and the admin's", got)
	}
}

// The operator refuses gateways with such a priority, so an installation does not request it.
func TestAnInstallationAsksForNoGatewaysWithACriticalPriority(t *testing.T) {
	for settings, refused := range map[string]bool{
		"priorityClassName: system-cluster-critical":                                    true,
		"gateway: {priorityClassName: system-node-critical}":                            true,
		"{priorityClassName: system-cluster-critical, gateway: {priorityClassName: a}}": false,
		"operator: {priorityClassName: system-node-critical}":                           false,
	} {
		pods, err := render.ParsePods([]byte(settings))
		if err != nil {
			t.Fatal(err)
		}
		_, err = render.Install(render.InstallParams{ClusterID: "rome", Image: "x", Pods: pods})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "is for the cluster's own programs: give gateways another one") {
			t.Errorf("%s: got %v, want refused: %t", settings, err, refused)
		}
	}
}

// API servers such as GKE's admit critical pods only to kube-system, and to namespaces with a quota that
// names their priority. Namespaces of gateways have no such quota.
func TestCriticalPodsAreAdmittedOutsideOfKubeSystem(t *testing.T) {
	objects, err := render.Install(render.InstallParams{ClusterID: "rome", Image: "registry.example/gateway:1", Namespace: "network"})
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, o := range objects {
		if q, ok := o.(*corev1.ResourceQuota); ok && q.Namespace == "network" {
			for _, e := range q.Spec.ScopeSelector.MatchExpressions {
				if e.ScopeName == corev1.ResourceQuotaScopePriorityClass && e.Operator == corev1.ScopeSelectorOpIn {
					named = append(named, e.Values...)
				}
			}
		}
	}
	for name, pod := range podsOf(t, objects) {
		class, gateway := pod.Spec.PriorityClassName, name == wire.ServerTemplate || name == wire.ClientTemplate
		switch critical := strings.HasPrefix(class, "system-"); {
		case gateway && critical:
			t.Errorf("%s: priority %s would need a quota in each tenant's namespace", name, class)
		case !gateway && (!critical || !slices.Contains(named, class)):
			t.Errorf("%s: priority %q is not among those of the quota: %q", name, class, named)
		}
	}
}

// podsOf returns the pods that objects request, by the name of the object.
func podsOf(t *testing.T, objects []wire.Object) map[string]corev1.PodTemplateSpec {
	t.Helper()
	pods := map[string]corev1.PodTemplateSpec{}
	template := func(name string, u unstructured.Unstructured) {
		var pod corev1.PodTemplateSpec
		fields, _, err := unstructured.NestedMap(u.Object, "spec", "deployment", "spec", "template")
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &pod)
		}
		if err != nil {
			t.Fatal(err)
		}
		pods[name] = pod
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *appsv1.Deployment:
			pods[o.Name] = o.Spec.Template
		case *appsv1.DaemonSet:
			pods[o.Name] = o.Spec.Template
		case *networkingv1beta1.WgGatewayServerTemplate:
			template(o.Name, o.Spec.Template)
		case *networkingv1beta1.WgGatewayClientTemplate:
			template(o.Name, o.Spec.Template)
		}
	}
	return pods
}

// The programs' own selectors decide where they run. The text about a node has to agree.
func TestNodesThatCantRunThePrograms(t *testing.T) {
	linux := func(more ...string) map[string]string {
		labels := map[string]string{"kubernetes.io/os": "linux", "other": "label"}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		return labels
	}
	for _, c := range []struct {
		labels map[string]string
		want   string
	}{
		{linux(), ""},
		{linux("type", "large"), ""},
		{map[string]string{"kubernetes.io/os": "windows"}, "runs windows"},
		{nil, "runs an unknown system"},
		{linux("liqo.io/type", "virtual-node"), "virtual, liqo.io/type=virtual-node"},
		{linux("type", "virtual-kubelet"), "virtual, type=virtual-kubelet"},
		{linux("eks.amazonaws.com/compute-type", "fargate"), "virtual, eks.amazonaws.com/compute-type=fargate"},
		{linux("eks.amazonaws.com/compute-type", "ec2"), ""},
	} {
		kept := render.FitnessLabels(c.labels)
		if got := render.Excluded(c.labels); got != c.want || render.Excluded(kept) != c.want || kept["other"] != "" {
			t.Errorf("%v: got %q, want %q, of %v the same", c.labels, got, c.want, kept)
		}
	}
}
