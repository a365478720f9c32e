// Package home is what a consumer's side of offloaded pods decides: what is asked of the
// provider for a pod that is bound to a virtual node, and what is said of the pod here.
// It is pure.
//
// Words: the twin is the provider's namespace for one of the consumer's. A ShadowPod there
// asks the provider for a pod, the copy, which has its name.
package home

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Shadow is what of a ShadowPod counts here.
type Shadow struct {
	UID      types.UID
	Of       types.UID // the pod it was made for
	Gone     bool      // that pod was seen to be deleted, or the consumer says that this may go
	Deleting bool
	Problem  string          // why the provider runs no pod for it, "" for nothing
	Phase    corev1.PodPhase // of its pod, which may be gone since then
}

// ShadowOf reads one. What it asks for is not looked at.
func ShadowOf(o *offloadingv1beta1.ShadowPod) *Shadow {
	return &Shadow{
		UID: o.UID, Of: types.UID(o.Annotations[peering.AnnotationPodOf]), Deleting: o.DeletionTimestamp != nil,
		Problem: o.Annotations[render.AnnotationProblem], Phase: o.Status.Phase,
	}
}

// Same reports whether a ShadowPod asks for what this pod would ask for.
func Same(o *offloadingv1beta1.ShadowPod, pod *corev1.Pod) bool {
	return Unfit(&pod.Spec) == "" && equality.Semantic.DeepEqual(o.Spec.Pod, abroad(&pod.Spec))
}

// notSent are the prefixes of keys that mean something in the pod's own cluster alone, or
// are how the provider knows what it has.
var notSent = []string{"liqo.io/", "offloading.liqo.io/", "liqo-tui.dev/", corev1.LastAppliedConfigAnnotation}

func sent(all map[string]string) map[string]string {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return slices.ContainsFunc(notSent, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	if out == nil {
		out = map[string]string{}
	}
	return out
}

// ShadowPod asks for a pod like this one. What [Unfit] refuses must not be asked.
func ShadowPod(pod *corev1.Pod, v View) *offloadingv1beta1.ShadowPod {
	o := &offloadingv1beta1.ShadowPod{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "ShadowPod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Twin, Name: pod.Name, Labels: sent(pod.Labels), Annotations: sent(pod.Annotations)},
		Spec:       offloadingv1beta1.ShadowPodSpec{Pod: abroad(&pod.Spec)},
	}
	o.Labels[peering.LabelPodOrigin], o.Labels[peering.LabelPodDestination], o.Labels[peering.LabelPodNode] = v.Consumer, v.Provider, v.Node
	o.Annotations[peering.AnnotationPodOf] = string(pod.UID)
	return o
}

// asked are the fields of a pod's spec that mean the same on the provider. What the
// provider may forbid is among them: it is the one to refuse, and to say so. Of the others,
// those in [left] are the home cluster's business, and [Unfit] refuses the rest.
var asked = []string{
	"Volumes", "InitContainers", "Containers", "RestartPolicy", "TerminationGracePeriodSeconds", "ActiveDeadlineSeconds", "DNSPolicy", "DNSConfig",
	"ShareProcessNamespace", "SecurityContext", "ImagePullSecrets", "Hostname", "Subdomain", "HostAliases", "SetHostnameAsFQDN", "HostUsers", "Resources", "HostnameOverride",
}

// left are the fields that say where and as whom a pod runs at home. A pod has no account
// on the provider, and the provider's scheduler knows its own nodes.
var left = []string{
	"NodeName", "NodeSelector", "Affinity", "SchedulerName", "Tolerations", "TopologySpreadConstraints", "SchedulingGates", "SchedulingGroup", "EvictionResponders",
	"Priority", "PriorityClassName", "PreemptionPolicy", "ServiceAccountName", "DeprecatedServiceAccount", "AutomountServiceAccountToken", "EnableServiceLinks",
	"ReadinessGates", "Overhead", "OS", "EphemeralContainers",
}

// abroad is what of a spec is asked for.
func abroad(s *corev1.PodSpec) corev1.PodSpec {
	var out corev1.PodSpec
	from, to := reflect.ValueOf(s.DeepCopy()).Elem(), reflect.ValueOf(&out).Elem()
	for _, name := range asked {
		to.FieldByName(name).Set(from.FieldByName(name))
	}
	out.AutomountServiceAccountToken, out.EnableServiceLinks = new(false), new(false)
	out.Volumes = slices.DeleteFunc(out.Volumes, isToken)
	for _, all := range [][]corev1.Container{out.Containers, out.InitContainers} {
		for i := range all {
			all[i].VolumeMounts = slices.DeleteFunc(all[i].VolumeMounts, func(m corev1.VolumeMount) bool {
				return slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name && isToken(v) })
			})
		}
	}
	return out
}

// isToken reports whether a volume is the one that Kubernetes adds to every pod: the
// account's token at home, which means nothing on the provider.
func isToken(v corev1.Volume) bool {
	return v.Projected != nil && strings.HasPrefix(v.Name, "kube-api-access-")
}

// Unfit is why no provider can be asked for a pod like this, "" if one can.
func Unfit(s *corev1.PodSpec) string {
	var why []string
	for name, set := range map[string]bool{
		"hostNetwork": s.HostNetwork, "hostPID": s.HostPID, "hostIPC": s.HostIPC, "resourceClaims": len(s.ResourceClaims) > 0,
		// To leave it out would take the isolation from a pod that asks for it.
		"runtimeClassName": s.RuntimeClassName != nil && *s.RuntimeClassName != "liqo",
	} {
		if set {
			why = append(why, name)
		}
	}
	for i := range s.Volumes {
		if v := &s.Volumes[i]; !isToken(*v) && !travels(v) {
			why = append(why, fmt.Sprintf("volume %s (%s)", v.Name, kindOf(v)))
		}
	}
	for _, all := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for i := range all {
			if slices.ContainsFunc(all[i].Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }) {
				why = append(why, "a hostPort of container "+all[i].Name)
			}
		}
	}
	slices.Sort(why)
	return strings.Join(why, ", ")
}

// travels reports whether what a volume holds is in the pod's namespace, or in the pod.
func travels(v *corev1.Volume) bool {
	if v.Projected != nil {
		return !slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ConfigMap == nil && s.Secret == nil && s.DownwardAPI == nil
		})
	}
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil
}

// kindOf is the kind of a volume, as manifests call it.
func kindOf(v *corev1.Volume) string {
	source := reflect.ValueOf(v.VolumeSource)
	for i := range source.NumField() {
		if f := source.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "of an unknown kind"
}
