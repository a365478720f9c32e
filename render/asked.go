package render

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// NoteImages writes the images of its pod template into an annotation of a Deployment or DaemonSet. A webhook
// or an admission policy may replace the images in the template, for example by those of a mirror. The
// annotation still lists the applied ones.
func NoteImages(o wire.Object, pod corev1.PodTemplateSpec) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[wire.AnnotationImages] = strings.Join(imagesOf(pod), " ")
	o.SetAnnotations(annotations)
}

// AskedImages returns the applied images: from the annotation, or else from the pod template.
func AskedImages(o wire.Object, pod corev1.PodTemplateSpec) []string {
	if noted := o.GetAnnotations()[wire.AnnotationImages]; noted != "" {
		return strings.Fields(noted)
	}
	return imagesOf(pod)
}

// Rewritten returns a text about the images that an admission has replaced; "" if there are none.
func Rewritten(o wire.Object, pod corev1.PodTemplateSpec) string {
	asked, has := AskedImages(o, pod), imagesOf(pod)
	var others []string
	for _, image := range has {
		if !slices.Contains(asked, image) {
			others = append(others, image)
		}
	}
	missing := slices.ContainsFunc(asked, func(image string) bool { return !slices.Contains(has, image) })
	if !missing || len(others) == 0 {
		return "" // the admission has added a container, and replaced none
	}
	return "runs " + strings.Join(others, ", ") + ", which a webhook or an admission policy of the cluster puts in place of " + strings.Join(asked, ", ")
}

func imagesOf(pod corev1.PodTemplateSpec) []string {
	var all []string
	for _, c := range pod.Spec.Containers {
		all = append(all, c.Image)
	}
	return all
}
