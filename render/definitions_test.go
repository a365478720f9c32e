package render_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

func TestADefinitionOfAnotherProgramIsUsableIfItHasWhatWeNeed(t *testing.T) {
	type definition = apiextensionsv1.CustomResourceDefinition
	schema := func(d *definition) *apiextensionsv1.JSONSchemaProps { return d.Spec.Versions[0].Schema.OpenAPIV3Schema }
	// spec calls edit with the fields of the spec. The map holds values, so edit has to store changed fields.
	spec := func(d *definition, edit func(map[string]apiextensionsv1.JSONSchemaProps)) {
		edit(schema(d).Properties["spec"].Properties)
	}
	for name, test := range map[string]struct {
		edit func(*definition)
		want string
	}{
		"the same": {func(*definition) {}, ""},
		"more fields": {func(d *definition) {
			spec(d, func(p map[string]apiextensionsv1.JSONSchemaProps) {
				p["more"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			})
		}, ""},
		"other words": {func(d *definition) { schema(d).Description = "another"; d.Spec.Names.ShortNames = []string{"g"} }, ""},
		"any fields": {func(d *definition) {
			*schema(d) = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
		}, ""},
		"more versions": {func(d *definition) {
			d.Spec.Versions = append([]apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v2", Served: true}}, d.Spec.Versions...)
		}, ""},
		"a field is missing": {func(d *definition) { spec(d, func(p map[string]apiextensionsv1.JSONSchemaProps) { delete(p, "mtu") }) }, "in its version v1beta1, field .spec.mtu is missing or different"},
		"a field of another type": {func(d *definition) {
			spec(d, func(p map[string]apiextensionsv1.JSONSchemaProps) {
				p["mtu"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			})
		}, "in its version v1beta1, field .spec.mtu is missing or different"},
		"a field deep inside": {func(d *definition) {
			spec(d, func(p map[string]apiextensionsv1.JSONSchemaProps) { delete(p["endpoint"].Properties, "port") })
		}, "in its version v1beta1, field .spec.endpoint.port is missing or different"},
		"items of another type": {func(d *definition) {
			spec(d, func(p map[string]apiextensionsv1.JSONSchemaProps) {
				p["endpoint"].Properties["addresses"].Items.Schema.Type = "integer"
			})
		}, "in its version v1beta1, field .spec.endpoint.addresses[] is missing or different"},
		"another version":      {func(d *definition) { d.Spec.Versions[0].Name = "v1alpha1" }, "it does not serve version v1beta1"},
		"not served":           {func(d *definition) { d.Spec.Versions[0].Served = false }, "it does not serve version v1beta1"},
		"no status":            {func(d *definition) { d.Spec.Versions[0].Subresources = nil }, "its version v1beta1 has no subresource status"},
		"of the whole cluster": {func(d *definition) { d.Spec.Scope = apiextensionsv1.ClusterScoped }, "its scope is Cluster, not Namespaced"},
		"being deleted":        {func(d *definition) { d.DeletionTimestamp = new(metav1.Now()) }, "it is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := gatewayClients(t)
			live := wanted.DeepCopy()
			test.edit(live)
			if got := render.Unusable(live, wanted); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func gatewayClients(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := render.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.GetName() == "gatewayclients.networking.liqo.io" {
			return o.(*apiextensionsv1.CustomResourceDefinition)
		}
	}
	t.Fatal("there is no definition of GatewayClients")
	return nil
}
