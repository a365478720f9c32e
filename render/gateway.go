package render

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Gateway is one gateway on one cluster. Its methods render the gateway's children.
type Gateway struct {
	Tenant Tenant
	Name   string
	Type   networkingv1beta1.ConnectionType
	Owner  wire.Object // the GatewayServer or GatewayClient
}

func (g Gateway) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: g.Tenant.Namespace,
		Labels: map[string]string{
			wire.LabelRemoteCluster: string(g.Tenant.Remote), wire.LabelGatewayName: g.Name,
			wire.LabelGatewayNamespace: g.Tenant.Namespace, wire.LabelComponent: "gateway", wire.LabelManagedBy: wire.OperatorName,
		},
		OwnerReferences: []metav1.OwnerReference{OwnerReference(g.Owner)},
	}
}

// PullSecret returns a copy of a pull secret of the gateway's image. ok is false if of has another type.
func (g Gateway) PullSecret(of *corev1.Secret) (_ *corev1.Secret, ok bool) {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: g.meta(of.Name), Type: of.Type, Data: of.Data,
	}, of.Type == corev1.SecretTypeDockerConfigJson || of.Type == corev1.SecretTypeDockercfg
}

// KeySecret returns the Secret with the gateway's WireGuard keys, raw, 32 bytes each. The keys never leave
// their cluster.
func (g Gateway) KeySecret(private, public [32]byte) *corev1.Secret {
	meta := g.meta(wire.GatewayObjectName(g.Name))
	meta.Labels[wire.LabelGatewayResource] = "true"
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta,
		Data: map[string][]byte{wire.SecretPrivateKey: private[:], wire.SecretPublicKey: public[:]},
	}
}

// ServiceAccount returns the identity of the gateway's pod.
func (g Gateway) ServiceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: g.meta(g.Name),
	}
}

// Role returns the rights of a gateway's pod. It may read its own inputs and write its Connection's status,
// and the record of its last day, only in its own namespace.
func (g Gateway) Role() *rbacv1.Role {
	read := []string{"get", "list", "watch"}
	group := []string{networkingv1beta1.GroupVersion.Group}
	name := wire.GatewayObjectName(g.Name)
	return &rbacv1.Role{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: g.meta(name),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: group, Resources: []string{"gatewayservers", "gatewayclients", "configurations", "publickeies", "connections"}, Verbs: read},
			{APIGroups: group, Resources: []string{"connections", "connections/status"}, ResourceNames: []string{name}, Verbs: []string{"patch"}},
			// While a pod is replaced, the new pod checks whether the old one holds the tunnel. A peer to
			// which everything else is closed can reach the pods of a test.
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{wire.HostsConfigMapName(g.Name)}, Verbs: read},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{wire.HistoryConfigMapName(g.Name)}, Verbs: []string{"get", "patch"}},
			// These are its own keys. The pod uses new keys when they are changed.
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: read},
			{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		},
	}
}

// RoleBinding gives the gateway's pod its Role.
func (g Gateway) RoleBinding() *rbacv1.RoleBinding {
	name := wire.GatewayObjectName(g.Name)
	return &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: g.meta(name),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: g.Name, Namespace: g.Tenant.Namespace}},
	}
}

// Connection returns the object in which the gateway's pod reports the state of the tunnel.
func (g Gateway) Connection() *networkingv1beta1.Connection {
	kind := networkingv1beta1.WgGatewayServerKind
	if g.Type == networkingv1beta1.ConnectionTypeClient {
		kind = networkingv1beta1.WgGatewayClientKind
	}
	return &networkingv1beta1.Connection{
		TypeMeta: networkingType(networkingv1beta1.ConnectionKind), ObjectMeta: g.meta(wire.GatewayObjectName(g.Name)),
		Spec: networkingv1beta1.ConnectionSpec{
			Type: g.Type,
			GatewayRef: corev1.ObjectReference{
				APIVersion: networkingv1beta1.GroupVersion.String(), Kind: kind,
				Name: g.Name, Namespace: g.Tenant.Namespace, UID: g.Owner.GetUID(),
			},
		},
	}
}

// Fabric contains a gateway's settings for the cluster's nodes.
type Fabric struct {
	PodIP  string
	Gone   bool // no pod of the gateway has PodIP any more
	Remote []networkingv1beta1.CIDR
	MTU    int
	// Host is the address of the pod's node, if the node forwards packets to the pod.
	Host netip.Addr
	// NodeIPs are the addresses of the nodes on which the gateway's pods run.
	NodeIPs []string
	Hosts   []netip.Addr // addresses that the peer is allowed to reach by external addresses
	LeftOut []string     // for people: addresses in the peer's ranges that are left out, with reasons
	// Also are the peer's ranges for which nodes have to confirm their routes.
	Also []netip.Prefix
}

