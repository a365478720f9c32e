package render

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Unusable returns the reason that our programs can't work with another program's definition of
// one of Liqo's kinds: a wanted version is not served, or a wanted field is missing. It returns
// "" if they can. Further versions and fields do no harm.
func Unusable(live, wanted *apiextensionsv1.CustomResourceDefinition) string {
	if live.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	if live.Spec.Scope != wanted.Spec.Scope {
		return fmt.Sprintf("its scope is %s, not %s", live.Spec.Scope, wanted.Spec.Scope)
	}
	for _, w := range wanted.Spec.Versions {
		i := slices.IndexFunc(live.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == w.Name && v.Served
		})
		if i < 0 {
			return fmt.Sprintf("it does not serve version %s", w.Name)
		}
		l := live.Spec.Versions[i]
		if hasStatus(w) && !hasStatus(l) {
			return fmt.Sprintf("its version %s has no subresource status", w.Name)
		}
		if path := lacksField(schemaOf(l), schemaOf(w)); path != "" {
			return fmt.Sprintf("its version %s has no field %s as needed", w.Name, path)
		}
	}
	return ""
}

// Newer names a version or field that our definition on a cluster has and the wanted one lacks:
// then a newer release made it. It returns "" if there is none.
func Newer(live, wanted *apiextensionsv1.CustomResourceDefinition) string {
	for _, l := range live.Spec.Versions {
		i := slices.IndexFunc(wanted.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == l.Name })
		if i < 0 {
			return "it has version " + l.Name
		}
		if path := lacksField(schemaOf(wanted.Spec.Versions[i]), schemaOf(l)); path != "" {
			return fmt.Sprintf("its version %s has field %s", l.Name, path)
		}
	}
	return ""
}

func hasStatus(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
	return v.Subresources != nil && v.Subresources.Status != nil
}

func schemaOf(v apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil {
		return nil
	}
	return v.Schema.OpenAPIV3Schema
}

// lacksField returns the path of the first field in want that live lacks, or for which live
// accepts other values; "" if there is none.
func lacksField(live, want *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case want == nil || live != nil && live.XPreserveUnknownFields != nil && *live.XPreserveUnknownFields:
		return ""
	case live == nil, live.Type != want.Type && !live.XIntOrString,
		want.XPreserveUnknownFields != nil && *want.XPreserveUnknownFields:
		return "."
	}
	for _, name := range slices.Sorted(maps.Keys(want.Properties)) {
		w := want.Properties[name]
		l, ok := live.Properties[name]
		path := "."
		if ok {
			path = lacksField(&l, &w)
		}
		if path != "" {
			return below("."+name, path)
		}
	}
	if want.Items != nil && want.Items.Schema != nil {
		var items *apiextensionsv1.JSONSchemaProps
		if live.Items != nil {
			items = live.Items.Schema
		}
		if path := lacksField(items, want.Items.Schema); path != "" {
			return below("[]", path)
		}
	}
	if want.AdditionalProperties != nil && want.AdditionalProperties.Schema != nil {
		var values *apiextensionsv1.JSONSchemaProps
		if live.AdditionalProperties != nil {
			values = live.AdditionalProperties.Schema
		}
		if path := lacksField(values, want.AdditionalProperties.Schema); path != "" {
			return below(".*", path)
		}
	}
	return ""
}

// below returns the path of something inside a field; "." is the field itself.
func below(field, path string) string {
	if path == "." {
		return field
	}
	return field + path
}
