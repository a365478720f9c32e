package render

import (
	_ "embed"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

//go:embed names.yaml
var namesManifest string

// names returns the objects of the DNS server that answers for imported Services.
func names(p InstallParams, pods *ProgramSettings) ([]wire.Object, error) {
	objs, err := copies(lastNames.parse(replaceAll(namesManifest, map[string]string{"$NAMESPACE": p.Namespace, "$IMAGE": p.Image})))
	if err != nil {
		return nil, err
	}
	for _, o := range objs {
		if d, ok := o.(*appsv1.Deployment); ok {
			pods.Apply(&d.Spec.Template.ObjectMeta, &d.Spec.Template.Spec)
		}
	}
	return objs, nil
}

// lastNames keeps the parsed manifest, as lastManifests does.
var lastNames manifests
