package apply

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Wanted returns o as a server-side apply should send it: without status, metadata from the server and empty
// values. Empty values matter because Liqo's types have struct fields that are no pointers. An apply would
// claim ownership of empty fields such as `status: {}`.
func Wanted(o wire.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", Name(o), err)
	}
	if _, shared := o.(*unstructured.Unstructured); shared {
		content = runtime.DeepCopyJSON(content) // the converter returns the object's own map
	}
	delete(content, "status")
	if meta, ok := content["metadata"].(map[string]any); ok {
		for _, field := range []string{"creationTimestamp", "uid", "resourceVersion", "generation", "managedFields", "selfLink"} {
			delete(meta, field)
		}
	}
	prune(content)
	return &unstructured.Unstructured{Object: content}, nil
}

// prune removes nulls, empty strings and empty maps below m, and reports whether anything is left. It does
// not change lists and the sources of volumes, because a pod's `emptyDir: {}` has a meaning, and so has a
// rule's empty API group.
func prune(m map[string]any) bool {
	for key, value := range m {
		switch v := value.(type) {
		case nil:
			delete(m, key)
		case string:
			if v == "" {
				delete(m, key)
			}
		case map[string]any:
			if !prune(v) {
				delete(m, key)
			}
		}
	}
	return len(m) > 0
}

// YAML renders objects as one stream, in an order in which they can be applied. The result depends only on
// the objects.
func YAML(objs ...wire.Object) ([]byte, error) {
	sorted := slices.Clone(objs)
	Sort(sorted)
	var out bytes.Buffer
	for i, o := range sorted {
		want, err := Wanted(o)
		if err != nil {
			return nil, err
		}
		text, err := yaml.Marshal(want.Object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", Name(o), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

// Sort puts objects before the objects that need them: definitions, namespaces, accounts and
// rights, settings, programs.
func Sort(objs []wire.Object) {
	slices.SortStableFunc(objs, func(a, b wire.Object) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.GetObjectKind().GroupVersionKind().Kind, b.GetObjectKind().GroupVersionKind().Kind),
			cmp.Compare(a.GetNamespace(), b.GetNamespace()),
			cmp.Compare(a.GetName(), b.GetName()),
		)
	})
}

func rank(o wire.Object) int {
	switch o.GetObjectKind().GroupVersionKind().Kind {
	case "CustomResourceDefinition", "Namespace":
		return 0
	case "ServiceAccount", "ClusterRole", "Role":
		return 1
	case "ClusterRoleBinding", "RoleBinding":
		return 2
	case "Deployment", "DaemonSet":
		return 4
	}
	return 3
}

// Name returns an object's name for messages: kind, then namespace/name.
func Name(o wire.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(o).Elem().Name() // typed clients drop the kind when they decode
	}
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}
