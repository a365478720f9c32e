package check_test

import (
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// lentPair returns the facts of rome, which uses resources of milan, and of milan. One namespace is offloaded.
func lentPair(t *testing.T) flows.Facts {
	t.Helper()
	pair := flowtest.LiqoPair()
	network := connect.Goal{Params: flowtest.NodePort()}
	flowtest.MustRun(t, pair, peer.Goal{Network: network})
	pair.Settle()
	f := flowtest.Facts(pair)
	m := &f.Sides[flows.A].Lending.Maps[0]
	m.Spec.DesiredMapping = map[string]string{"shop": "shop-rome"}
	m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingAccepted}}
	return f
}

func ofLending(results []check.Result) []check.Result {
	return slices.DeleteFunc(results, func(r check.Result) bool { return r.ID < check.LentAccess || r.ID > check.LentLeftovers })
}

func TestAPeeringThatIsFinePasses(t *testing.T) {
	f := lentPair(t)
	results := ofLending(check.Diagnose(f, nil))
	var got []string
	for _, r := range results {
		got = append(got, strings.Join([]string{string(r.ID), sideOf(r), r.State.String(), r.Summary}, " "))
	}
	want := []string{
		"LT-D040 A→B pass milan: accepted; rome: accepted, reaches https://172.18.0.20:6443",
		"LT-D041 A→B pass milan: granted",
		"LT-D042 A→B pass milan: Ready",
		"LT-D043 A→B pass shop: is shop-rome there",
		"LT-D044 A→B pass none",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// There are no checks of lending for clusters that are only connected, and for users who may not see lending.
func TestNothingIsSaidOfLendingWhereThereIsNone(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	pair.Settle()
	if got := ofLending(check.Diagnose(flowtest.Facts(pair), nil)); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestWhatIsWrongWithAPeeringIsNamed(t *testing.T) {
	pending := func(reason, message string, owners ...metav1.OwnerReference) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", OwnerReferences: owners},
			Spec:       corev1.PodSpec{NodeName: "milan"},
			Status:     corev1.PodStatus{Phase: corev1.PodPending, Reason: reason, Message: message},
		}
	}
	problem := func(o metav1.Object, why string) {
		o.SetAnnotations(map[string]string{wire.AnnotationProblem: why, wire.AnnotationProblemOf: "1"})
		o.SetGeneration(1)
	}
	for name, c := range map[string]struct {
		edit  func(rome, milan *lending.Facts)
		id    flows.Code
		state check.Outcome
		says  string // a part of the summary
		fix   string // a part of the advice
	}{
		"the Tenant is refused": {
			edit: func(_, m *lending.Facts) {
				m.Tenants[0].Status.AuthParams = nil
				problem(&m.Tenants[0], "rome is the name of a group with rights")
			},
			id: check.LentAccess, state: check.Fail, says: "milan: not accepted yet: rome is the name of a group with rights", fix: "describe tenant rome",
		},
		"pods select it and have no node": {
			edit: func(r, _ *lending.Facts) {
				arch := pending("Unschedulable", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector")
				arch.Spec = corev1.PodSpec{NodeSelector: map[string]string{"liqo.io/type": "virtual-node"}}
				named := *arch.DeepCopy()
				named.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "milan"}
				other := *arch.DeepCopy()
				other.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "rome-1"}
				r.Pods = append(r.Pods, arch, named, other)
			}, id: check.LentPods, state: check.Warn, says: "2 Unschedulable, such as shop/web: 0/3 nodes are available", fix: "status.phase=Pending",
		},
		"the Tenant is gone": {
			edit: func(_, m *lending.Facts) { m.Tenants, m.Slices = nil, nil }, id: check.LentAccess, state: check.Fail, says: "milan has no Tenant of rome", fix: "run the same liqo-tui peer",
		},
		"the consumer has forgotten it": {
			edit: func(r, _ *lending.Facts) { *r = lending.Facts{} }, id: check.LentAccess, state: check.Warn, says: "rome has nothing of it", fix: "unpeer --context kind-milan --local-only --consumer Remote",
		},
		"the provider's side may not be read": {
			edit: func(_, m *lending.Facts) { *m = lending.Facts{Hidden: map[string]bool{"Tenant": true}} }, id: check.LentAccess, state: check.Inconclusive, says: "can't be read",
		},
		"the consumer's side may not be read": {
			edit: func(r, _ *lending.Facts) { *r = lending.Facts{Hidden: map[string]bool{"Identity": true}} }, id: check.LentAccess, state: check.Inconclusive, says: "can't be read",
		},
		"nodes may not be read": {
			edit: func(r, _ *lending.Facts) { r.Members, r.Hidden = nil, map[string]bool{"Node": true} }, id: check.LentNode, state: check.Inconclusive, says: "may not be read",
		},
		"pods may not be read": {
			edit: func(r, _ *lending.Facts) { r.Hidden = map[string]bool{"Pod": true} }, id: check.LentPods, state: check.Inconclusive, says: "may not be read",
		},
		"the Tenant is drained": {
			edit: func(_, m *lending.Facts) { m.Tenants[0].Spec.TenantCondition = authv1beta1.TenantConditionDrained },
			id:   check.LentAccess, state: check.Fail, says: "milan: accepted, drained by an admin",
		},
		"an API server is not reached": {
			edit: func(r, _ *lending.Facts) {
				r.Clusters[0].Status.Conditions[0].Status, r.Clusters[0].Status.Conditions[0].Message = "Error", "timeout"
			},
			id: check.LentAccess, state: check.Fail, says: "rome: accepted, does not reach https://172.18.0.20:6443: timeout", fix: "install --api-server",
		},
		"a slice is denied": {
			edit: func(r, _ *lending.Facts) {
				c := peering.Condition(&r.Slices[0], authv1beta1.ResourceSliceConditionTypeResources)
				c.Status, c.Message = authv1beta1.ResourceSliceConditionDenied, "cpu: 7 asked for"
			},
			id: check.LentResources, state: check.Fail, says: "milan: denied: cpu: 7 asked for", fix: "ask for less",
		},
		"a slice has no answer": {
			edit: func(r, _ *lending.Facts) { r.Slices[0].Status.Conditions = nil }, id: check.LentResources, state: check.Warn, says: "milan: pending",
		},
		"the node's program does not reach the provider": {
			edit: func(r, _ *lending.Facts) {
				r.Members[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "milan's API server: timeout"}}
			},
			id: check.LentNode, state: check.Fail, says: "milan: not ready: milan's API server: timeout", fix: "logs -l",
		},
		"the node's pod does not start": {
			edit: func(r, _ *lending.Facts) {
				r.Members = nil
				r.Waiting = map[string]string{r.Nodes[0].Namespace + "/milan": "pod vk: ImagePullBackOff"}
			},
			id: check.LentNode, state: check.Warn, says: "milan: not there yet: pod vk: ImagePullBackOff",
		},
		"the VirtualNode is refused": {
			edit: func(r, _ *lending.Facts) {
				r.Members = nil
				problem(&r.Nodes[0], "a Node milan is there that is not its own")
			},
			id: check.LentNode, state: check.Fail, says: "a Node milan is there that is not its own",
		},
		"the node is cordoned": {
			edit: func(r, _ *lending.Facts) { r.Members[0].Spec.Unschedulable = true }, id: check.LentNode, state: check.Warn, says: "milan: Ready, cordoned", fix: "uncordon",
		},
		"a namespace is not made": {
			edit: func(r, _ *lending.Facts) {
				r.Maps[0].Status.CurrentMapping = nil
				problem(&r.Maps[0], "namespace shop-rome is somebody else's")
			},
			id: check.LentNamespaces, state: check.Fail, says: "shop: not there yet: namespace shop-rome is somebody else's", fix: "unoffload",
		},
		"a namespace is asked for": {
			edit: func(r, _ *lending.Facts) { r.Maps[0].Status.CurrentMapping = nil }, id: check.LentNamespaces, state: check.Warn, says: "shop: not there yet",
		},
		"a pod is refused": {
			edit: func(r, _ *lending.Facts) {
				r.Pods = []corev1.Pod{pending(peering.ReasonRefused, "milan: hostPath"), pending(peering.ReasonRefused, "milan: hostPath")}
			},
			id: check.LentPods, state: check.Warn, says: "2 OffloadingRefused, such as shop/web: milan: hostPath", fix: "get pods",
		},
		"a pod was just asked for": {
			edit: func(r, _ *lending.Facts) {
				r.Pods = []corev1.Pod{pending(peering.ReasonAsked, "milan was asked to run it")}
			}, id: check.LentPods, state: check.Pass, says: "1 pending",
		},
		"pods of a DaemonSet": {
			edit: func(r, _ *lending.Facts) {
				r.Pods = []corev1.Pod{pending(peering.ReasonNotOffloaded, "", metav1.OwnerReference{Kind: "DaemonSet"})}
			},
			id: check.LentPods, state: check.Pass, says: "1 pending",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := lentPair(t)
			c.edit(f.Sides[flows.A].Lending, f.Sides[flows.B].Lending)
			for _, r := range check.Diagnose(f, nil) {
				if r.ID == c.id {
					if r.State != c.state || !strings.Contains(r.Summary, c.says) || !strings.Contains(command.Join(r.Fix, "\n").String(), c.fix) {
						t.Errorf("got %s %q, fix %q; want %s, %q and %q", r.State, r.Summary, r.Fix, c.state, c.says, c.fix)
					}
					if r.Root != (c.state == check.Fail) {
						t.Errorf("root cause: got %v", r.Root)
					}
					return
				}
			}
			t.Errorf("no %s", c.id)
		})
	}
}

