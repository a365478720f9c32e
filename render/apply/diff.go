// Package apply compares objects with those of a cluster, removes fields that a field manager
// no longer applies, and writes objects as text without secrets.
package apply

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"

	"github.com/aymanbagabas/go-udiff"
	"go.yaml.in/yaml/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Diff is the unified diff between live and live after an apply of want as [wire.FieldManager];
// "" if the apply changes nothing. live is nil if the object does not exist yet. The values
// of Secrets are masked: equal digests mean equal values.
func Diff(live, want wire.Object) string {
	wanted, err := Wanted(want)
	if err != nil {
		return err.Error()
	}
	before := ""
	if !isNil(live) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return err.Error()
		}
		gone := withdrawn(wire.FieldManager, live, content, wanted.Object)
		if gone.Empty() && contains(content, wanted.Object) {
			return ""
		}
		before = diffText(restrict(content, wanted.Object, gone))
	}
	return udiff.Unified("live", "wanted", before, diffText(wanted.Object))
}

// Contains reports whether an apply of want as manager would change nothing: live has all
// fields of want, and no further field that manager applied before, which server-side apply
// would remove. An apply does not touch other fields, so they are not compared.
//
// Fields that manager has written by an update, without server-side apply, count as
// somebody else's, as they do for the API server: nobody can tell wanted fields from the
// defaults of that time.
func Contains(manager string, live, want wire.Object) bool {
	if isNil(live) {
		return false
	}
	wanted, err := Wanted(want)
	if err != nil {
		return false
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false
	}
	return contains(content, wanted.Object) && withdrawn(manager, live, content, wanted.Object).Empty()
}

// withdrawn returns the fields that an apply of want as manager removes from live: manager
// has applied them before, no other manager has, and want lacks them.
func withdrawn(manager string, live wire.Object, content, want map[string]any) *fieldpath.Set {
	own, others := fieldpath.NewSet(), fieldpath.NewSet()
	for _, e := range live.GetManagedFields() {
		fields := &fieldpath.Set{}
		if e.FieldsV1 == nil || fields.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())) != nil {
			continue // the notation is not known: the next apply will show the fields
		}
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			own = fields
		} else {
			others = others.Union(fields)
		}
	}
	gone := fieldpath.NewSet()
	own.Iterate(func(p fieldpath.Path) {
		if !others.Has(p) && has(content, p) && !has(want, p) {
			gone.Insert(p)
		}
	})
	return gone
}

// Withdraw removes the fields from live that an apply of want as manager would remove. It is
// for callers that have to update the object because they may not apply it.
func Withdraw(manager string, live, want *unstructured.Unstructured) {
	without(live.Object, withdrawn(manager, live, live.Object, want.Object))
}

// without removes fields from a value, and elements from its lists.
func without(v any, gone *fieldpath.Set) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			pe := fieldpath.FieldNameElement(name)
			if gone.Members.Has(pe) {
				delete(v, name)
			} else if below, ok := gone.Children.Get(pe); ok {
				v[name] = without(v[name], below)
			}
		}
	case []any:
		gone.Members.Iterate(func(pe fieldpath.PathElement) {
			v = slices.DeleteFunc(v, func(o any) bool { return chosen(o, pe) })
		})
		gone.Children.Iterate(func(pe fieldpath.PathElement) {
			for _, o := range v {
				if chosen(o, pe) {
					without(o, gone.WithPrefix(pe))
				}
			}
		})
		return v
	}
	return v
}

// has reports whether a value has the field at path, in the API server's notation. An element
// of a list is looked up by the keys that the element has: the API server has filled in
// defaults for its other keys.
func has(v any, path fieldpath.Path) bool {
	if len(path) == 0 {
		return true
	}
	switch pe := path[0]; {
	case pe.FieldName != nil:
		m, _ := v.(map[string]any)
		below, ok := m[*pe.FieldName]
		return ok && has(below, path[1:])
	case pe.Index != nil:
		list, _ := v.([]any)
		return *pe.Index < len(list) && has(list[*pe.Index], path[1:])
	default:
		list, _ := v.([]any)
		return slices.ContainsFunc(list, func(o any) bool { return chosen(o, pe) && has(o, path[1:]) })
	}
}

