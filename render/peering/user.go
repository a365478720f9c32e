package peering

import (
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// UserName is the name of the ServiceAccount that a peer's admin uses on this cluster.
const UserName = "liqo-tui-peering-user"

// UserPolicy is the name of the admission policy that limits what these accounts may write. It is installed
// with policies.yaml of package render.
const UserPolicy = UserName

// User returns a ServiceAccount and all its rights. This cluster is the provider. The admin of a consumer uses
// the account for two purposes: to connect the consumer with the provider, and to request lending. t is the
// tenant namespace, and home the operator's namespace. The only Secret that the account can read is the nonce.
// The account can read no objects of other tenants. [UserPolicy] limits which objects it may create, and what
// it may write into them.
func User(t render.Tenant, home string) []wire.Object {
	networking, authentication := networkingv1beta1.GroupVersion.Group, authv1beta1.GroupVersion.Group
	read := []string{"get", "list", "watch"}
	change := append([]string{"create", "delete", "patch"}, read...)
	rule := func(verbs []string, group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	named := func(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
		r.ResourceNames = names
		return r
	}
	account := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: userMeta(t, t.Namespace, UserName)}
	return append([]wire.Object{account}, append(
		grant(t, t.Namespace, UserName, []rbacv1.PolicyRule{
			// In a Role, this rule is only for the namespace of the Role. A plan that removes a connection
			// checks for the right to delete the namespace, so the account has this right. But the policy
			// refuses the deletion.
			rule([]string{"delete", "get"}, "", "namespaces"),
			named(rule(change, "", "secrets"), NonceName),
			rule(read, "", "pods"),
			rule(change, networking, "configurations", "gatewayservers", "gatewayclients", "publickeies"),
			rule(read, networking, "connections"),
			rule(change, authentication, "tenants"),
			rule([]string{"list", "watch"}, authentication, "identities", "resourceslices", "renews"),
			rule([]string{"list", "watch"}, offloadingv1beta1.SchemeGroupVersion.Group, "virtualnodes", "namespacemaps"),
		}),
		grant(t, home, UserName+"-"+string(t.Remote), []rbacv1.PolicyRule{
			rule(read, "", "configmaps"),
			rule(read, "apps", "deployments"),
			rule(read, ipamv1alpha1.SchemeGroupVersion.Group, "networks"),
			named(rule(read, ipamv1alpha1.SchemeGroupVersion.Group, "ips"), ProxyIPName),
		})...)...)
}

func userMeta(t render.Tenant, namespace, name string) metav1.ObjectMeta {
	m := meta(t, name)
	m.Namespace, m.Labels[render.LabelDelegate] = namespace, render.DelegateUser
	return m
}

func grant(t render.Tenant, namespace, name string, rules []rbacv1.PolicyRule) []wire.Object {
	role := metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}
	binding := metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}
	return []wire.Object{
		&rbacv1.Role{TypeMeta: role, ObjectMeta: userMeta(t, namespace, name), Rules: rules},
		&rbacv1.RoleBinding{
			TypeMeta: binding, ObjectMeta: userMeta(t, namespace, name),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: t.Namespace, Name: UserName}},
		},
	}
}
