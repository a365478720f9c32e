package render

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// Values are the values that a gateway template may use, with Liqo's names.
type Values struct {
	Spec       any // GatewayServerSpec or GatewayClientSpec
	Name       string
	Namespace  string
	GatewayUID string
	ClusterID  string // of the peer
	SecretName string
}

// FieldError is a mistake in one field of a gateway template.
type FieldError struct {
	Field   string // such as .spec.deployment.spec.replicas
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// maxRendered is the largest size of a filled template, in bytes. Much larger objects do not fit into etcd,
// whose limit for a request is 1.5 MiB.
const maxRendered = 1 << 20

// Template fills in a gateway template, by the rules of Liqo's templates:
//   - every string is a text/template over v;
//   - a string with a template whose result is an integer becomes this integer. An
//     object that has labels or annotations keeps strings in all its fields, since
//     Kubernetes wants strings in these two;
//   - a string that is one variable, and nothing else, becomes the variable's value
//     if this is a map;
//   - a key that starts with "?" loses that mark. It is left out if the first
//     variable of its value has the zero value, or if the filled value is empty or zero.
//
// The operator fills in templates of any user with the right to write them. So time and memory are limited,
// and templates that could run for ever are refused. The error wraps a [FieldError].
func Template(tmpl map[string]any, v Values) (map[string]any, error) {
	f := filler{values: v, left: maxRendered, templates: template.New("").Option("missingkey=error").Funcs(bounded)}
	filled, err := f.fillMap(tmpl, "", false)
	if err != nil {
		return nil, fmt.Errorf("gateway template: %w", err)
	}
	return filled, nil
}

type filler struct {
	values Values
	left   int // number of bytes that may still be written
	// templates holds the templates of all strings, which share functions and options.
	templates *template.Template
}

// firstVariable matches the variable that decides whether an optional field is kept, as in Liqo.
var firstVariable = regexp.MustCompile(`\{\{-?\s*(\.[A-Za-z0-9_.]+)\s*-?\}\}`)

func (f *filler) fillMap(m map[string]any, path string, keepStrings bool) (map[string]any, error) {
	if _, ok := m["labels"]; ok {
		keepStrings = true
	}
	if _, ok := m["annotations"]; ok {
		keepStrings = true
	}
	out := make(map[string]any, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		name, optional := strings.CutPrefix(key, "?")
		field, asString := path+"."+key, keepStrings || key == "metadata"
		var filled any
		var err error
		if text, ok := m[key].(string); ok {
			filled, err = f.fillString(text, field, asString, optional)
		} else {
			filled, err = f.fill(m[key], field, asString)
		}
		if err != nil {
			return nil, err
		}
		if !optional || !empty(filled) {
			out[name] = filled
		}
	}
	return out, nil
}

func empty(value any) bool {
	switch x := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(x) == 0
	case []any:
		return len(x) == 0
	}
	return value == "" || value == int64(0) || value == 0.0 || value == false
}

func (f *filler) fill(value any, path string, keepStrings bool) (any, error) {
	switch x := value.(type) {
	case map[string]any:
		return f.fillMap(x, path, keepStrings)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			var err error
			if out[i], err = f.fill(x[i], path+"["+strconv.Itoa(i)+"]", keepStrings); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		return f.fillString(x, path, keepStrings, false)
	}
	return value, nil
}

func (f *filler) fillString(text, path string, keepStrings, optional bool) (any, error) {
	variable := firstVariable.FindStringSubmatch(text)
	if variable != nil && variable[0] == strings.TrimSpace(text) {
		if m, ok := f.mapAt(variable[1]); ok {
			return m, nil
		}
	}
	if !strings.Contains(text, "{{") {
		return text, nil // an integer that the template's author wrote as a string stays a string
	}
	whole := text
	if optional && variable != nil {
		whole = "{{if " + variable[1] + "}}" + text + "{{end}}"
	}
	before := len(f.templates.Templates())
	t, err := f.templates.New(path).Parse(whole)
	if err == nil {
		err = endless(t, before+1)
	}
	var out strings.Builder
	if err == nil {
		err = t.Execute(limited{&out, &f.left}, f.values)
	}
	if err != nil {
		return nil, &FieldError{Field: path, Problem: strings.TrimPrefix(err.Error(), "template: "+path+":")}
	}
	if !keepStrings {
		if n, err := strconv.ParseInt(out.String(), 10, 64); err == nil {
			return n, nil
		}
	}
	return out.String(), nil
}

// mapAt returns the map of strings that a variable such as .Spec.ServiceLabels names; ok is false if the
// variable names anything else.
func (f *filler) mapAt(variable string) (_ map[string]any, ok bool) {
	v := reflect.ValueOf(f.values)
	for name := range strings.SplitSeq(variable[1:], ".") {
		for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return nil, false
		}
		v = v.FieldByName(name)
	}
	if !v.IsValid() {
		return nil, false
	}
	m, ok := reflect.TypeAssert[map[string]string](v)
	out := make(map[string]any, len(m))
	for key, value := range m {
		out[key] = value
	}
	return out, ok
}