func chosen(o any, pe fieldpath.PathElement) bool {
	if pe.Value != nil {
		return value.Equals(value.NewValueInterface(o), *pe.Value)
	}
	m, ok := o.(map[string]any)
	return ok && pe.Key != nil && !slices.ContainsFunc(*pe.Key, func(f value.Field) bool {
		v, says := m[f.Name]
		return says && !value.Equals(value.NewValueInterface(v), f.Value)
	})
}

func isNil(o wire.Object) bool {
	return o == nil || reflect.ValueOf(o).IsNil()
}

// contains compares wanted maps key by key.
func contains(live, want map[string]any) bool {
	for key, w := range want {
		switch key {
		case "apiVersion", "kind":
			continue // typed clients drop them when they decode
		}
		l, ok := live[key]
		if !ok {
			return false
		}
		if key == "ownerReferences" {
			if !containsOwners(l, w) {
				return false
			}
			continue
		}
		if !containsValue(l, w) {
			return false
		}
	}
	return true
}

// containsValue compares lists element by element, in order. The API server adds defaults
// inside of elements, for example in a container. In the kinds that we apply, it adds no
// elements.
func containsValue(live, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		return ok && contains(l, w)
	case []any:
		l, ok := live.([]any)
		if !ok || len(l) != len(w) {
			return false
		}
		for i := range w {
			if !containsValue(l[i], w[i]) {
				return false
			}
		}
		return true
	}
	return value.Equals(value.NewValueInterface(live), value.NewValueInterface(want)) // 0 is also 0.0, a Go type's
}

// containsOwners reports whether live has every wanted owner: only this list is merged by
// UID.
func containsOwners(live, want any) bool {
	uids := map[any]bool{}
	l, _ := live.([]any)
	for _, o := range l {
		if m, ok := o.(map[string]any); ok {
			uids[m["uid"]] = true
		}
	}
	w, _ := want.([]any)
	for _, o := range w {
		if m, ok := o.(map[string]any); !ok || !uids[m["uid"]] {
			return false
		}
	}
	return true
}

// restrict returns the fields of live that want has, too, and the fields in gone.
func restrict(live, want map[string]any, gone *fieldpath.Set) map[string]any {
	out := map[string]any{}
	gone.Members.Iterate(func(pe fieldpath.PathElement) {
		if pe.FieldName != nil {
			out[*pe.FieldName] = live[*pe.FieldName]
		}
	})
	gone.Children.Iterate(func(pe fieldpath.PathElement) {
		if pe.FieldName == nil {
			return
		}
		out[*pe.FieldName] = live[*pe.FieldName]
		if below, ok := live[*pe.FieldName].(map[string]any); ok {
			out[*pe.FieldName] = restrict(below, nil, gone.WithPrefix(pe))
		}
	})
	for key, w := range want {
		l, ok := live[key]
		if !ok {
			if key == "apiVersion" || key == "kind" {
				out[key] = w
			}
			continue
		}
		lm, lok := l.(map[string]any)
		wm, wok := w.(map[string]any)
		if lok && wok {
			// If all present fields are other managers', nothing is removed.
			if part := restrict(lm, wm, gone.WithPrefix(fieldpath.FieldNameElement(key))); len(part) > 0 || len(lm) == 0 {
				out[key] = part
			}
			continue
		}
		out[key] = l
	}
	return out
}

func diffText(content map[string]any) string {
	u := &unstructured.Unstructured{Object: content}
	switch u.GetKind() {
	case "Secret":
		u = u.DeepCopy()
		maskSecret(u.Object)
	case "Identity":
		u = u.DeepCopy()
		maskCloudKeys(u.Object)
	}
	// Not through JSON, as for typed objects: parsing it again took a third of the planning
	// time of an installation.
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func maskSecret(content map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		data, ok := content[field].(map[string]any)
		if !ok {
			continue
		}
		for key, value := range data {
			raw := []byte(fmt.Sprint(value))
			if decoded, err := base64.StdEncoding.DecodeString(string(raw)); err == nil && field == "data" {
				raw = decoded
			}
			sum := sha256.Sum256(raw)
			data[key] = "<redacted sha256:" + hex.EncodeToString(sum[:4]) + ">"
		}
	}
}

// cloudKey is the field that Identities have instead of a certificate if the provider is on
// AWS.
const cloudKey = "awsSecretAccessKey"

func maskCloudKeys(content map[string]any) {
	for name, value := range content {
		if below, ok := value.(map[string]any); ok {
			maskCloudKeys(below)
		}
		if name == cloudKey {
			content[name] = "<redacted>"
		}
	}
}
