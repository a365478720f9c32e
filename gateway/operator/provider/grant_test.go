package provider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func TestNothingIsLentTwice(t *testing.T) {
	nodes := func(holds, spent string) budget {
		return budget{whose: "the nodes of milan", holds: lendingtest.Amounts(t, holds), spent: lendingtest.Amounts(t, spent), only: true}
	}
	bound := func(holds, spent string) budget {
		return budget{whose: "rome may", holds: lendingtest.Amounts(t, holds), spent: lendingtest.Amounts(t, spent)}
	}
	const large = "cpu=100 memory=100Gi pods=1000 ephemeral-storage=100Gi"
	less := corev1.ResourceList{}
	add(less, lendingtest.Amounts(t, "cpu=1"))
	for name, q := range less {
		q.Neg()
		less[name] = q
	}
	for name, c := range map[string]struct {
		asked   corev1.ResourceList
		budgets []budget
		want    string // granted
		why     string
	}{
		"nothing named":         {nil, []budget{nodes(large, "")}, "cpu=4 memory=8Gi pods=110 ephemeral-storage=20Gi", ""},
		"nothing named, little": {nil, []budget{nodes("cpu=3 memory=2Gi", "cpu=2")}, "cpu=1 memory=2Gi", ""},
		"some named":            {lendingtest.Amounts(t, "cpu=7 memory=1Gi pods=5"), []budget{nodes(large, "")}, "cpu=7 memory=1Gi pods=5 ephemeral-storage=20Gi", ""},
		"all there is":          {lendingtest.Amounts(t, "cpu=7 memory=1Gi"), []budget{nodes("cpu=8 memory=8Gi", "cpu=1")}, "cpu=7 memory=1Gi", ""},
		"half a core":           {lendingtest.Amounts(t, "cpu=500m memory=1Gi"), []budget{nodes("cpu=8 memory=8Gi", "")}, "cpu=500m memory=1Gi", ""},
		"a bit more":            {lendingtest.Amounts(t, "cpu=7001m memory=1Gi"), []budget{nodes("cpu=8 memory=8Gi", "cpu=1")}, "", "cpu: 7001m asked for; the nodes of milan have 8, of which 7 are not lent yet"},
		"more than the bound":   {lendingtest.Amounts(t, "cpu=3 memory=1Gi"), []budget{nodes(large, ""), bound("cpu=2", "")}, "", "cpu: 3 asked for; rome may have 2, of which 2 are not lent yet"},
		"up to the bound":       {nil, []budget{nodes(large, ""), bound("cpu=2", "cpu=1")}, "cpu=1 memory=8Gi pods=110 ephemeral-storage=20Gi", ""},
		"a bound of nothing":    {lendingtest.Amounts(t, "cpu=1 memory=1Gi"), []budget{nodes(large, ""), bound("cpu=0", "")}, "", "rome may have none"},
		"nodes went":            {lendingtest.Amounts(t, "cpu=1 memory=1Gi"), []budget{nodes("cpu=8 memory=8Gi", "cpu=9")}, "", "of which 0 are not lent yet"},
		"no such thing":         {lendingtest.Amounts(t, "cpu=1 memory=1Gi nvidia.com/gpu=1"), []budget{nodes(large, "")}, "", "nvidia.com/gpu: 1 asked for; the nodes of milan have none"},
		"all is lent":           {nil, []budget{nodes("cpu=8 memory=8Gi", "cpu=8")}, "", "cpu: all of it is lent"},
		"no nodes":              {nil, []budget{nodes("", "")}, "", "all of it is lent"},
		"a node of nothing":     {lendingtest.Amounts(t, "cpu=0"), []budget{nodes(large, "")}, "", "cpu: a node without it runs nothing"},
		"less than nothing":     {less, []budget{nodes(large, "")}, "", "cpu: -1 is less than nothing"},
		"half a pod":            {lendingtest.Amounts(t, "cpu=1 memory=1Gi pods=500m"), []budget{nodes(large, "")}, "", "is not a whole number"},
		"without end":           {lendingtest.Amounts(t, "cpu=1 memory=1e40"), []budget{nodes(large, "")}, "", "memory: "},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := grant(c.asked, c.budgets)
			if (why != nil) != (c.why != "") || why != nil && !strings.Contains(why.Error(), c.why) {
				t.Fatalf("got %v (%v), want %q", got, why, c.why)
			}
			if why == nil && cmp.Diff(lendingtest.Amounts(t, c.want), got) != "" {
				t.Error(cmp.Diff(lendingtest.Amounts(t, c.want), got))
			}
		})
	}
}

