package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// Values are what a gateway template may refer to, named as Liqo names them.
type Values struct {
	Spec       any // GatewayServerSpec or GatewayClientSpec
	Name       string
	Namespace  string
	GatewayUID string
	ClusterID  string // of the peer
	SecretName string
}

// Template fills in a gateway template, by the rules of Liqo's templates:
//   - every string is a text/template over v;
//   - a result that is an integer becomes one, except in metadata, labels and
//     annotations, where Kubernetes wants strings;
//   - a key that starts with "?" loses that mark, and is left out when its
//     value, a template of one variable, is the variable's zero value.
func Template(tmpl map[string]any, v Values) (map[string]any, error) {
	filled, err := fillMap(tmpl, v, "", false)
	if err != nil {
		return nil, fmt.Errorf("gateway template: %w", err)
	}
	return filled, nil
}

var singleVariable = regexp.MustCompile(`^\s*\{\{-?\s*(\.[A-Za-z0-9_.]+)\s*-?\}\}\s*$`)

func fillMap(m map[string]any, v Values, path string, keepStrings bool) (map[string]any, error) {
	if _, ok := m["labels"]; ok {
		keepStrings = true
	}
	if _, ok := m["annotations"]; ok {
		keepStrings = true
	}
	out := make(map[string]any, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		field := path + "." + key
		value, keep, name, err := fillField(key, m[key], v, field, keepStrings || key == "metadata")
		if err != nil {
			return nil, err
		}
		if keep {
			out[name] = value
		}
	}
	return out, nil
}

// fillField fills one field, and says under which name to keep it, if at all.
func fillField(key string, value any, v Values, path string, keepStrings bool) (filled any, keep bool, name string, err error) {
	name, optional := strings.CutPrefix(key, "?")
	if !optional {
		filled, err = fill(value, v, path, keepStrings)
		return filled, true, key, err
	}
	text, ok := value.(string)
	if !ok {
		return nil, false, name, fmt.Errorf("%s: an optional field must be a string with one variable, like \"{{ .Spec.X }}\"", path)
	}
	variable := singleVariable.FindStringSubmatch(text)
	if variable == nil {
		return nil, false, name, fmt.Errorf("%s: %q is no template of one variable, like \"{{ .Spec.X }}\"", path, text)
	}
	filled, err = fill("{{if "+variable[1]+"}}"+text+"{{end}}", v, path, keepStrings)
	return filled, filled != "", name, err
}

func fill(value any, v Values, path string, keepStrings bool) (any, error) {
	switch x := value.(type) {
	case map[string]any:
		return fillMap(x, v, path, keepStrings)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			var err error
			if out[i], err = fill(x[i], v, path+"["+strconv.Itoa(i)+"]", keepStrings); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		return fillString(x, v, path, keepStrings)
	}
	return value, nil
}

func fillString(text string, v Values, path string, keepStrings bool) (any, error) {
	if !strings.Contains(text, "{{") {
		return text, nil // an integer written as a string by the template's author stays what it is
	}
	t, err := template.New(path).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out strings.Builder
	if err := t.Execute(&out, v); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !keepStrings {
		if n, err := strconv.ParseInt(out.String(), 10, 64); err == nil {
			return n, nil
		}
	}
	return out.String(), nil
}
