package consumer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// nodeOf returns a virtual node that handles these namespaces.
func nodeOf(name, provider string, handles ...string) offered {
	v := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + provider, Name: name, Annotations: map[string]string{peering.AnnotationNamespaces: strings.Join(handles, ",")}}}
	v.Spec.ClusterID = corev1beta1.ClusterID(provider)
	return offered{VirtualNode: v, labels: map[string]string{"name": name, "region": provider}}
}

func offloadedAs(namespace string, p peering.OffloadingParams) offloadingv1beta1.NamespaceOffloading {
	return *peering.Offloading(namespace, p)
}

func rightsIn(namespaces ...string) (out []rbacv1.RoleBinding) {
	for _, namespace := range namespaces {
		out = append(out, *peering.OffloadedAccess(namespace, nil))
	}
	return out
}

func in(key string, values ...string) []corev1.NodeSelectorTerm {
	return []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}}
}

// mapped returns a NamespaceMap with the provider's status of a namespace.
func mapped(provider, namespace string, phase offloadingv1beta1.MappingPhase) offloadingv1beta1.NamespaceMap {
	m := *peering.NamespaceMap(render.Tenant{Namespace: "liqo-tenant-" + provider, Remote: wire.ClusterID(provider)}, nil)
	m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{namespace: {RemoteNamespace: "x", Phase: phase}}
	return m
}

