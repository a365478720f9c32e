package peer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	lent "github.com/liqo-tui/liqo-tui/render/peering"
)

// If the deletion of a namespace does not finish, each step that waits for it, and each report about it, gives
// Kubernetes' reason.
func TestANamespaceThatStaysSaysWhyEverywhere(t *testing.T) {
	p, left := peered(t), peered(t)
	flowtest.MustRun(t, left, unpeering(peer.RemoveOptions{}))
	connected := flowtest.NewPair()
	flowtest.MustRun(t, connected, flowtest.Connect(flowtest.NodePort()))
	for _, of := range []corev1.NamespaceConditionType{
		corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionGVParsingFailure, corev1.NamespaceDeletionContentFailure,
		corev1.NamespaceContentRemaining, corev1.NamespaceFinalizersRemaining,
	} {
		why := fmt.Sprintf("%s: metrics.k8s.io/v1beta1", of)
		stay := func(ns *corev1.Namespace) {
			ns.DeletionTimestamp = new(metav1.NewTime(connected.Now().Add(-time.Minute)))
			ns.Status.Conditions = []corev1.NamespaceCondition{{Type: of, Status: corev1.ConditionTrue, Message: why}}
		}
		said := map[string]string{}

		f := flowtest.Facts(connected)
		stay(f.Sides[flows.B].FindNamespace("liqo-tenant-rome"))
		s, _ := flows.PlanConnect(flowtest.NodePort(), f).Step("namespace-b")
		said["connect"] = s.Reason
		s, _ = flowtest.Reset(f).Step("namespace-b")
		said["reset"] = s.Reason
		pre := check.Preflight(flowtest.NodePort(), f, [2]*rights.Review{})
		for _, r := range pre {
			if r.ID == check.Leftovers && r.Sides[0] == flows.B {
				said["check --pre"] = strings.Join(r.Evidence, "; ")
			}
		}

		f = flowtest.Facts(p)
		m := &f.Sides[flows.A].Lending.Maps[0]
		twin := lent.MappedNamespace(m, "rome", "shop", "shop-rome")
		twin.Annotations[lent.AnnotationMapped] = "liqo-tenant-rome/rome"
		stay(twin)
		f.Sides[flows.B].Namespaces = append(f.Sides[flows.B].Namespaces, *twin)
		m.Spec.DesiredMapping = map[string]string{"shop": "shop-rome"}
		m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"shop": {RemoteNamespace: "shop-rome", Phase: offloadingv1beta1.MappingTerminating}}
		// the provider's operator reports the reason
		m.Annotations = map[string]string{wire.AnnotationProblem: lent.ProblemsOf(map[string]error{"shop": fmt.Errorf("shop-rome is still being deleted: %s", wire.Stays(twin))}).Error()}
		for _, r := range check.Diagnose(f, nil) {
			if r.ID == check.LentNamespaces {
				said["LT-D043"] = r.Summary
				if fix := fmt.Sprint(r.Fix); strings.Contains(fix, "taken") || !strings.Contains(fix, "kind-milan get namespaces") {
					t.Errorf("LT-D043 advises %s", fix)
				}
			}
		}
		said["unoffload"] = peer.Unoffloaded([]string{"shop"}, f)
		if strings.Contains(peer.Unoffloaded([]string{"other"}, f), "shop-rome") {
			t.Error("got a namespace that is not asked for")
		}
		f = flowtest.Facts(left)
		f.Sides[flows.B].Namespaces = append(f.Sides[flows.B].Namespaces, *twin)
		for _, s := range unpeering(peer.RemoveOptions{}).Plan(f).Steps {
			if s.Status == flows.Waiting {
				said["unpeer"] += s.Reason
			}
		}
		for where, text := range said {
			if !strings.Contains(text, why) {
				t.Errorf("%s, %s: got %q", of, where, text)
			}
		}
		if len(said) != 6 {
			t.Errorf("got %d places: %q", len(said), said)
		}
	}
}

// A mapped namespace is never the tenant namespace, even if it is older, or the only namespace of the peer.
func TestAMappedNamespaceIsNoTenantNamespace(t *testing.T) {
	p := flowtest.NewPair()
	twin := lent.MappedNamespace(&offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}}, "rome", "demo", "demo-rome")
	p.B.PutAs(wire.OperatorName, twin)
	p.B.Terminate(twin)
	f := flowtest.Facts(p)
	s, _ := flows.PlanConnect(flowtest.NodePort(), f).Step("namespace-b")
	if s.Object.Name != render.TenantNamespace(p.B.Tenant()).Name || s.Status != flows.Ready {
		t.Errorf("got %s of %s: %s", s.Status, s.Object.Name, s.Reason)
	}
	if peer := f.End(flows.B); peer.Namespace != nil {
		t.Errorf("got namespace %s", peer.Namespace.Name)
	}
}
