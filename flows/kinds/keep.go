package kinds

import (
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Functions for Watch.Keep. They keep only a part of objects that are large, or that change often in
// ways that don't matter here.

// Meta returns the metadata that most watches need.
func Meta(o wire.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		Labels: o.GetLabels(), DeletionTimestamp: o.GetDeletionTimestamp(),
	}
}

// keepManager drops the controller-managers of other projects.
func keepManager(o wire.Object) wire.Object {
	if d, ok := o.(*appsv1.Deployment); ok && collect.SoftwareOf(d) != flows.NoSoftware {
		return d
	}
	return nil
}

func keepPod(o wire.Object) wire.Object {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	return &corev1.Pod{ObjectMeta: Meta(p), Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}, Status: p.Status}
}

func keepAPIServer(o wire.Object) wire.Object {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	out := &corev1.Pod{ObjectMeta: Meta(p)}
	for _, c := range p.Spec.Containers {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: c.Name, Command: c.Command, Args: c.Args})
	}
	return out
}

func keepNode(o wire.Object) wire.Object {
	n, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	out := &corev1.Node{ObjectMeta: Meta(n), Spec: corev1.NodeSpec{ProviderID: n.Spec.ProviderID}}
	out.Labels = render.FitnessLabels(n.Labels)
	if mode := n.Annotations[flows.AnnotationGateway]; mode != "" {
		out.Annotations = map[string]string{flows.AnnotationGateway: mode}
	}
	out.Status.Addresses = n.Status.Addresses
	out.Status.NodeInfo.KernelVersion, out.Status.NodeInfo.Architecture = n.Status.NodeInfo.KernelVersion, n.Status.NodeInfo.Architecture
	out.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: *n.Status.Capacity.Cpu(), corev1.ResourceMemory: *n.Status.Capacity.Memory()}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady { // without the time, which is renewed every few minutes
			out.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out
}

// keepInternalNode drops Liqo's InternalNodes, because they have no reports about gateways.
func keepInternalNode(o wire.Object) wire.Object {
	if o.GetLabels()[wire.LabelManagedBy] != wire.ManagedBy {
		return nil
	}
	out := &networkingv1beta1.InternalNode{ObjectMeta: Meta(o)}
	if n, ok := o.(*networkingv1beta1.InternalNode); ok {
		out.Spec.Interface.Node.IP = n.Spec.Interface.Node.IP
	}
	out.Annotations = map[string]string{}
	if text := o.GetAnnotations()[wire.AnnotationStatus]; text != "" {
		out.Annotations[wire.AnnotationStatus] = text
	}
	return out
}

func keepService(o wire.Object) wire.Object {
	s, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	out := &corev1.Service{ObjectMeta: Meta(s), Status: corev1.ServiceStatus{LoadBalancer: s.Status.LoadBalancer}}
	out.Spec.Type, out.Spec.HealthCheckNodePort = s.Spec.Type, s.Spec.HealthCheckNodePort
	for _, p := range s.Spec.Ports {
		out.Spec.Ports = append(out.Spec.Ports, corev1.ServicePort{NodePort: p.NodePort})
	}
	return out
}

func keepTemplate(o wire.Object) wire.Object {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	u.SetManagedFields(nil)
	u.SetAnnotations(nil) // kubectl stores a second copy of the object there
	return u
}

// keepSecret removes the private keys in kubeconfigs, because only the cluster's own programs need
// them.
func keepSecret(o wire.Object) wire.Object {
	s, ok := o.(*corev1.Secret)
	if !ok {
		return nil
	}
	out := &corev1.Secret{ObjectMeta: Meta(s), Data: map[string][]byte{}}
	out.Annotations, out.Finalizers, out.OwnerReferences = s.Annotations, s.Finalizers, s.OwnerReferences
	out.ManagedFields, out.CreationTimestamp = s.ManagedFields, s.CreationTimestamp
	for key, value := range s.Data {
		switch key {
		case peering.KeyNonce, peering.KeySignedNonce, peering.KeyCSR, peering.KeyCertificate:
			out.Data[key] = value
		default:
			out.Data[key] = nil
		}
	}
	return out
}

// keepHost keeps a real node's resources for pods, its addresses, and whether it is ready.
func keepHost(o wire.Object) wire.Object {
	n, ok := o.(*corev1.Node)
	if !ok || n.Labels[peering.LabelNodeType] != "" {
		return nil
	}
	out := &corev1.Node{ObjectMeta: Meta(n), Spec: corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}}
	out.Status = corev1.NodeStatus{Addresses: n.Status.Addresses, Allocatable: n.Status.Allocatable}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady { // without the time, which is renewed every few minutes
			out.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out
}

// keepSubjects drops the bindings of programs.
func keepSubjects(o wire.Object) wire.Object {
	people := func(all []rbacv1.Subject) bool {
		return slices.ContainsFunc(all, func(s rbacv1.Subject) bool { return s.Kind != rbacv1.ServiceAccountKind })
	}
	switch b := o.(type) {
	case *rbacv1.ClusterRoleBinding:
		if people(b.Subjects) {
			return &rbacv1.ClusterRoleBinding{ObjectMeta: Meta(b), RoleRef: b.RoleRef, Subjects: b.Subjects}
		}
	case *rbacv1.RoleBinding:
		if people(b.Subjects) {
			return &rbacv1.RoleBinding{ObjectMeta: Meta(b), RoleRef: b.RoleRef, Subjects: b.Subjects}
		}
	}
	return nil
}

// keepMember removes the images, and the times that change with each heartbeat.
func keepMember(o wire.Object) wire.Object {
	n, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	out := &corev1.Node{ObjectMeta: Meta(n), Spec: corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}}
	out.ManagedFields = ours(n.ManagedFields)
	out.Status.Allocatable, out.Status.Capacity = n.Status.Allocatable, n.Status.Capacity
	for _, cond := range n.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, corev1.NodeCondition{
			Type: cond.Type, Status: cond.Status, Reason: cond.Reason, Message: cond.Message, LastTransitionTime: cond.LastTransitionTime,
		})
	}
	return out
}

// ours returns this program's entries. Other programs' entries have the time of their last write,
// which changes with each heartbeat.
func ours(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(all), func(e metav1.ManagedFieldsEntry) bool { return e.Manager != wire.FieldManager })
}

// keepUnplaced keeps pods that have no node but select a virtual node, each with the scheduler's
// reason.
func keepUnplaced(o wire.Object) wire.Object {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName != "" || lending.Selected(&p.Spec) == nil {
		return nil
	}
	out := &corev1.Pod{ObjectMeta: Meta(p), Spec: corev1.PodSpec{NodeSelector: lending.Selected(&p.Spec)}, Status: corev1.PodStatus{Phase: p.Status.Phase}}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			out.Status.Reason, out.Status.Message = c.Reason, c.Message
		}
	}
	return out
}

func keepOffloaded(o wire.Object) wire.Object {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	out := &corev1.Pod{ObjectMeta: Meta(p), Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}, Status: corev1.PodStatus{
		Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message,
	}}
	out.OwnerReferences = p.OwnerReferences
	for _, container := range p.Spec.Containers {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: container.Resources.Requests}})
	}
	return out
}
