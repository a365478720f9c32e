package peering

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

const (
	// NodeType is the value of [LabelNodeType].
	NodeType = "virtual-node"
	// LabelNodeOf on a Node of ours, and on its Lease, is the namespace of the VirtualNode of the same name.
	LabelNodeOf = "liqo-tui.dev/virtual-node-of"
	// TaintVirtual is a taint of Liqo's. Pods that tolerate it may be bound to a virtual node.
	TaintVirtual = "virtual-node.liqo.io/not-allowed"
	// KubeletPort is the port at which a virtual kubelet answers API servers, as kubelets do.
	KubeletPort = 10250
	// labelArchBeta is the former name of [corev1.LabelArchStable].
	labelArchBeta = "beta.kubernetes.io/arch"
	// TaintNoPods is a taint that an earlier version wrote. In that version, virtual nodes could not run pods.
	TaintNoPods = "liqo-tui.dev/runs-no-pods"
)

// Reasons in the status of pods on our virtual nodes.
const (
	ReasonNotOffloaded  = "NamespaceNotOffloaded"
	ReasonUnfit         = "OffloadingImpossible"
	ReasonRefused       = "OffloadingRefused"
	ReasonAsked         = "OffloadingAsked"
	ReasonUnschedulable = "UnschedulableAbroad"
	ReasonTunnelDown    = "TunnelDown"
	ReasonEnded         = "EndedUnseen"
)

// ReasonUnsent is the reason of an Event on a pod whose changes are not sent to the provider.
const ReasonUnsent = "ChangeNotSent"

// nodeTaints are the permanent taints of a virtual node.
func nodeTaints() []corev1.Taint {
	return []corev1.Taint{{Key: TaintVirtual, Value: "true", Effect: corev1.TaintEffectNoExecute}}
}

// lentLabels are the labels of a provider's nodes that its virtual nodes may have, too. Zone and region are
// not included, because Kubernetes would count the virtual node as one more domain of
// topologySpreadConstraints, although its taint keeps pods off. Then pods without any relation to lending
// would stay Pending.
var lentLabels = []string{corev1.LabelArchStable, corev1.LabelInstanceTypeStable}

// NodeLabels returns the labels of a provider's node that its virtual nodes may have, too. It omits values
// that no label can have.
func NodeLabels(of map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range lentLabels {
		if value := of[key]; value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			out[key] = value
		}
	}
	return out
}

// CreatesNode reports whether the admin wants a virtual node for a slice.
func CreatesNode(s *authv1beta1.ResourceSlice) bool {
	value := s.Annotations[AnnotationVirtualNode]
	return value != "" && !strings.EqualFold(value, "false")
}

// VirtualNode returns the VirtualNode of a slice. problem is the reason that no pod can run on it; "" if pods
// can run.
func VirtualNode(s *authv1beta1.ResourceSlice, problem string) *offloadingv1beta1.VirtualNode {
	labels := NodeLabels(s.Status.NodeLabels)
	labels[wire.LabelRemoteCluster] = s.Labels[LabelDestination]
	v := &offloadingv1beta1.VirtualNode{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: offloadingv1beta1.VirtualNodeKind},
		ObjectMeta: operatorMeta(s.Namespace, s.Name, s.Labels[LabelDestination]),
		Spec: offloadingv1beta1.VirtualNodeSpec{
			ClusterID: *s.Spec.ProviderClusterID, CreateNode: new(true), Labels: labels,
			KubeconfigSecretRef: &corev1.LocalObjectReference{Name: KubeconfigName(SliceIdentityName(s.Name))},
			ResourceQuota:       corev1.ResourceQuotaSpec{Hard: s.Status.Resources},
		},
	}
	v.Labels[LabelSliceName] = s.Name
	if problem != "" {
		v.Annotations = map[string]string{wire.AnnotationProblem: problem}
	}
	v.OwnerReferences = ownedBy(authv1beta1.ResourceSliceKind, s)
	return v
}

// NodeProgram is the virtual kubelet of a VirtualNode.
type NodeProgram struct {
	*offloadingv1beta1.VirtualNode

	Consumer wire.ClusterID
	Image    string
	Pods     render.PodSettings
}

// NodeAccount returns the name of a virtual kubelet's ServiceAccount.
func NodeAccount(node string) string { return wire.NodeAccessName + "-" + node }

