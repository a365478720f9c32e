package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testLab(change ...func(*Lab)) Lab {
	l := Lab{
		Dir: "/run/test", Name: "lab", WAN: netip.MustParsePrefix(defaultWAN),
		Clusters: []string{"rome", "milan"}, Nodes: 1, LB: lbServed, Images: "/images",
	}
	for _, c := range change {
		c(&l)
	}
	return l
}

func TestAddressesFollowThePlan(t *testing.T) {
	l := testLab(func(l *Lab) { l.Nodes, l.NAT = 2, []string{"milan"} })
	plan := l.Plan()
	rome, milan := plan[0], plan[1]
	for _, tt := range []struct {
		what string
		got  any
		want string
	}{
		{"rome-1", rome.Nodes[0].Address, "172.30.0.11"},
		{"rome-2", rome.Nodes[1].Address, "172.30.0.21"},
		{"rome's gateway", rome.Gateway, "172.30.0.254"},
		{"rome's load balancers", rome.LBs, "172.30.0.112/28"},
		{"rome's API server", rome.APIServer(), "https://172.30.0.11:6443"},
		{"milan's router outside", milan.Public, "172.30.0.12"},
		{"milan's router inside", milan.Gateway, "192.168.102.1"},
		{"milan-1", milan.Nodes[0].Address, "192.168.102.12"},
		{"milan's load balancers", milan.LBs, "192.168.102.128/28"},
		{"pods of rome-1", rome.Nodes[0].PodCIDR, "10.244.0.0/24"},
		{"pods of rome-2", rome.Nodes[1].PodCIDR, "10.244.1.0/24"},
		{"pods of milan-2", milan.Nodes[1].PodCIDR, "10.244.1.0/24"},
	} {
		if got := sprint(tt.got); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.what, got, tt.want)
		}
	}
}

func TestClustersMayHaveOtherNetworks(t *testing.T) {
	several := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/17"), netip.MustParsePrefix("10.200.0.0/16")}
	l := testLab(func(l *Lab) {
		l.Nodes = 3
		l.CNI, l.Proxy = map[string]string{"milan": cniPTP}, map[string]string{"milan": proxyIPTables}
		l.Pods = map[string][]netip.Prefix{"milan": several}
	})
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	rome, milan := l.Plan()[0], l.Plan()[1]
	if rome.CNI != cniBridge || rome.Proxy != proxyNFTables || milan.CNI != cniPTP || milan.Proxy != proxyIPTables {
		t.Errorf("got %+v and %+v", rome, milan)
	}
	for i, want := range []string{"10.244.0.0/24", "10.200.1.0/24", "10.244.2.0/24"} {
		if got := milan.Nodes[i].PodCIDR.String(); got != want {
			t.Errorf("pods of milan-%d: got %s, want %s", i+1, got, want)
		}
	}
}

func TestClustersMayHaveBothFamilies(t *testing.T) {
	l := testLab(func(l *Lab) { l.Nodes, l.IPv6 = 2, map[string]string{"rome": ipv6Second, "milan": ipv6First} })
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"[172.30.0.21 fd1b:1e00:1::2] fd00:10:244:1::/64 fd1b:1e00:1::fe",
		"[fd1b:1e00:2::2 172.30.0.22] fd00:10:244:1::/64 fd1b:1e00:2::fe",
	} {
		c := l.Plan()[i]
		n := c.Nodes[1]
		if got := fmt.Sprint(c.addresses(n), n.PodCIDR6, c.gateway6()); got != want {
			t.Errorf("%s: got %s, want %s", n.Name, got, want)
		}
	}
}

func TestNoTwoThingsShareAnAddressInTheLargestLab(t *testing.T) {
	l := testLab(func(l *Lab) {
		l.Nodes, l.Clusters = maxNodes, strings.Split("a b c d e f g h", " ")
	})
	if len(l.Clusters) != maxClusters {
		t.Fatalf("test has %d clusters, want %d", len(l.Clusters), maxClusters)
	}
	seen := map[netip.Addr]string{l.hostAddress(): "host", l.wanRouter(): "router"}
	take := func(a netip.Addr, what string) {
		if !l.WAN.Contains(a) {
			t.Errorf("%s: %s is not in %s", what, a, l.WAN)
		}
		if other := seen[a]; other != "" {
			t.Errorf("%s and %s: both have %s", what, other, a)
		}
		seen[a] = what
	}
	for _, c := range l.Plan() {
		for _, n := range c.Nodes {
			take(n.Address, n.Name)
		}
		for a := c.LBs.Addr(); c.LBs.Contains(a); a = a.Next() {
			take(a, "load balancer of "+c.Name)
		}
	}
}

