package render

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Unusable judges live, which another program has installed as the definition of a kind of Liqo's. It returns
// the reason that our programs can't work with it: a wanted version is not served, or a wanted field is missing
// or different. It returns "" if they can. Further versions and fields do no harm.
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
			return fmt.Sprintf("in its version %s, field %s is missing or different", w.Name, path)
		}
	}
	return ""
}

// Newer returns a version or field of live that wanted lacks; "" if there is none. live is our definition on a
// cluster, so a newer release has added the version or field.
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

// below returns the path of a part of a field; "." is the field itself.
func below(field, path string) string {
	if path == "." {
		return field
	}
	return field + path
}
