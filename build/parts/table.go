package main

import (
	"path"
	"regexp"
	"strings"
)

// seeds is the number of runs, with consecutive seeds, that run all sampled parts.
const seeds = 3

// part is a part of the tests, with its conditions and needs.
type part struct {
	name  string
	title string

	// One of these fields decides whether `make test` runs the part.
	always  bool
	group   uint64 // runs with seeds that leave this remainder when divided by seeds
	allOnly bool   // runs only in `make test-all`

	thirds bool // each run that takes the part takes a third of its tests
	// Time that the part took on a machine with two cores, with all programs built. A run
	// compares its own times with these, and knows which parts it has no time for.
	seconds int

	programs []string       // make targets that its tests use, in addition to those of every lab
	sources  []string       // files that only this part uses, in addition to those of its tests
	needs    string         // "root", "bpf", or "vm"
	tests    *regexp.Regexp // matches the names of its tests, in the program's module; nil: the part takes the other tests, by its name
	cases    string         // the -run expression for a test whose cases are separate parts
}

// lab is the target for tests in clusters on this machine.
var lab = []string{"lab"}

// parts returns the parts in the order in which they run. The groups take about the same
// time. Other projects' programs take minutes to build on an empty cache, so each group
// needs only two that are not used in every run: an API server and Liqo (with its
// liqoctl), Calico and flannel, another API server and Cilium. Each run has API servers
// of one minor version.
func parts(minors []string) []part {
	all := []part{
		{name: "unit", title: "unit tests, golden files, the command line, kernel tests in network namespaces", seconds: 364, always: true, programs: []string{"deps"}},
		{name: "api", title: "tests against API servers of the lab's Kubernetes", seconds: 854, group: 1, programs: []string{"bin/kubernetes"}},
	}
	for i, minor := range minors {
		all = append(all, part{
			name: "api-" + minor, title: "tests against API servers of Kubernetes " + minor, seconds: 854, group: uint64(2*i) % seeds, //nolint:gosec // an index
			programs: []string{"bin/kubernetes", "bin/kubernetes-" + minor}, sources: []string{"testdata/kubernetes/" + minor},
		})
	}
	return append(all,
		part{name: "modules", title: "tests of the DNS server, the lab, the image, the chart, the release and the alert rules", seconds: 54, always: true, programs: []string{"bin/image"}},
		part{name: "vm", title: "kernel tests again, in a virtual machine with the kernel's WireGuard", seconds: 197, always: true, thirds: true, needs: "vm", programs: []string{"deps"}},
		part{ // gets a group when it is known why, in one of eight runs, a test sees refused packets (docs/requirements.md)
			name: "vm-5.10", title: "kernel tests again, with the oldest kernel that is promised, Linux 5.10", seconds: 600, needs: "vm", allOnly: true,
			programs: []string{"deps"},
		},
		part{name: "two-clusters", title: "end-to-end tests in a lab of two clusters", seconds: 297, always: true, needs: "root", programs: lab, tests: names(`TestLab.*`)},
		part{name: "lending", title: "end-to-end tests of pods that run in the other of two clusters, and of the wizard", seconds: 329, needs: "root", group: 0, programs: lab, tests: names(`TestLabLending|TestLabWizard`)},
		part{name: "commands", title: "end-to-end tests of each command and each template in two clusters", seconds: 300, needs: "root", group: 2, programs: lab, tests: names(`TestLabCommands|TestLabTemplates`)},
		part{
			name: "services", title: "end-to-end tests of Services that two clusters export to each other, and of their names", seconds: 278, needs: "root", group: 1,
			programs: append([]string{"bin/kubeadm", "bin/coredns.tar", "bin/resolve.tar"}, lab...), sources: []string{"testdata/coredns", "testdata/resolve"},
			tests: names(`TestLabServices`),
		},
		part{name: "faults", title: "end-to-end tests of faults that the dashboard watches in two clusters", seconds: 134, needs: "root", group: 2, programs: lab, tests: names(`TestLabDashboardWatchesFaults`)},
		part{
			name: "liqoctl", title: "tests with the released liqoctl", seconds: 240, needs: "root", group: 0,
			programs: append([]string{"bin/kubernetes", "bin/liqoctl"}, lab...), tests: names(`TestLiqoctl|TestLabLiqoctl|TestLabByHand`),
		},
		part{
			name: "liqo", title: "end-to-end tests beside Liqo's own controllers", seconds: 420, needs: "root", group: 0,
			programs: append([]string{"bin/liqo-1.2/version", "bin/liqoctl"}, lab...), sources: []string{"testdata/liqo/1.2", "testdata/liqo/vxlan.go", "build/liqo.sh"},
			tests: names(`TestBesideLiqo`), cases: "^TestBesideLiqo$/^v1.2_and_v1.2$",
		},
		part{
			name: "liqo-1.1", title: "end-to-end tests beside Liqo's own controllers of two releases", seconds: 420, needs: "root", allOnly: true,
			programs: append([]string{"bin/liqo-1.2/version", "bin/liqo-1.1/version", "bin/liqoctl"}, lab...), sources: []string{"testdata/liqo/1.1"},
			tests: names(`TestBesideLiqo`), cases: "^TestBesideLiqo$/^v1.2_and_v1.1$",
		},
		part{
			name: "three-clusters", title: "end-to-end tests in a lab of three clusters, with Calico and flannel", seconds: 586, needs: "root", group: 1,
			programs: append([]string{"bin/flanneld", "bin/calico", "bin/udptunnel.tar"}, lab...), sources: []string{"testdata/calico", "testdata/flannel", "testdata/udptunnel"},
			tests: names(`TestThreeClusters`),
		},
		part{
			name: "registry", title: "end-to-end tests of nodes that pull our image from a registry", seconds: 191, needs: "root", group: 2,
			programs: append([]string{"bin/registry", "bin/helm"}, lab...), sources: []string{"testdata/registry", "testdata/helm/go.mod"}, tests: names(`TestFromARegistry`),
		},
		part{
			name: "skew", title: "end-to-end tests with operators and gateways of earlier commits, and of upgrades under traffic", seconds: 372, needs: "root", group: 1,
			programs: append([]string{"bin/previous.tar", "bin/before.tar"}, lab...), sources: []string{"build/previous.sh"}, tests: names(`TestSkew`),
		},
		part{
			name: "nat", title: "end-to-end tests of clusters behind routers that translate addresses", seconds: 369, needs: "root", group: 2,
			programs: lab, tests: names(`TestBehindNAT`),
		},
		part{
			name: "families", title: "end-to-end tests of clusters with IPv4 and IPv6", seconds: 214, needs: "root", group: 0, programs: lab, tests: names(`TestBothFamilies`),
		},
		part{
			name: "cilium", title: "end-to-end tests of a cluster with Cilium", seconds: 206, needs: "bpf", group: 2,
			programs: append([]string{"bin/cilium"}, lab...), sources: []string{"testdata/cilium"}, tests: names(`TestCilium`),
		},
	)
}

