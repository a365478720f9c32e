package peering

import (
	"cmp"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/render"
)

const (
	// LabelOffloaded on a namespace says that its pods may get on virtual nodes.
	LabelOffloaded = "liqo.io/scheduling-enabled"
	// LabelPodDestination on what a consumer has in its namespaces on a provider is that
	// provider.
	LabelPodDestination = "offloading.liqo.io/destination"
	// LabelPodNode there is the virtual node that it is of.
	LabelPodNode = "offloading.liqo.io/nodename"
	// AnnotationPodOf on a ShadowPod is the UID of the consumer's pod.
	AnnotationPodOf = "liqo-tui.dev/of-pod"
	// AnnotationVersion on what a consumer has put beside its pods is which version of its own
	// object that is.
	AnnotationVersion = "liqo-tui.dev/of-version"
	// AnnotationStays keeps an object from going along. It is Liqo's.
	AnnotationStays = "liqo.io/skip-reflection"
	// AnnotationNamespaces on a VirtualNode are the namespaces, with commas, in which its
	// program looks after pods. It may not in others.
	AnnotationNamespaces = "liqo-tui.dev/namespaces"
)

// SecretTypes are those that a consumer's Secrets may have on a provider: what Kubernetes
// gives a meaning for pods.
var SecretTypes = []corev1.SecretType{
	corev1.SecretTypeOpaque, corev1.SecretTypeDockercfg, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeBasicAuth, corev1.SecretTypeSSHAuth, corev1.SecretTypeTLS,
}

// NamespaceMap tells a provider which namespaces it is to have, by the consumer's names of
// them. Its name is Liqo's.
func NamespaceMap(t render.Tenant, mapping map[string]string) *offloadingv1beta1.NamespaceMap {
	m := &offloadingv1beta1.NamespaceMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "NamespaceMap"},
		ObjectMeta: operatorMeta(t.Namespace, string(t.Remote), string(t.Remote)),
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: mapping},
	}
	m.Labels[LabelReplication], m.Labels[LabelDestination] = "true", string(t.Remote)
	return m
}

// MapCopy is what a consumer shows of a NamespaceMap in a namespace of the provider.
func MapCopy(m *offloadingv1beta1.NamespaceMap, consumer render.ClusterID, namespace string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{
		TypeMeta: metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "NamespaceMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.Name, Labels: map[string]string{
			render.LabelRemoteCluster: string(consumer), LabelOrigin: string(consumer), LabelDestination: m.Labels[LabelDestination],
			LabelReplicated: "true", LabelReplication: "false",
		}},
		Spec: *m.Spec.DeepCopy(),
	}
}

// RemoteName is how an offloaded namespace is called on providers.
func RemoteName(o *offloadingv1beta1.NamespaceOffloading, consumer render.ClusterID) string {
	switch o.Spec.NamespaceMappingStrategy {
	case offloadingv1beta1.EnforceSameNameMappingStrategyType:
		return o.Namespace
	case offloadingv1beta1.SelectedNameMappingStrategyType:
		return cmp.Or(o.Spec.RemoteNamespaceName, o.Namespace)
	case offloadingv1beta1.DefaultNameMappingStrategyType:
	}
	return o.Namespace + "-" + string(consumer)
}

// OffloadedNamespace is what the operator says of a namespace: that it is offloaded, or
// nothing any more.
func OffloadedNamespace(name string, offloaded bool) *corev1.Namespace {
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	if offloaded {
		ns.Labels = map[string]string{LabelOffloaded: "true"}
	}
	return ns
}

// OffloadedAccess lets programs of virtual nodes look after the pods of a namespace.
func OffloadedAccess(namespace string, nodes []types.NamespacedName) *rbacv1.RoleBinding {
	var programs []rbacv1.Subject
	for _, n := range nodes {
		programs = append(programs, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: n.Namespace, Name: NodeAccount(n.Name)})
	}
	return binding(metav1.ObjectMeta{
		Namespace: namespace, Name: render.OffloadedAccessName, Labels: map[string]string{render.LabelManagedBy: render.OperatorName},
	}, programs)
}

// Toleration is what a pod needs to get on a virtual node.
func Toleration() corev1.Toleration {
	return corev1.Toleration{Key: TaintVirtual, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
}
