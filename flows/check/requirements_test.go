package check_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/render"
)

func machine(name, kernel string, cpus, memory int64) flows.NodeFacts {
	return flows.NodeFacts{Name: name, Ready: true, Kernel: kernel, CPUs: cpus, Memory: memory}
}

func TestWhatAClusterNeedsIsCheckedBefore(t *testing.T) {
	windows := flows.NodeFacts{Name: "win", Ready: true, Excluded: "runs windows", Kernel: "10.0.17763", CPUs: 64000, Memory: 64 << 30}
	for _, tc := range []struct {
		name    string
		id      flows.Code
		version string
		nodes   []flows.NodeFacts
		want    check.Outcome
		says    string
		absent  bool
	}{
		{name: "release", id: check.Release, version: "v1.36.4", absent: true},
		{name: "release of a provider", id: check.Release, version: "v1.35.2-eks-113cf36", absent: true},
		{name: "older", id: check.Release, version: "v1.31.9+k3s1", want: check.Warn, says: "v1.31.9+k3s1 is older"},
		{name: "newer", id: check.Release, version: "v1.38.0", want: check.Warn, says: "v1.38.0 is newer"},
		{name: "unknown", id: check.Release, version: "v2", absent: true},

		{name: "kernel", id: flows.CodeKernel, nodes: []flows.NodeFacts{machine("m1", "5.10.0-28-amd64", 0, 0), windows}, want: check.Pass, says: "m1 5.10.0-28-amd64"},
		{name: "kernel of 6", id: flows.CodeKernel, nodes: []flows.NodeFacts{machine("m1", "6.1.0", 0, 0)}, want: check.Pass, says: "6.1.0"},
		{name: "one old kernel", id: flows.CodeKernel, nodes: []flows.NodeFacts{machine("m1", "5.4.0-150", 0, 0), machine("m2", "6.6.87.2-microsoft-standard-WSL2", 0, 0)}, want: check.Warn, says: "older than 5.10: m1 5.4.0-150"},
		{name: "only old kernels", id: flows.CodeKernel, nodes: []flows.NodeFacts{machine("m1", "4.18.0-513.el8", 0, 0), windows}, want: check.Fail, says: "no node of milan can host a gateway, which needs Linux 5.10: m1 4.18.0-513.el8"},
		{name: "kernels unknown", id: flows.CodeKernel, absent: true},

		{name: "room", id: check.Room, nodes: []flows.NodeFacts{machine("m1", "", 1000, 1<<30), machine("m2", "", 1000, 1<<30)}, want: check.Pass, says: "2 CPUs, 2.1 GB"},
		{name: "a machine of 2 GB", id: check.Room, nodes: []flows.NodeFacts{machine("pi", "", 4000, 1_900_000_000)}, want: check.Pass, says: "4 CPUs, 1.9 GB"},
		{name: "one CPU", id: check.Room, nodes: []flows.NodeFacts{machine("m1", "", 1000, 4<<30), windows}, want: check.Warn, says: "1 CPUs, 4.3 GB of memory: 2 CPUs and 2 GB are advised"},
		{name: "little memory", id: check.Room, nodes: []flows.NodeFacts{machine("m1", "", 4000, 1<<30)}, want: check.Warn, says: "1.1 GB"},
		{name: "room unknown", id: check.Room, absent: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.B.Be(func(f *flows.ClusterFacts) {
				f.Nodes = tc.nodes
				if tc.version != "" {
					f.Version = tc.version
				}
			})
			results := check.Preflight(nodePort(), factsOf(pair), [2]*rights.Review{})
			i := slices.IndexFunc(results, func(r check.Result) bool { return r.ID == tc.id && r.Sides[0] == flows.B })
			if i < 0 || tc.absent {
				if !tc.absent || i >= 0 {
					t.Errorf("got\n%s", text(results))
				}
				return
			}
			if r := results[i]; r.State != tc.want || !strings.Contains(r.Summary, tc.says) {
				t.Errorf("got %s, want %s and %q", text(results[i:i+1]), tc.want, tc.says)
			}
		})
	}
}

