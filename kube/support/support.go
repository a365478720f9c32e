// Package support collects the facts about a cluster for a bug report, without
// secrets.
package support

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/bundle"
)

// Source is a cluster to collect from.
type Source interface {
	Reader() client.Reader
	// Logs returns the last lines of a pod's logs.
	Logs(ctx context.Context, pod flows.PodFacts, lines int) (string, error)
}

// Files are parts of a bundle, by their paths.
type Files map[string][]byte

// logLines is the number of lines for each pod: a few hours of a pod in trouble.
const logLines = 5000

// Collect reads everything that may be read. The file problems.txt lists the rest.
func Collect(ctx context.Context, c Source, f flows.ClusterFacts) Files {
	files := Files{}
	var problems strings.Builder
	fail := func(err error) {
		fmt.Fprintln(&problems, bundle.Text(err.Error()))
	}
	if f.Problem != nil {
		fail(f.Problem)
	}
	namespaces := ours(f)
	for _, k := range bundle.Kinds() {
		objects, err := list(ctx, c.Reader(), k, namespaces)
		if err != nil {
			fail(err)
		}
		var out bytes.Buffer
		for i := range objects {
			o := &objects[i]
			if k.Kind == "Pod" {
				if err := logs(ctx, c, o, files); err != nil {
					fail(err)
				}
			}
			k.Object(o)
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				fail(err)
				continue
			}
			out.WriteString("---\n")
			out.Write(text)
		}
		if out.Len() > 0 {
			files["objects/"+strings.ToLower(k.Kind)+".yaml"] = out.Bytes()
		}
	}
	if problems.Len() > 0 {
		files["problems.txt"] = []byte(problems.String())
	}
	return files
}

// ours returns the namespaces of the installation and of tenants.
func ours(f flows.ClusterFacts) []string {
	all := map[string]bool{f.Namespace: true}
	for i := range f.Configurations {
		all[f.Configurations[i].Namespace] = true
	}
	for i := range f.Servers {
		all[f.Servers[i].Namespace] = true
	}
	for i := range f.Clients {
		all[f.Clients[i].Namespace] = true
	}
	delete(all, "")
	return slices.Sorted(maps.Keys(all))
}

// list reads all objects of a kind, sorted. If the cluster does not know the kind,
// there are none.
func list(ctx context.Context, r client.Reader, k bundle.Kind, namespaces []string) (all []unstructured.Unstructured, err error) {
	if k.Everywhere {
		namespaces = []string{""}
	}
	for _, ns := range namespaces {
		part, err := listIn(ctx, r, k, ns)
		if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return all, fmt.Errorf("list %s in namespace %q: %w", k.Kind, ns, err)
		}
		all = append(all, part...)
	}
	return all, nil
}

func listIn(ctx context.Context, r client.Reader, k bundle.Kind, namespace string) ([]unstructured.Unstructured, error) {
	of := k.GroupVersionKind
	of.Kind += "List"
	if !k.Names {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(of)
		err := r.List(ctx, l, client.InNamespace(namespace))
		return l.Items, err
	}
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(of)
	if err := r.List(ctx, l, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var all []unstructured.Unstructured
	for i := range l.Items {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&l.Items[i])
		if err != nil {
			return nil, err
		}
		o := unstructured.Unstructured{Object: content}
		o.SetGroupVersionKind(k.GroupVersionKind)
		all = append(all, o)
	}
	return all, nil
}

// logs adds the logs of a pod, if it has started.
func logs(ctx context.Context, c Source, o *unstructured.Unstructured, files Files) error {
	var p corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
		return err
	}
	if !slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.RestartCount > 0
	}) {
		return nil
	}
	text, err := c.Logs(ctx, flows.PodFacts{Namespace: p.Namespace, Name: p.Name}, logLines)
	if err != nil {
		return err
	}
	files["logs/"+p.Namespace+"/"+p.Name+".log"] = []byte(bundle.Text(text))
	return nil
}
