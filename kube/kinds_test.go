package kube

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// watching returns a cluster with a store for each watch of the table. No watch runs.
func watching(t *testing.T) *Cluster {
	t.Helper()
	c, err := ForConfig(&rest.Config{Host: "https://127.0.0.1:1"}, Options{Lending: LendingPlanned, Delegation: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.start.Do(func() {})
	c.lend.Do(func() {})
	c.uid, c.version, c.definitions.at = "uid", "v1.35.0", time.Now()
	c.secrets.of = map[string][]*store{tenant.Namespace: c.stores(tenant.Namespace)}
	for _, s := range c.allStores() {
		s.attempted()
	}
	return c
}

func (c *Cluster) allStores() []*store {
	return append(slices.Clone(c.mirrored), c.secrets.of[tenant.Namespace]...)
}

// If no facts are made from a watch, it was forgotten in flows/collect or flows/lending, or its Keep drops too
// much.
func TestFactsAreMadeFromEveryWatch(t *testing.T) {
	c := watching(t)
	ns := render.TenantNamespace(tenant)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	c.mirrors("Namespace")[0].put(ns)
	c.mirrors("InternalNode")[0].put(wire.InternalNode(node, wire.NodeReport{}))
	without := observe(t, c)
	if without.Problem != nil || !reflect.DeepEqual(without, observe(t, c)) {
		t.Fatalf("two observations differ, or there is a problem: %+v", without.Problem)
	}
	watches := 0
	for _, k := range kinds.All() {
		watches += len(k.Watches)
	}
	if all := c.allStores(); len(all) != watches {
		t.Errorf("got %d stores for %d watches", len(all), watches)
	}
	for i, s := range c.allStores() {
		o := example(t, c, s)
		if s.put(o); reflect.DeepEqual(without, observe(t, c)) {
			t.Errorf("watch %d, of %s %s: an object changes no fact", i, s.kind, s.watch.Labels)
		}
		s.remove(o)
	}
}

// example returns an object that the watch of a store selects.
func example(t *testing.T, c *Cluster, s *store) client.Object {
	t.Helper()
	k, _ := kinds.Named(s.kind)
	o := client.Object(&unstructured.Unstructured{})
	if !k.Untyped {
		typed, err := c.client.Scheme().New(k.GroupVersionKind)
		if err != nil {
			t.Fatal(err)
		}
		o = typed.(client.Object)
	}
	o.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	var options client.ListOptions
	options.ApplyOptions(s.options)
	o.SetName("example")
	if s.watch.Field == metav1.ObjectNameField {
		o.SetName(s.watch.Value)
	}
	if !k.Root {
		if o.SetNamespace(options.Namespace); options.Namespace == "" {
			o.SetNamespace(tenant.Namespace)
		}
	}
	labels := map[string]string{}
	if options.LabelSelector != nil {
		all, _ := options.LabelSelector.Requirements()
		for _, r := range all {
			switch r.Operator() {
			case selection.Exists:
				labels[r.Key()] = "x"
			case selection.Equals, selection.In:
				labels[r.Key()] = r.Values().List()[0]
			default:
			}
		}
	}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		o.Data = map[string]string{wire.ClusterIDKey: "rome"}
	case *corev1.Service:
		o.Spec.Type, o.Spec.Ports = corev1.ServiceType(s.watch.Value), []corev1.ServicePort{{NodePort: 31840}}
	case *appsv1.Deployment:
		if labels[wire.LabelAppName] != "" {
			labels[wire.LabelAppName] = wire.OperatorName
		}
	case *rbacv1.ClusterRoleBinding:
		o.Name, o.Subjects = wire.OperatorName, []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "ada", Namespace: "elsewhere"}}
	case *rbacv1.RoleBinding:
		o.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "ada"}}
	case *corev1.Pod:
		if s.watch.Field == "status.phase" {
			o.Spec.NodeSelector = map[string]string{peering.LabelNodeType: peering.NodeType}
		}
		if s.watch.In == kinds.Installation {
			labels[wire.LabelAppName] = wire.FabricName
			o.Spec.NodeName, o.Status.Conditions = "node-1", []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
	case *corev1.Node:
		o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		o.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	case *ipamv1alpha1.Network:
		o.Status.CIDR = "10.1.0.0/16"
	default:
		if s.kind == "InternalNode" {
			labels[wire.LabelManagedBy] = wire.ManagedBy
		}
	}
	o.SetLabels(labels)
	if !s.selects(o) && options.FieldSelector == nil {
		t.Errorf("watch of %s %s: the example is not selected", s.kind, s.watch.Labels)
	}
	return o
}

// The rights of rbac cover all reads, except those that are optional.
func TestRightsToObserveCoverWhatIsRead(t *testing.T) {
	c := watching(t)
	network := rights.ToObserve(c.namespace)
	for _, s := range c.watched(false) {
		if s.watch.For == kinds.Connections && !s.watch.Optional {
			granted(t, network, c, s)
		}
	}
}

// The rights of rbac cover all reads for a peering.
func TestRightsToPeerCoverWhatIsRead(t *testing.T) {
	c := watching(t)
	all := rights.ToPeer(c.namespace, tenant.Namespace)
	for _, s := range c.allStores() {
		if s.watch.For.Lending() {
			granted(t, all, c, s)
		}
	}
	if i := slices.IndexFunc(all, func(p rights.Permission) bool { return p.Resource == "secrets" && p.Namespace == "" }); i >= 0 {
		t.Errorf("of all namespaces: %s", all[i])
	}
}

// granted fails if the permissions do not cover the store's list, or the narrower list for users who may not
// list all objects.
func granted(t *testing.T, all []rights.Permission, c *Cluster, s *store) {
	t.Helper()
	var o client.ListOptions
	o.ApplyOptions(s.options)
	if s.watch.Narrow == kinds.ToInstallation {
		o.Namespace = c.namespace
	}
	name := ""
	if o.FieldSelector != nil {
		name, _ = o.FieldSelector.RequiresExactMatch(metav1.ObjectNameField)
	}
	for _, verb := range []string{"list", "watch"} {
		if !slices.ContainsFunc(all, func(p rights.Permission) bool {
			return p.Verb == verb && (p.Namespace == "" || p.Namespace == o.Namespace) && (p.Name == "" || p.Name == name) &&
				resourceOf(s.kind) == fmt.Sprintf("%s.%s/%s", p.Resource, p.Group, version(s.kind))
		}) {
			t.Errorf("nobody may %s %s", verb, resourceOf(s.kind))
		}
	}
}

func version(kind string) string {
	k, _ := kinds.Named(kind)
	return k.Version
}
