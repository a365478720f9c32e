package kube

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// maxUpdates is the largest number of attempts for an update while other programs change the same object.
const maxUpdates = 5

// update writes an object without the right to patch: it creates the object, or changes the fields that
// differ. As with a server-side apply, it does not change other managers' fields, and removes fields that we
// once applied and no longer want. Fields that an earlier update of ours has set stay, because they are
// recorded together with default values. before is nil if the object does not exist.
func (c *Cluster) update(ctx context.Context, before, want *unstructured.Unstructured, w write) (after *unstructured.Unstructured, err error) {
	owner := client.FieldOwner(wire.FieldManager)
	var dryRun []string
	if w.dryRun {
		dryRun = []string{metav1.DryRunAll}
	}
	for range maxUpdates {
		if want, err = w.adopt(before, want); err != nil {
			return nil, err
		}
		if before == nil {
			after = want.DeepCopy()
			err = c.client.Create(ctx, after, owner, &client.CreateOptions{DryRun: dryRun})
		} else {
			if apply.Contains(wire.FieldManager, before, want) {
				return before, nil
			}
			after = before.DeepCopy()
			apply.Withdraw(wire.FieldManager, after, want)
			merge(after.Object, want.Object)
			if e := owned(before, after); e != nil && !w.force {
				return nil, e
			}
			err = c.client.Update(ctx, after, owner, &client.UpdateOptions{DryRun: dryRun})
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return after, err
		}
		var reading error // another program has changed the object meanwhile
		if before, reading = c.read(ctx, want); reading != nil {
			return nil, reading
		}
	}
	return nil, err
}

// merge sets the fields of want in live, and keeps the rest. It merges maps, adds owners, and replaces other
// lists.
func merge(live, want map[string]any) {
	for key, w := range want {
		value, isMap := w.(map[string]any)
		inner, hasMap := live[key].(map[string]any)
		switch {
		case isMap && hasMap:
			merge(inner, value)
		case key == "ownerReferences":
			live[key] = mergeOwners(live[key], w)
		default:
			live[key] = runtime.DeepCopyJSONValue(w)
		}
	}
}

func mergeOwners(live, want any) []any {
	owners, _ := runtime.DeepCopyJSONValue(live).([]any)
	added, _ := want.([]any)
	for _, o := range added {
		i := slices.IndexFunc(owners, func(have any) bool { return field(have, "uid") == field(o, "uid") })
		if i < 0 {
			owners = append(owners, runtime.DeepCopyJSONValue(o))
		} else {
			owners[i] = runtime.DeepCopyJSONValue(o)
		}
	}
	return owners
}

func field(o any, name string) any {
	m, _ := o.(map[string]any)
	return m[name]
}

// owned returns a conflict if an update would change other managers' fields; nil if no other manager owns a
// changed field.
func owned(before, after *unstructured.Unstructured) error {
	e := &flows.ConflictError{Object: apply.Name(before)}
	paths := changedPaths(nil, before.Object, after.Object)
	for _, m := range before.GetManagedFields() {
		var fields map[string]any
		if isOurs(m.Manager) || m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		for _, path := range paths {
			if !owns(fields, path) {
				continue
			}
			if !slices.Contains(e.Managers, m.Manager) {
				e.Managers = append(e.Managers, m.Manager)
			}
			if name := "." + strings.Join(path, "."); !slices.Contains(e.Fields, name) {
				e.Fields = append(e.Fields, name)
			}
		}
	}
	if len(e.Managers) == 0 {
		return nil
	}
	return e
}

// changedPaths returns the paths of existing values that change.
func changedPaths(prefix []string, before, after map[string]any) [][]string {
	var out [][]string
	for key, a := range after {
		b, there := before[key]
		path := append(slices.Clone(prefix), key)
		before, wasMap := b.(map[string]any)
		after, isMap := a.(map[string]any)
		switch {
		case !there || key == "ownerReferences":
		case wasMap && isMap:
			out = append(out, changedPaths(path, before, after)...)
		case !reflect.DeepEqual(a, b):
			out = append(out, path)
		}
	}
	return out
}

// owns reports whether a manager's fields contain the path or something below it. The API server writes "f:"
// before the name of a field.
func owns(fields map[string]any, path []string) bool {
	for _, name := range path {
		below, ok := fields["f:"+name].(map[string]any)
		if !ok {
			return false
		}
		fields = below
	}
	return true
}