func (p NodeProgram) meta(name string) metav1.ObjectMeta {
	m := operatorMeta(p.Namespace, name, p.Labels[wire.LabelRemoteCluster])
	m.Labels[LabelVirtualNode], m.Labels[LabelKubelet] = p.Name, KubeletComponent
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: offloadingv1beta1.VirtualNodeKind, Name: p.Name, UID: p.UID, Controller: new(true),
	}}
	return m
}

// labelValue cuts a name to the length of a label's value. Names of nodes have up to 63 characters, and names
// that are derived from them have more.
func labelValue(name string) string {
	return strings.TrimRight(name[:min(len(name), validation.LabelValueMaxLength)], "-.")
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// ServiceAccount is the account of the virtual kubelet.
func (p NodeProgram) ServiceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: p.meta(NodeAccount(p.Name))}
}

// Role lets the virtual kubelet read the objects that determine the state of its node.
func (p NodeProgram) Role() *rbacv1.Role {
	read := []string{"get", "list", "watch"}
	return &rbacv1.Role{
		TypeMeta: rbacType("Role"), ObjectMeta: p.meta(NodeAccount(p.Name)),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{offloadingv1beta1.SchemeGroupVersion.Group}, Resources: []string{"virtualnodes"}, ResourceNames: []string{p.Name}, Verbs: read},
			{APIGroups: []string{offloadingv1beta1.SchemeGroupVersion.Group}, Resources: []string{"namespacemaps"}, ResourceNames: []string{string(p.Spec.ClusterID)}, Verbs: read},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{p.Spec.KubeconfigSecretRef.Name, ServingName(p.Name)}, Verbs: read},
			{APIGroups: []string{networkingv1beta1.GroupVersion.Group}, Resources: []string{"configurations", "connections"}, Verbs: read},
		},
	}
}

// RoleBinding gives the virtual kubelet its Role.
func (p NodeProgram) RoleBinding() *rbacv1.RoleBinding {
	name := NodeAccount(p.Name)
	return &rbacv1.RoleBinding{
		TypeMeta: rbacType("RoleBinding"), ObjectMeta: p.meta(name),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.Namespace, Name: name}},
	}
}

// PullSecret returns a copy of a pull secret for the image. Its name differs from that of gateways' copies in
// the same namespace.
func (p NodeProgram) PullSecret(of *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: p.meta(p.pullSecret(of.Name)), Type: of.Type, Data: of.Data,
	}
}

func (p NodeProgram) pullSecret(of string) string { return DeploymentName(p.Name) + "-" + of }

// DeploymentName returns the name of a virtual kubelet's Deployment.
func DeploymentName(node string) string { return "vk-" + node }

// movesAfter is the number of seconds that the virtual kubelet's pod stays on a lost node. Kubernetes'
// default is 300 s. Both times begin when Kubernetes notices by the node's Lease that the node is lost, which
// takes 40 s.
const movesAfter = 20

// Deployment runs the virtual kubelet. It never runs two pods at a time, because they would contradict each
// other.
func (p NodeProgram) Deployment() *appsv1.Deployment {
	labels := map[string]string{LabelVirtualNode: p.Name, LabelKubelet: KubeletComponent, wire.LabelAppName: labelValue(DeploymentName(p.Name))}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	pod.Spec = corev1.PodSpec{
		ServiceAccountName: NodeAccount(p.Name), TerminationGracePeriodSeconds: new(int64(2)),
		Containers: []corev1.Container{{
			Name: "node", Image: p.Image, ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			Args: []string{
				"node", "--name=" + p.Name, "--namespace=" + p.Namespace, "--kubeconfig-secret=" + p.Spec.KubeconfigSecretRef.Name,
				"--provider=" + string(p.Spec.ClusterID), "--consumer=" + string(p.Consumer),
			},
			Ports: []corev1.ContainerPort{{Name: "kubelet", ContainerPort: KubeletPort}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true), RunAsUser: new(int64(65532)),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}},
		}},
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(movesAfter)),
		})
	}
	p.Pods.Apply(&pod.ObjectMeta, &pod.Spec)
	pod.Spec.ImagePullSecrets = nil
	for _, ref := range p.Pods.ImagePullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: p.pullSecret(ref.Name)})
	}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"}, ObjectMeta: p.meta(DeploymentName(p.Name)),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, RevisionHistoryLimit: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelVirtualNode: p.Name, LabelKubelet: KubeletComponent}}, Template: pod,
		},
	}
}