// A side has a finding if its API server refuses an object of the plan. It has none if the API server accepts
// the objects, or was not asked.
func TestWhatPoliciesRefuseIsAFinding(t *testing.T) {
	f := factsOf(flowtest.NewPair())
	reviews := [2]*rights.Review{{User: "ada"}, {User: "ada"}}
	find := func() (found []check.Result) {
		for _, r := range check.Preflight(nodePort(), f, reviews) {
			if r.ID == check.Admission {
				found = append(found, r)
			}
		}
		return found
	}
	if got := find(); len(got) != 0 {
		t.Errorf("nobody asked: got %s", text(got))
	}
	plan := flows.PlanConnect(nodePort(), f)
	f.Tried = &plan
	if got := find(); len(got) != 2 || got[0].State != check.Inconclusive || got[1].State != check.Inconclusive {
		t.Errorf("no answer of an API server: got %s", text(got))
	}
	for i := range plan.Steps {
		plan.Steps[i].Tried = plan.Steps[i].Status == flows.Ready
	}
	if got := find(); len(got) != 2 || got[0].State != check.Pass || got[1].State != check.Pass {
		t.Errorf("nothing is refused: got %s", text(got))
	}
	for i := range plan.Steps {
		if s := &plan.Steps[i]; s.ID == flows.IDOf(flows.B, "namespace") {
			s.Fail(flows.FailedApply, flows.CodeRefused, `admission webhook "names.example" denied the request: namespaces begin with team-`)
		}
	}
	if got := find(); len(got) != 2 || got[0].State != check.Pass || got[1].State != check.Fail || !strings.Contains(got[1].Summary, "namespaces begin with team-") {
		t.Errorf("one is refused: got %s", text(got))
	}
}

// If no gateway can run on a cluster, connect, init and install apply nothing. A connection can still be
// removed.
func TestOldKernelsStopBeforeAnythingIsApplied(t *testing.T) {
	pair := flowtest.NewPair()
	old := func(f *flows.ClusterFacts) { f.Nodes = []flows.NodeFacts{machine("m1", "4.18.0-513.el8", 0, 0)} }
	pair.B.Be(old)
	f := factsOf(pair)
	there := flows.Facts{Sides: [2]flows.ClusterFacts{f.Sides[flows.B]}, At: f.At}
	bare := there
	bare.Sides[flows.A].Software, bare.Sides[flows.A].HasCRDs, bare.Sides[flows.A].ID = flows.NoSoftware, false, ""
	for name, plan := range map[string]flows.Plan{
		"connect": flows.PlanConnect(nodePort(), f),
		"init":    flows.PlanInit(nodePort(), f),
		"install": install.Plan(render.InstallParams{ClusterID: "milan", Image: "registry.example/gw:1"}, bare),
	} {
		if s := plan.Failure(); s == nil || s.Code != flows.CodeKernel || !strings.Contains(s.Reason, "m1 4.18.0-513.el8") || len(plan.Steps) != 1 {
			t.Errorf("%s: got %+v", name, plan.Steps)
		}
	}
	if s := flows.PlanReset(flows.RemoveOptions{}, f).Failure(); s != nil {
		t.Errorf("reset is refused: %+v", s)
	}
}

