package peer_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/render"
	objects "github.com/liqo-tui/liqo-tui/render/peering"
)

// An impossible plan is refused with advice, before anything is changed.
func TestUnfitClustersAreRefused(t *testing.T) {
	tenant := render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}
	access := peer.Params{Slice: "false"}
	ours := func(rome, milan render.PeeringRole) func(*testing.T, *flowtest.Pair) {
		return func(_ *testing.T, p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) { f.Software, f.Operator.Peering = flows.Operator, rome })
			p.B.Be(func(f *flows.ClusterFacts) { f.Software, f.Operator.Peering = flows.Operator, milan })
		}
	}
	for name, c := range map[string]struct {
		past         func(*testing.T, *flowtest.Pair)
		params       peer.Params
		code         flows.Code
		reason, hint string
	}{
		"no Liqo": {func(_ *testing.T, p *flowtest.Pair) {
			p.B.Be(func(f *flows.ClusterFacts) { f.Software = flows.NoSoftware })
		}, peer.Params{}, check.Lending, "milan has no Liqo", "network connect"},
		"an old release": {func(_ *testing.T, p *flowtest.Pair) {
			p.B.Be(func(f *flows.ClusterFacts) { f.Operator.Version = "v1.0.1" })
		}, peer.Params{}, check.Lending, "takes keys in another form", "v1.0.2"},
		"the webhook is away": {func(_ *testing.T, p *flowtest.Pair) {
			p.B.PutAs("helm", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "liqo"}},
				&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-webhook"}})
		}, peer.Params{}, check.Lending, "liqo/liqo-webhook on milan is not available", "logs deployment/liqo-webhook"},
		"another key than before": {func(t *testing.T, p *flowtest.Pair) {
			t.Helper()
			flowtest.MustRun(t, p, peering(peer.Params{}))
			p.A.Behave(func(b *flowtest.Behaviour) { b.Lending.Reinstalled = true })
		}, peer.Params{}, check.NewKey, "milan knows rome by another key", "-n liqo-tenant-rome delete tenant/rome secret/liqo-remote-certificate secret/liqo-remote-certificate-milan"},
		"a namespace of another name": {func(_ *testing.T, p *flowtest.Pair) {
			ns := render.TenantNamespace(render.Tenant{Namespace: "mine", Remote: "milan"})
			p.A.Put(ns, render.Configuration(render.Tenant{Namespace: "mine", Remote: "milan"}, p.B.Facts().Networks))
		}, peer.Params{}, flows.CodeNamespace, "does not begin with liqo-tenant-", "--namespace"},
		"drained": {func(t *testing.T, p *flowtest.Pair) {
			t.Helper()
			flowtest.MustRun(t, p, peering(peer.Params{}))
			drained := &authv1beta1.Tenant{TypeMeta: metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Tenant"}, ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "rome"}}
			drained.Spec.TenantCondition = authv1beta1.TenantConditionDrained
			p.B.PutAs("liqoctl", drained)
		}, peer.Params{}, check.Lending, "an admin of milan has drained rome", "liqoctl activate tenant rome"},
		"given up before": {func(_ *testing.T, p *flowtest.Pair) {
			fc := objects.Unreachable("milan", true)
			fc.Spec.ClusterID = "milan"
			p.A.PutAs("liqoctl", fc)
		}, peer.Params{}, check.Lending, "gone for good", "annotate foreigncluster milan liqo.io/foreign-cluster-permanently-unreachable-"},
		"a node of that name": {func(_ *testing.T, p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) { f.Nodes = []flows.NodeFacts{{Name: "milan"}} })
		}, peer.Params{}, check.Lending, "there is a node milan already", "--create-virtual-node=false"},
		"ours, that take no part": {ours("", ""), peer.Params{}, check.Lending, "rome's operator was installed without virtual nodes", "install --peering both --context kind-rome"},
		"ours, no consumer":       {ours(render.PeeringProvider, render.PeeringBoth), access, check.Lending, "rome's operator was installed without virtual nodes", "install --peering both --context kind-rome"},
		"ours, no provider":       {ours(render.PeeringBoth, render.PeeringConsumer), access, check.Lending, "milan's operator was installed without lending", "install --peering both --context kind-milan"},
		"Liqo with our provider": {func(_ *testing.T, p *flowtest.Pair) {
			p.B.Be(func(f *flows.ClusterFacts) { f.Software, f.Operator.Peering = flows.Operator, render.PeeringBoth })
		}, access, check.Lending, "rome runs Liqo, which sends labels and annotations along", "the other direction works, with milan as the consumer"},
		"ours, no consumer, with Liqo's provider": {func(_ *testing.T, p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) { f.Software, f.Operator.Peering = flows.Operator, render.PeeringProvider })
		}, access, check.Lending, "rome's operator was installed without virtual nodes", "install --peering both --context kind-rome"},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.LiqoPair()
			c.past(t, p)
			p.Settle()
			p.Forget()
			_, err := flowtest.Run(t, p, peering(c.params))
			var failed *flows.StepError
			if !errors.As(err, &failed) || failed.Code() != c.code || !strings.Contains(err.Error(), c.reason) || !strings.Contains(failed.Hint().String(), c.hint) {
				t.Fatalf("got %v, hint %q, want %s: %s, hint %s", err, flows.HintOf(err), c.code, c.reason, c.hint)
			}
			if log := p.Log(); len(log) > 0 {
				t.Errorf("wrote %v", log)
			}
		})
	}
}

