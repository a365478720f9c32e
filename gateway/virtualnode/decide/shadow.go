// Package decide makes a consumer's decisions about offloaded pods: the requests to the provider for a pod
// that is bound to a virtual node, and the status of the pod here. It is pure.
//
// For a ShadowPod in the mapped namespace, the provider runs the remote pod, which has the ShadowPod's
// name. Parameters call it copied.
package decide

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

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Shadow contains the parts of a ShadowPod that decisions need.
type Shadow struct {
	UID      types.UID
	Of       types.UID // the pod that the ShadowPod was made for
	Gone     bool      // the deletion of that pod was seen, or an admin has withdrawn the ShadowPod
	Deleting bool
	Problem  string          // the reason that the provider runs no pod for it; "" if there is none
	Phase    corev1.PodPhase // of the remote pod, which may be gone by now
	Labels   map[string]string
	Spec     corev1.PodSpec // only what [Changeable] returns
}

// ShadowOf reads a ShadowPod.
func ShadowOf(o *offloadingv1beta1.ShadowPod) *Shadow {
	return &Shadow{
		UID: o.UID, Of: types.UID(o.Annotations[peering.AnnotationPodOf]), Deleting: o.DeletionTimestamp != nil,
		Problem: o.Annotations[wire.AnnotationProblem], Phase: o.Status.Phase, Labels: o.Labels, Spec: Changeable(&o.Spec.Pod),
	}
}

// Changeable returns the fields of a requested spec that can be changed in a running pod.
func Changeable(s *corev1.PodSpec) corev1.PodSpec {
	images := func(all []corev1.Container) (out []corev1.Container) {
		for i := range all {
			out = append(out, corev1.Container{Name: all[i].Name, Image: all[i].Image})
		}
		return out
	}
	return corev1.PodSpec{ActiveDeadlineSeconds: s.ActiveDeadlineSeconds, Containers: images(s.Containers), InitContainers: images(s.InitContainers)}
}

// relabelled returns the labels that a ShadowPod needs because the labels of its pod have changed; nil if it
// needs no other labels. A label that the pod has lost gets an empty value, because providers copy labels,
// but remove none.
func (v View) relabelled(pod *corev1.Pod, shadow *Shadow) map[string]string {
	want := map[string]string{}
	maps.Copy(want, shadow.Labels)
	for key := range sent(shadow.Labels) {
		want[key] = ""
	}
	maps.Copy(want, v.labels(pod))
	if maps.Equal(want, shadow.Labels) {
		return nil
	}
	return want
}

