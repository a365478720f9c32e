// Package offload makes a provider's decisions about consumers' pods: the remote pod of a ShadowPod, the
// amounts that it takes of the grant, and the refused requests. It is pure.
//
// A mapped namespace is the provider's namespace that stands for a namespace of the consumer.
package offload

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Pod returns the remote pod for a consumer's ShadowPod. If there is none, the error is the reason.
func Pod(s *offloadingv1beta1.ShadowPod, consumer wire.ClusterID) (*corev1.Pod, error) {
	spec := s.Spec.Pod.DeepCopy()
	if err := admit(reflect.ValueOf(spec).Elem(), ""); err != nil {
		return nil, err
	}
	place(spec)
	spec.AutomountServiceAccountToken, spec.EnableServiceLinks = new(false), new(false)
	spec.PriorityClassName = peering.LentPriority
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].Resources = complete(containers[i].Resources)
		}
	}
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: Labels(s.Labels, consumer), Annotations: Annotations(s.Annotations)},
		Spec:       *spec,
	}
	p.Annotations[peering.AnnotationShadow] = string(s.UID)
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "ShadowPod", Name: s.Name, UID: s.UID, Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	return p, nil
}

// place removes constraints on the node that could be used against the provider. Consumers must not depend on
// the labels and taints of the provider's nodes.
func place(spec *corev1.PodSpec) {
	maps.DeleteFunc(spec.NodeSelector, func(key, _ string) bool { return key != corev1.LabelArchStable && key != corev1.LabelOSStable })
	spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Effect != corev1.TaintEffectNoExecute || t.Key != corev1.TaintNodeNotReady && t.Key != corev1.TaintNodeUnreachable
	})
}

// Labels returns the labels of the remote pod: the requested labels, except labels of the domains of
// Kubernetes and Liqo, which control programs of the provider.
func Labels(asked map[string]string, consumer wire.ClusterID) map[string]string {
	out := map[string]string{}
	for key, value := range asked {
		switch {
		case key == peering.LabelPodDestination || key == peering.LabelPodNode, !foreign(key):
			out[key] = value
		}
	}
	out[peering.LabelPodOrigin], out[peering.LabelMadeBy] = string(consumer), peering.MadeByShadowPod
	return out
}

// foreign reports whether programs of the provider react to the domain of a label. The labels of applications
// are kept, because Services find their pods by them.
func foreign(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	switch domain {
	case "app.kubernetes.io", "apps.kubernetes.io", "statefulset.kubernetes.io", "batch.kubernetes.io":
		return false
	}
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "x-k8s.io", "liqo.io", "liqo-tui.dev"}, func(of string) bool {
		return domain == of || strings.HasSuffix(domain, "."+of)
	})
}

// passed are the annotations that the remote pod gets. Other annotations may control pod networks, meshes and
// webhooks.
var passed = []string{"kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container", "kubectl.kubernetes.io/restartedAt"}

// Annotations returns the annotations of the remote pod.
func Annotations(asked map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range passed {
		if value, ok := asked[key]; ok {
			out[key] = value
		}
	}
	return out
}

// Phase returns the phase that the ShadowPod reports: the phase of the remote pod. A remote pod that ends
// because it is being deleted is created again, so the earlier phase stays.
func Phase(before corev1.PodPhase, p *corev1.Pod) corev1.PodPhase {
	if p.Status.Phase == "" || p.DeletionTimestamp != nil && Ended(p.Status.Phase) {
		return before
	}
	return p.Status.Phase
}

// Ended reports whether a pod has ended for good.
func Ended(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }
