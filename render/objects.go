// Package render turns parameters into the Kubernetes objects that connect two clusters. It is pure.
package render

import (
	"cmp"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Tenant is one connection on one cluster: the peer, and the namespace and name of its objects.
type Tenant struct {
	Namespace string
	Remote    wire.ClusterID
	// Name is the name that an admin has chosen for the objects; "" means the peer's ID.
	Name string
}

// ObjectName returns the name of the connection's objects.
func (t Tenant) ObjectName() string { return cmp.Or(t.Name, string(t.Remote)) }

func (t Tenant) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: t.Namespace, Labels: t.labels()}
}

func (t Tenant) labels() map[string]string {
	return map[string]string{wire.LabelRemoteCluster: string(t.Remote), wire.LabelManagedBy: wire.ManagedBy}
}

// TenantNamespace returns the namespace of a connection. Its pod security level is "privileged", because
// Liqo's gateways are privileged, and ours need NET_ADMIN, which no lower level allows.
func TenantNamespace(t Tenant) *corev1.Namespace {
	labels := t.labels()
	labels[wire.LabelTenantNamespace] = "true"
	for _, mode := range []string{"enforce", "audit", "warn"} {
		labels["pod-security.kubernetes.io/"+mode] = "privileged"
	}
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: t.Namespace, Labels: labels},
	}
}

// CreatedByUs reports whether our program has created the namespace. We never label or delete other
// namespaces.
func CreatedByUs(ns wire.Object) bool {
	return ns.GetAnnotations()[wire.AnnotationCreated] == ns.GetName()
}

// MadeByUs reports whether one of our programs made an object. For a Namespace, use
// [CreatedByUs].
func MadeByUs(o wire.Object) bool {
	manager := o.GetLabels()[wire.LabelManagedBy]
	return manager == wire.ManagedBy || manager == wire.OperatorName
}

// TakesOver reports whether an apply of want would take over an object that another program or person has
// made with a name of ours. A plan that changes such an object on purpose omits our label from want.
func TakesOver(live, want wire.Object) bool {
	return want.GetLabels()[wire.LabelManagedBy] != "" && !MadeByUs(live)
}

// Networks are the address ranges of a cluster, as it knows them itself.
type Networks struct {
	Pod      []networkingv1beta1.CIDR
	External []networkingv1beta1.CIDR
}

// Configuration returns the object with the address ranges of a cluster's peer.
func Configuration(t Tenant, remote Networks) *networkingv1beta1.Configuration {
	return &networkingv1beta1.Configuration{
		TypeMeta:   networkingType(networkingv1beta1.ConfigurationKind),
		ObjectMeta: t.meta(t.ObjectName()),
		Spec: networkingv1beta1.ConfigurationSpec{Remote: networkingv1beta1.ClusterConfig{
			CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: remote.Pod, External: remote.External},
		}},
	}
}

// TemplateRef names a gateway template.
type TemplateRef struct {
	Name, Namespace string
	// Kind and APIVersion are set if the template's kind is not Liqo's; otherwise they are "".
	Kind, APIVersion string
}

// TemplateOf returns a gateway's reference to its template. kind is Liqo's kind of such templates.
func TemplateOf(ref corev1.ObjectReference, kind string) TemplateRef {
	t := TemplateRef{Name: ref.Name, Namespace: ref.Namespace}
	if ref.Kind != "" && ref.Kind != kind {
		t.Kind, t.APIVersion = ref.Kind, ref.APIVersion
	}
	return t
}

// ServerParams describe a GatewayServer.
type ServerParams struct {
	Tenant         Tenant
	Template       TemplateRef
	ServiceType    corev1.ServiceType
	Port           uint16
	NodePort       uint16 // 0 lets Kubernetes choose
	LoadBalancerIP string // "" lets the provider choose
	MTU            int    // bytes
	Relay          string // host:port of the relay that the gateway dials; "": the gateway waits for its client
}

