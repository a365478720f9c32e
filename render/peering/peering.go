// Package peering renders the objects of lending: identities, resources and offloaded namespaces, in Liqo's
// kinds. It is pure.
//
// The provider lends resources to the consumer, which has a virtual node for them.
package peering

import (
	"cmp"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Labels and annotations by which Liqo's controllers find the objects of lending.
const (
	LabelNonce            = "liqo.io/nonce"
	LabelSignedNonce      = "liqo.io/signed-nonce"
	LabelIdentityType     = "liqo.io/identity-type"
	LabelSliceName        = "liqo.io/resourceslice-name"
	LabelReplication      = "liqo.io/replication" // on the consumer: the object has to be copied to the provider
	LabelReplicated       = "liqo.io/replicated"  // on the provider: a copy
	LabelOrigin           = "liqo.io/originID"    // on a copy: the consumer
	LabelDestination      = "liqo.io/remoteID"    // the provider
	LabelNodeType         = "liqo.io/type"        // only virtual nodes have it
	LabelOffloadedPod     = "liqo.io/shadowPod"
	LabelPodOrigin        = "offloading.liqo.io/origin" // on a pod on the provider: the consumer
	LabelKubelet          = "offloading.liqo.io/component"
	LabelVirtualNode      = "liqo.io/virtual-node"
	AnnotationVirtualNode = "liqo.io/create-virtual-node"
	AnnotationUnreachable = "liqo.io/foreign-cluster-permanently-unreachable"
	AnnotationMapped      = "liqo.io/managed-by-namespace-map" // on a mapped namespace
)

// Values of labels, names of objects and keys of Secrets.
const (
	KubeletComponent  = "virtual-kubelet"
	NonceName         = "liqo-nonce"
	SignedNonceName   = "liqo-signed-nonce"
	CertificateName   = "liqo-remote-certificate" // for a slice, a dash and the slice's name follow
	KeysName          = "authentication-keys"     // in Liqo's namespace: the cluster's own key pair
	OffloadingName    = "offloading"
	ProxyIPName       = "api-server-proxy"
	KeyNonce          = "nonce"
	KeySignedNonce    = "signedNonce"
	KeyKubeconfig     = "kubeconfig"
	KeyCSR            = "csr"
	KeyCertificate    = "certificate"
	NamespacePrefix   = "liqo-tenant-" // Liqo's controllers give virtual kubelets a serving certificate only in such namespaces
	FinalizerReplicas = "crdreplicator.liqo.io/resource"
)

// IsProxy reports whether an IP belongs to our operator's proxy to the API server.
func IsProxy(ip metav1.Object) bool {
	return ip.GetName() == ProxyIPName && ip.GetLabels()[wire.LabelManagedBy] == wire.OperatorName
}

// AddToScheme adds the kinds of lending.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{authv1beta1.AddToScheme, offloadingv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

func meta(t render.Tenant, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: t.Namespace, Name: name, Labels: map[string]string{
		wire.LabelRemoteCluster: string(t.Remote), wire.LabelManagedBy: wire.ManagedBy,
	}}
}

func authentication(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: kind}
}

func secret(t render.Tenant, name, label string) *corev1.Secret {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta(t, name)}
	s.Labels[label] = "true"
	return s
}

// Nonce returns the Secret into which the provider's controllers write a nonce for the consumer.
func Nonce(t render.Tenant) *corev1.Secret { return secret(t, NonceName, LabelNonce) }

// SignedNonce returns the Secret in which the consumer's controllers sign the provider's nonce. nonce is the
// unchanged text.
func SignedNonce(t render.Tenant, nonce []byte) *corev1.Secret {
	s := secret(t, SignedNonceName, LabelSignedNonce)
	s.Data = map[string][]byte{KeyNonce: nonce}
	return s
}

// Applicant contains the facts that a consumer gives to a provider. All of them are public.
type Applicant struct {
	ID        wire.ClusterID
	Request          // the consumer's key, and its signing request
	Signature []byte // of the provider's nonce
	ProxyURL  string // of the proxy to the provider's API server; "" if there is none
}

