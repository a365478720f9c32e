package peering_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func program(pods render.PodSettings) peering.NodeProgram {
	return peering.NodeProgram{Image: "registry.example/liqo-gateway:v1", Pods: pods, VirtualNode: &offloadingv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", UID: "u", Labels: map[string]string{wire.LabelRemoteCluster: "milan"}},
		Spec:       offloadingv1beta1.VirtualNodeSpec{KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-resourceslice-milan"}},
	}}
}

// The pod of a virtual node passes Pod Security's restricted, is on no virtual node, and follows the admin's
// settings for gateways' pods.
func TestTheProgramOfAVirtualNode(t *testing.T) {
	p := program(render.PodSettings{NodeSelector: map[string]string{"disk": "ssd"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}})
	pod := p.Deployment().Spec.Template.Spec
	c := pod.Containers[0].SecurityContext
	if *c.AllowPrivilegeEscalation || !*c.RunAsNonRoot || !*c.ReadOnlyRootFilesystem || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0 ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || pod.HostNetwork || len(pod.Volumes) > 0 {
		t.Errorf("it may do too much: %+v, %+v", c, pod.SecurityContext)
	}
	if required := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; len(required.NodeSelectorTerms) != 1 || required.NodeSelectorTerms[0].MatchExpressions[0].Key != peering.LabelNodeType {
		t.Errorf("it may run on a virtual node: %+v", required)
	}
	// Gateways in the same namespace have copies of the same Secrets, under their names.
	secret := p.PullSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{"x": nil}})
	if len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != secret.Name || secret.Name == "registry" || secret.Type != corev1.SecretTypeDockerConfigJson || len(secret.Data) != 1 {
		t.Errorf("the image is pulled with %v, and there is %s", pod.ImagePullSecrets, secret.Name)
	}
	if pod.NodeSelector["disk"] != "ssd" || pod.ServiceAccountName != p.ServiceAccount().Name || p.RoleBinding().Subjects[0].Name != p.ServiceAccount().Name {
		t.Errorf("it is on %v, as %s", pod.NodeSelector, pod.ServiceAccountName)
	}
}

// A provider reports the labels of its nodes. Its virtual node gets the labels by which pods choose a
// machine. It gets no label that would give it a role, pods of others, or no Node at all.
func TestAProviderLabelsItsVirtualNodeAsAMachineOnly(t *testing.T) {
	s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{peering.LabelDestination: "milan"}}}
	s.Spec.ProviderClusterID = new(corev1beta1.ClusterID("milan"))
	s.Status.NodeLabels = map[string]string{
		"kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "no label's value!", "beta.kubernetes.io/arch": "arm64", "kubernetes.io/os": "windows", "kubernetes.io/hostname": "rome-1",
		"node-role.kubernetes.io/control-plane": "", "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "b", "liqo.io/type": "", "liqo.io/remote-cluster-id": "turin", "liqo-tui.dev/virtual-node-of": "default",
	}
	p := program(render.PodSettings{})
	p.VirtualNode = peering.VirtualNode(s, "")
	if diff := cmp.Diff(map[string]string{"kubernetes.io/arch": "amd64", "liqo.io/remote-cluster-id": "milan"}, p.Spec.Labels); diff != "" {
		t.Errorf("VirtualNode (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "amd64"}, p.Lent().Labels); diff != "" {
		t.Errorf("Node (-want +got):\n%s", diff)
	}
	// A kubelet always sets these labels, so charts select by them.
	all := p.Member().Labels
	maps.Copy(all, p.Lent().Labels)
	for key, value := range map[string]string{"kubernetes.io/arch": "amd64", "beta.kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": "milan"} {
		if all[key] != value {
			t.Errorf("no pod that selects %s=%s gets on the node, which has %v", key, value, all)
		}
	}
	s.Status.NodeLabels = map[string]string{"node.kubernetes.io/instance-type": "m5.large"}
	p.VirtualNode = peering.VirtualNode(s, "")
	if diff := cmp.Diff(map[string]string{"node.kubernetes.io/instance-type": "m5.large"}, p.Lent().Labels); diff != "" {
		t.Errorf("Node without an architecture (-want +got):\n%s", diff)
	}
}

// A node may have a name that is too long for a label with a prefix.
func TestTheLongestNameOfANode(t *testing.T) {
	for _, name := range []string{strings.Repeat("a", 59) + "-a.b", strings.Repeat("a", 58) + "--aaa", strings.Repeat("a", 63)} {
		p := program(render.PodSettings{})
		p.Name = name
		d := p.Deployment()
		for _, all := range []map[string]string{d.Labels, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels} {
			for key, value := range all {
				if why := validation.IsValidLabelValue(value); len(why) > 0 {
					t.Errorf("%s=%s: %v", key, value, why)
				}
			}
		}
	}
}

// In its namespace, the program reads only its own objects, by name.
func TestTheProgramReadsItsOwn(t *testing.T) {
	for _, rule := range program(render.PodSettings{}).Role().Rules {
		if named := len(rule.ResourceNames) > 0; named == slices.Contains(rule.Resources, "connections") {
			t.Errorf("%v by the names %v", rule.Resources, rule.ResourceNames)
		}
		if !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
			t.Errorf("%v: %v", rule.Resources, rule.Verbs)
		}
	}
	everywhere, leases := peering.NodeAccess(nil)
	if len(everywhere.Subjects)+len(leases.Subjects) > 0 {
		t.Error("nobody has the rights of somebody")
	}
}