// While the tunnel is down, the tunnel is the root cause, and not the node.
func TestANodeWithoutANetworkIsNotTheCause(t *testing.T) {
	f := lentPair(t)
	f.Sides[flows.A].Lending.Members[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}}
	for i := range f.Sides[flows.B].Connections {
		f.Sides[flows.B].Connections[i].Status.Value = networkingv1beta1.ConnectionError
	}
	results := check.Diagnose(f, nil)
	i := slices.IndexFunc(results, func(r check.Result) bool { return r.ID == check.LentNode })
	if i < 0 || results[i].State != check.Skipped || results[i].Root {
		t.Errorf("got %+v", results)
	}
}

// Unowned objects on the provider are named with the command that removes them. The check does not pass if it
// can't see all of them.
func TestLeftoversAreNamed(t *testing.T) {
	condition := func(status corev1.ConditionStatus, message string) func(rome, milan *lending.Facts) {
		return func(rome, _ *lending.Facts) {
			c := &rome.Members[0].Status.Conditions
			*c = append(slices.DeleteFunc(*c, func(c corev1.NodeCondition) bool { return c.Type == peering.ConditionLeftovers }),
				corev1.NodeCondition{Type: peering.ConditionLeftovers, Status: status, Message: message})
		}
	}
	both := func(all ...func(rome, milan *lending.Facts)) func(rome, milan *lending.Facts) {
		return func(rome, milan *lending.Facts) {
			for _, edit := range all {
				edit(rome, milan)
			}
		}
	}
	none := condition(corev1.ConditionFalse, "nothing")
	kept := func(rome, _ *lending.Facts) {
		rome.Maps[0].Annotations = map[string]string{peering.AnnotationLeft: "shop", peering.AnnotationWithdrawn: "uid:0"}
	}
	unasked := func(rome, milan *lending.Facts) {
		rome.Maps[0].Spec, rome.Maps[0].Status, milan.Maps = offloadingv1beta1.NamespaceMapSpec{}, offloadingv1beta1.NamespaceMapStatus{}, nil
	}
	text := peering.LeftoversText([]peering.Leftover{{Kind: "ShadowPod", Namespace: "shop-rome", Name: "web", UID: "1"}, {Kind: "Secret", Namespace: "shop-rome", Name: "password", UID: "2"}})
	many := make([]peering.Leftover, 60)
	for i := range many {
		many[i] = peering.Leftover{Kind: "ShadowPod", Namespace: "shop-rome", Name: "web", UID: "1"}
	}
	for name, c := range map[string]struct {
		edit      func(rome, milan *lending.Facts)
		state     check.Outcome
		says, fix string
	}{
		"nothing": {none, check.Pass, "none", ""},
		"a pod and a Secret": {
			condition(corev1.ConditionTrue, text), check.Warn,
			"ShadowPod shop-rome/web on milan: the object that it was made from is not on rome; Secret shop-rome/password on milan: the object that it was made from is not on rome",
			"kubectl --context kind-rome -n liqo-tenant-milan annotate namespacemaps.offloading.liqo.io milan --overwrite liqo-tui.dev/withdrawn=uid:1,uid:2",
		},
		"a namespace": {both(none, kept), check.Warn, "namespace shop-rome on milan: no NamespaceOffloading in shop", "liqo-tui.dev/withdrawn=shop,uid:0"},
		"a slice": {
			both(none, func(rome, _ *lending.Facts) { rome.Slices = nil }), check.Warn, "ResourceSlice liqo-tenant-rome/milan on milan: there is none of this name on rome",
			"kubectl --context kind-milan -n liqo-tenant-rome delete resourceslices.authentication.liqo.io milan",
		},
		"a namespace that nobody asks for":           {both(none, unasked), check.Warn, "namespace shop-rome on milan: rome does not ask for it", "kubectl --context kind-milan delete namespace shop-rome"},
		"a namespace whose copy is lost":             {both(none, func(_, m *lending.Facts) { m.Maps = nil }), check.Pass, "none", ""},
		"its namespaces may not be read":             {both(none, func(_, m *lending.Facts) { m.Hidden = map[string]bool{"Namespace": true} }), check.Inconclusive, "namespaces or NamespaceMaps of milan can't be read", ""},
		"many":                                       {condition(corev1.ConditionTrue, peering.LeftoversText(many)), check.Warn, "10 more on milan", "uid:1"},
		"the program does not know":                  {condition(corev1.ConditionUnknown, "milan does not answer"), check.Inconclusive, "milan does not answer", ""},
		"the program is an earlier one":              {func(_, _ *lending.Facts) {}, check.Inconclusive, "its program is an earlier one", ""},
		"the program says something else":            {condition(corev1.ConditionTrue, "x"), check.Inconclusive, "does not understand: x", ""},
		"the program is away":                        {both(none, func(r, _ *lending.Facts) { r.Members[0].Status.Conditions[0].Status = corev1.ConditionUnknown }), check.Inconclusive, "it is not ready", ""},
		"there is no Node":                           {func(r, _ *lending.Facts) { r.Members = nil }, check.Inconclusive, "there is no Node", ""},
		"Nodes may not be read":                      {func(r, _ *lending.Facts) { r.Members, r.Hidden = nil, map[string]bool{"Node": true} }, check.Inconclusive, "Nodes may not be read", ""},
		"nobody looks after the namespace":           {both(none, func(r, _ *lending.Facts) { r.Nodes[0].Annotations = nil }), check.Inconclusive, "namespace shop-rome on milan: no virtual node is responsible for it", ""},
		"maps may not be read":                       {both(none, func(r, _ *lending.Facts) { r.Maps, r.Hidden = nil, map[string]bool{"NamespaceMap": true} }), check.Inconclusive, "NamespaceMaps of rome can't be read", ""},
		"no map, and the provider's may not be read": {both(none, func(r, m *lending.Facts) { r.Maps, m.Hidden = nil, map[string]bool{"NamespaceMap": true} }), check.Inconclusive, "rome has no NamespaceMap", ""},
		"the map has not come home": {both(none, func(r, m *lending.Facts) {
			m.Maps = append(m.Maps, *peering.MapCopy(&r.Maps[0], "rome", "liqo-tenant-rome"))
			r.Maps = nil
		}), check.Inconclusive, "namespace shop-rome on milan: the operator of rome has not taken it over yet", ""},
		"slices may not be read": {both(none, func(_, m *lending.Facts) { m.Hidden = map[string]bool{"ResourceSlice": true} }), check.Inconclusive, "ResourceSlices of both clusters can't be read", ""},
		"a namespace that goes": {func(r, m *lending.Facts) {
			c := peering.MapCopy(&r.Maps[0], "rome", "liqo-tenant-rome")
			c.Spec, c.Status = offloadingv1beta1.NamespaceMapSpec{}, r.Maps[0].Status
			m.Maps = append(m.Maps, *c)
			r.Maps[0].Spec, r.Maps[0].Status = offloadingv1beta1.NamespaceMapSpec{}, offloadingv1beta1.NamespaceMapStatus{}
		}, check.Pass, "none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := lentPair(t)
			f.Sides[flows.A].Software = flows.Operator
			f.Sides[flows.A].Lending.Nodes[0].Annotations = map[string]string{peering.AnnotationNamespaces: "shop"}
			f.Sides[flows.B].Namespaces = append(f.Sides[flows.B].Namespaces, *peering.MappedNamespace(peering.MapCopy(&f.Sides[flows.A].Lending.Maps[0], "rome", "liqo-tenant-rome"), "rome", "shop", "shop-rome"))
			c.edit(f.Sides[flows.A].Lending, f.Sides[flows.B].Lending)
			for _, r := range check.Diagnose(f, nil) {
				if r.ID == check.LentLeftovers {
					says := strings.Join(append([]string{r.Summary}, r.Evidence...), "; ")
					if r.State != c.state || !strings.Contains(says, c.says) || !strings.Contains(command.Join(r.Fix, "\n").String(), c.fix) {
						t.Errorf("got %s %q, fix %q; want %s, %q and %q", r.State, says, r.Fix, c.state, c.says, c.fix)
					}
					return
				}
			}
			t.Errorf("there is no result")
		})
	}
}