// unsent describes those changes of a requested pod that do not reach the provider; "" if there are none.
func (v View) unsent(pod *corev1.Pod, shadow *Shadow) string {
	now, was := Changeable(&pod.Spec), shadow.Spec
	var old, all []string
	images := slices.Concat(was.InitContainers, was.Containers)
	for i, c := range slices.Concat(now.InitContainers, now.Containers) {
		if i < len(images) && images[i].Name == c.Name && images[i].Image != c.Image {
			old = append(old, fmt.Sprintf("container %s has image %s, not %s", c.Name, images[i].Image, c.Image))
		}
	}
	if !equality.Semantic.DeepEqual(now.ActiveDeadlineSeconds, was.ActiveDeadlineSeconds) {
		old = append(old, "activeDeadlineSeconds keeps its former value")
	}
	if len(old) > 0 {
		again := command.Kubectl(command.Cluster{}, "-n", pod.Namespace, "get", "pod", pod.Name, "-o", "yaml")
		all = append(all, fmt.Sprintf("%s; recreate the pod: %s | kubectl replace --force -f -", strings.Join(old, ", "), again))
	}
	if n := len(pod.Spec.EphemeralContainers); n > 0 {
		c := &pod.Spec.EphemeralContainers[n-1]
		there := command.Kubectl(command.Cluster{}, "-n", v.Mapped, "debug", "-it", pod.Name, "--image", c.Image).For(v.Provider)
		all = append(all, fmt.Sprintf("ephemeral container %s does not start; debug the remote pod: %s", c.Name, there))
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%s does not get this change of the pod: %s", v.Provider, strings.Join(all, "; "))
}

// Same reports whether a ShadowPod has the same request as a new ShadowPod for this pod.
func Same(o *offloadingv1beta1.ShadowPod, pod *corev1.Pod) bool {
	return Unrunnable(&pod.Spec) == "" && equality.Semantic.DeepEqual(o.Spec.Pod, requested(&pod.Spec))
}

// notSent are prefixes of labels and annotations that have a meaning only in the pod's own cluster, or by
// which the provider marks its own objects.
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

func (v View) labels(pod *corev1.Pod) map[string]string {
	out := sent(pod.Labels)
	out[peering.LabelPodOrigin], out[peering.LabelPodDestination], out[peering.LabelPodNode] = v.Consumer, v.Provider, v.Node
	return out
}

// ShadowPod returns a request for a pod like this one. Callers must not pass a pod that [Unrunnable] refuses.
func ShadowPod(pod *corev1.Pod, v View) *offloadingv1beta1.ShadowPod {
	o := &offloadingv1beta1.ShadowPod{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "ShadowPod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Mapped, Name: pod.Name, Labels: v.labels(pod), Annotations: sent(pod.Annotations)},
		Spec:       offloadingv1beta1.ShadowPodSpec{Pod: requested(&pod.Spec)},
	}
	o.Annotations[peering.AnnotationPodOf] = string(pod.UID)
	return o
}

// asked are the fields of a pod's spec that mean the same on the provider. A provider may forbid some of
// them, and reports this. The other fields are in [left], or [Unrunnable] refuses them.
var asked = []string{
	"Volumes", "InitContainers", "Containers", "RestartPolicy", "TerminationGracePeriodSeconds", "ActiveDeadlineSeconds", "DNSPolicy", "DNSConfig",
	"ShareProcessNamespace", "SecurityContext", "ImagePullSecrets", "Hostname", "Subdomain", "HostAliases", "SetHostnameAsFQDN", "HostUsers", "Resources", "HostnameOverride",
}

// left are the fields that are not sent. Most of them choose a node and an account of this cluster.
// On the provider a pod has no account, and the provider's scheduler chooses the node.
var left = []string{
	"NodeName", "NodeSelector", "Affinity", "SchedulerName", "Tolerations", "TopologySpreadConstraints", "SchedulingGates", "SchedulingGroup", "EvictionResponders",
	"Priority", "PriorityClassName", "PreemptionPolicy", "ServiceAccountName", "DeprecatedServiceAccount", "AutomountServiceAccountToken", "EnableServiceLinks",
	"ReadinessGates", "Overhead", "OS", "EphemeralContainers",
}

func requested(s *corev1.PodSpec) corev1.PodSpec {
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

// isToken reports whether a volume is the one that Kubernetes adds to every pod. Such a volume contains a
// token of an account of this cluster, which is useless on the provider.
func isToken(v corev1.Volume) bool {
	return v.Projected != nil && strings.HasPrefix(v.Name, "kube-api-access-")
}

// Unrunnable returns the reason that no provider can run a pod like this; "" if a provider can.
func Unrunnable(s *corev1.PodSpec) string {
	var why []string
	for name, set := range map[string]bool{
		"hostNetwork": s.HostNetwork, "hostPID": s.HostPID, "hostIPC": s.HostIPC, "resourceClaims": len(s.ResourceClaims) > 0,
		// A pod with a runtime class needs isolation, and would lose it without the class.
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

// travels reports whether the contents of a volume come from the pod's namespace or from the pod itself.
func travels(v *corev1.Volume) bool {
	if v.Projected != nil {
		return !slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ConfigMap == nil && s.Secret == nil && s.DownwardAPI == nil
		})
	}
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil
}

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
