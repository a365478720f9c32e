package wire_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestAnInstallationHasThisProgramsLevel(t *testing.T) {
	objects, err := render.Install(render.InstallParams{ClusterID: "rome", Image: "example.org/gateway:v1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if d, ok := o.(*appsv1.Deployment); ok {
			if got := wire.InstalledLevel(d); got != wire.Level {
				t.Errorf("got level %d in operator.yaml, want %d", got, wire.Level)
			}
			return
		}
	}
	t.Error("there is no operator")
}
