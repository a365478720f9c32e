// Package apply compares wanted objects with the objects of a cluster. It removes fields that a
// field manager does not apply any more, and writes objects as text without secrets.
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

// Diff returns the changes that an apply of want as [wire.FieldManager] makes in live, as a unified diff; ""
// if the apply changes nothing. live is nil if the object does not exist yet. Instead of the values of
// Secrets, the diff contains shortened digests, which differ if the values differ. Instead of a key in an
// Identity, it contains no digest.
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

// Contains reports whether an apply of want as fieldManager would change nothing in live. This is so if live
// has all fields of want, and no other field that only fieldManager owns, because server-side apply removes
// such fields. An apply changes no other fields, so Contains does not compare them.
//
// Fields that fieldManager wrote by an update, without server-side apply, count as fields of
// another manager. The API server treats them in the same way, because it can't distinguish the
// fields that the update wanted to set from fields with default values.
func Contains(fieldManager string, live, want wire.Object) bool {
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
	return contains(content, wanted.Object) && withdrawn(fieldManager, live, content, wanted.Object).Empty()
}

// withdrawn returns the fields that an apply of want as fieldManager removes from live. These are the
// fields that fieldManager applied before, that no other manager owns, and that want does not have.
// content is live as a map.
func withdrawn(fieldManager string, live wire.Object, content, want map[string]any) *fieldpath.Set {
	own, others := fieldpath.NewSet(), fieldpath.NewSet()
	for _, e := range live.GetManagedFields() {
		fields := &fieldpath.Set{}
		if e.FieldsV1 == nil || fields.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())) != nil {
			continue // this program can't read the list of fields; only the apply itself shows which are removed
		}
		if e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
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

// Withdraw removes the fields from live that an apply of want as fieldManager would remove. It is
// for callers that may update the object, but may not apply it.
func Withdraw(fieldManager string, live, want *unstructured.Unstructured) {
	without(live.Object, withdrawn(fieldManager, live, live.Object, want.Object))
}

// without removes the fields and list elements in gone from a value, and returns the value.
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

// has reports whether a value contains the field at a path. The path comes from managedFields, as the
// API server wrote it. It names an element of a list by its keys. Keys that the element itself does
// not have are ignored, because the API server writes default values for them into the path.
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

// isNil reports whether o is nil, or is an interface with a nil pointer.
func isNil(o wire.Object) bool {
	return o == nil || reflect.ValueOf(o).IsNil()
}

// contains reports whether live has each field of want, with the wanted value.
func contains(live, want map[string]any) bool {
	for key, w := range want {
		switch key {
		case "apiVersion", "kind":
			continue // typed clients clear these fields when they decode an object
		}
		l, ok := live[key]
		if bothEmpty(l, w) {
			continue
		}
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

// bothEmpty reports whether an empty list is wanted and live has none. The API server answers `[]` for some
// fields, null for others, such as an EndpointSlice's endpoints, and leaves others out.
func bothEmpty(live, want any) bool {
	w, ok := want.([]any)
	return ok && len(w) == 0 && live == nil
}

// containsValue is contains for any value. Lists must have the same number of elements, in the same
// order. In the kinds that we apply, the API server adds no elements to a list, but it adds fields
// with default values inside an element, for example inside a container.
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
	return value.Equals(value.NewValueInterface(live), value.NewValueInterface(want)) // numbers are equal even if their types differ, such as 0 and 0.0
}

// containsOwners reports whether live has each wanted owner. An apply merges the list of owners by
// UID, so live may also have owners that are not wanted.
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

// restrict returns the fields of live that are also in want or in gone.
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
		switch {
		case bothEmpty(l, w), !ok && (key == "apiVersion" || key == "kind"):
			out[key] = w
			continue
		case !ok:
			continue
		}
		lm, lok := l.(map[string]any)
		wm, wok := w.(map[string]any)
		if lok && wok {
			// Leave out a map of which we own nothing: `key: {}` would look like our field.
			if part := restrict(lm, wm, gone.WithPrefix(fieldpath.FieldNameElement(key))); len(part) > 0 || len(lm) == 0 {
				out[key] = part
			}
			continue
		}
		out[key] = l
		if list, ok := l.([]any); ok {
			out[key] = restrictList(list, w, gone.WithPrefix(fieldpath.FieldNameElement(key)))
		}
	}
	return out
}

// restrictList restricts the elements of a list that have a wanted counterpart. The API server adds default
// values inside elements, and no apply removes these.
func restrictList(live []any, want any, gone *fieldpath.Set) []any {
	wanted, _ := want.([]any)
	out := slices.Clone(live)
	for i, l := range live {
		lm, ok := l.(map[string]any)
		wm := counterpart(i, lm, len(live), wanted)
		if !ok || wm == nil {
			continue
		}
		below := fieldpath.NewSet()
		gone.Children.Iterate(func(pe fieldpath.PathElement) {
			if chosen(l, pe) {
				below = below.Union(gone.WithPrefix(pe))
			}
		})
		out[i] = restrict(lm, wm, below)
	}
	return out
}

// counterpart returns the wanted element with the name of a live one; nil if there is none. Elements without
// names correspond by their positions.
func counterpart(i int, live map[string]any, of int, wanted []any) map[string]any {
	for _, w := range wanted {
		if wm, ok := w.(map[string]any); ok && wm["name"] != nil && wm["name"] == live["name"] {
			return wm
		}
	}
	if of != len(wanted) {
		return nil
	}
	wm, _ := wanted[i].(map[string]any)
	if wm["name"] != nil && live["name"] != nil {
		return nil
	}
	return wm
}

// diffText returns an object as YAML without secrets, for a diff.
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
	// yaml.v2 writes the map directly. sigs.k8s.io/yaml would first convert it to JSON, which took a
	// third of the time to plan an installation.
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// maskSecret replaces the values of a Secret by the beginnings of their digests.
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

// cloudKey is the secret field of an Identity for a provider on AWS. Such an Identity has no
// certificate.
const cloudKey = "awsSecretAccessKey"

// maskCloudKeys replaces the values of all fields named cloudKey.
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
