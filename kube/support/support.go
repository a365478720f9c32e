// Package support collects the facts about a cluster for a bug report, without
// secrets.
package support

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v2"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/bundle"
)

// Source is a cluster to collect from.
type Source interface {
	Reader() client.Reader
	// Logs returns the last lines of a pod's logs.
	Logs(ctx context.Context, pod flows.PodFacts, lines int) (string, error)
}

const (
	// logLines is the number of lines for each pod. A pod in trouble writes them in a few hours.
	logLines = 5000
	// mostAgents is the number of pods of a DaemonSet whose logs are read. Pods in trouble come first.
	mostAgents = 20
	// logsAtOnce is the number of logs that are read at the same time.
	logsAtOnce = 8
	// pageSize is the number of objects in one answer. 500 nodes need 50 MB as values without a type, and the
	// garbage of the former page needs the same.
	pageSize = 100
)

// Collect reads everything that the user may read. The file problems.txt lists the rest.
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
	var pods []logged
	for _, k := range bundle.Kinds() {
		err := list(ctx, c.Reader(), k, namespaces, func(objects []unstructured.Unstructured) {
			var out bytes.Buffer
			for i := range objects {
				o := &objects[i]
				if k.Kind == "Pod" {
					pods = append(pods, logOf(o)...)
				}
				k.Object(o)
				// yaml.v2 writes the map directly. sigs.k8s.io/yaml would first convert it to JSON, and parse that.
				text, err := yaml.Marshal(o.Object)
				if err != nil {
					fail(err)
					continue
				}
				out.WriteString("---\n")
				out.Write(text)
			}
			if out.Len() > 0 {
				files.Add("objects/"+strings.ToLower(k.Kind)+".yaml", out.String())
			}
		})
		if err != nil {
			fail(err)
		}
	}
	for _, err := range logs(ctx, c, pods, files) {
		fail(err)
	}
	if problems.Len() > 0 {
		files.Add("problems.txt", problems.String())
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

// list calls add for all objects of a kind, page by page. If the cluster does not know the kind, there are
// none.
func list(ctx context.Context, r client.Reader, k bundle.Kind, namespaces []string, add func([]unstructured.Unstructured)) error {
	if k.Everywhere {
		namespaces = []string{""}
	}
	for _, ns := range namespaces {
		for more, first := "", true; first || more != ""; first = false {
			page, next, err := listIn(ctx, r, k, ns, more)
			if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
				return fmt.Errorf("list %s in namespace %q: %w", k.Kind, ns, err)
			}
			add(page)
			more = next
		}
	}
	return nil
}

// listIn reads one page. next is the start of the next page; "" if there is none.
func listIn(ctx context.Context, r client.Reader, k bundle.Kind, namespace, from string) (page []unstructured.Unstructured, next string, err error) {
	of := k.GroupVersionKind
	of.Kind += "List"
	options := []client.ListOption{client.InNamespace(namespace), client.Limit(pageSize), client.Continue(from)}
	if !k.Names {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(of)
		err := r.List(ctx, l, options...)
		return l.Items, l.GetContinue(), err
	}
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(of)
	if err := r.List(ctx, l, options...); err != nil {
		return nil, "", err
	}
	for i := range l.Items {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&l.Items[i])
		if err != nil {
			return nil, "", err
		}
		o := unstructured.Unstructured{Object: content}
		o.SetGroupVersionKind(k.GroupVersionKind)
		page = append(page, o)
	}
	return page, l.GetContinue(), nil
}

type logged struct {
	namespace, name string
	set             string // the pod's DaemonSet; "" if it has none
	fine            bool   // the pod runs, and has never restarted
}

// logOf returns the pod, if the pod has started.
func logOf(o *unstructured.Unstructured) []logged {
	var p corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
		return nil // the pod's object is in the bundle
	}
	started := slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.RestartCount > 0
	})
	if !started {
		return nil
	}
	l := logged{namespace: p.Namespace, name: p.Name, fine: !slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return !s.Ready || s.RestartCount > 0
	})}
	if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == "DaemonSet" {
		l.set = p.Namespace + "/" + owner.Name
	}
	return []logged{l}
}

// logs adds the logs of pods. Of each DaemonSet, it adds only some.
func logs(ctx context.Context, c Source, pods []logged, files Files) (errs []error) {
	slices.SortStableFunc(pods, func(a, b logged) int { return cmp.Compare(order(a.fine), order(b.fine)) })
	of, left := map[string]int{}, 0
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(logsAtOnce)
	for _, p := range pods {
		if of[p.set]++; p.set != "" && of[p.set] > mostAgents {
			left++
			continue
		}
		g.Go(func() error {
			text, err := c.Logs(ctx, flows.PodFacts{Namespace: p.namespace, Name: p.name}, logLines)
			text = bundle.Text(text)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return nil
			}
			files.Add("logs/"+p.namespace+"/"+p.name+".log", text)
			return nil
		})
	}
	_ = g.Wait() // errs contains the errors
	if left > 0 {
		files.Add("logs/left-out.txt", fmt.Sprintf("Of each DaemonSet, there are the logs of %d pods, those in trouble first. Those of %d pods are left out.\n", mostAgents, left))
	}
	return errs
}

func order(fine bool) int {
	if fine {
		return 1
	}
	return 0
}
