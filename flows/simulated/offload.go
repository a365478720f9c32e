package simulated

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// runNode creates or deletes one object of a VirtualNode in each call.
func (c *Cluster) runNode(v *offloadingv1beta1.VirtualNode) bool {
	labels := map[string]string{wire.LabelRemoteCluster: string(v.Spec.ClusterID)}
	kubelet := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{
		Namespace: v.Namespace, Name: "vk-" + v.Name,
		Labels: map[string]string{wire.LabelRemoteCluster: string(v.Spec.ClusterID), peering.LabelKubelet: peering.KubeletComponent, peering.LabelVirtualNode: v.Name},
	}}
	node := peering.Node(v.Name, false)
	node.Labels = maps.Clone(labels)
	node.Labels[peering.LabelNodeType] = "virtual-node"
	m := &offloadingv1beta1.NamespaceMap{
		TypeMeta: metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "NamespaceMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: string(v.Spec.ClusterID), Labels: map[string]string{
			wire.LabelRemoteCluster: string(v.Spec.ClusterID), peering.LabelReplication: "true", peering.LabelDestination: string(v.Spec.ClusterID),
		}},
	}
	at := func(o wire.Object) *record { return c.store.records[c.store.keyOf(o)] }
	if v.DeletionTimestamp != nil {
		for _, o := range []wire.Object{kubelet, node} {
			if at(o) != nil {
				delete(c.store.records, c.store.keyOf(o))
				return true
			}
		}
		if there := at(m); there != nil && there.object.GetDeletionTimestamp() == nil {
			_, _ = c.store.remove(there.object)
		}
		return c.release(v, true)
	}
	if c.make(kubelet) || c.make(m) {
		return true
	}
	available := int32(1)
	if c.behaviour.Lending.KubeletWaiting != "" {
		available = 0
	}
	d := at(kubelet).object.(*appsv1.Deployment)
	if d.Status.AvailableReplicas != available {
		d.Status.AvailableReplicas = available
		return true
	}
	if available == 0 || c.make(node) {
		return available != 0
	}
	n := at(node).object.(*corev1.Node)
	if !reflect.DeepEqual(n.Status.Allocatable, v.Spec.ResourceQuota.Hard) {
		n.Status.Allocatable = v.Spec.ResourceQuota.Hard
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return true
	}
	return false
}

// serveMap creates and deletes the namespaces of a consumer.
func (c *Cluster) serveMap(r *record, m *offloadingv1beta1.NamespaceMap, b Lending) bool {
	if m.Labels[peering.LabelReplicated] != "true" {
		return c.replicate(r, func(remote wire.Object) bool {
			theirs := remote.(*offloadingv1beta1.NamespaceMap)
			switch {
			case !reflect.DeepEqual(theirs.Spec, m.Spec):
				theirs.Spec = *m.Spec.DeepCopy()
			case !reflect.DeepEqual(theirs.Status, m.Status):
				m.Status = *theirs.Status.DeepCopy()
			default:
				return false
			}
			return true
		})
	}
	if len(m.Finalizers) == 0 {
		m.Finalizers = []string{"namespacemap-controller.liqo.io/finalizer"}
		return true
	}
	wanted := m.Spec.DesiredMapping
	if m.DeletionTimestamp != nil {
		wanted = nil
	}
	owner := m.Namespace + "/" + m.Name
	for _, there := range c.store.sorted() {
		ns, ok := there.object.(*corev1.Namespace)
		if ok && ns.Annotations[peering.AnnotationMapped] == owner && !slices.Contains(slices.Collect(maps.Values(wanted)), ns.Name) {
			delete(c.store.records, c.store.keyOf(ns))
			return true
		}
	}
	if m.DeletionTimestamp != nil {
		return c.release(m, true)
	}
	current := map[string]offloadingv1beta1.RemoteNamespaceStatus{}
	for local, remote := range wanted {
		phase := offloadingv1beta1.MappingAccepted
		ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: remote, Annotations: map[string]string{peering.AnnotationMapped: owner}}}
		if slices.Contains(b.Taken, remote) {
			phase = offloadingv1beta1.MappingCreationLoopBackOff
		} else {
			c.make(ns)
		}
		current[local] = offloadingv1beta1.RemoteNamespaceStatus{RemoteNamespace: remote, Phase: phase}
	}
	if len(current)+len(m.Status.CurrentMapping) == 0 || reflect.DeepEqual(current, m.Status.CurrentMapping) {
		return false
	}
	m.Status.CurrentMapping = current
	return true
}

// offload maps a namespace to all providers.
func (c *Cluster) offload(o *offloadingv1beta1.NamespaceOffloading) bool {
	name := o.Namespace + "-" + string(c.identity.ID)
	switch o.Spec.NamespaceMappingStrategy {
	case offloadingv1beta1.EnforceSameNameMappingStrategyType:
		name = o.Namespace
	case offloadingv1beta1.SelectedNameMappingStrategyType:
		name = o.Spec.RemoteNamespaceName
	case offloadingv1beta1.DefaultNameMappingStrategyType:
	}
	if len(o.Finalizers) == 0 {
		o.Finalizers = []string{"namespaceoffloading-controller.liqo.io/finalizer"}
		return true
	}
	status := offloadingv1beta1.NamespaceOffloadingStatus{
		RemoteNamespaceName: name, ObservedGeneration: o.Generation, OffloadingPhase: offloadingv1beta1.NoClusterSelectedOffloadingPhaseType,
	}
	waiting := false
	for _, there := range c.store.sorted() {
		m, ok := there.object.(*offloadingv1beta1.NamespaceMap)
		if !ok || m.Labels[peering.LabelReplicated] == "true" || m.DeletionTimestamp != nil {
			continue
		}
		if o.DeletionTimestamp != nil {
			if _, mapped := m.Spec.DesiredMapping[o.Namespace]; mapped {
				delete(m.Spec.DesiredMapping, o.Namespace)
				return true
			}
			_, waits := m.Status.CurrentMapping[o.Namespace]
			waiting = waiting || waits
			continue
		}
		if m.Spec.DesiredMapping[o.Namespace] != name {
			if m.Spec.DesiredMapping == nil {
				m.Spec.DesiredMapping = map[string]string{}
			}
			m.Spec.DesiredMapping[o.Namespace] = name
			return true
		}
		cond := offloadingv1beta1.RemoteNamespaceCondition{Type: offloadingv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Creating"}
		status.OffloadingPhase = offloadingv1beta1.InProgressOffloadingPhaseType
		switch m.Status.CurrentMapping[o.Namespace].Phase {
		case offloadingv1beta1.MappingAccepted:
			cond.Status, cond.Reason = corev1.ConditionTrue, "NamespaceCreated"
			status.OffloadingPhase = offloadingv1beta1.ReadyOffloadingPhaseType
		case offloadingv1beta1.MappingCreationLoopBackOff:
			cond.Reason = "CreationLoopBackOff"
			status.OffloadingPhase = offloadingv1beta1.AllFailedOffloadingPhaseType
		case offloadingv1beta1.MappingTerminating:
		}
		status.RemoteNamespacesConditions = map[string]offloadingv1beta1.RemoteNamespaceConditions{strings.TrimSpace(m.Name): {cond}}
	}
	if o.DeletionTimestamp != nil {
		return c.release(o, !waiting)
	}
	if reflect.DeepEqual(status, o.Status) {
		return false
	}
	o.Status = status
	return true
}
