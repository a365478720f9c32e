package peering

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Names for the objects that a provider has for a consumer.
const (
	// LabelMapped marks a mapped namespace, and the objects that limit it.
	LabelMapped = "liqo-tui.dev/twin"
	// AnnotationOriginal on a mapped namespace is the name of the consumer's namespace.
	AnnotationOriginal = "liqo.io/original-name"
	// AnnotationAnyName on a Tenant allows mapped namespaces of any free name.
	AnnotationAnyName = "liqo-tui.dev/any-namespace"
	// AnnotationShadow on a remote pod is the UID of its ShadowPod.
	AnnotationShadow = "liqo-tui.dev/shadow-pod"
	LabelMadeBy      = "liqo.io/managed-by"
	MadeByShadowPod  = "shadowpod"
	LabelEnforce     = "pod-security.kubernetes.io/enforce"
	LevelEnforced    = "baseline"
	// LentPriority is the priority class of remote pods, which preempts no other pods.
	LentPriority = "liqo-tui-lent"
)

// The resource names of the numbers of ShadowPods and ShadowEndpointSlices in a ResourceQuota.
const (
	ShadowPodsCounted      corev1.ResourceName = "count/shadowpods.offloading.liqo.io"
	ShadowEndpointsCounted corev1.ResourceName = "count/shadowendpointslices.offloading.liqo.io"
)

// MapName returns the value of [AnnotationMapped] for the mapped namespaces of a map: its namespace/name.
func MapName(m *offloadingv1beta1.NamespaceMap) string { return m.Namespace + "/" + m.Name }

// MappedNamespace returns a mapped namespace.
func MappedNamespace(m *offloadingv1beta1.NamespaceMap, consumer wire.ClusterID, original, name string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				LabelMapped: "true", wire.LabelRemoteCluster: string(consumer), LabelEnforce: LevelEnforced, wire.LabelManagedBy: wire.OperatorName,
			},
			Annotations: map[string]string{wire.AnnotationCreated: name, AnnotationMapped: MapName(m), AnnotationOriginal: original},
		},
	}
}

// IsMapped reports whether our operator has made a namespace as a mapped namespace. The operator changes no
// other namespaces.
func IsMapped(ns wire.Object) bool {
	return render.CreatedByUs(ns) && ns.GetLabels()[LabelMapped] == "true" && ns.GetAnnotations()[AnnotationMapped] != ""
}

// Stands reports whether a namespace is a mapped namespace of a consumer, no matter whether Liqo or our
// operator has made it. Such a namespace has the consumer's label, but is not its tenant namespace.
func Stands(ns wire.Object) bool { return ns.GetAnnotations()[AnnotationMapped] != "" }

func mappedMeta(mapped *corev1.Namespace, name string) metav1.ObjectMeta {
	m := operatorMeta(mapped.Name, name, mapped.Labels[wire.LabelRemoteCluster])
	m.Labels[LabelMapped] = "true"
	return m
}

func binding(meta metav1.ObjectMeta, subjects []rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta: rbacType("RoleBinding"), ObjectMeta: meta,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}, Subjects: subjects,
	}
}

// MappedAccess returns the rights of the users of a consumer's slices in a mapped namespace.
func MappedAccess(mapped *corev1.Namespace, users []string) *rbacv1.RoleBinding {
	var subjects []rbacv1.Subject
	for _, name := range slices.Sorted(slices.Values(users)) {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name})
	}
	return binding(mappedMeta(mapped, wire.MappedAccessName), subjects)
}

// MappedOperatorAccess returns the rights of the operator in namespace home in a mapped namespace.
func MappedOperatorAccess(mapped *corev1.Namespace, home string) *rbacv1.RoleBinding {
	return binding(mappedMeta(mapped, wire.MappedOperatorName), []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: wire.OperatorName}})
}

// Limits for the objects of a consumer in a mapped namespace, in addition to pods. Without them, a consumer
// could fill the provider's etcd.
const (
	mostObjects    = 100
	mostShadowPods = 1000 // or twice the granted pods, if that is more; ShadowPods that wait are included
)

