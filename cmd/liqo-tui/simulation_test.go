package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// The demonstration, and most tests, have simulated clusters. What they show is what our operator
// and an API server make of the same plan: the steps, the objects and their fields, the
// conditions, and what check finds of the same fault.
func TestSimulatedClustersAreLikeRealOnes(t *testing.T) {
	onStage(t, "contract", func(t *testing.T, s *stage) {
		pair := flowtest.NewPair()
		simulated := &ground{t: t, clusters: [2]engine.Cluster{pair.A, pair.B}, now: pair.Now, pass: func() { pair.Tick() }}
		actual := &ground{t: t, now: time.Now, pass: func() { time.Sleep(100 * time.Millisecond) }}
		for i, name := range []string{"rome", "milan"} {
			way := clusterFlags{kubeconfig: s.kubeconfig, context: name, namespace: wire.DefaultNamespace}
			c, err := way.open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			actual.clusters[i] = c
		}
		simulated.connect()
		actual.connect()
		if diff := cmp.Diff(actual.connected, simulated.connected); diff != "" {
			t.Errorf("a connection (-real +simulated):\n%s", diff)
		}
		for _, f := range contractFaults {
			f.make(simulated)
			f.make(actual)
			if diff := cmp.Diff(actual.findings(f.root), simulated.findings(f.root)); diff != "" {
				t.Errorf("%s (-real +simulated):\n%s", f.name, diff)
			}
		}
	})
}

// notSimulated is what real clusters have besides, and nothing on a screen is made of.
var notSimulated = []string{
	"liqo-tui.dev/endpoint", "status.internalEndpoint.", "status.serverRef.", "status.clientRef.", // what operator and nodes tell each other
	"spec.finalizers", "status.phase", // of namespaces
}

// contractFaults follow one another.
var contractFaults = []struct {
	name string
	root string // of the findings, so that both have it
	make func(*ground)
}{
	{"none", "", func(*ground) {}},
	{"the client's gateway is gone", "LT-D010 both", func(x *ground) { x.delete(flows.A, x.facts().Sides[flows.A].End("milan").Client) }},
	{"the Configuration is gone, too", "LT-D003 milan; LT-D010 both", func(x *ground) { x.delete(flows.B, x.facts().Sides[flows.B].End("rome").Configuration) }},
}

// ground is a pair of clusters on which something is tried.
type ground struct {
	t         *testing.T
	clusters  [2]engine.Cluster
	now       func() time.Time
	pass      func() // lets a moment pass
	connected outcome
}

// outcome is what became of a run, without what differs between any two clusters.
type outcome struct {
	Steps      []string            // of the last plan, in its order
	Objects    map[string][]string // fields of each
	Conditions map[string][]string // of each object, as they are at the end
}

func (x *ground) connect() {
	x.t.Helper()
	p := flowtest.NodePort()
	x.connected = outcome{Objects: map[string][]string{}, Conditions: map[string][]string{}}
	ctx, cancel := context.WithTimeout(x.t.Context(), 2*time.Minute)
	defer cancel()
	plan := func(f flows.Facts) flows.Plan {
		next := flows.PlanConnect(p, f)
		x.see(f, next)
		return next
	}
	err := engine.Run(ctx, flows.Planner(plan), x.clusters[0], x.clusters[1], func(engine.Event) {}, engine.Options{Now: x.now})
	if err != nil {
		x.t.Fatal(err)
	}
}

// see takes in one observation of a run.
func (x *ground) see(f flows.Facts, p flows.Plan) {
	o := &x.connected
	o.Steps = nil
	for _, s := range p.Steps {
		o.Steps = append(o.Steps, string(s.ID))
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		for _, object := range f.End(side).Objects() {
			x.seeObject(object)
		}
	}
}

func (x *ground) seeObject(object wire.Object) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		x.t.Fatal(err)
	}
	name := fmt.Sprintf("%T %s", object, object.GetName())
	var paths []string
	for _, part := range []string{"spec", "status"} {
		paths = append(paths, fieldPaths(part, fields[part])...)
	}
	for annotation := range object.GetAnnotations() {
		if strings.HasPrefix(annotation, "liqo-tui.dev/") {
			paths = append(paths, annotation)
		}
	}
	slices.Sort(paths)
	x.connected.Objects[name] = slices.DeleteFunc(paths, func(path string) bool {
		return slices.ContainsFunc(notSimulated, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
	})
	conditions, _, _ := unstructured.NestedSlice(fields, "status", "conditions")
	var now []string
	for _, c := range conditions {
		now = append(now, fmt.Sprintf("%s=%s %s", c.(map[string]any)["type"], c.(map[string]any)["status"], c.(map[string]any)["reason"]))
	}
	x.connected.Conditions[name] = now
}

// fieldPaths are the fields that have a value; what is in lists counts once.
func fieldPaths(at string, value any) []string {
	switch v := value.(type) {
	case map[string]any:
		var all []string
		for name, field := range v {
			all = append(all, fieldPaths(at+"."+name, field)...)
		}
		return all
	case []any:
		if len(v) > 0 {
			return []string{at}
		}
	case nil:
	default:
		return []string{at}
	}
	return nil
}

// warned are the facts with warnings, which the simulated clusters have read anyway.
func (x *ground) warned() flows.Facts {
	f, err := engine.ReadWarnings(x.t.Context(), x.facts(), x.clusters[0], x.clusters[1])
	if err != nil {
		x.t.Fatal(err)
	}
	return f
}

func (x *ground) facts() flows.Facts {
	x.t.Helper()
	f, err := engine.Observe(x.t.Context(), x.clusters[0], x.clusters[1], x.now)
	if err != nil {
		x.t.Fatal(err)
	}
	return f
}

func (x *ground) delete(side flows.Side, o wire.Object) {
	x.t.Helper()
	if _, err := x.clusters[side].Delete(x.t.Context(), []wire.Object{o}); err != nil {
		x.t.Fatal(err)
	}
}

// findings are what check says once it says what is expected.
func (x *ground) findings(root string) []string {
	x.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var all, roots []string
		for _, r := range check.Diagnose(x.warned(), nil) {
			if slices.Contains([]flows.Code{check.NodePaths, check.Closed, check.PodRanges, check.KubeProxy}, r.ID) {
				continue // the API servers here have no nodes, whose agents would say it
			}
			all = append(all, fmt.Sprintf("%s %s %s", r.ID, r.Where(), r.State))
			if r.Root {
				roots = append(roots, string(r.ID)+" "+r.Where())
			}
		}
		switch {
		case strings.Join(roots, "; ") == root:
			return all
		case time.Now().After(deadline):
			x.t.Errorf("root causes %q, want %q:\n%s", roots, root, strings.Join(all, "\n"))
			return all
		}
		x.pass()
	}
}
