package engine_test

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/render"
)

// probing is a cluster that runs probes as a test wants them.
type probing struct {
	*flowtest.Cluster
	address netip.Addr
	refuses error              // to make a pod
	finds   render.ProbeResult // what its probe measures
	fails   error              // to measure
	silent  string             // the node from which no packet is answered
	lacks   string             // the node that has no room for a pod

	mu      sync.Mutex
	targets []render.ProbeTarget
	pods    int // that are there
	tokens  []string
}

func (p *probing) StartProbe(_ context.Context, r engine.ProbeRequest, progress func(string)) (engine.Probe, error) {
	if p.refuses != nil {
		return nil, p.refuses
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Node != "" && r.Node == p.lacks {
		return nil, errors.New("no room")
	}
	p.pods++
	p.tokens = append(p.tokens, r.Token)
	progress("the pod starts")
	return testProbe{p, cmp.Or(r.Node, "node-1")}, nil
}

type testProbe struct {
	*probing
	node string
}

func (p testProbe) Pod() engine.ProbePod {
	return engine.ProbePod{Namespace: "n", Name: "probe", Node: p.node, Address: p.address}
}

func (p testProbe) Measure(_ context.Context, t render.ProbeTarget) (render.ProbeResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = append(p.targets, t)
	if p.node == p.silent {
		return render.ProbeResult{Sent: p.finds.Sent}, p.fails
	}
	return p.finds, p.fails
}

func (p testProbe) Remove(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods--
	return ctx.Err() // so that a context that has ended is noticed
}

// probingPair is a connected pair whose pods find a good path.
func probingPair(t *testing.T) (*flowtest.Pair, [2]*probing) {
	t.Helper()
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	good := render.ProbeResult{Sent: 40, Received: 40, MinMicros: 900, AvgMicros: 1200, MaxMicros: 3100, LargestPacket: 1340}
	return p, [2]*probing{
		{Cluster: p.A, address: netip.MustParseAddr("10.244.1.7"), finds: good},
		{Cluster: p.B, address: netip.MustParseAddr("10.244.0.5"), finds: good},
	}
}

func verifyPair(t *testing.T, p *flowtest.Pair, c [2]*probing, r engine.VerifyRequest) (verify.Result, error) {
	t.Helper()
	r.Now = p.Now
	return engine.VerifyPair(t.Context(), c[0], c[1], r, func(flows.Side, string) {})
}

func TestVerifyMeasuresBothWaysBetweenPods(t *testing.T) {
	p, c := probingPair(t)
	c[0].finds.ToBits, c[0].finds.FromBits = 940e6, 610e6
	v, err := verifyPair(t, p, c, engine.VerifyRequest{Throughput: true})
	if err != nil {
		t.Fatal(err)
	}
	want := `rome → milan: latency 1.20 ms (0.90 ms to 3.10 ms), no loss in 40 packets, largest packet 1340 bytes, throughput 940 Mbit/s (pod to pod)
milan → rome: latency 1.20 ms (0.90 ms to 3.10 ms), no loss in 40 packets, largest packet 1340 bytes, throughput 610 Mbit/s (pod to pod)
  from pod 10.244.1.7 on node node-1 of rome to 253.18.0.5, pod 10.244.0.5 on node node-1 of milan
  from pod 10.244.0.5 on node node-1 of milan to 240.160.1.7, pod 10.244.1.7 on node node-1 of rome
verified from node-1 of rome, node-1 of milan: packets pass both ways`
	if got := strings.Join(v.Lines(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !v.Verified() || !v.Measurement().OK {
		t.Error("it is not verified")
	}
	if !slices.Equal(c[0].tokens, c[1].tokens) || len(c[0].tokens[0]) != 32 {
		t.Errorf("got tokens %q and %q, want the same one of 16 bytes", c[0].tokens, c[1].tokens)
	}
	if !c[0].targets[0].Throughput || c[1].targets[0].Throughput {
		t.Error("want exactly one side to measure the throughput")
	}
	if c[0].pods != 0 || c[1].pods != 0 {
		t.Errorf("%d and %d pods are left", c[0].pods, c[1].pods)
	}
}

// A path that works for one node may be closed for another, by that node's own filters.
func TestVerifyOfAllNodesMeasuresFromEach(t *testing.T) {
	p, c := probingPair(t)
	nodes := func(names ...string) (all []flows.NodeFacts) {
		for _, name := range names {
			all = append(all, flows.NodeFacts{Name: name, Ready: true})
		}
		return all
	}
	p.A.Be(func(f *flows.ClusterFacts) {
		f.Nodes = append(nodes("rome-1", "rome-2", "rome-3"), flows.NodeFacts{Name: "rome-4"}, flows.NodeFacts{Name: "virtual", Ready: true, Excluded: "is virtual"})
	})
	p.B.Be(func(f *flows.ClusterFacts) { f.Nodes = nodes("milan-1", "milan-2") })
	v, err := verifyPair(t, p, c, engine.VerifyRequest{})
	if want := "verified from 2 of 5 nodes (node-1 of rome, node-1 of milan): packets pass both ways"; err != nil || v.Measurement().Result != want {
		t.Errorf("one path: got %q, %v, want %q", v.Measurement().Result, err, want)
	}
	v, err = verifyPair(t, p, c, engine.VerifyRequest{AllNodes: true})
	if want := "verified from all 5 nodes: packets pass both ways"; err != nil || v.Measurement().Result != want || len(v.Paths) != 3 {
		t.Errorf("all nodes: got %q, %d paths, %v, want %q", v.Measurement().Result, len(v.Paths), err, want)
	}
	c[0].silent = "rome-2"
	v, err = verifyPair(t, p, c, engine.VerifyRequest{AllNodes: true})
	lines := strings.Join(v.Lines(), "\n")
	if err != nil || v.Verified() || !strings.Contains(lines, "2 of 3 paths work, the worst: none of 40 packets was answered") {
		t.Errorf("nothing from rome-2: verified %t, %v:\n%s", v.Verified(), err, lines)
	}
	c[0].silent, c[1].lacks = "", "milan-2"
	v, err = verifyPair(t, p, c, engine.VerifyRequest{AllNodes: true})
	lines = strings.Join(v.Lines(), "\n")
	if err != nil || v.Verdict() != verify.Degraded || !strings.Contains(lines, "  not measured: rome-2 to milan-2: milan: no room") || !strings.Contains(lines, "verified from 3 of 5 nodes") {
		t.Errorf("no pod on milan-2: got %s, %v:\n%s", v.Verdict(), err, lines)
	}
	p.B.Be(func(f *flows.ClusterFacts) { f.Nodes = nil })
	if _, err = verifyPair(t, p, c, engine.VerifyRequest{AllNodes: true}); err == nil || !strings.Contains(err.Error(), "milan: you have no right to list its nodes") {
		t.Errorf("unknown nodes: got %v", err)
	}
	if c[0].pods != 0 || c[1].pods != 0 {
		t.Errorf("%d and %d pods are left", c[0].pods, c[1].pods)
	}
}

func TestVerdicts(t *testing.T) {
	silent := render.ProbeResult{Sent: 40}
	for name, c := range map[string]struct {
		finds    render.ProbeResult // on one side
		verdict  verify.Verdict
		verified bool
		says     string
	}{
		"nothing comes back":        {silent, verify.Broken, false, "none of 40 packets was answered"},
		"a filter refuses them":     {render.ProbeResult{Sent: 40, Refused: "administratively prohibited, says 10.244.1.1"}, verify.Broken, false, "none of 40 packets was answered: administratively prohibited, says 10.244.1.1"},
		"some get lost":             {render.ProbeResult{Sent: 40, Received: 30, AvgMicros: 1000, LargestPacket: 1340}, verify.Degraded, true, "10 of 40 packets lost"},
		"only small ones pass":      {render.ProbeResult{Sent: 40, Received: 40, AvgMicros: 1000}, verify.Degraded, true, "only small packets pass"},
		"a part of it failed":       {render.ProbeResult{Sent: 40, Received: 40, LargestPacket: 1340, Error: "throughput: refused"}, verify.Degraded, true, "throughput: refused"},
		"the probe can't even send": {render.ProbeResult{Error: "network is unreachable"}, verify.Broken, false, "network is unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			p, clusters := probingPair(t)
			clusters[1].finds = c.finds
			v, err := verifyPair(t, p, clusters, engine.VerifyRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if v.Verdict() != c.verdict || v.Verified() != c.verified || !strings.Contains(v.Lines()[1], c.says) {
				t.Errorf("got %s, verified %t:\n%s", v.Verdict(), v.Verified(), strings.Join(v.Lines(), "\n"))
			}
		})
	}
	p, clusters := probingPair(t)
	clusters[0].finds, clusters[1].finds = silent, silent
	v, err := verifyPair(t, p, clusters, engine.VerifyRequest{})
	if lines := v.Lines(); err != nil || lines[len(lines)-1] != "not verified: no packet passes, either way" {
		t.Errorf("nothing comes back to either: got %v, %v", lines, err)
	}
}

func TestVerifyWithoutPodsSaysWhatTheGatewaysSay(t *testing.T) {
	p, c := probingPair(t)
	c[1].refuses = errors.New(`create Job: user "ada" cannot create jobs`)
	v, err := verifyPair(t, p, c, engine.VerifyRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Between != verify.Gateways || v.Verified() || v.Verdict() != verify.Works {
		t.Errorf("got %s between %s, verified %t", v.Verdict(), v.Between, v.Verified())
	}
	text := strings.Join(v.Lines(), "\n")
	for _, want := range []string{
		"ping between gateways, not pods", `pods could not measure: milan: create Job: user "ada" cannot create jobs`,
		"not verified: the gateways reach each other, but no pod has tested the path",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if m := v.Measurement(); m.OK || m.Fix.IsZero() {
		t.Errorf("got %+v, want it not to count as verified", m)
	}
	if c[0].pods != 0 {
		t.Error("the other side's pod is left")
	}
}

func TestVerifyRemovesItsPodsWhateverHappens(t *testing.T) {
	p, c := probingPair(t)
	c[0].fails = errors.New("the pod vanished")
	if _, err := verifyPair(t, p, c, engine.VerifyRequest{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := engine.VerifyPair(ctx, c[0], c[1], engine.VerifyRequest{Now: p.Now}, func(flows.Side, string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: got %v", err)
	}
	if c[0].pods != 0 || c[1].pods != 0 {
		t.Errorf("%d and %d pods are left", c[0].pods, c[1].pods)
	}
}

func TestVerifyOfWhatIsNotConnectedIsAnError(t *testing.T) {
	p := flowtest.NewPair()
	_, err := engine.VerifyPair(t.Context(), p.A, p.B, engine.VerifyRequest{Now: p.Now}, func(flows.Side, string) {})
	failed, ok := errors.AsType[*flows.StepError](err)
	if !ok || failed.Step.Kind != flows.FailedPreflight || !strings.Contains(failed.Hint().String(), "network connect") {
		t.Errorf("got %v", err)
	}
}

func TestStaleReportsAreNoAnswer(t *testing.T) {
	p, c := probingPair(t)
	c[0].refuses = errors.New("no image")
	later := func() time.Time { return p.Now().Add(time.Hour) }
	v, err := engine.VerifyPair(t.Context(), c[0], c[1], engine.VerifyRequest{Now: later}, func(flows.Side, string) {})
	if err != nil {
		t.Fatal(err)
	}
	if v.Verdict() != verify.Broken || !strings.Contains(v.Directions[0].Problem, "and nothing since") {
		t.Errorf("got %s: %v", v.Verdict(), v.Lines())
	}
}

// guarded is a cluster whose NetworkPolicies may be read.
type guarded struct {
	*probing
	policies policy.Facts
}

func (g guarded) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	if q, ok := q.(flows.AskPolicies); ok {
		return flows.Read(q, g.policies), nil
	}
	return g.probing.Ask(ctx, q)
}

func TestAFailedVerificationNamesThePolicyThatKeepsPodsOut(t *testing.T) {
	p, c := probingPair(t)
	c[0].finds = render.ProbeResult{Sent: 40}
	deny := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome-by-liqoctl", Name: "default-deny"}}
	elsewhere := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default-deny"}}
	open := *deny.DeepCopy()
	open.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "240.160.0.0/16"}}}}}
	const nothing = "none of 40 packets was answered"
	for name, test := range map[string]struct {
		policies policy.Facts
		want     string
	}{
		"in the pod's namespace": {policy.Facts{Policies: []networkingv1.NetworkPolicy{deny}}, nothing + "; NetworkPolicy liqo-tenant-rome-by-liqoctl/default-deny drops it: no address range there has 240.160.0.0/16"},
		"in another":             {policy.Facts{Policies: []networkingv1.NetworkPolicy{elsewhere}}, nothing},
		"with the range":         {policy.Facts{Policies: []networkingv1.NetworkPolicy{open}}, nothing},
		"unknown":                {policy.Facts{Unknown: "forbidden"}, nothing},
	} {
		v, err := engine.VerifyPair(t.Context(), c[0], guarded{c[1], test.policies}, engine.VerifyRequest{Now: p.Now}, func(flows.Side, string) {})
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Directions[flows.A].Problem; got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		if got := v.Directions[flows.B].Problem; got != "" {
			t.Errorf("%s: the other direction: %q", name, got)
		}
	}
}