// InternalFabric returns the object from which the cluster's nodes learn the ranges of the peer, and the
// address of the gateway's pod.
func (g Gateway) InternalFabric(f Fabric) *networkingv1beta1.InternalFabric {
	ip := networkingv1beta1.IP(f.PodIP)
	meta := g.meta(g.Name)
	meta.Annotations = map[string]string{}
	for name, text := range map[string]string{
		wire.AnnotationLeftOut: strings.Join(f.LeftOut, "\n"), wire.AnnotationNodeIPs: strings.Join(f.NodeIPs, ","),
		wire.AnnotationAlso: wire.Joined(f.Also), wire.AnnotationHosts: wire.Joined(f.Hosts),
	} {
		if text != "" {
			meta.Annotations[name] = text
		}
	}
	if f.Host.IsValid() {
		meta.Annotations[wire.AnnotationHost] = f.PodIP + "@" + f.Host.String()
	}
	if f.Gone {
		meta.Annotations[wire.AnnotationGone] = f.PodIP
	}
	return &networkingv1beta1.InternalFabric{
		TypeMeta: networkingType(networkingv1beta1.InternalFabricKind), ObjectMeta: meta,
		Spec: networkingv1beta1.InternalFabricSpec{
			MTU: f.MTU, RemoteCIDRs: f.Remote, GatewayIP: ip,
			// The next hops in our fabric are the underlay's own addresses. So the gateway's
			// address in the fabric is its pod's address.
			Interface: networkingv1beta1.InternalFabricSpecInterface{
				Node:    networkingv1beta1.InternalFabricSpecInterfaceNode{Name: wire.FabricDevice},
				Gateway: networkingv1beta1.InternalFabricSpecInterfaceGateway{IP: ip},
			},
		},
	}
}

// TenantAccess gives the operator, which runs in namespace home, its rights in a tenant's namespace. The
// rights end when the owners are deleted. Owners are Configurations or servers for invited peers. Each kind
// has its own binding.
func TenantAccess(namespace, home string, owners []wire.Object) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{
			Name: wire.OperatorName, Namespace: namespace, Labels: map[string]string{wire.LabelManagedBy: wire.OperatorName},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: wire.TenantAccessName},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: wire.OperatorName}},
	}
	for _, o := range owners {
		kind := networkingv1beta1.ConfigurationKind
		if _, server := o.(*networkingv1beta1.GatewayServer); server {
			kind, b.Name = networkingv1beta1.GatewayServerKind, wire.InvitedAccessName
		}
		b.OwnerReferences = append(b.OwnerReferences, metav1.OwnerReference{
			APIVersion: networkingv1beta1.GroupVersion.String(), Kind: kind, Name: o.GetName(), UID: o.GetUID(),
		})
	}
	return b
}

// GatewayAccess lets the pods of these gateways read the nodes' reports. The pods may read nothing else
// outside their namespace.
func GatewayAccess(gateways []types.NamespacedName) *rbacv1.ClusterRoleBinding {
	b := &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: wire.GatewayAccessName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: wire.GatewayAccessName},
	}
	for _, g := range gateways {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: g.Namespace, Name: g.Name})
	}
	return b
}

// Host is an IP resource: an address in this cluster's external CIDR, and the real address
// behind it.
type Host struct {
	External netip.Addr `json:"external"`
	Real     netip.Addr `json:"real"`
}

const hostsKey = "hosts.json"

// HostsConfigMap returns the list of hosts that the peer is allowed to reach, for the gateway's pod. So the
// pod needs no right to read IPs, which are in all namespaces.
func (g Gateway) HostsConfigMap(hosts []Host) (*corev1.ConfigMap, error) {
	text, err := json.Marshal(hosts)
	if err != nil {
		return nil, fmt.Errorf("render hosts of gateway %s: %w", g.Name, err)
	}
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: g.meta(wire.HostsConfigMapName(g.Name)),
		Data: map[string]string{hostsKey: string(text)},
	}, nil
}

// HistoryConfigMap returns the object in which the gateway's pods record the last day, one after the other. They may
// not create objects, so the operator makes it.
func (g Gateway) HistoryConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: g.meta(wire.HistoryConfigMapName(g.Name)),
	}
}

// ParseHosts reads the hosts that [Gateway.HostsConfigMap] wrote.
func ParseHosts(cm *corev1.ConfigMap) ([]Host, error) {
	var hosts []Host
	if err := json.Unmarshal([]byte(cm.Data[hostsKey]), &hosts); err != nil {
		return nil, fmt.Errorf("parse %s of ConfigMap %s/%s: %w", hostsKey, cm.Namespace, cm.Name, err)
	}
	return hosts, nil
}
