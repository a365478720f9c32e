package render_test

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/render"
)

// If the operator reserved fewer namespaces than its policy, the API server would refuse its writes again and
// again. If it reserved more, a stolen token could write there.
func TestThePolicyReservesTheNamespacesThatServicesReserve(t *testing.T) {
	objects, err := render.Install(render.InstallParams{ClusterID: "rome", Namespace: "ours", Image: "example.org/gateway:v1", Services: render.On})
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, p := range services.ReservedPrefixes {
		parts = append(parts, `request.namespace.startsWith("`+p+`")`)
	}
	names := `"` + strings.Join(append(slices.Clone(services.ReservedNames), "ours"), `", "`) + `"`
	want := "(request.namespace in [" + names + "] || " + strings.Join(parts, " || ") + ")"
	for _, o := range objects {
		p, ok := o.(*admissionregistrationv1.ValidatingAdmissionPolicy)
		if !ok || p.Name != "liqo-tui-operator-clusterset" {
			continue
		}
		for _, v := range p.Spec.Variables {
			if v.Name == "reserved" {
				if v.Expression != want {
					t.Errorf("got %s, want %s", v.Expression, want)
				}
				return
			}
		}
	}
	t.Error("no policy has the variable")
}