// GatewayServer returns the end of a tunnel that the other end dials.
func GatewayServer(p ServerParams) *networkingv1beta1.GatewayServer {
	endpoint := networkingv1beta1.Endpoint{Port: int32(p.Port), ServiceType: p.ServiceType}
	if p.NodePort != 0 {
		endpoint.NodePort = new(int32(p.NodePort))
	}
	if p.LoadBalancerIP != "" {
		endpoint.LoadBalancerIP = new(p.LoadBalancerIP)
	}
	meta := p.Tenant.meta(p.Tenant.ObjectName())
	if p.Relay != "" {
		metav1.SetMetaDataAnnotation(&meta, wire.AnnotationRelay, p.Relay)
	}
	return &networkingv1beta1.GatewayServer{
		TypeMeta:   networkingType(networkingv1beta1.GatewayServerKind),
		ObjectMeta: meta,
		Spec: networkingv1beta1.GatewayServerSpec{
			ServerTemplateRef: templateRef(networkingv1beta1.WgGatewayServerTemplateKind, p.Template),
			MTU:               p.MTU,
			Endpoint:          endpoint,
		},
	}
}

// ClientParams describe a GatewayClient.
type ClientParams struct {
	Tenant    Tenant
	Template  TemplateRef
	Addresses []string // of the server: IP addresses or DNS names
	Port      uint16
	MTU       int // bytes
}

// GatewayClient returns the end of a tunnel that dials.
func GatewayClient(p ClientParams) *networkingv1beta1.GatewayClient {
	return &networkingv1beta1.GatewayClient{
		TypeMeta:   networkingType(networkingv1beta1.GatewayClientKind),
		ObjectMeta: p.Tenant.meta(p.Tenant.ObjectName()),
		Spec: networkingv1beta1.GatewayClientSpec{
			ClientTemplateRef: templateRef(networkingv1beta1.WgGatewayClientTemplateKind, p.Template),
			MTU:               p.MTU,
			// The port is only set here, because Liqo v1.2.0 and older prune the form with a list.
			Endpoint: networkingv1beta1.EndpointStatus{
				Addresses: p.Addresses, Port: int32(p.Port), Protocol: new(corev1.ProtocolUDP),
			},
		},
	}
}

// PublicKey returns the object with the WireGuard public key of a cluster's peer. owner is the gateway on the
// same cluster, with which Kubernetes deletes the PublicKey; it may be nil.
func PublicKey(t Tenant, key [32]byte, owner wire.Object) *networkingv1beta1.PublicKey {
	meta := t.meta(t.ObjectName())
	meta.Labels[wire.LabelGatewayResource] = "true"
	if owner != nil {
		meta.OwnerReferences = []metav1.OwnerReference{OwnerReference(owner)}
	}
	return &networkingv1beta1.PublicKey{
		TypeMeta:   networkingType(networkingv1beta1.PublicKeyKind),
		ObjectMeta: meta,
		Spec:       networkingv1beta1.PublicKeySpec{PublicKey: key[:]},
	}
}

// OwnerReference makes owner the controller of an object. The owner must have a UID from a cluster, and its
// kind.
func OwnerReference(owner wire.Object) metav1.OwnerReference {
	gvk := owner.GetObjectKind().GroupVersionKind()
	return metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true),
	}
}

// Network returns an object that reserves an address range. kind is the value of [wire.LabelNetworkType].
func Network(namespace, name, kind, cidr string, preAllocated uint32) *ipamv1alpha1.Network {
	return &ipamv1alpha1.Network{
		TypeMeta: metav1.TypeMeta{APIVersion: ipamv1alpha1.SchemeGroupVersion.String(), Kind: ipamv1alpha1.NetworkKind},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Labels: map[string]string{wire.LabelNetworkType: kind, wire.LabelManagedBy: wire.ManagedBy},
		},
		Spec: ipamv1alpha1.NetworkSpec{CIDR: networkingv1beta1.CIDR(cidr), PreAllocated: preAllocated},
	}
}

func networkingType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: kind}
}

func templateRef(kind string, t TemplateRef) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: cmp.Or(t.APIVersion, networkingv1beta1.GroupVersion.String()), Kind: cmp.Or(t.Kind, kind), Name: t.Name, Namespace: t.Namespace,
	}
}
