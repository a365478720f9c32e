package install_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// If a webhook puts a mirror's images into our objects, they count as installed, because another apply would
// change nothing. A change by an admin is undone.
func TestWhatAdmissionHasChangedIsInstalled(t *testing.T) {
	const asked, mirror = "example.org/gateway:v1", "mirror.local/gateway:v1"
	pods := func(o wire.Object) *corev1.PodSpec {
		switch o := o.(type) {
		case *appsv1.Deployment:
			return &o.Spec.Template.Spec
		case *appsv1.DaemonSet:
			return &o.Spec.Template.Spec
		}
		return nil
	}
	rewrite := func(o wire.Object) {
		for i := range pods(o).Containers {
			pods(o).Containers[i].Image = mirror
		}
	}
	for name, test := range map[string]struct {
		change func(wire.Object)
		image  string // the wanted image
		done   bool
		says   string
	}{
		"images of a mirror": {rewrite, "", true, mirror + ", which a webhook or an admission policy of the cluster puts in place of " + asked},
		"and a sidecar before it": {func(o wire.Object) {
			rewrite(o)
			pods(o).Containers = append([]corev1.Container{{Name: "proxy", Image: "mesh.example/proxy:v1"}}, pods(o).Containers...)
		}, "", true, mirror},
		"a sidecar alone": {func(o wire.Object) {
			pods(o).Containers = append([]corev1.Container{{Name: "proxy", Image: "mesh.example/proxy:v1"}}, pods(o).Containers...)
		}, "", true, "has added containers: 1"},
		"an upgrade": {rewrite, "example.org/gateway:v2", false, "example.org/gateway:v2"},
		"something else has changed, too": {func(o wire.Object) {
			rewrite(o)
			pods(o).PriorityClassName = "other"
		}, "", false, ""},
		"an admin's image": {func(o wire.Object) {
			rewrite(o)
			o.SetManagedFields(append(o.GetManagedFields(), metav1.ManagedFieldsEntry{
				Manager: "kubectl-set", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"operator\"}":{"f:image":{}}}}}}}`),
			}))
		}, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.A.Bare()
			if _, err := alone(t, pair, planned(render.InstallParams{Image: asked})); err != nil {
				t.Fatal(err)
			}
			f := flowtest.Facts(pair)
			found, err := pair.A.Installation(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range found.Objects {
				if pods(o) != nil {
					test.change(o)
				}
			}
			flows.Read(flows.AskInstallation{Side: flows.A}, found).Store(&f, f.At)
			plan := planned(render.InstallParams{Image: test.image})(f)
			if test.image == "" { // like `install` without flags
				plan = planned(render.InstallParams{Image: asked})(f)
			}
			for _, id := range []flows.StepID{"operator-a", "fabric-a"} {
				s, _ := plan.Step(id)
				if (s.Status == flows.Done) != test.done || !strings.Contains(s.Reason, test.says) || test.done && s.Diff != "" {
					t.Errorf("%s: got %s: %q, %s", id, s.Status, s.Reason, s.Diff)
				}
			}
		})
	}
}
