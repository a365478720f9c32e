package support_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/kube/support"
)

const planted = "hunter2-planted"

// lister supports only lists.
type lister struct{ client.Reader }

// cluster has one object of each kind in each requested namespace.
type cluster struct {
	lister
	asked     map[string]bool
	forbidden string // kind
	unknown   string // kind
	agents    int    // pods of a DaemonSet in each namespace
	logs      atomic.Int32
}

// unpack returns the texts of a bundle.
func unpack(t *testing.T, files support.Files) map[string]string {
	t.Helper()
	data, err := files.Archive()
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	out, r := map[string]string{}, tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		text, bad := io.ReadAll(r)
		if err := errors.Join(err, bad); err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(text)
	}
}

func (c *cluster) Reader() client.Reader { return c }

func (c *cluster) Logs(_ context.Context, p flows.PodFacts, _ int) (string, error) {
	c.logs.Add(1)
	return "dial https://ada:" + planted + "@proxy.example failed for " + p.Name, nil
}

func (c *cluster) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	kind := strings.TrimSuffix(into.GetObjectKind().GroupVersionKind().Kind, "List")
	c.asked[kind+" "+o.Namespace] = true
	switch kind {
	case c.forbidden:
		return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("token="+planted))
	case c.unknown:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, "")
	}
	if o.Limit == 0 {
		return errors.New("all objects are asked for at once")
	}
	if kind == "Pod" && c.agents > 0 {
		from, _ := strconv.Atoi(o.Continue)
		to := min(from+int(o.Limit), c.agents)
		l := into.(*unstructured.UnstructuredList)
		for i := from; i < to; i++ {
			l.Items = append(l.Items, agent(o.Namespace, i, i != c.agents-1))
		}
		if to < c.agents {
			l.SetContinue(strconv.Itoa(to))
		}
		return nil
	}
	switch l := into.(type) {
	case *metav1.PartialObjectMetadataList:
		l.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "gw-milan", Namespace: o.Namespace}}}
	case *unstructured.UnstructuredList:
		l.Items = []unstructured.Unstructured{{Object: map[string]any{
			"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": "one", "namespace": o.Namespace},
			"data":   map[string]any{"password": planted},
			"spec":   map[string]any{"containers": []any{map[string]any{"name": "c", "args": []any{"--password=" + planted}}}},
			"status": map[string]any{"containerStatuses": []any{map[string]any{"name": "c", "state": map[string]any{"running": map[string]any{}}}}},
		}}}
	default:
		return fmt.Errorf("%s: values of %T would leave the API server", kind, into)
	}
	return nil
}

func agent(namespace string, i int, ready bool) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"name": fmt.Sprintf("fabric-%d", i), "namespace": namespace,
			"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "fabric", "uid": "d", "controller": true}},
		},
		"status": map[string]any{"containerStatuses": []any{map[string]any{"name": "c", "ready": ready, "state": map[string]any{"running": map[string]any{}}}}},
	}}
}

// A cluster with thousands of nodes has as many agents. Their objects come in pages, and the logs of a few
// agents are enough.
func TestABundleOfManyNodesHasTheLogsOfAFewAgents(t *testing.T) {
	c := &cluster{asked: map[string]bool{}, agents: 5000}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	collected := support.Collect(t.Context(), c, flows.ClusterFacts{Namespace: "liqo"})
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / uint64(c.agents); got > 60_000 {
		t.Errorf("got %d bytes of garbage for each pod, want at most 60000", got)
	}
	files := unpack(t, collected)
	if got := strings.Count(files["objects/pod.yaml"], "\nkind: Pod"); got != c.agents {
		t.Errorf("got %d pods, want %d; problems: %s", got, c.agents, files["problems.txt"])
	}
	if _, ok := files["logs/liqo/fabric-4999.log"]; !ok || c.logs.Load() != 20 || !strings.Contains(files["logs/left-out.txt"], "4980 pods") {
		t.Errorf("got %d logs, that of the agent in trouble %v, and %q", c.logs.Load(), ok, files["logs/left-out.txt"])
	}
}

func TestABundleHasWhatIsOursWithoutSecrets(t *testing.T) {
	c := &cluster{asked: map[string]bool{}, forbidden: "Node", unknown: "Tenant"}
	f := flows.ClusterFacts{Namespace: "liqo", Configurations: []networkingv1beta1.Configuration{{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan"}}}}
	files := unpack(t, support.Collect(t.Context(), c, f))
	for name, text := range files {
		if strings.Contains(text, planted) {
			t.Errorf("%s has a secret:\n%s", name, text)
		}
	}
	names := slices.Collect(maps.Keys(files))
	for _, want := range []string{"objects/pod.yaml", "objects/secret.yaml", "objects/connection.yaml", "logs/liqo/one.log", "logs/liqo-tenant-milan/one.log", "problems.txt"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing; there is %q", want, names)
		}
	}
	if slices.Contains(names, "objects/tenant.yaml") {
		t.Error("there are objects of a kind that the cluster does not know")
	}
	if got := files["problems.txt"]; !strings.Contains(got, "list Node") || strings.Contains(got, "Tenant") {
		t.Errorf("got problems %q", got)
	}
	for _, want := range []string{"Secret liqo", "Secret liqo-tenant-milan", "Connection "} {
		if !c.asked[want] {
			t.Errorf("was not asked for %s", want)
		}
	}
	if c.asked["Secret "] || c.asked["Pod "] || c.asked["ConfigMap "] {
		t.Error("other people's namespaces were read")
	}
}
