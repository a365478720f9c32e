package contents

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestForeign(t *testing.T) {
	tenant := render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}
	meta := func(name string, labels map[string]string, owners ...metav1.OwnerReference) metav1.Object {
		return &metav1.ObjectMeta{Namespace: tenant.Namespace, Name: name, Labels: labels, OwnerReferences: owners}
	}
	gateway := &metav1.ObjectMeta{Name: "gw", UID: "gateway", Labels: map[string]string{wire.LabelRemoteCluster: "milan"}}
	deployment := &metav1.ObjectMeta{Name: "gw", UID: "deployment", OwnerReferences: []metav1.OwnerReference{{APIVersion: networkingv1beta1.GroupVersion.String(), UID: "gateway"}}}
	all := []Object{
		{Group: "networking.liqo.io", Kind: "GatewayServer", Object: gateway},
		{Group: "apps", Kind: "Deployment", Object: deployment},
		{Kind: "Pod", Object: meta("gw-1", nil, metav1.OwnerReference{APIVersion: "apps/v1", UID: "deployment"})},
		{Kind: "Pod", Object: meta("collected", nil, metav1.OwnerReference{APIVersion: appsv1.SchemeGroupVersion.String(), UID: "gone"})},
		{Kind: "ConfigMap", Object: meta("kube-root-ca.crt", nil)},
		{Kind: "ServiceAccount", Object: meta("default", nil)},
		{Group: "batch", Kind: "Job", Object: meta("probe", map[string]string{wire.LabelManagedBy: wire.ManagedBy})},
		{Group: "networking.liqo.io", Kind: "FirewallConfiguration", Object: meta("milan-unknown-source-remap", map[string]string{wire.LabelManaged: "true"})},
		// Others':
		{Group: "networking.liqo.io", Kind: "FirewallConfiguration", Object: meta("of-the-team", nil)},
		{Group: "offloading.liqo.io", Kind: "VirtualNode", Object: meta("milan", map[string]string{wire.LabelManaged: "true"})},
		{Kind: "Secret", Object: meta("of-the-team", nil)},
		{Kind: "Pod", Object: meta("of-a-node", nil, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", UID: "node"})},
		{Group: "authentication.liqo.io", Kind: "Identity", Object: meta("controlplane-milan", map[string]string{wire.LabelRemoteCluster: "milan"})},
		{Group: "networking.liqo.io", Kind: "Configuration", Object: meta("oslo", map[string]string{wire.LabelRemoteCluster: "oslo"})},
	}
	want := []string{"Configuration oslo", "FirewallConfiguration of-the-team", "Identity controlplane-milan", "Pod of-a-node", "Secret of-the-team", "VirtualNode milan"}
	if d := cmp.Diff(want, Foreign(tenant, all)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
