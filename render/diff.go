package render

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"reflect"

	"github.com/aymanbagabas/go-udiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Diff is the unified diff of what applying want changes in live; "" when it
// changes nothing. A nil live means that the object does not exist yet. The
// values of Secrets are masked: equal digests mean equal values.
func Diff(live, want Object) string {
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
		if contains(content, wanted.Object) {
			return ""
		}
		before = diffText(restrict(content, wanted.Object))
	}
	return udiff.Unified("live", "wanted", before, diffText(wanted.Object))
}

// Contains reports whether live already says everything that applying want
// would say, so that applying would change nothing. Fields that want doesn't
// mention are left alone by server-side apply and are not compared.
func Contains(live, want Object) bool {
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
	return contains(content, wanted.Object)
}

func isNil(o Object) bool {
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

// containsValue compares lists element by element, in order: the API server
// adds defaults inside of them (a container's), but no elements to those of
// the kinds we apply.
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
	return reflect.DeepEqual(live, want)
}

// containsOwners reports whether every wanted owner is among the live ones:
// this one list is merged by UID.
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

// restrict is the part of live that want also mentions.
func restrict(live, want map[string]any) map[string]any {
	out := map[string]any{}
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
			out[key] = restrict(lm, wm)
			continue
		}
		out[key] = l
	}
	return out
}

func diffText(content map[string]any) string {
	u := &unstructured.Unstructured{Object: content}
	if u.GetKind() == "Secret" {
		u = u.DeepCopy()
		maskSecret(u.Object)
	}
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