// A virtual node represents all nodes that lend, so it has only the labels that all of them have.
func TestOnlyLabelsOfAllNodesAreLent(t *testing.T) {
	node := func(labels map[string]string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return n
	}
	amd := map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "large"}
	small := map[string]string{"kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "small"}
	arm := map[string]string{"kubernetes.io/arch": "arm64"}
	cordoned, virtual := node(arm), node(map[string]string{"kubernetes.io/arch": "arm64", peering.LabelNodeType: peering.NodeType})
	cordoned.Spec.Unschedulable = true
	for name, c := range map[string]struct {
		nodes []corev1.Node
		want  map[string]string
	}{
		"one":                     {[]corev1.Node{node(amd)}, map[string]string{"kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "large"}},
		"two types":               {[]corev1.Node{node(amd), node(small)}, map[string]string{"kubernetes.io/arch": "amd64"}},
		"two architectures":       {[]corev1.Node{node(amd), node(arm)}, map[string]string{}},
		"one without labels":      {[]corev1.Node{node(nil), node(amd)}, map[string]string{}},
		"others that do not lend": {[]corev1.Node{cordoned, virtual, {ObjectMeta: metav1.ObjectMeta{Labels: arm}}, node(small), node(amd)}, map[string]string{"kubernetes.io/arch": "amd64"}},
		"none":                    {[]corev1.Node{cordoned}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, shared(c.nodes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if amd["kubernetes.io/os"] == "" {
		t.Error("the labels of a node were changed")
	}
}

// A grant outlives nodes, but not a limit that an admin has set.
func TestPromisesStay(t *testing.T) {
	granted := lendingtest.Amounts(t, "cpu=4 memory=8Gi")
	nodes := budget{holds: lendingtest.Amounts(t, "cpu=1 memory=1Gi"), only: true}
	if !stays(granted, []budget{nodes, {holds: lendingtest.Amounts(t, "cpu=8"), spent: lendingtest.Amounts(t, "cpu=4")}}) {
		t.Error("it went with the nodes")
	}
	if stays(granted, []budget{nodes, {holds: lendingtest.Amounts(t, "cpu=8"), spent: lendingtest.Amounts(t, "cpu=5")}}) {
		t.Error("it is above the bound")
	}
}

func TestNodesThatLend(t *testing.T) {
	node := func(change func(*corev1.Node)) corev1.Node {
		n := corev1.Node{Status: corev1.NodeStatus{Allocatable: lendingtest.Amounts(t, "cpu=2"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		change(&n)
		return n
	}
	got := capacity([]corev1.Node{
		node(func(*corev1.Node) {}), node(func(*corev1.Node) {}),
		node(func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		node(func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }),
		node(func(n *corev1.Node) {
			n.ObjectMeta = metav1.ObjectMeta{Labels: map[string]string{peering.LabelNodeType: "virtual-node"}}
		}),
	})
	if diff := cmp.Diff(lendingtest.Amounts(t, "cpu=4"), got); diff != "" {
		t.Error(diff)
	}
}

// Pods continue to run when their granted resources are given back. Until they end, nobody else is granted
// these resources.
func TestWhatPodsUseIsNotLent(t *testing.T) {
	slice := func(consumer, granted string) authv1beta1.ResourceSlice {
		s := authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + consumer, Name: "milan"}}
		s.Status.Resources = lendingtest.Amounts(t, granted)
		return s
	}
	node := corev1.Node{Status: corev1.NodeStatus{Allocatable: lendingtest.Amounts(t, "cpu=100 memory=100Gi pods=1000"), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	for name, c := range map[string]struct {
		others []authv1beta1.ResourceSlice
		used   map[string]corev1.ResourceList
		why    string // nothing: all is granted
		again  bool
	}{
		"nothing is lent":             {nil, nil, "", false},
		"others have some":            {[]authv1beta1.ResourceSlice{slice("turin", "cpu=3")}, nil, "of which 5 are not lent yet", false},
		"and use it":                  {[]authv1beta1.ResourceSlice{slice("turin", "cpu=3 pods=9")}, map[string]corev1.ResourceList{"liqo-tenant-turin": lendingtest.Amounts(t, "cpu=3 pods=3 ephemeral-storage=1Gi")}, "of which 5 are not lent yet", false},
		"they have given it back":     {nil, map[string]corev1.ResourceList{"liqo-tenant-turin": lendingtest.Amounts(t, "cpu=3")}, "of which 5 are not lent yet", true},
		"they have given back a part": {[]authv1beta1.ResourceSlice{slice("turin", "cpu=1")}, map[string]corev1.ResourceList{"liqo-tenant-turin": lendingtest.Amounts(t, "cpu=3"), "liqo-tenant-paris": lendingtest.Amounts(t, "cpu=1")}, "of which 4 are not lent yet", true},
		"its own pods run on":         {nil, map[string]corev1.ResourceList{"liqo-tenant-rome": lendingtest.Amounts(t, "cpu=8")}, "", false},
		"its own, of another slice":   {[]authv1beta1.ResourceSlice{slice("rome", "cpu=2")}, map[string]corev1.ResourceList{"liqo-tenant-rome": lendingtest.Amounts(t, "cpu=8")}, "of which 6 are not lent yet", false},
	} {
		t.Run(name, func(t *testing.T) {
			mine := slice("rome", "")
			mine.Spec.Resources = lendingtest.Amounts(t, "cpu=8 memory=1Gi pods=10")
			in := &sliceRequest{slice: &mine, tenant: &authv1beta1.Tenant{}, home: "milan", others: c.others, nodes: []corev1.Node{node}, lend: lendingtest.Amounts(t, "cpu=8"), used: c.used}
			granted, why := in.resources()
			if c.why == "" && why != nil || c.why != "" && (why == nil || !strings.Contains(why.Error(), c.why)) {
				t.Errorf("granted %v, %v; want %q", granted, why, c.why)
			}
			if got := in.outlived(); got != c.again {
				t.Errorf("looked at again: %t", got)
			}
		})
	}
}