// Member returns the new Node. The virtual kubelet writes its status, except for the address.
func (p NodeProgram) Member() *corev1.Node {
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: map[string]string{
			LabelNodeType: NodeType, LabelNodeOf: p.Namespace, wire.LabelRemoteCluster: p.Labels[wire.LabelRemoteCluster], wire.LabelManagedBy: wire.OperatorName,
			corev1.LabelHostname: p.Name, corev1.LabelOSStable: "linux", "kubernetes.io/role": "agent", corev1.LabelNodeExcludeBalancers: "true",
		}},
		Spec: corev1.NodeSpec{Taints: nodeTaints(), ProviderID: "liqo://" + p.Name},
	}
}

// Lent returns the labels of the Node that come from the provider's nodes. If a Node has the new label of
// the architecture, Kubernetes sets the old label to the same value. But if the new label is removed,
// Kubernetes does not remove the old one, so Lent has both.
func (p NodeProgram) Lent() *corev1.Node {
	labels := NodeLabels(p.Spec.Labels)
	if arch := labels[corev1.LabelArchStable]; arch != "" {
		labels[labelArchBeta] = arch
	}
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: labels}}
}

// Address returns the fields of a Node that the operator writes: the address ip at which the virtual kubelet
// answers API servers, and its port. If ip is "", the Node has neither.
func (p NodeProgram) Address(ip string) *corev1.Node {
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
	if ip != "" {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = KubeletPort
	}
	return n
}

// MemberOf reports whether a Node is ours and belongs to a VirtualNode in this namespace.
func MemberOf(n *corev1.Node, namespace string) bool {
	return n.Labels[LabelNodeType] == NodeType && n.Labels[LabelNodeOf] == namespace
}

// ServingName returns the name of the Secret with a virtual kubelet's serving certificate.
func ServingName(node string) string { return NodeAccount(node) + "-serving" }

// ServingRequest returns the subject of the serving certificate. It is that of a kubelet, because Kubernetes'
// signer for kubelets requires this.
func ServingRequest(node string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}
}

// ServingRequestName returns the name of a VirtualNode's signing request.
func ServingRequestName(v *offloadingv1beta1.VirtualNode) string {
	return "liqo-tui-node-" + string(v.UID)
}

// servingDays is the lifetime of a serving certificate. The certificate is renewed after two thirds of it,
// and when the virtual kubelet's pod has another address.
const servingDays = 30

// SigningRequest returns a request to Kubernetes to sign a CSR of the virtual kubelet.
func (p NodeProgram) SigningRequest(csr []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: ServingRequestName(p.VirtualNode), Labels: map[string]string{wire.LabelManagedBy: wire.OperatorName}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}), SignerName: certificatesv1.KubeletServingSignerName,
			ExpirationSeconds: new(int32(servingDays * 24 * 3600)), Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
}

// ServingSecret returns the serving certificate of the virtual kubelet, and its key.
func (p NodeProgram) ServingSecret(certificate, key []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: p.meta(ServingName(p.Name)), Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}
}

// Lease returns the object that tells Kubernetes that the virtual kubelet runs. It is deleted with the Node.
func (p NodeProgram) Lease(n *corev1.Node) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: corev1.NamespaceNodeLease, Name: p.Name, Labels: map[string]string{LabelNodeType: NodeType, LabelNodeOf: p.Namespace},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}},
		},
	}
}

// NodeAccess returns the rights of virtual kubelets to write the status of their Nodes, and to renew their
// Leases.
func NodeAccess(nodes []types.NamespacedName) (*rbacv1.ClusterRoleBinding, *rbacv1.RoleBinding) {
	var programs []rbacv1.Subject
	for _, n := range nodes {
		programs = append(programs, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: n.Namespace, Name: NodeAccount(n.Name)})
	}
	meta := metav1.ObjectMeta{Name: wire.NodeAccessName}
	all := &rbacv1.ClusterRoleBinding{
		TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: meta, Subjects: programs,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: wire.NodeAccessName},
	}
	meta.Namespace = corev1.NamespaceNodeLease
	return all, &rbacv1.RoleBinding{
		TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta, Subjects: programs,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: wire.NodeAccessName},
	}
}
