package check_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/render"
)

// The goldens contain the findings that the trials of test pods before a connection decide.
func TestTrialsAreJudged(t *testing.T) {
	installs := func(p *flows.Params) {
		i, err := install.New(render.InstallParams{ClusterID: "milan", Image: "registry.example.org/liqo-gateway:v1"})
		if err != nil {
			panic(err)
		}
		p.Install[flows.B] = i
	}
	for name, tc := range map[string]struct {
		a, b   flowtest.Behaviour
		bare   bool
		params func(*flows.Params)
	}{
		"open":            {},
		"open-wide-mtu":   {params: func(p *flows.Params) { p.MTU = 1460 }},
		"closed-there":    {b: flowtest.Behaviour{Firewalled: true}, params: func(p *flows.Params) { p.NodePort = 31840 }},
		"closed-any-port": {a: flowtest.Behaviour{Firewalled: true}, b: flowtest.Behaviour{Firewalled: true}},
		"closed-back":     {b: flowtest.Behaviour{Mute: true}, a: flowtest.Behaviour{NoPods: ""}, params: func(p *flows.Params) { p.NodePort = 31840 }},
		"no-pods":         {a: flowtest.Behaviour{NoPods: `create Job default/liqo-tui-probe-1: jobs.batch is forbidden: user "ada" cannot create resource "jobs"`}},
		"no-balancer":     {b: flowtest.Behaviour{LoadBalancerPending: true}, params: func(p *flows.Params) { p.ServiceType = corev1.ServiceTypeLoadBalancer }},
		"no-api":          {b: flowtest.Behaviour{APIProblem: "dial tcp 127.0.0.1:6443: connect: connection refused"}},
		"image":           {bare: true, params: installs},
		"image-missing":   {bare: true, params: installs, b: flowtest.Behaviour{ImageFails: "ErrImagePull: not found"}},
		"image-foreign":   {bare: true, params: installs, b: flowtest.Behaviour{ImageFails: "it ended at once: exit status 255: exec /liqo-gateway: exec format error"}},
		"image-unknown":   {bare: true, params: installs, b: flowtest.Behaviour{ImageUnknown: `user "ada" cannot create jobs in default`}},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.A.Be(func(f *flows.ClusterFacts) {
				f.Nodes = []flows.NodeFacts{{Name: "r1", Ready: true, Internal: []netip.Addr{netip.MustParseAddr("192.168.7.4")}}}
			})
			pair.B.Be(func(f *flows.ClusterFacts) {
				f.Nodes = []flows.NodeFacts{{Name: "m1", Ready: true, Internal: []netip.Addr{netip.MustParseAddr("10.9.0.4")}}}
			})
			if tc.bare {
				pair.B.Bare()
			}
			pair.A.Behave(func(b *flowtest.Behaviour) { *b = tc.a })
			pair.B.Behave(func(b *flowtest.Behaviour) { *b = tc.b })
			params := nodePort()
			if tc.params != nil {
				tc.params(&params)
			}
			f := factsOf(pair)
			var answers engine.Answers
			trials := flows.PlanConnect(params, f).Trials(f)
			if err := answers.Ask(t.Context(), &f, [2]engine.Cluster{pair.A, pair.B}, trials...); err != nil || len(trials) > 0 != tc.bare {
				t.Fatalf("images: got %v, %v", trials, err)
			}
			if !tc.bare {
				reach, err := engine.TryReach(t.Context(), params, f, pair.A, pair.B, "", pair.Now)
				if err != nil {
					t.Fatal(err)
				}
				f.Reach = &reach
			}
			var decided []check.Result
			for _, r := range check.Preflight(params, f, [2]*rights.Review{}) {
				if slices.Contains([]flows.Code{flows.CodeImage, check.Reachability, check.APIReached, check.TunnelMTU}, r.ID) {
					decided = append(decided, r)
				}
			}
			golden.Compare(t, "trial-"+name+".txt", text(decided))
		})
	}
}

// A build without a published image has none to try.
func TestAnImageThatNobodyNamedFails(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Bare()
	i, err := install.New(render.InstallParams{ClusterID: "milan"})
	if err != nil {
		t.Fatal(err)
	}
	params := nodePort()
	params.Install[flows.B] = i
	got := text(slices.DeleteFunc(check.Preflight(params, factsOf(pair), [2]*rights.Review{}), func(r check.Result) bool { return r.State != check.Fail }))
	if !strings.Contains(got, "LT-P009") || !strings.Contains(got, "no published image") || strings.Count(got, "LT-P") != 1 {
		t.Errorf("got %s", got)
	}
}

// Without a trial, there is no finding about it.
func TestWhatNobodyTriedIsNoFinding(t *testing.T) {
	if got := text(check.Preflight(nodePort(), factsOf(flowtest.NewPair()), [2]*rights.Review{})); strings.Contains(got, "LT-P009") || strings.Contains(got, "LT-P022") {
		t.Errorf("got %s", got)
	}
}