func names(expression string) *regexp.Regexp { return regexp.MustCompile("^(" + expression + ")$") }

// modules has the modules whose tests are the part with the module's name.
var modules = []string{"cmd/liqo-tui-dns", "build/image", "build/release", "testdata/helm", "testdata/lab", "build/alerts"}

// inVM selects the tests that also run in the virtual machine, by package. From the
// first package, these are tests with a tunnel, because others are slow under emulation
// and find nothing new. From the second package, these are tests of the process around
// the tunnel: the kernel's tunnel continues after the process has ended, its port is
// changed by netlink, and its packets may be fragmented.
var inVM = []struct {
	pkg       string
	run, skip *regexp.Regexp
}{
	{
		pkg: "gateway/linux", run: regexp.MustCompile(`^Test`),
		skip: regexp.MustCompile(`DamageIs|RemoveLeaves|TextAndKernel|PrefixOf|UnderlayMTU|Releases|Configs|Machine|Leftovers|NotSpeak|NoRoom`),
	},
	{pkg: "gateway/tunnel", run: regexp.MustCompile(`^Test(ServerIsKilled$|ServersNode|BlackHole)`), skip: regexp.MustCompile(`^$`)},
}

// concerns reports whether file is in sources, or below one of them.
func concerns(sources []string, file string) bool {
	for _, s := range sources {
		if file == s || strings.HasPrefix(file, path.Clean(s)+"/") {
			return true
		}
	}
	return false
}