// Tenant requests that the provider accepts a consumer. t is the provider's tenant namespace.
func Tenant(t render.Tenant, a Applicant) *authv1beta1.Tenant {
	o := &authv1beta1.Tenant{TypeMeta: authentication(authv1beta1.TenantKind), ObjectMeta: meta(t, string(a.ID))}
	o.Spec = authv1beta1.TenantSpec{
		ClusterID: corev1beta1.ClusterID(a.ID), PublicKey: a.PublicKey, CSR: a.CSR, Signature: a.Signature,
	}
	if a.ProxyURL != "" {
		o.Spec.ProxyURL = &a.ProxyURL
	}
	return o
}

// Identity returns the access that a provider gave to the consumer. t is the consumer's tenant namespace, and
// remoteNamespace the provider's.
func Identity(t render.Tenant, params authv1beta1.AuthParams, remoteNamespace string) *authv1beta1.Identity {
	return &authv1beta1.Identity{
		TypeMeta: authentication(authv1beta1.IdentityKind), ObjectMeta: meta(t, "controlplane-"+string(t.Remote)),
		Spec: authv1beta1.IdentitySpec{
			ClusterID: corev1beta1.ClusterID(t.Remote), Type: authv1beta1.ControlPlaneIdentityType, AuthParams: params, Namespace: &remoteNamespace,
		},
	}
}

// SliceParams describe a consumer's request to a provider.
type SliceParams struct {
	Class       string // "" means Liqo's default
	Resources   corev1.ResourceList
	VirtualNode bool
}

// ResourceSlice requests resources of the provider. The virtual node gets the name of the slice.
func ResourceSlice(t render.Tenant, p SliceParams) *authv1beta1.ResourceSlice {
	o := &authv1beta1.ResourceSlice{TypeMeta: authentication(authv1beta1.ResourceSliceKind), ObjectMeta: meta(t, string(t.Remote))}
	o.Labels[LabelReplication], o.Labels[LabelDestination] = "true", string(t.Remote)
	o.Annotations = map[string]string{AnnotationVirtualNode: "false"}
	if p.VirtualNode {
		o.Annotations[AnnotationVirtualNode] = "true"
	}
	provider := corev1beta1.ClusterID(t.Remote)
	o.Spec = authv1beta1.ResourceSliceSpec{
		ProviderClusterID: &provider, Resources: p.Resources,
		Class: authv1beta1.ResourceSliceClass(cmp.Or(p.Class, string(authv1beta1.ResourceSliceClassDefault))),
	}
	return o
}

// OffloadingParams are the settings of an offloaded namespace.
type OffloadingParams struct {
	Pods       string // a PodOffloadingStrategyType
	Mapping    string // a NamespaceMappingStrategyType
	RemoteName string // for the mapping SelectedName
	Selector   []corev1.NodeSelectorTerm
}

// Offloading offloads a namespace of the consumer.
func Offloading(namespace string, p OffloadingParams) *offloadingv1beta1.NamespaceOffloading {
	return &offloadingv1beta1.NamespaceOffloading{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "NamespaceOffloading"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: OffloadingName, Labels: map[string]string{wire.LabelManagedBy: wire.ManagedBy}},
		Spec: offloadingv1beta1.NamespaceOffloadingSpec{
			PodOffloadingStrategy:    offloadingv1beta1.PodOffloadingStrategyType(p.Pods),
			NamespaceMappingStrategy: offloadingv1beta1.NamespaceMappingStrategyType(p.Mapping),
			RemoteNamespaceName:      p.RemoteName,
			// Liqo's API requires the list. An empty list selects all clusters.
			ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: append([]corev1.NodeSelectorTerm{}, p.Selector...)},
		},
	}
}

// Node returns the only field that this program writes into a virtual node: whether the node takes no new
// pods.
func Node(name string, cordoned bool) *corev1.Node {
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{Unschedulable: cordoned},
	}
}

// Unreachable marks a cluster as permanently unreachable, so that Liqo's controllers don't wait for it. If
// gone is false, it removes the mark.
func Unreachable(name string, gone bool) *corev1beta1.ForeignCluster {
	o := &corev1beta1.ForeignCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1beta1.GroupVersion.String(), Kind: corev1beta1.ForeignClusterKind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	if gone {
		o.Annotations = map[string]string{AnnotationUnreachable: "true"}
	}
	return o
}
