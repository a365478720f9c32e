package install_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// TestUpgrades installs v1, changes objects as another release would, and plans v2.
func TestUpgrades(t *testing.T) {
	const newerField = "its version v1beta1 has field .spec.fromTheFuture, which this release would remove"
	addField := func(o wire.Object) {
		if d, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok && d.Name == "gatewayservers.networking.liqo.io" {
			spec := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			spec.Properties["fromTheFuture"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
	}
	level := func(text string) func(wire.Object) {
		return func(o wire.Object) {
			if d, ok := o.(*appsv1.Deployment); ok {
				d.Annotations["liqo-tui.dev/level"] = text
				if text == "" {
					delete(d.Annotations, "liqo-tui.dev/level")
				}
			}
		}
	}
	for name, c := range map[string]struct {
		there   []func(wire.Object) // the changes by the other release
		refused string              // "" if the upgrade is made
	}{
		"the next image": {nil, ""},
		"an installation from before there were levels": {[]func(wire.Object){level("")}, ""},
		"a level that is no number":                     {[]func(wire.Object){level("x")}, ""},
		"a former release's definition had more":        {[]func(wire.Object){level("0"), addField}, ""},
		"a newer release's annotations":                 {[]func(wire.Object){level("2")}, "annotations of level 2, and this release knows level 1"},
		"a newer release's definitions":                 {[]func(wire.Object){addField}, newerField},
		"both":                                          {[]func(wire.Object){level("7"), addField}, "annotations of level 7"},
		"a version that is unknown": {[]func(wire.Object){func(o wire.Object) {
			if d, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok && d.Name == "connections.networking.liqo.io" {
				next := *d.Spec.Versions[0].DeepCopy()
				next.Name, next.Storage = "v1", false
				d.Spec.Versions = append(d.Spec.Versions, next)
			}
		}}, "definition connections.networking.liqo.io is of a newer release of liqo-tui: it has version v1"},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.A.Bare()
			if _, err := alone(t, pair, planned(render.InstallParams{})); err != nil {
				t.Fatal(err)
			}
			f := flowtest.Facts(pair)
			found, err := pair.A.Installation(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range found.Objects {
				for _, change := range c.there {
					change(o)
				}
			}
			flows.Read(flows.AskInstallation{Side: flows.A}, found).Store(&f, f.At)
			plan := planned(render.InstallParams{Image: "example.org/gateway:v2"})(f)
			failed := plan.Failure()
			if c.refused != "" {
				if failed == nil || failed.Kind != flows.FailedPreflight || !strings.Contains(failed.Reason, c.refused) || !strings.Contains(failed.Hint().String(), "or a newer one") {
					t.Fatalf("got %+v, want it to be refused: %s", failed, c.refused)
				}
				if got := plan.Changes(); got != (flows.Summary{}) {
					t.Errorf("and it changes %+v", got)
				}
				return
			}
			if failed != nil {
				t.Fatalf("refused: %s", failed.Reason)
			}
			const images = "image example.org/gateway:v1 → example.org/gateway:v2"
			for id, waits := range map[flows.StepID]string{"fabric-a": "", "operator-a": ": needs the rest to be applied"} {
				if s, _ := plan.Step(id); s.Reason != images+waits {
					t.Errorf("%s: got %s, %q, want %q", id, s.Status, s.Reason, images+waits)
				}
			}
		})
	}
}

// The operator of the new version replaces the gateways, and only if the new image runs.
func TestAnUpgradeChangesTheTemplatesWhenTheNewOperatorWorks(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	if _, err := alone(t, pair, planned(render.InstallParams{})); err != nil {
		t.Fatal(err)
	}
	newer := planned(render.InstallParams{Image: "example.org/gateway:v2"})
	of := func(f flows.Facts) (templates, operator flows.Step) {
		templates, _ = newer(f).Step("templates-a")
		operator, _ = newer(f).Step("operator-a")
		return templates, operator
	}
	seen := func() flows.Facts {
		f := flowtest.Facts(pair)
		found, err := pair.A.Installation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		flows.Read(flows.AskInstallation{Side: flows.A}, found).Store(&f, f.At)
		return f
	}
	if templates, operator := of(seen()); templates.Status != flows.Blocked || operator.Status == flows.Done {
		t.Errorf("before: templates %s, %q; operator %s", templates.Status, templates.Reason, operator.Status)
	}
	broken := seen()
	broken.Sides[flows.A].Operator.Problem = "its pod does not start"
	if templates, _ := of(broken); templates.Status != flows.Ready { // a plan for a connection may repair the operator
		t.Errorf("while the former operator does nothing: templates %s, %q", templates.Status, templates.Reason)
	}
	if templates, _ := planned(render.InstallParams{OperatorReplicas: 2})(seen()).Step("templates-a"); templates.Status != flows.Done {
		t.Errorf("what changes the operator alone: templates %s, %q", templates.Status, templates.Reason)
	}
	order := []flows.StepID{}
	_, err := alone(t, pair, func(f flows.Facts) flows.Plan {
		plan := newer(f)
		for _, id := range []flows.StepID{"operator-a", "templates-a"} {
			if s, _ := plan.Step(id); s.Status == flows.Done && !slices.Contains(order, id) {
				order = append(order, id)
			}
		}
		return plan
	})
	if err != nil || !slices.Equal(order, []flows.StepID{"operator-a", "templates-a"}) {
		t.Errorf("done in the order %v, %v", order, err)
	}
	f := seen()
	for i, o := range f.Sides[flows.A].Installation.Value().Objects { // a new operator that does not start
		if d, ok := o.(*appsv1.Deployment); ok {
			d = d.DeepCopy()
			d.Status.AvailableReplicas, d.Status.UpdatedReplicas = 0, 0
			f.Sides[flows.A].Installation.Value().Objects[i] = d
		}
	}
	templates, _ := planned(render.InstallParams{Image: "example.org/gateway:v2", GatewayReplicas: 2})(f).Step("templates-a")
	if templates.Status != flows.Blocked {
		t.Errorf("while the operator does not start: templates %s", templates.Status)
	}
}
