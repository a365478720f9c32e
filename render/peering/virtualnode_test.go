package peering_test

import (
	"slices"
	"strings"
	"testing"

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

// The pod of a virtual node passes Pod Security's restricted, is on no virtual node, and is
// as an admin asked of gateways' pods.
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
	// Gateways beside it have copies of the same Secrets, under their names.
	secret := p.PullSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{"x": nil}})
	if len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != secret.Name || secret.Name == "registry" || secret.Type != corev1.SecretTypeDockerConfigJson || len(secret.Data) != 1 {
		t.Errorf("the image is pulled with %v, and there is %s", pod.ImagePullSecrets, secret.Name)
	}
	if pod.NodeSelector["disk"] != "ssd" || pod.ServiceAccountName != p.ServiceAccount().Name || p.RoleBinding().Subjects[0].Name != p.ServiceAccount().Name {
		t.Errorf("it is on %v, as %s", pod.NodeSelector, pod.ServiceAccountName)
	}
}

// A node may have a name that no label holds with a prefix.
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

// Of what is in its namespace, it reads what is its own, by name.
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
