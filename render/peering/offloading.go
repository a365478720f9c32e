package peering

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

const (
	// LabelOffloaded on a namespace means that its pods may be bound to virtual nodes.
	LabelOffloaded = "liqo.io/scheduling-enabled"
	// LabelPodDestination on a consumer's objects in its mapped namespaces is the provider.
	LabelPodDestination = "offloading.liqo.io/destination"
	// LabelPodNode on these objects is the virtual node to which they belong.
	LabelPodNode = "offloading.liqo.io/nodename"
	// AnnotationPodOf on a ShadowPod is the UID of the local pod.
	AnnotationPodOf = "liqo-tui.dev/of-pod"
	// AnnotationVersion on an object that a consumer has copied to a provider is the version of the original.
	AnnotationVersion = "liqo-tui.dev/of-version"
	// AnnotationStays keeps an object from being copied to providers. Liqo defines it.
	AnnotationStays = "liqo.io/skip-reflection"
	// AnnotationNamespaces on a VirtualNode lists the namespaces whose pods its virtual kubelet handles,
	// separated by commas. The virtual kubelet has no rights in other namespaces.
	AnnotationNamespaces = "liqo-tui.dev/namespaces"
	// AnnotationWithdrawn on a consumer's NamespaceMap lists the namespaces (by their names here) and objects
	// (as [WithdrawnObject]) that the provider has to delete, separated by commas. The operator adds a
	// namespace when it has seen that the namespace was withdrawn. It removes the namespace when the
	// provider's copy no longer requests it. An admin adds objects and namespaces that the command check has
	// listed.
	AnnotationWithdrawn = "liqo-tui.dev/withdrawn"
	// AnnotationLeft on a consumer's NamespaceMap lists the namespaces, separated by commas, that the
	// provider keeps although nothing on this cluster requests them, because no program has seen their
	// withdrawal.
	AnnotationLeft = "liqo-tui.dev/left-on-provider"
	// ConditionLeftovers on a virtual node is true if the provider has unowned objects in its namespaces:
	// they do not exist here, and no program has seen their deletion here. [Leftovers] reads its message.
	ConditionLeftovers corev1.NodeConditionType = "Leftovers"
)

// Withdrawn returns the namespaces and objects that a NamespaceMap withdraws.
func Withdrawn(m *offloadingv1beta1.NamespaceMap) map[string]bool {
	return listed(m, AnnotationWithdrawn)
}

// SetWithdrawn writes the namespaces and objects that a NamespaceMap withdraws.
func SetWithdrawn(m *offloadingv1beta1.NamespaceMap, all map[string]bool) {
	if len(all) == 0 {
		delete(m.Annotations, AnnotationWithdrawn)
		return
	}
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, AnnotationWithdrawn, strings.Join(slices.Sorted(maps.Keys(all)), ","))
}

// WithdrawnObject returns the text for an object in [AnnotationWithdrawn]. It differs from all names of namespaces.
func WithdrawnObject(uid types.UID) string { return withdrawnUID + string(uid) }

// WithdrawnUID reads the text of an object; false if it is the name of a namespace.
func WithdrawnUID(text string) (types.UID, bool) {
	uid, is := strings.CutPrefix(text, withdrawnUID)
	return types.UID(uid), is
}

const withdrawnUID = "uid:"

// Left returns the namespaces of a NamespaceMap that the provider keeps although nothing on this cluster
// requests them.
func Left(m *offloadingv1beta1.NamespaceMap) map[string]bool { return listed(m, AnnotationLeft) }

func listed(m *offloadingv1beta1.NamespaceMap, annotation string) map[string]bool {
	out := map[string]bool{}
	for text := range strings.SplitSeq(m.Annotations[annotation], ",") {
		if text = strings.TrimSpace(text); text != "" {
			out[text] = true
		}
	}
	return out
}

// Leftover is an unowned object on a provider.
type Leftover struct {
	Kind, Namespace, Name string
	UID                   types.UID
}

// mostLeftovers is the largest number of leftovers in a condition, so that Nodes stay small.
const mostLeftovers = 50

