package peer_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/render"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func offload(p peer.OffloadParams) flows.Planner {
	return func(f flows.Facts) flows.Plan { return peer.Offload(p, f) }
}

func TestOffloadingMakesANamespaceAndTakesItBack(t *testing.T) {
	p := peered(t)
	p.A.PutAs("kubectl", namespace("demo"))
	demo := peer.OffloadParams{Namespaces: []string{"demo"}, Pods: "Remote"}
	flowtest.MustRun(t, p, offload(demo))
	if got, want := peer.Offloaded(demo.Namespaces, flowtest.Facts(p)), "Pods of namespace demo may run on milan, in namespace demo-rome."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if p.B.Facts().FindNamespace("demo-rome") == nil {
		t.Error("milan has no namespace demo-rome")
	}
	p.Settle()
	p.Forget()
	flowtest.MustRun(t, p, offload(peer.OffloadParams{Namespaces: []string{"demo"}}))
	if log := p.Log(); len(log) > 0 {
		t.Errorf("a second run with fewer flags wrote %v", log)
	}
	back := func(f flows.Facts) flows.Plan { return peer.Unoffload([]string{"demo"}, f) }
	if warned := back(flowtest.Facts(p)).Interrupts(); len(warned) != 1 || !strings.Contains(warned[0], "demo-rome on milan is deleted, and everything in it") {
		t.Errorf("the plan warns %q", warned)
	}
	flowtest.MustRun(t, p, flows.Planner(back))
	p.Settle()
	if p.B.Facts().FindNamespace("demo-rome") != nil {
		t.Error("milan still has namespace demo-rome")
	}
}

// With our operator, pods need a toleration to run on virtual nodes.
func TestOffloadingByOurOperatorNamesTheToleration(t *testing.T) {
	p := peered(t)
	p.A.PutAs("kubectl", namespace("demo"))
	flowtest.MustRun(t, p, offload(peer.OffloadParams{Namespaces: []string{"demo"}}))
	f := flowtest.Facts(p)
	f.Sides[flows.A].Software, f.Sides[flows.A].Operator.Peering = flows.Operator, render.PeeringConsumer
	const toleration = "tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists, effect: NoExecute}]"
	if got := peer.Offloaded([]string{"demo"}, f); !strings.Contains(got, "may run on milan") || !strings.Contains(got, toleration) {
		t.Errorf("got %q", got)
	}
	plan := peer.Offload(peer.OffloadParams{Namespaces: []string{"demo"}, Pods: "Remote"}, f)
	if kept := strings.Join(plan.Kept, "\n"); plan.Failure() != nil || !strings.Contains(kept, toleration) || !strings.Contains(kept, "nodeSelector: {liqo.io/type: virtual-node}") {
		t.Errorf("the plan fails with %v, and says %s", plan.Failure(), kept)
	}
	for version, asks := range map[string]bool{"v1.35.4": true, "v1.36.0": false, "v1.37.1+k3s1": false, "": true} {
		f.Sides[flows.A].Version = version
		kept := strings.Join(peer.Offload(peer.OffloadParams{Namespaces: []string{"demo"}}, f).Kept, "\n")
		if strings.Contains(kept, toleration) != asks || strings.Contains(peer.Offloaded([]string{"demo"}, f), toleration) != asks || !strings.Contains(kept, "ConfigMaps and Secrets") {
			t.Errorf("Kubernetes %q: the plan says %s", version, kept)
		}
	}
	f.Sides[flows.A].Operator.Peering = render.PeeringProvider
	if s := peer.Offload(peer.OffloadParams{Namespaces: []string{"demo"}}, f).Failure(); s == nil || !strings.Contains(s.Hint().String(), "install --peering consumer") {
		t.Errorf("on a provider: got %+v", s)
	}
	f.Sides[flows.A].Operator.Peering, f.Sides[flows.A].Lending.Missing = render.PeeringConsumer, []string{"namespacemaps.offloading.liqo.io/v1beta1"}
	if s := peer.Unoffload([]string{"demo"}, f).Failure(); s == nil || !strings.Contains(s.Hint().String(), "liqo-tui install --context") {
		t.Errorf("with an old installation: got %+v", s)
	}
}

func TestOffloadingThatCanNotWork(t *testing.T) {
	for name, c := range map[string]struct {
		past   func(*testing.T, *flowtest.Pair)
		params peer.OffloadParams
		reason string
	}{
		"no such namespace": {func(*testing.T, *flowtest.Pair) {}, peer.OffloadParams{Namespaces: []string{"demo"}}, "rome has no namespace demo"},
		"a name too long":   {func(*testing.T, *flowtest.Pair) {}, peer.OffloadParams{Namespaces: []string{strings.Repeat("x", 60)}}, "longer than 63"},
		"another name than before": {func(t *testing.T, p *flowtest.Pair) {
			t.Helper()
			p.A.PutAs("kubectl", namespace("demo"))
			flowtest.MustRun(t, p, offload(peer.OffloadParams{Namespaces: []string{"demo"}}))
		}, peer.OffloadParams{Namespaces: []string{"demo"}, Mapping: "EnforceSameName"}, "can't be changed"},
		"taken": {func(_ *testing.T, p *flowtest.Pair) {
			p.A.PutAs("kubectl", namespace("demo"))
			p.B.Behave(func(b *flowtest.Behaviour) { b.Lending.Taken = []string{"demo"} })
		}, peer.OffloadParams{Namespaces: []string{"demo"}, Mapping: "EnforceSameName"}, "milan says CreationLoopBackOff"},
	} {
		t.Run(name, func(t *testing.T) {
			p := peered(t)
			p.A.PutAs("kubectl", namespace(strings.Repeat("x", 60)))
			c.past(t, p)
			_, err := flowtest.Run(t, p, offload(c.params))
			if err == nil || !strings.Contains(err.Error(), c.reason) || flows.HintOf(err).IsZero() {
				t.Errorf("got %v, hint %q, want: %s", err, flows.HintOf(err), c.reason)
			}
		})
	}
}