// An old installation lacks the kind of virtual nodes. It has to be upgraded, unless the admin wants no
// virtual node.
func TestAnOldInstallationOfOurs(t *testing.T) {
	p := flowtest.LiqoPair()
	f := flows.Facts{Sides: [2]flows.ClusterFacts{p.A.Facts(), p.B.Facts()}}
	for side := range f.Sides {
		c := &f.Sides[side]
		c.Software, c.Operator.Peering = flows.Operator, render.PeeringBoth
		c.Lending.Missing = []string{"virtualnodes.offloading.liqo.io/v1beta1", "namespacemaps.offloading.liqo.io/v1beta1"}
	}
	if s := peer.Plan(peer.Params{}, nil, [2]string{}, f).Failure(); s == nil || s.Side != flows.A || s.Reason != "rome does not serve virtualnodes.offloading.liqo.io/v1beta1" || !strings.Contains(s.Hint().String(), "liqo-tui install --context") {
		t.Errorf("with a virtual node: got %+v", s)
	}
	if s := peer.Plan(peer.Params{VirtualNode: "false"}, nil, [2]string{}, f).Failure(); s != nil {
		t.Errorf("without: got %+v", s)
	}
}

// A cordoned Tenant stays cordoned, and the plan says so.
func TestCordonedTenantStaysCordoned(t *testing.T) {
	p := peered(t)
	cordoned := &authv1beta1.Tenant{TypeMeta: metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Tenant"}, ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}}
	cordoned.Spec.TenantCondition = authv1beta1.TenantConditionCordoned
	p.B.PutAs("liqoctl", cordoned)
	r := flowtest.MustRun(t, p, peering(peer.Params{CPU: "3"}))
	if got := p.B.Facts().Lending.Tenants[0].Spec.TenantCondition; got != authv1beta1.TenantConditionCordoned {
		t.Errorf("the Tenant is %s", got)
	}
	if kept := strings.Join(r.Events[0].Plan.Kept, "\n"); !strings.Contains(kept, "has cordoned rome") {
		t.Errorf("the plan says %s", kept)
	}
}

// Pods leave the virtual node before its resources are removed. Only pods that can run elsewhere are evicted.
func TestPodsLeaveFirst(t *testing.T) {
	p := peered(t)
	pod := func(name, node string, owner ...metav1.OwnerReference) *corev1.Pod {
		return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: name, Labels: map[string]string{objects.LabelOffloadedPod: "true"}, OwnerReferences: owner,
		}, Spec: corev1.PodSpec{NodeName: node}}
	}
	ns := namespace("demo")
	p.A.PutAs("kubectl", ns)
	p.A.PutAs("scheduler", pod("away", "milan"), pod("elsewhere", "turin"))
	r := flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{}))
	if warned := strings.Join(r.Events[0].Plan.Interrupts(), "\n"); !strings.Contains(warned, "demo/away on milan ends") {
		t.Errorf("the plan warns %q", warned)
	}
	var order []string
	for _, c := range p.A.Log() {
		for _, kind := range []string{"Node ", "Pod ", "ResourceSlice ", "Identity "} {
			if strings.HasPrefix(c.Object, kind) {
				order = append(order, string(c.Verb)+" "+c.Object)
			}
		}
	}
	want := []string{"updated Node milan", "deleted Pod demo/away", "deleted ResourceSlice liqo-tenant-milan/milan", "deleted Identity liqo-tenant-milan/controlplane-milan"}
	if d := difference(want, order); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// After an unfinished removal, another run of peer uncordons the node.