// LeftoversText returns the first leftovers, one per line, and the number of the others.
func LeftoversText(all []Leftover) string {
	var lines []string
	for i, l := range all {
		if i == mostLeftovers {
			lines = append(lines, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("%s %s/%s %s", l.Kind, l.Namespace, l.Name, l.UID))
	}
	return strings.Join(lines, "\n")
}

// Leftovers reads the text of [LeftoversText]: the leftovers in it, and the number of others. ok is false if
// message is another text.
func Leftovers(message string) (all []Leftover, more int, ok bool) {
	for line := range strings.SplitSeq(message, "\n") {
		words := strings.Split(line, " ")
		if len(words) != 3 {
			return nil, 0, false
		}
		if n, err := strconv.Atoi(words[1]); err == nil && words[0] == "and" && words[2] == "more" {
			more = n
			continue
		}
		namespace, name, is := strings.Cut(words[1], "/")
		if !is {
			return nil, 0, false
		}
		all = append(all, Leftover{words[0], namespace, name, types.UID(words[2])})
	}
	return all, more, true
}

// SecretTypes are the types that a copied Secret may have on a provider, because they have a meaning for
// pods.
var SecretTypes = []corev1.SecretType{
	corev1.SecretTypeOpaque, corev1.SecretTypeDockercfg, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeBasicAuth, corev1.SecretTypeSSHAuth, corev1.SecretTypeTLS,
}

// NamespaceMap requests mapped namespaces from a provider. The keys of mapping are the consumer's namespaces.
// Liqo defines the name of the object. left are namespaces that nothing requests any more.
func NamespaceMap(t render.Tenant, mapping map[string]string, left ...string) *offloadingv1beta1.NamespaceMap {
	m := &offloadingv1beta1.NamespaceMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "NamespaceMap"},
		ObjectMeta: operatorMeta(t.Namespace, string(t.Remote), string(t.Remote)),
		Spec:       offloadingv1beta1.NamespaceMapSpec{DesiredMapping: mapping},
	}
	m.Labels[LabelReplication], m.Labels[LabelDestination] = "true", string(t.Remote)
	if len(left) > 0 {
		m.Annotations = map[string]string{AnnotationLeft: strings.Join(left, ",")}
	}
	return m
}

// MapCopy returns the copy of a consumer's NamespaceMap in a namespace of the provider.
func MapCopy(m *offloadingv1beta1.NamespaceMap, consumer wire.ClusterID, namespace string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{
		TypeMeta: metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "NamespaceMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.Name, Labels: map[string]string{
			wire.LabelRemoteCluster: string(consumer), LabelOrigin: string(consumer), LabelDestination: m.Labels[LabelDestination],
			LabelReplicated: "true", LabelReplication: "false",
		}},
		Spec: *m.Spec.DeepCopy(),
	}
}

// RemoteName returns the name of the mapped namespace on providers.
func RemoteName(o *offloadingv1beta1.NamespaceOffloading, consumer wire.ClusterID) string {
	switch o.Spec.NamespaceMappingStrategy {
	case offloadingv1beta1.EnforceSameNameMappingStrategyType:
		return o.Namespace
	case offloadingv1beta1.SelectedNameMappingStrategyType:
		return cmp.Or(o.Spec.RemoteNamespaceName, o.Namespace)
	case offloadingv1beta1.DefaultNameMappingStrategyType:
	}
	return o.Namespace + "-" + string(consumer)
}

// OffloadedNamespace returns a namespace with the operator's label, or without it if the namespace is not
// offloaded any more.
func OffloadedNamespace(name string, offloaded bool) *corev1.Namespace {
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	if offloaded {
		ns.Labels = map[string]string{LabelOffloaded: "true"}
	}
	return ns
}

// OffloadedAccess returns the rights of virtual kubelets to handle the pods of a namespace.
func OffloadedAccess(namespace string, nodes []types.NamespacedName) *rbacv1.RoleBinding {
	var programs []rbacv1.Subject
	for _, n := range nodes {
		programs = append(programs, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: n.Namespace, Name: NodeAccount(n.Name)})
	}
	return binding(metav1.ObjectMeta{
		Namespace: namespace, Name: wire.OffloadedAccessName, Labels: map[string]string{wire.LabelManagedBy: wire.OperatorName},
	}, programs)
}

// Toleration is the toleration that a pod needs on a virtual node.
func Toleration() corev1.Toleration {
	return corev1.Toleration{Key: TaintVirtual, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
}
