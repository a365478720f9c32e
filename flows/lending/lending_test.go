package lending_test

import (
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func node(name, cpu string, labels map[string]string, ready corev1.ConditionStatus, addresses ...corev1.NodeAddress) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Addresses: addresses, Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
		},
	}
}

// Pods can use what ready nodes of the cluster's own have: not virtual nodes, nor those
// that take no pods.
func TestCapacityIsOfNodesThatTakePods(t *testing.T) {
	var l lending.Facts
	cordoned := node("c", "8", nil, corev1.ConditionTrue)
	cordoned.Spec.Unschedulable = true
	for _, n := range []*corev1.Node{
		node("a", "2", nil, corev1.ConditionTrue), node("b", "1500m", nil, corev1.ConditionTrue), cordoned,
		node("d", "8", nil, corev1.ConditionFalse), node("v", "100", map[string]string{peering.LabelNodeType: "virtual-node"}, corev1.ConditionTrue),
	} {
		l.Add(n)
	}
	if got := l.Capacity.Cpu().String(); got != "3500m" || len(l.Members) != 1 {
		t.Errorf("got %s CPUs and %d virtual nodes, want 3500m and 1", got, len(l.Members))
	}
}

// Liqo tells its consumers an address that an admin has set, or else the first of a
// control plane node.
func TestWhereLiqoSaysThatTheAPIServerIs(t *testing.T) {
	controlPlane := map[string]string{"node-role.kubernetes.io/control-plane": ""}
	at := func(kind corev1.NodeAddressType, address string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: kind, Address: address}
	}
	manager := func(args ...string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "liqo-controller-manager"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Args: args}}
		return d
	}
	for want, objects := range map[string][]metav1.Object{
		"": {manager("--api-server-address-override="), node("worker", "1", nil, corev1.ConditionTrue, at(corev1.NodeInternalIP, "10.0.0.9"))},
		"https://10.0.0.1:6443": {
			node("worker", "1", nil, corev1.ConditionTrue, at(corev1.NodeExternalIP, "192.0.2.9")),
			node("cp", "1", controlPlane, corev1.ConditionTrue, at(corev1.NodeHostName, "cp"), at(corev1.NodeInternalIP, "10.0.0.1")),
		},
		"https://192.0.2.1:6443":     {node("cp", "1", controlPlane, corev1.ConditionTrue, at(corev1.NodeInternalIP, "10.0.0.1"), at(corev1.NodeExternalIP, "192.0.2.1"))},
		"https://[2001:db8::1]:6443": {node("cp", "1", controlPlane, corev1.ConditionTrue, at(corev1.NodeInternalIP, "2001:db8::1"))},
		"https://api.example.org:8443": {
			manager("--v=2", "--api-server-address-override=api.example.org:8443"),
			node("cp", "1", controlPlane, corev1.ConditionTrue, at(corev1.NodeInternalIP, "10.0.0.1")),
		},
		"https://other.example.org": {manager("--api-server-address-override=https://other.example.org")},
	} {
		var l lending.Facts
		for _, o := range objects {
			l.Add(o)
		}
		if got := l.APIServer(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A consumer must not get the rights of a user or a group of its name. Those that
// peerings and programs have don't count.
func TestWhoHasRights(t *testing.T) {
	var l lending.Facts
	subject := func(kind, name string) rbacv1.Subject { return rbacv1.Subject{Kind: kind, Name: name} }
	l.Add(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "admins"}, RoleRef: rbacv1.RoleRef{Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{subject(rbacv1.UserKind, "ada"), subject(rbacv1.GroupKind, "system:masters"), subject(rbacv1.ServiceAccountKind, "rome")},
	})
	l.Add(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "team"}, RoleRef: rbacv1.RoleRef{Name: "edit"}, Subjects: []rbacv1.Subject{subject(rbacv1.GroupKind, "milan")},
	})
	l.Add(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-oslo", Name: "x"}, RoleRef: rbacv1.RoleRef{Name: "liqo-remote-controlplane"}, Subjects: []rbacv1.Subject{subject(rbacv1.UserKind, "oslo")},
	})
	want := map[string]string{"ada": "ClusterRoleBinding admins", "milan": "RoleBinding shop/team"}
	if !maps.Equal(l.Known, want) {
		t.Errorf("got %v, want %v", l.Known, want)
	}
}
