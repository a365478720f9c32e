package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/render"
)

// needed is the setting without a default in the chart, because a release knows no
// context.
const needed = "cluster-id"

// settings returns the settings of install that the chart also has. It leaves out
// those of lending and Services, because Helm would install their CRDs on every cluster.
func settings() []setting.Setting[render.InstallParams] {
	return slices.DeleteFunc(install.Settings(), func(s setting.Setting[render.InstallParams]) bool {
		return s.Name == "peering" || s.Name == "api-server" || s.Name == "lend" || s.Name == "services"
	})
}

// defaults returns the values of the chart. They are written down, because the chart
// can't keep present values of the cluster, as install does.
func defaults(r Release) render.InstallParams {
	return render.InstallParams{Image: r.Image, ExternalCIDR: render.DefaultExternalCIDR, GatewayReplicas: 1, OperatorReplicas: 1}
}

var (
	kept    = regexp.MustCompile(`\(default: unchanged, at first `)
	atFirst = regexp.MustCompile(` \(default: .*\)$`)
)

// about returns a setting's help for readers of values.
func about(s setting.Setting[render.InstallParams]) string {
	if s.Name == needed {
		return atFirst.ReplaceAllString(s.Help, "") + "; required, and not to be changed later"
	}
	return kept.ReplaceAllString(s.Help, "(default: ")
}

const podsComment = `
# What is asked of all pods, with the names that a Pod has: imagePullSecrets (Secrets of
# the release's namespace), nodeSelector, tolerations, affinity, priorityClassName,
# resources, labels, annotations, logLevel (debug, info, warn, error). The same below operator, fabric (the node agent) and
# gateway counts for these pods alone, instead of what is said of all.
`

func values(r Release) string {
	var out strings.Builder
	p := defaults(r)
	for _, s := range settings() {
		value := s.Write(p)
		switch {
		case s.Kind == setting.List:
			value = "[]"
		case s.Kind != setting.Number:
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&out, "# %s\n%s: %s\n", about(s), s.Key(), value)
	}
	out.WriteString(podsComment)
	for _, name := range podFields() {
		empty := "{}"
		switch properties(render.ProgramSettings{})[name].(map[string]any)["type"] {
		case "array":
			empty = "[]"
		case "string":
			empty = `""`
		}
		fmt.Fprintf(&out, "%s: %s\n", name, empty)
	}
	return out.String()
}

// schema returns the JSON Schema of the values. It refuses unknown values, and
// values that would be refused later.
func schema() (string, error) {
	all := properties(render.ProgramSettings{})
	all["global"] = map[string]any{"type": "object", "description": "Helm's own"}
	for _, s := range settings() {
		value := map[string]any{"type": "string"}
		if s.Pattern != "" {
			value["pattern"] = s.Pattern
		}
		switch s.Kind {
		case setting.List:
			value = map[string]any{"type": "array", "items": value}
		case setting.Number:
			value = map[string]any{"type": "integer", "minimum": s.Min, "maximum": s.Max}
		case setting.Choice:
			var words []string
			for _, o := range s.Options {
				words = append(words, o.Value)
			}
			value = map[string]any{"type": "string", "enum": words}
		case setting.Text:
			if s.Pattern != "" && s.Name != needed {
				value["pattern"] = "^$|" + s.Pattern
			}
		}
		value["description"] = about(s)
		all[s.Key()] = value
	}
	text, err := json.MarshalIndent(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart liqo-tui",
		"type": "object", "properties": all, "additionalProperties": false, "required": []string{"clusterID"},
	}, "", "  ")
	return string(text) + "\n", err
}

// properties returns the JSON Schemas of a struct's fields, by their names.
func properties(of any) map[string]any {
	all := map[string]any{}
	for f := range reflect.TypeOf(of).Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" { // the struct is inlined
			maps.Copy(all, properties(reflect.Zero(f.Type).Interface()))
			continue
		}
		all[name] = schemaOf(f.Type)
	}
	return all
}

func schemaOf(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]():
		return map[string]any{"type": []string{"string", "number"}}
	case reflect.TypeFor[render.LogLevel]():
		return map[string]any{"type": "string", "enum": append([]render.LogLevel{""}, render.LogLevels...)}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		return map[string]any{"type": "object", "properties": properties(reflect.Zero(t).Interface()), "additionalProperties": false}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	default:
		return map[string]any{"type": "integer"}
	}
}