func TestANodeIsUncordonedAgain(t *testing.T) {
	p := peered(t)
	before := p.A.Writes()
	p.A.Behave(flowtest.KilledAfter(before + 1))
	if _, err := flowtest.Run(t, p, unpeering(peer.RemoveOptions{})); !errors.Is(err, flowtest.ErrKilled) || !p.A.Facts().Lending.Members[0].Spec.Unschedulable {
		t.Fatalf("got %v, want a run that ends after the cordon", err)
	}
	p.A.Behave(func(b *flowtest.Behaviour) { b.WriteErrors = nil })
	flowtest.MustRun(t, p, peering(peer.Params{}))
	if p.A.Facts().Lending.Members[0].Spec.Unschedulable {
		t.Error("the node is still cordoned")
	}
}

// The consumer needs its access to remove its objects on the provider, so the access stays until they are
// removed.
func TestAccessGoesLast(t *testing.T) {
	p := peered(t)
	p.A.Behave(func(b *flowtest.Behaviour) { b.Lending.NoReplicas = true })
	_, err := flowtest.Run(t, p, unpeering(peer.RemoveOptions{}))
	if err == nil || !strings.Contains(err.Error(), "crdreplicator.liqo.io/resource") {
		t.Errorf("got %v, want the finalizer named", err)
	}
	if a, b := p.A.Facts().Lending, p.B.Facts().Lending; len(b.Tenants) != 1 || !slices.ContainsFunc(a.Identities, func(i authv1beta1.Identity) bool { return i.DeletionTimestamp == nil }) {
		t.Error("the Tenant or the Identity is gone before what needs it")
	}
	p.A.Behave(func(b *flowtest.Behaviour) { b.Lending.NoReplicas = false })
	flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{}))
}

// A consumer that was installed again has another key. When the provider has forgotten the old key, the
// consumer gets a certificate for the new key.
func TestAnotherKey(t *testing.T) {
	p := peered(t)
	p.A.Remove(p.A.Objects()...)
	p.A.Behave(func(b *flowtest.Behaviour) { b.Lending.Reinstalled = true })
	for _, o := range p.B.Objects() {
		if _, tenant := o.(*authv1beta1.Tenant); tenant || strings.HasPrefix(o.GetName(), objects.CertificateName) {
			p.B.Remove(o)
		}
	}
	flowtest.MustRun(t, p, peering(peer.Params{}))
	l := p.A.Facts().Lending
	for _, i := range l.Identities {
		if i.Spec.Type == authv1beta1.ControlPlaneIdentityType && !l.Request.Certifies(i.Spec.AuthParams.SignedCRT) {
			t.Error("the Identity has a certificate of the old key")
		}
	}
}

// The provider's answer for an older key does not count.
func TestOldAccessDoesNotCount(t *testing.T) {
	p := peered(t)
	p.A.Remove(p.A.Objects()...)
	p.A.Behave(func(b *flowtest.Behaviour) { b.Lending.Reinstalled = true })
	p.B.Behave(func(b *flowtest.Behaviour) { b.Lending.NoTenants = true })
	for _, o := range p.B.Objects() {
		if strings.HasPrefix(o.GetName(), objects.CertificateName) {
			p.B.Remove(o)
		}
	}
	_, err := flowtest.Run(t, p, peering(peer.Params{}))
	if err == nil || !strings.Contains(err.Error(), "waiting for a certificate of the present key") || len(p.A.Facts().Lending.Identities) > 0 {
		t.Errorf("got %v, want it to wait for the certificate", err)
	}
}

// The operator creates its proxy's address a moment after its installation. So the plan is not refused if
// there is no address yet.
func TestOurProxyIsWaitedFor(t *testing.T) {
	p := flowtest.LiqoPair()
	for _, c := range []*flowtest.Cluster{p.A, p.B} {
		c.Be(func(f *flows.ClusterFacts) { f.Software, f.Operator.Peering = flows.Operator, render.PeeringBoth })
	}
	plan := peer.Plan(peer.Params{Slice: "false", InBand: "true"}, connect.Goal{Params: flowtest.NodePort()}.Plan, [2]string{}, flowtest.Facts(p))
	if failed := plan.Failure(); failed != nil {
		t.Fatalf("it is refused: %+v", failed)
	}
}
