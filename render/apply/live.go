package apply

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// LiveYAML renders objects as they are on a cluster, with their status, in the given order. It leaves out
// only the managed fields, because nobody reads them.
func LiveYAML(objs ...wire.Object) ([]byte, error) {
	scheme, err := wire.Scheme()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for i, o := range objs {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("convert %s: %w", Name(o), err)
		}
		kinds, _, err := scheme.ObjectKinds(o) // typed clients drop the kind when they decode
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", Name(o), err)
		}
		content["apiVersion"], content["kind"] = kinds[0].ToAPIVersionAndKind()
		if meta, ok := content["metadata"].(map[string]any); ok {
			delete(meta, "managedFields")
		}
		text, err := yaml.Marshal(content)
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
