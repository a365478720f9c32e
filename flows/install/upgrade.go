package install

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// newer returns a failed step if a newer release of this program made the installation. The
// installation may have annotations or fields that this release does not know.
func (i *Installation) newer(side flows.Side, c flows.ClusterFacts) *flows.Step {
	d := installed[appsv1.Deployment](c, wire.OperatorName)
	if d == nil {
		return nil
	}
	fix := command.Text("use the release of liqo-tui that installed it, or a newer one; to go back to this release, first uninstall with that release, then install with this one")
	level := wire.InstalledLevel(d)
	if level > wire.Level {
		return new(flows.Refuse(side, flows.CodeSoftware, "the installation is no newer than this program", flows.FailedPreflight,
			fmt.Sprintf("a newer release of liqo-tui made the installation, with annotations of level %d, and this release knows level %d: after a downgrade, no program would read some of them", level, wire.Level), fix))
	}
	if level < wire.Level {
		return nil // an older installation may have fields that this release no longer uses
	}
	for _, o := range i.objects {
		wanted, ok := o.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			continue
		}
		live := installed[apiextensionsv1.CustomResourceDefinition](c, o.GetName())
		if live == nil || OthersDefinition(live, wanted) != nil {
			continue
		}
		if more := render.Newer(live, wanted); more != "" {
			return new(flows.Refuse(side, flows.CodeSoftware, "the definitions are no newer than this program", flows.FailedPreflight,
				fmt.Sprintf("definition %s is of a newer release of liqo-tui: %s, which this release would remove", live.Name, more), fix))
		}
	}
	return nil
}

// images returns a text with a program's present image and the wanted image. The present image
// is left out if it is the same.
func images(containers []corev1.Container, wanted string) string {
	if len(containers) == 0 || slices.ContainsFunc(containers, func(c corev1.Container) bool { return c.Image == wanted }) {
		return "image " + wanted
	}
	return "image " + containers[0].Image + " → " + wanted
}

// installedContainers returns the containers in the pod template of the operator or of the node
// agents; nil if there is no template yet. id is the ID of the part.
func installedContainers(c flows.ClusterFacts, id string) []corev1.Container {
	if d := installed[appsv1.Deployment](c, wire.OperatorName); id == stepOperator && d != nil {
		return d.Spec.Template.Spec.Containers
	}
	if d := installed[appsv1.DaemonSet](c, wire.FabricName); id == stepFabric && d != nil {
		return d.Spec.Template.Spec.Containers
	}
	return nil
}

// blocked returns the reason that a part can't be applied yet. If the image will change, the
// reason names the present and the wanted image.
func (i *Installation) blocked(c flows.ClusterFacts, id, why string) string {
	has := installedContainers(c, id)
	if len(has) == 0 || slices.ContainsFunc(has, func(c corev1.Container) bool { return c.Image == i.params.Image }) {
		return why
	}
	return images(has, i.params.Image) + ": " + why
}