// MappedQuotas returns a second limit: no mapped namespace has more resources than all slices of its consumer
// together. Liqo's kinds have their own quota, because Kubernetes discovers them later.
func MappedQuotas(mapped *corev1.Namespace, granted corev1.ResourceList) []*corev1.ResourceQuota {
	of := func(name string, hard corev1.ResourceList) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: mappedMeta(mapped, name), Spec: corev1.ResourceQuotaSpec{Hard: hard},
		}
	}
	count := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
	hard := corev1.ResourceList{
		corev1.ResourceRequestsCPU: granted[corev1.ResourceCPU], corev1.ResourceLimitsMemory: granted[corev1.ResourceMemory], corev1.ResourcePods: granted[corev1.ResourcePods],
		corev1.ResourceLimitsEphemeralStorage: granted[corev1.ResourceEphemeralStorage],
		corev1.ResourceServicesLoadBalancers:  count(0), corev1.ResourceServicesNodePorts: count(0), corev1.ResourcePersistentVolumeClaims: count(0),
		"count/secrets": count(mostObjects), "count/configmaps": count(mostObjects), "count/services": count(mostObjects),
	}
	pods := granted[corev1.ResourcePods]
	return []*corev1.ResourceQuota{
		of(wire.MappedAccessName, hard),
		of(wire.MappedAccessName+"-asked", corev1.ResourceList{ShadowPodsCounted: count(max(mostShadowPods, 2*pods.Value())), ShadowEndpointsCounted: count(2 * mostObjects)}),
	}
}

// MappedLimits sets the amounts of containers that state none, no matter which program creates the pod.
func MappedLimits(mapped *corev1.Namespace, cpu, memory, disk resource.Quantity) *corev1.LimitRange {
	return &corev1.LimitRange{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"}, ObjectMeta: mappedMeta(mapped, wire.MappedAccessName),
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type:           corev1.LimitTypeContainer,
			Min:            corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")},
			DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: disk},
			Default:        corev1.ResourceList{corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: disk},
		}}},
	}
}

// notOutside are ranges of a provider's internal addresses: nodes, machines in the same network, and the
// metadata servers of clouds, which give identities to nodes.
var notOutside = []string{"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/4", "240.0.0.0/4"}

// MappedPolicy limits the connections of the pods in a mapped namespace. It allows connections to and from
// the consumer's mapped namespaces and the pods of its own cluster, and to DNS and the internet. conf is nil
// if the clusters are not connected. own are the ranges and addresses of this cluster.
func MappedPolicy(mapped *corev1.Namespace, conf *networkingv1beta1.Configuration, own []netip.Prefix) *networkingv1.NetworkPolicy {
	theirs := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
		LabelMapped: "true", wire.LabelRemoteCluster: mapped.Labels[wire.LabelRemoteCluster],
	}}}}
	if conf != nil && conf.Status.Remote != nil {
		for _, cidr := range slices.Concat(conf.Status.Remote.CIDR.Pod, conf.Status.Remote.CIDR.External) {
			theirs = append(theirs, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: string(cidr)}})
		}
	}
	except := slices.Clone(notOutside)
	for _, p := range own {
		if p.Addr().Is4() && !slices.ContainsFunc(notOutside, func(of string) bool { return netip.MustParsePrefix(of).Overlaps(p) }) {
			except = append(except, p.String())
		}
	}
	port := func(protocol corev1.Protocol) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(53))}
	}
	dns := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: mappedMeta(mapped, wire.MappedAccessName),
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: theirs}},
			Egress: []networkingv1.NetworkPolicyEgressRule{
				{To: theirs},
				{To: []networkingv1.NetworkPolicyPeer{dns}, Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP), port(corev1.ProtocolTCP)}},
				{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: except}}}},
			},
		},
	}
}

// MapOf returns the consumer to which a copy of a NamespaceMap belongs; "" if m is no copy.
func MapOf(m wire.Object) wire.ClusterID {
	if m.GetLabels()[LabelReplicated] != "true" || m.GetLabels()[LabelReplication] == "true" {
		return ""
	}
	return wire.ClusterID(m.GetLabels()[LabelOrigin])
}

// ProblemsOf joins the problems of a map's namespaces, one per line.
func ProblemsOf(problems map[string]error) error {
	var err error
	for _, name := range sortedKeys(problems) {
		if err == nil {
			err = fmt.Errorf("namespace %s: %w", name, problems[name])
			continue
		}
		err = fmt.Errorf("%w\nnamespace %s: %w", err, name, problems[name])
	}
	return err
}

// ProblemOf returns the problem of one namespace of the consumer from the text of [ProblemsOf]; "" if it has
// none.
func ProblemOf(m *offloadingv1beta1.NamespaceMap, namespace string) string {
	for line := range strings.Lines(m.Annotations[wire.AnnotationProblem]) {
		if why, ok := strings.CutPrefix(line, "namespace "+namespace+": "); ok {
			return strings.TrimSpace(why)
		}
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
