package kube

import (
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Functions for store.keep: objects that are large, or that change all the time in ways
// that don't matter here, are kept in part.

func kept(o client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		Labels: o.GetLabels(), DeletionTimestamp: o.GetDeletionTimestamp(),
	}
}

// keepManager leaves out the controller-managers of other projects.
func keepManager(o client.Object) client.Object {
	if d, ok := o.(*appsv1.Deployment); ok && collect.SoftwareOf(d) != flows.NoSoftware {
		return d
	}
	return nil
}

func keepPod(o client.Object) client.Object {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	return &corev1.Pod{ObjectMeta: kept(p), Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}, Status: p.Status}
}

func keepAPIServer(o client.Object) client.Object {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	out := &corev1.Pod{ObjectMeta: kept(p)}
	for _, c := range p.Spec.Containers {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: c.Name, Command: c.Command, Args: c.Args})
	}
	return out
}

func keepNode(o client.Object) client.Object {
	n, ok := o.(*corev1.Node)
	if !ok {
		return nil
	}
	out := &corev1.Node{ObjectMeta: kept(n), Spec: corev1.NodeSpec{ProviderID: n.Spec.ProviderID}}
	out.Labels = render.FitnessLabels(n.Labels)
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

// keepInternalNode leaves out Liqo's InternalNodes: they say nothing about gateways.
func keepInternalNode(o client.Object) client.Object {
	if o.GetLabels()[wire.LabelManagedBy] != wire.ManagedBy {
		return nil
	}
	out := &networkingv1beta1.InternalNode{ObjectMeta: kept(o)}
	if n, ok := o.(*networkingv1beta1.InternalNode); ok {
		out.Spec.Interface.Node.IP = n.Spec.Interface.Node.IP
	}
	out.Annotations = map[string]string{}
	for _, name := range []string{wire.AnnotationUnreached, wire.AnnotationStatus} {
		if text := o.GetAnnotations()[name]; text != "" {
			out.Annotations[name] = text
		}
	}
	return out
}

func keepService(o client.Object) client.Object {
	s, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	return &corev1.Service{ObjectMeta: kept(s), Status: corev1.ServiceStatus{LoadBalancer: s.Status.LoadBalancer}}
}

func keepTemplate(o client.Object) client.Object {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	u.SetManagedFields(nil)
	u.SetAnnotations(nil) // kubectl keeps a second copy of the object there
	return u
}