// The check calls those releases tested that the tests run: the lab's release, and those of the other API
// servers.
func TestTheTestedReleasesAreThose(t *testing.T) {
	minors, err := filepath.Glob("../../testdata/kubernetes/1.*")
	if err != nil {
		t.Fatal(err)
	}
	for i, folder := range minors {
		minors[i] = filepath.Base(folder)
	}
	module, err := os.ReadFile("../../testdata/lab/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	lab := regexp.MustCompile(`(?m)^require k8s\.io/kubernetes v(1\.\d+)`).FindSubmatch(module)
	if lab == nil {
		t.Fatal("testdata/lab/go.mod names no release of Kubernetes")
	}
	minors = append(minors, string(lab[1]))
	slices.Sort(minors)
	pair := flowtest.NewPair()
	pair.A.Be(func(f *flows.ClusterFacts) { f.Version = "v1.20.0" })
	r := find(t, check.Preflight(nodePort(), factsOf(pair), [2]*rights.Review{}), check.Release)
	if want := "tested with, " + minors[0] + " to " + minors[len(minors)-1] + ":"; !strings.Contains(r.Summary, want) || len(minors) != 3 {
		t.Errorf("got %q, want %q, of %q", r.Summary, want, minors)
	}
}

// The plan chooses settings that the admin left out by the clusters' facts, and says why.
func TestWhatFactsDecideUnasked(t *testing.T) {
	at := func(internal, external string) []flows.NodeFacts {
		return []flows.NodeFacts{node("n1", internal, external)}
	}
	for _, tc := range []struct {
		name       string
		a, b       []flows.NodeFacts
		balancersB flows.LoadBalancerFacts
		given      flows.Fields
		service    corev1.ServiceType
		server     flows.Side
	}{
		{name: "nothing is known", service: corev1.ServiceTypeNodePort, server: flows.B},
		{name: "load balancers get addresses", balancersB: flows.LoadBalancerFacts{Answered: 1}, service: corev1.ServiceTypeLoadBalancer, server: flows.B},
		{name: "load balancers wait", balancersB: flows.LoadBalancerFacts{Pending: 1}, service: corev1.ServiceTypeNodePort, server: flows.B},
		{name: "a service type was given", given: flows.FieldServiceType, service: corev1.ServiceTypeLoadBalancer, server: flows.B},
		{name: "a node port was given", given: flows.FieldNodePort, service: corev1.ServiceTypeLoadBalancer, server: flows.B},
		{name: "only the local cluster can be dialled", a: at("10.0.0.4", "203.0.113.4"), b: at("10.9.0.4", ""), service: corev1.ServiceTypeNodePort, server: flows.A},
		{name: "the remote one is behind a carrier's NAT", a: at("203.0.113.4", ""), b: at("100.64.0.4", ""), service: corev1.ServiceTypeNodePort, server: flows.A},
		{name: "the remote one has a load balancer", a: at("10.0.0.4", "203.0.113.4"), b: at("10.9.0.4", ""), balancersB: flows.LoadBalancerFacts{Answered: 1}, service: corev1.ServiceTypeLoadBalancer, server: flows.B},
		{name: "both can be dialled", a: at("10.0.0.4", "203.0.113.4"), b: at("10.9.0.4", "203.0.113.9"), service: corev1.ServiceTypeNodePort, server: flows.B},
		{name: "neither can", a: at("10.0.0.4", ""), b: at("10.9.0.4", ""), service: corev1.ServiceTypeNodePort, server: flows.B},
		{name: "in one network", a: at("10.9.0.7", "203.0.113.4"), b: at("10.9.0.4", ""), service: corev1.ServiceTypeNodePort, server: flows.B},
		{name: "a place was given", given: flows.FieldServer, a: at("10.0.0.4", "203.0.113.4"), b: at("10.9.0.4", ""), service: corev1.ServiceTypeNodePort, server: flows.B},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.A.Be(func(f *flows.ClusterFacts) { f.Nodes = tc.a })
			pair.B.Be(func(f *flows.ClusterFacts) { f.Nodes, f.LoadBalancers = tc.b, tc.balancersB })
			f, p := factsOf(pair), flows.Defaults()
			p.Given = tc.given
			open := p.Undecided(f)
			for _, s := range flows.Settings() {
				if s.Auto && s.Sets != 0 && open.Has(s.Sets) {
					if why := flows.Suggest(s, &p, f); why == "" {
						t.Errorf("--%s is decided without a reason", s.Name)
					}
				}
			}
			if p.ServiceType != tc.service || p.Server != tc.server {
				t.Errorf("got %s on %s, want %s on %s", p.ServiceType, p.Server, tc.service, tc.server)
			}
		})
	}
}

func TestAddressesThatNobodyFromOutsideReaches(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2600::1": true, "::ffff:8.8.8.8": true, "10.1.2.3": false, "172.31.0.1": false, "192.168.1.1": false, "fd00::1": false,
		"100.64.0.1": false, "100.127.255.254": false, "100.128.0.1": true, "169.254.1.1": false, "127.0.0.1": false, "198.18.0.1": false, "240.0.0.1": false, "0.0.0.0": false, "fe80::1": false,
	} {
		if got := ipam.Public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %v, want %v", address, got, want)
		}
	}
}
