package offload

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEveryFieldIsDecided walks all fields of a pod. A new release of Kubernetes has new fields. Until
// somebody decides on a field, pods with this field are refused.
func TestEveryFieldIsDecided(t *testing.T) {
	seen, unused := map[reflect.Type]bool{}, map[string]bool{}
	for name := range fields {
		unused[name] = true
	}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, of.Kind()) {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] || !decided(of) {
			return
		}
		seen[of] = true
		for field := range of.Fields() {
			name := of.Name() + "." + field.Name
			v, ok := fields[name]
			delete(unused, name)
			switch {
			case !ok || !v.keep && !v.drop && v.why == "":
				t.Errorf("nobody has decided on %s", name)
			case v.keep:
				walk(field.Type)
			}
		}
	}
	walk(reflect.TypeFor[corev1.PodSpec]())
	for name := range unused {
		t.Errorf("there is no %s", name)
	}
	if len(seen) < 50 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