func TestLabsSideBySideHaveDifferentPrivateNetworks(t *testing.T) {
	nat := func(wan string) string {
		l := testLab(func(l *Lab) { l.WAN, l.NAT = netip.MustParsePrefix(wan), l.Clusters })
		return l.Plan()[0].Subnet.String()
	}
	if a, b := nat("172.30.0.0/24"), nat("172.31.0.0/24"); a == b {
		t.Errorf("both labs use %s", a)
	}
}

func TestFlagsThatCannotWorkAreRefused(t *testing.T) {
	if err := testLab().Validate(); err != nil {
		t.Errorf("the default lab: %v", err)
	}
	for name, tt := range map[string]struct {
		change func(*Lab)
		want   string
	}{
		"no cluster":           {func(l *Lab) { l.Clusters = nil }, "--clusters: 0"},
		"cluster twice":        {func(l *Lab) { l.Clusters = []string{"a", "a"} }, "given twice"},
		"name too long":        {func(l *Lab) { l.Clusters = []string{"abcdefghijklm"} }, "at most 12"},
		"name not a host name": {func(l *Lab) { l.Clusters = []string{"a-b"} }, "--clusters \"a-b\""},
		"name of the router":   {func(l *Lab) { l.Clusters = []string{"wan"} }, "taken"},
		"name of a folder":     {func(l *Lab) { l.Clusters = []string{"bin"} }, "taken"},
		"no node":              {func(l *Lab) { l.Nodes = 0 }, "--nodes 0"},
		"ten nodes":            {func(l *Lab) { l.Nodes = 10 }, "--nodes 10"},
		"NAT of a stranger":    {func(l *Lab) { l.NAT = []string{"paris"} }, "--nat \"paris\""},
		"MTU of a modem":       {func(l *Lab) { l.MTU = 576 }, "--mtu 576"},
		"MTU above the links'": {func(l *Lab) { l.MTU = 9000 }, "--mtu 9000"},
		"unknown lb":           {func(l *Lab) { l.LB = "off" }, "--lb \"off\""},
		"IPv6 of a stranger":   {func(l *Lab) { l.IPv6 = map[string]string{"paris": ipv6First} }, "--ipv6 paris=first: no such cluster"},
		"IPv6 alone":           {func(l *Lab) { l.IPv6 = map[string]string{"rome": "only"} }, "--ipv6 rome=only: want first or second"},
		"IPv6 with Calico": {func(l *Lab) {
			l.IPv6, l.CNI = map[string]string{"rome": ipv6First}, map[string]string{"rome": cniCalico}
		}, "--ipv6 rome: want the network plugin bridge or ptp"},
		"IPv6 behind NAT":  {func(l *Lab) { l.IPv6, l.NAT = map[string]string{"rome": ipv6First}, []string{"rome"} }, "--ipv6 rome: this cluster is behind NAT"},
		"host bits in WAN": {func(l *Lab) { l.WAN = netip.MustParsePrefix("172.30.0.1/24") }, "--wan"},
		"WAN too large":    {func(l *Lab) { l.WAN = netip.MustParsePrefix("172.30.0.0/16") }, "--wan"},
		"unknown plugin":   {func(l *Lab) { l.CNI = map[string]string{"rome": "weave"} }, "want one of bridge"},
		"unknown mode":     {func(l *Lab) { l.CNI = map[string]string{"rome": "cilium:kpr+geneve"} }, "want cilium:kpr+"},
		"mode of another":  {func(l *Lab) { l.CNI = map[string]string{"rome": "calico:kpr"} }, "want cilium:kpr+"},
	} {
		t.Run(name, func(t *testing.T) {
			err := testLab(tt.change).Validate()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestNodesAreFoundByNameNumberAndDefault(t *testing.T) {
	c, err := testLab(func(l *Lab) { l.Nodes = 2 }).Cluster("milan")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "milan-1", "2": "milan-2", "milan-2": "milan-2"} {
		if n, err := c.Node(name); err != nil || n.Name != want {
			t.Errorf("node %q: got %s, %v, want %s", name, n.Name, err, want)
		}
	}
	for _, name := range []string{"3", "rome-1", "milan"} {
		if n, err := c.Node(name); err == nil {
			t.Errorf("node %q: got %s, want an error", name, n.Name)
		}
	}
}

func TestLabSurvivesItsFile(t *testing.T) {
	l := testLab(func(l *Lab) { l.Dir, l.MTU, l.NAT = t.TempDir(), 1400, []string{"rome"} })
	if err := l.write(); err != nil {
		t.Fatal(err)
	}
	got, err := readLab(l.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if sprint(got) != sprint(l) {
		t.Errorf("got %v, want %v", got, l)
	}
	if _, err := readLab(filepath.Join(l.Dir, "none")); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("no lab: got %v, want one that is os.ErrNotExist", err)
	}
}

func TestOnlyAFolderOfItsOwnIsUsedAndRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	if err := checkDir(dir); err != nil {
		t.Errorf("no folder: %v", err)
	}
	l := testLab(func(l *Lab) { l.Dir = dir })
	for _, sub := range []string{"bin", "rome/pki", "milan-1/log"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkDir(dir); err == nil {
		t.Error("a folder of someone else: got no error")
	}
	if err := l.write(); err != nil {
		t.Fatal(err)
	}
	if err := checkDir(dir); err != nil {
		t.Errorf("a lab's folder: %v", err)
	}
	treasure := filepath.Join(dir, "treasure")
	if err := os.WriteFile(treasure, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.removeState(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "treasure" {
		t.Errorf("left in the folder: %v, %v, want treasure alone", entries, err)
	}
	if err := os.Remove(treasure); err != nil {
		t.Fatal(err)
	}
	if err := l.removeState(); err != nil || exists(dir) {
		t.Errorf("the empty folder: %v, still there: %v", err, exists(dir))
	}
}

func TestANodeWithCalicoIsToldItsPool(t *testing.T) {
	l := testLab(func(l *Lab) {
		l.Nodes, l.CNI = 2, map[string]string{"rome": cniCalico}
		l.Pods = map[string][]netip.Prefix{"rome": {netip.MustParsePrefix("10.244.0.0/17"), netip.MustParsePrefix("10.200.0.0/16")}}
	})
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	rome := l.Plan()[0]
	for i, node := range rome.Nodes {
		spec := l.spec(rome, node, supplies{calico: "/calico"})
		files, err := spec.configFiles()
		if err != nil {
			t.Fatal(err)
		}
		if _, early := files[cniConfigFile]; early {
			t.Errorf("%s: pods would start before the node has joined", node.Name)
		}
		var setup struct {
			Pools []string
			Pool  int
			CRDs  string
		}
		if err := json.Unmarshal(files[spec.config("calico.json")], &setup); err != nil {
			t.Fatal(err)
		}
		if setup.Pool != i || len(setup.Pools) != 2 || setup.CRDs != "/calico/crds" {
			t.Errorf("%s: got %+v, want pool %d of both", node.Name, setup, i)
		}
	}
}

func TestModesOfCiliumAreItsSettings(t *testing.T) {
	for cni, want := range map[string]struct{ proxy, ipam, routing, native string }{
		"cilium":                      {proxyNFTables, "cluster-pool", "tunnel", ""},
		"cilium:kpr":                  {proxyNone, "cluster-pool", "tunnel", ""},
		"cilium:native+nodecidr":      {proxyNFTables, "kubernetes", "native", podNetwork},
		"cilium:multipool+native+kpr": {proxyNone, "multi-pool", "native", ciliumPool},
	} {
		l := testLab(func(l *Lab) { l.CNI = map[string]string{"rome": cni} })
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		rome := l.Plan()[0]
		spec := l.spec(rome, rome.Nodes[0], supplies{cilium: "/cilium"})
		files, err := spec.configFiles()
		if err != nil {
			t.Fatal(err)
		}
		if _, early := files[cniConfigFile]; early {
			t.Errorf("%s: pods would start before the agent is ready", cni)
		}
		var setup struct {
			Settings map[string]string
			Sources  string
		}
		if err := json.Unmarshal(files[spec.config("cilium.json")], &setup); err != nil {
			t.Fatal(err)
		}
		s := setup.Settings
		got := struct{ proxy, ipam, routing, native string }{spec.Proxy, s["ipam"], s["routing-mode"], s["ipv4-native-routing-cidr"]}
		if got != want || setup.Sources != "/cilium/bpf" {
			t.Errorf("%s: got %+v and sources in %s, want %+v", cni, got, setup.Sources, want)
		}
	}
}

func TestPodsOfAVPCHaveSingleAddresses(t *testing.T) {
	l := testLab(func(l *Lab) { l.CNI, l.Nodes = map[string]string{"rome": cniVPC}, 3 })
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	node := map[netip.Addr]string{}
	for _, n := range l.Plan()[0].Nodes {
		for _, a := range n.Singles {
			if other := node[a]; other != "" {
				t.Errorf("%s is of %s and of %s", a, other, n.Name)
			}
			node[a] = n.Name
		}
	}
	for a, name := range node {
		if node[a.Next()] == name {
			t.Errorf("%s and the next address are both of %s: one prefix would do", a, name)
		}
	}
}