func TestNamespacesAreCalledAsTheirAdminWants(t *testing.T) {
	for name, c := range map[string]struct {
		params peering.OffloadingParams
		want   string
	}{
		"by default":    {peering.OffloadingParams{}, "demo-rome"},
		"the default":   {peering.OffloadingParams{Mapping: "DefaultName", RemoteName: "x"}, "demo-rome"},
		"the same":      {peering.OffloadingParams{Mapping: "EnforceSameName"}, "demo"},
		"chosen":        {peering.OffloadingParams{Mapping: "SelectedName", RemoteName: "x"}, "x"},
		"not yet named": {peering.OffloadingParams{Mapping: "SelectedName"}, "demo"},
	} {
		t.Run(name, func(t *testing.T) {
			o := offloadings{id: "rome", offered: []offloadingv1beta1.NamespaceOffloading{offloadedAs("demo", c.params)}, nodes: []offered{nodeOf("milan", "milan")}}
			got := o.plan(time.Unix(0, 0)).maps[types.NamespacedName{Namespace: "liqo-tenant-milan", Name: "milan"}]
			if diff := cmp.Diff(map[string]string{"demo": c.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A provider refuses a map with a name that is too long, or with too many names. The owners of such
// namespaces get an error, and the others get their mapped namespaces.
func TestOneNamespaceBlocksNoOther(t *testing.T) {
	milan := types.NamespacedName{Namespace: "liqo-tenant-milan", Name: "milan"}
	long := strings.Repeat("a", 60)
	o := offloadings{id: "rome", nodes: []offered{nodeOf("milan", "milan"), nodeOf("milan-2", "milan"), nodeOf("turin", "turin")}}
	add := func(namespace string, age time.Duration, p peering.OffloadingParams) {
		n := offloadedAs(namespace, p)
		n.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0).Add(-age))
		o.offered = append(o.offered, n)
	}
	add(long, 0, peering.OffloadingParams{})
	add("chosen", 0, peering.OffloadingParams{Mapping: "SelectedName", RemoteName: strings.Repeat("b", 64)})
	add("newest", 0, peering.OffloadingParams{})
	add("there", 0, peering.OffloadingParams{}) // as new as newest, and requested from milan already
	for i := range offload.MostMapped - 1 {
		add(fmt.Sprint("older-", i), time.Minute, peering.OffloadingParams{Selector: in("region", "milan")})
	}
	m := *peering.NamespaceMap(render.Tenant{Namespace: milan.Namespace, Remote: "milan"}, map[string]string{"there": "there-rome"})
	o.maps = append(o.maps, m)
	p := o.plan(time.Unix(2000, 0))
	if got := p.maps[milan]; len(got) != offload.MostMapped || got["there"] == "" || got["newest"] != "" || got[long] != "" || got["chosen"] != "" {
		t.Errorf("milan is asked for %d: %v", len(got), got)
	}
	if got := slices.Sorted(maps.Keys(p.maps[types.NamespacedName{Namespace: "liqo-tenant-turin", Name: "turin"}])); !slices.Equal(got, []string{"newest", "there"}) {
		t.Errorf("turin is asked for %v", got)
	}
	for namespace, want := range map[string]struct {
		phase offloadingv1beta1.OffloadingPhaseType
		says  string
	}{
		long:     {offloadingv1beta1.AllFailedOffloadingPhaseType, "would have 65 letters"},
		"chosen": {offloadingv1beta1.AllFailedOffloadingPhaseType, "would have 64 letters"},
		"newest": {offloadingv1beta1.SomeFailedOffloadingPhaseType, "100 namespaces of one cluster are the most"},
		"there":  {offloadingv1beta1.InProgressOffloadingPhaseType, "is selected"},
	} {
		got := p.statuses[types.NamespacedName{Namespace: namespace, Name: peering.OffloadingName}]
		if says := got.RemoteNamespacesConditions["milan"][0].Message; got.OffloadingPhase != want.phase || !strings.Contains(says, want.says) {
			t.Errorf("%s: %s, %q", namespace, got.OffloadingPhase, says)
		}
	}
	for _, node := range []string{"milan", "milan-2"} {
		if got := p.namespaces[types.NamespacedName{Namespace: milan.Namespace, Name: node}]; len(got) != offload.MostMapped {
			t.Errorf("%s looks after %d", node, len(got))
		}
	}
}

func TestSelectorsChooseVirtualNodes(t *testing.T) {
	nodes := []offered{nodeOf("milan", "milan"), nodeOf("milan-2", "milan"), nodeOf("turin", "turin")}
	op := func(operator corev1.NodeSelectorOperator, key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	term := func(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: all}
	}
	for name, c := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  string
	}{
		"none, for all":       {nil, "milan milan-2 turin"},
		"one":                 {in("name", "turin"), "turin"},
		"of a region":         {in("region", "milan"), "milan milan-2"},
		"one or the other":    {append(in("name", "turin"), in("name", "milan")...), "milan turin"},
		"both at once":        {[]corev1.NodeSelectorTerm{term(op("In", "region", "milan"), op("NotIn", "name", "milan"))}, "milan-2"},
		"has a label":         {[]corev1.NodeSelectorTerm{term(op("Exists", "gpu"))}, ""},
		"has no such label":   {[]corev1.NodeSelectorTerm{term(op("DoesNotExist", "gpu"))}, "milan milan-2 turin"},
		"an empty term":       {[]corev1.NodeSelectorTerm{{}}, ""},
		"an unknown operator": {[]corev1.NodeSelectorTerm{term(op("Like", "name", "milan"))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := offloadings{id: "rome", nodes: nodes, offered: []offloadingv1beta1.NamespaceOffloading{offloadedAs("demo", peering.OffloadingParams{Selector: c.terms})}}
			p := o.plan(time.Unix(0, 0))
			var got []string
			for _, n := range p.nodes["demo"] {
				got = append(got, n.Name)
			}
			if strings.Join(got, " ") != c.want || len(p.maps) > len(got) {
				t.Errorf("got %v, maps %v, want %s", got, p.maps, c.want)
			}
		})
	}
}

func TestPhasesAreThoseThatLiqoctlWaitsFor(t *testing.T) {
	const accepted, failed, ending = offloadingv1beta1.MappingAccepted, offloadingv1beta1.MappingCreationLoopBackOff, offloadingv1beta1.MappingTerminating
	for name, c := range map[string]struct {
		nodes []offered
		says  []offloadingv1beta1.NamespaceMap
		want  offloadingv1beta1.OffloadingPhaseType
	}{
		"no virtual node":      {nil, nil, offloadingv1beta1.NoClusterSelectedOffloadingPhaseType},
		"not asked yet":        {[]offered{nodeOf("milan", "milan")}, nil, offloadingv1beta1.InProgressOffloadingPhaseType},
		"there":                {[]offered{nodeOf("milan", "milan")}, []offloadingv1beta1.NamespaceMap{mapped("milan", "demo", accepted)}, offloadingv1beta1.ReadyOffloadingPhaseType},
		"two nodes of one":     {[]offered{nodeOf("milan", "milan"), nodeOf("b", "milan")}, []offloadingv1beta1.NamespaceMap{mapped("milan", "demo", accepted)}, offloadingv1beta1.ReadyOffloadingPhaseType},
		"the name is taken":    {[]offered{nodeOf("milan", "milan")}, []offloadingv1beta1.NamespaceMap{mapped("milan", "demo", failed)}, offloadingv1beta1.AllFailedOffloadingPhaseType},
		"goes":                 {[]offered{nodeOf("milan", "milan")}, []offloadingv1beta1.NamespaceMap{mapped("milan", "demo", ending)}, offloadingv1beta1.InProgressOffloadingPhaseType},
		"another is there":     {[]offered{nodeOf("milan", "milan")}, []offloadingv1beta1.NamespaceMap{mapped("milan", "other", accepted)}, offloadingv1beta1.InProgressOffloadingPhaseType},
		"of two, one fails":    {[]offered{nodeOf("milan", "milan"), nodeOf("turin", "turin")}, []offloadingv1beta1.NamespaceMap{mapped("milan", "demo", failed), mapped("turin", "demo", accepted)}, offloadingv1beta1.SomeFailedOffloadingPhaseType},
		"of two, one is ready": {[]offered{nodeOf("milan", "milan"), nodeOf("turin", "turin")}, []offloadingv1beta1.NamespaceMap{mapped("turin", "demo", accepted)}, offloadingv1beta1.InProgressOffloadingPhaseType},
	} {
		t.Run(name, func(t *testing.T) {
			o := offloadings{id: "rome", nodes: c.nodes, maps: c.says, offered: []offloadingv1beta1.NamespaceOffloading{offloadedAs("demo", peering.OffloadingParams{})}}
			s := o.plan(time.Unix(1000, 0)).statuses[types.NamespacedName{Namespace: "demo", Name: "offloading"}]
			if s.OffloadingPhase != c.want || s.RemoteNamespaceName != "demo-rome" {
				t.Errorf("got %+v, want %s", s, c.want)
			}
			o.offered[0].Status = s
			if diff := cmp.Diff(s, o.plan(time.Unix(2000, 0)).statuses[types.NamespacedName{Namespace: "demo", Name: "offloading"}]); diff != "" {
				t.Errorf("it is news later:\n%s", diff)
			}
		})
	}
}

// A program keeps its rights until its last pod is gone. A label shows the wish of the namespace's admin.
func TestProgramsStayUntilPodsAreGone(t *testing.T) {
	milan := nodeOf("milan", "milan", "gone", "emptied", "moved", "deleted")
	milan.holds = map[string]struct{}{"gone": {}, "moved": {}, "never": {}, "deleted": {}}
	o := offloadings{id: "rome", nodes: []offered{milan, nodeOf("turin", "turin")}, rights: rightsIn("gone", "emptied", "moved"), offered: []offloadingv1beta1.NamespaceOffloading{
		offloadedAs("moved", peering.OffloadingParams{Selector: in("name", "turin")}), offloadedAs("local", peering.OffloadingParams{Pods: "Local"}),
	}}
	p := o.plan(time.Unix(0, 0))
	if diff := cmp.Diff([]string{"gone", "local", "moved"}, p.namespaces[milan.key()]); diff != "" || !p.leaving {
		t.Errorf("milan looks after (-want +got), leaving %v:\n%s", p.leaving, diff)
	}
	if len(p.nodes["moved"]) != 2 || len(p.nodes["gone"]) != 1 || len(p.nodes["emptied"])+len(p.nodes["never"])+len(p.nodes["deleted"]) > 0 {
		t.Errorf("rights: %v", p.nodes)
	}
	if m := p.maps[types.NamespacedName{Namespace: "liqo-tenant-milan", Name: "milan"}]; len(m) != 1 || m["local"] != "local-rome" {
		t.Errorf("milan is asked for %v", m)
	}
	if diff := cmp.Diff(map[string]bool{"moved": true, "local": false}, p.labelled); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// From any state, the plan depends only on the wishes of admins when no pods are left. A virtual kubelet gets
// no namespace in which it has no rights.
func TestOffloadingForgetsNothingAndKeepsNothing(t *testing.T) {
	names := []string{"a", "b", "c"}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		some := func() (out []string) {
			for _, name := range names {
				if r.IntN(2) == 0 {
					out = append(out, name)
				}
			}
			return out
		}
		var o offloadings
		o.id, o.rights = "rome", rightsIn(some()...)
		for _, name := range some() {
			params := peering.OffloadingParams{Pods: []string{"Local", "Remote"}[r.IntN(2)]}
			if r.IntN(2) == 0 {
				params.Selector = in("name", "milan")
			}
			o.offered = append(o.offered, offloadedAs(name, params))
		}
		for _, name := range []string{"milan", "turin"} {
			n := nodeOf(name, name, some()...)
			n.holds = map[string]struct{}{}
			for _, namespace := range some() {
				n.holds[namespace] = struct{}{}
			}
			o.nodes = append(o.nodes, n)
		}
		for round := range 2 {
			p := o.plan(time.Unix(0, 0))
			for key, namespaces := range p.namespaces {
				for _, namespace := range namespaces {
					if !slices.Contains(p.nodes[namespace], key) {
						t.Fatalf("seed %d: %s is told of %s without rights", seed, key, namespace)
					}
				}
			}
			for namespace, nodes := range p.nodes {
				if len(slices.Compact(slices.Clone(nodes))) != len(nodes) {
					t.Fatalf("seed %d: %s has %v", seed, namespace, nodes)
				}
			}
			if round == 1 {
				want := 0
				for _, m := range p.maps {
					want += len(m)
				}
				if got := len(slices.Concat(slices.Collect(maps.Values(p.namespaces))...)); got != want || p.leaving {
					t.Fatalf("seed %d: programs look after %d namespaces, %d are asked for, leaving %v", seed, got, want, p.leaving)
				}
			}
			for i := range o.nodes { // all pods leave
				o.nodes[i].Annotations = map[string]string{peering.AnnotationNamespaces: strings.Join(p.namespaces[o.nodes[i].key()], ",")}
				o.nodes[i].holds = nil
			}
			if again := fmt.Sprint(o.plan(time.Unix(9, 0)).maps); again != fmt.Sprint(p.maps) {
				t.Fatalf("seed %d: %s, then %s", seed, fmt.Sprint(p.maps), again)
			}
		}
	}
}

// Before the operator deletes a copy of a map, it empties the copy's requests, so that the provider removes
// the namespaces.
func TestAMapThatIsGivenUpAsksForNothingBefore(t *testing.T) {
	id := corev1beta1.ClusterID("milan")
	slice := authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	slice.Spec.ProviderClusterID = &id
	m := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Name: "milan", Labels: map[string]string{peering.LabelDestination: "milan"}}}
	m.Spec.DesiredMapping = map[string]string{"demo": "demo-rome"}
	shown := peering.MapCopy(m, "rome", "liqo-tenant-rome")
	shown.Finalizers = []string{"of/another"} // keeps the deleted copy, so that the test can read it
	home, _ := lendingtest.Counting(t)
	remote, _ := lendingtest.Counting(t, shown)
	r := &copier{client: home, reader: home, seen: control.NewDeletions(deletionsOf)}
	r.seen.Set(&slice, true)
	identity := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan"}, Spec: authv1beta1.IdentitySpec{ClusterID: id, Namespace: new("liqo-tenant-rome")}}
	if err := r.maps(t.Context(), remote, identity, nil, "rome"); err != nil {
		t.Fatal(err)
	}
	if err := remote.Get(t.Context(), client.ObjectKeyFromObject(shown), shown); err != nil {
		t.Fatal(err)
	}
	if shown.DeletionTimestamp == nil || len(shown.Spec.DesiredMapping) > 0 {
		t.Errorf("it ends at %v, and asks for %v", shown.DeletionTimestamp, shown.Spec.DesiredMapping)
	}
}

// Nodes, their labels and VirtualNodes are derived. An admin's own objects decide what is offloaded. Such an
// object counts as deleted only if its deletion was seen, and not if it is absent.
func TestNothingIsTakenBackBecauseSomethingIsAbsent(t *testing.T) {
	slice := authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	slice.Spec.ProviderClusterID = new(corev1beta1.ClusterID("milan"))
	selected := offloadedAs("demo", peering.OffloadingParams{Selector: in("region", "milan")})
	selected.Generation, selected.Status.ObservedGeneration, selected.Status.OffloadingPhase = 1, 1, offloadingv1beta1.ReadyOffloadingPhaseType
	had := mapped("milan", "demo", offloadingv1beta1.MappingAccepted)
	had.Spec.DesiredMapping = map[string]string{"demo": "demo-rome"}
	unlabelled := nodeOf("milan", "milan")
	unlabelled.labels = nil
	ending := metav1.Unix(1, 0)
	deleted := func(o client.Object) func(*offloadings) {
		return func(of *offloadings) {
			of.seen.Set(o, true)
		}
	}
	all := func(changes ...func(*offloadings)) func(*offloadings) {
		return func(o *offloadings) {
			for _, change := range changes {
				change(o)
			}
		}
	}
	noOffloading := func(o *offloadings) { o.offered = nil }
	noNode := func(o *offloadings) { o.nodes = nil }
	noSlice := func(o *offloadings) { o.nodes, o.slices = nil, nil }
	others := func(o *offloadings) {
		o.offered[0].Spec.ClusterSelector.NodeSelectorTerms, o.offered[0].Generation = in("region", "turin"), 2
	}
	says := func(text string) func(*offloadings) {
		return func(o *offloadings) { o.maps[0].Annotations = map[string]string{peering.AnnotationWithdrawn: text} }
	}
	const kept, left, withdrawn = "kept", "left", "withdrawn"
	for name, tc := range map[string]struct {
		change func(*offloadings)
		want   string
	}{
		"as it is":                             {func(*offloadings) {}, kept},
		"no VirtualNode":                       {noNode, kept},
		"a Node without the admin's label":     {func(o *offloadings) { o.nodes = []offered{unlabelled} }, kept},
		"no NamespaceOffloading":               {noOffloading, left},
		"nothing at all":                       {all(noOffloading, noSlice), left},
		"the NamespaceOffloading is gone":      {all(noOffloading, deleted(&selected)), withdrawn},
		"another one is gone":                  {all(noOffloading, deleted(new(offloadedAs("other", peering.OffloadingParams{})))), left},
		"it is being deleted":                  {func(o *offloadings) { o.offered[0].DeletionTimestamp = &ending }, withdrawn},
		"it is gone by an admin's word":        {all(noOffloading, says("other, demo")), withdrawn},
		"an admin says it of something":        {all(noOffloading, says("uid:demo")), left},
		"it is wanted, whatever the map says":  {says("demo"), kept},
		"it selects others now":                {others, withdrawn},
		"it selects others, and none is there": {all(others, noNode), kept},
		"it came back from a backup":           {all(noNode, func(o *offloadings) { o.offered[0].Status = offloadingv1beta1.NamespaceOffloadingStatus{} }), kept},
		"it came back, before the node's label": {func(o *offloadings) {
			o.offered[0].Status, o.nodes = offloadingv1beta1.NamespaceOffloadingStatus{}, []offered{unlabelled}
		}, kept},
		"no slice":                            {noSlice, left},
		"the slice is gone":                   {all(noSlice, deleted(&slice)), ""},
		"the slice is being deleted":          {func(o *offloadings) { o.nodes = nil; o.slices[0].DeletionTimestamp = &ending }, ""},
		"one slice is gone, another is there": {all(noNode, deleted(&slice)), kept},
	} {
		t.Run(name, func(t *testing.T) {
			o := offloadings{
				id: "rome", offered: []offloadingv1beta1.NamespaceOffloading{*selected.DeepCopy()}, nodes: []offered{nodeOf("milan", "milan")},
				maps: []offloadingv1beta1.NamespaceMap{*had.DeepCopy()}, slices: []authv1beta1.ResourceSlice{*slice.DeepCopy()}, seen: control.NewDeletions(deletionsOf),
			}
			tc.change(&o)
			p := o.plan(time.Unix(0, 0))
			key := types.NamespacedName{Namespace: "liqo-tenant-milan", Name: "milan"}
			got := ""
			switch {
			case p.maps[key]["demo"] == "demo-rome" && len(p.left[key]) == 1:
				got = left
			case p.maps[key]["demo"] == "demo-rome":
				got = kept
			case p.maps[key] != nil && slices.Equal(p.withdrawn[key], []string{"demo"}):
				got = withdrawn
			}
			if got != tc.want {
				t.Errorf("got %q, want %q: the provider is asked for %v, withdrawn %v, left %v", got, tc.want, p.maps[key], p.withdrawn, p.left)
			}
		})
	}
}

// A deletion that a watch has missed is found because the object is absent.
func TestADeletionIsSeenOrNot(t *testing.T) {
	o := offloadedAs("demo", peering.OffloadingParams{})
	ending := o.DeepCopy()
	ending.DeletionTimestamp = new(metav1.Unix(1, 0))
	for name, c := range map[string]struct {
		events func(handler.EventHandler)
		want   bool
	}{
		"nothing": {func(handler.EventHandler) {}, false},
		"deleted": {func(h handler.EventHandler) { h.Delete(t.Context(), event.DeleteEvent{Object: &o}, nil) }, true},
		"missed": {func(h handler.EventHandler) {
			h.Delete(t.Context(), event.DeleteEvent{Object: &o, DeleteStateUnknown: true}, nil)
		}, false},
		"missed, was going": {func(h handler.EventHandler) {
			h.Delete(t.Context(), event.DeleteEvent{Object: ending, DeleteStateUnknown: true}, nil)
		}, true},
		"deleted, and is there": {func(h handler.EventHandler) {
			h.Delete(t.Context(), event.DeleteEvent{Object: &o}, nil)
			h.Create(t.Context(), event.CreateEvent{Object: &o}, nil)
		}, false},
	} {
		d := control.NewDeletions(deletionsOf)
		c.events(d.Seen(handler.Funcs{}))
		if got := d.Has(ofOffloading("demo")); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
