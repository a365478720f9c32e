package view_test

import (
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func peered(t *testing.T, p peer.Params) *flowtest.Pair {
	t.Helper()
	pair := flowtest.LiqoPair()
	network := connect.Goal{Params: flowtest.NodePort()}
	flowtest.MustRun(t, pair, peer.Goal{Params: p, Network: network})
	pair.Settle()
	return pair
}

// said is all that a cluster says of its peerings with a peer, a line each.
func said(c flows.ClusterFacts, other wire.ClusterID) string {
	var lines []string
	for _, l := range view.Lendings(c, other) {
		healthy := ""
		if !l.Healthy() {
			healthy = " !"
		}
		lines = append(lines, l.Title(c.ID, other)+healthy)
		for _, r := range l.Rows() {
			lines = append(lines, "  "+r.Name+": "+r.Text)
		}
	}
	return strings.Join(lines, "\n")
}

func pod(name, node, origin, cpu string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{peering.LabelPodOrigin: origin}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// Each end says what it knows: who is let in, what was granted, and what is used of it.
// Pods of other nodes and other consumers do not count, nor do those that have ended as
// used.
func TestAStandingThatNobodyHasJudgedIsNotGood(t *testing.T) {
	good := view.Standing{Grade: view.Good}
	for name, c := range map[string]struct {
		of   []view.Standing
		want view.Grade
	}{
		"the zero value":   {[]view.Standing{{}}, view.Unseen},
		"one of two":       {[]view.Standing{good, {}, good}, view.Unseen},
		"beside a trouble": {[]view.Standing{{Grade: view.Wrong}, {}}, view.Wrong},
		"all are good":     {[]view.Standing{good, good}, view.Good},
		"there is none":    {nil, view.Good},
	} {
		if got := view.Worst(c.of...); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestWhatEachEndSaysOfALending(t *testing.T) {
	pair := peered(t, peer.Params{CPU: "2", Memory: "1Gi", Pods: "10"})
	rome, milan := pair.A.Facts(), pair.B.Facts()
	rome.Lending.Pods = []corev1.Pod{
		pod("web-1", "milan", "", "500m", corev1.PodRunning), pod("web-2", "milan", "", "250m", corev1.PodPending),
		pod("job", "milan", "", "1", corev1.PodSucceeded), pod("local", "node-1", "", "3", corev1.PodRunning),
	}
	milan.Lending.Pods = []corev1.Pod{pod("web-1", "node-1", "rome", "500m", corev1.PodRunning), pod("other", "node-1", "oslo", "2", corev1.PodRunning)}
	for cluster, want := range map[*flows.ClusterFacts]string{
		&rome: `rome uses resources of milan
  Access: accepted, reaches https://172.18.0.20:6443
  Slice: milan: granted
  Node: milan: Ready
  Quota used: cpu 750m of 2, memory 0 of 1Gi, pods 2 of 10
  Pods: 1 running, 1 pending, 1 succeeded`,
		&milan: `milan lends resources to rome
  Access: accepted
  Slice: milan: granted
  Quota used: cpu 500m of 2, memory 0 of 1Gi, pods 1 of 10
  Pods: 1 running`,
	} {
		other := wire.ClusterID("rome")
		if cluster == &rome {
			other = "milan"
		}
		if got := said(*cluster, other); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if got := said(*cluster, "oslo"); got != "" {
			t.Errorf("of another peer: got\n%s", got)
		}
	}
}

func TestWhatIsWrongWithALending(t *testing.T) {
	for name, c := range map[string]struct {
		edit      func(rome, milan *lending.Facts)
		provider  bool
		want      string
		unhealthy bool
	}{
		"cordoned":       {edit: func(_, m *lending.Facts) { m.Tenants[0].Spec.TenantCondition = authv1beta1.TenantConditionCordoned }, provider: true, unhealthy: true, want: "Access: accepted, cordoned by an admin"},
		"no node wanted": {edit: func(r, _ *lending.Facts) { r.Members, r.Nodes[0].Spec.CreateNode = nil, new(false) }, want: "Slice: milan: granted"},
		"nodes that may not be read": {
			edit: func(r, _ *lending.Facts) { r.Members, r.Hidden = nil, map[string]bool{"Node": true} }, unhealthy: true, want: "Node: milan: Nodes may not be read",
		},
		"not accepted": {
			edit: func(_, m *lending.Facts) { m.Tenants[0].Status.AuthParams = nil }, provider: true, unhealthy: true, want: "Access: not accepted yet",
		},
		"not reached": {
			edit: func(r, _ *lending.Facts) {
				r.Clusters[0].Status.Conditions[0].Status, r.Clusters[0].Status.Conditions[0].Message = "Error", "timeout"
			},
			want: "Access: accepted, does not reach https://172.18.0.20:6443: timeout", unhealthy: true,
		},
		"no kubeconfig": {edit: func(r, _ *lending.Facts) { r.Identities[0].Status.KubeconfigSecretRef = nil }, want: "Access: waiting for the kubeconfig", unhealthy: true},
		"denied": {
			edit: func(r, _ *lending.Facts) {
				r.Slices[0].Status.Conditions[1].Status = authv1beta1.ResourceSliceConditionDenied
			},
			want: "Slice: milan: denied", unhealthy: true,
		},
		"pending":        {edit: func(r, _ *lending.Facts) { r.Slices[0].Status.Conditions = nil }, want: "Slice: milan: pending", unhealthy: true},
		"no node":        {edit: func(r, _ *lending.Facts) { r.Members = nil }, want: "Node: milan: not there yet", unhealthy: true},
		"cordoned node":  {edit: func(r, _ *lending.Facts) { r.Members[0].Spec.Unschedulable = true }, want: "Node: milan: Ready, cordoned", unhealthy: true},
		"node not ready": {edit: func(r, _ *lending.Facts) { r.Members[0].Status.Conditions = nil }, want: "Node: milan: not ready", unhealthy: true},
		"access lost":    {edit: func(r, _ *lending.Facts) { r.Identities = nil }, want: "Access: none", unhealthy: true},
	} {
		t.Run(name, func(t *testing.T) {
			pair := peered(t, peer.Params{})
			rome, milan := pair.A.Facts(), pair.B.Facts()
			c.edit(rome.Lending, milan.Lending)
			facts, other := rome, milan.ID
			if c.provider {
				facts, other = milan, rome.ID
			}
			if got := said(facts, other); !strings.Contains(got, "  "+c.want+"\n") || strings.Contains(got, "!") != c.unhealthy {
				t.Errorf("got\n%s\nwant %q, unhealthy: %v", got, c.want, c.unhealthy)
			}
		})
	}
}
