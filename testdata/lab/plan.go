package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// All clusters have the same ranges on purpose: equal addresses on both sides are the
// hardest case for programs that connect clusters.
const (
	podNetwork     = "10.244.0.0/16" // node N of a cluster has 10.244.(N-1).0/24; see Lab.Pods
	serviceNetwork = "10.96.0.0/16"
	apiServiceIP   = "10.96.0.1"
	dnsServiceIP   = "10.96.0.10" // the kubelet gives it to pods; only `lab dns` makes a server there

	// The ranges of clusters that also have IPv6.
	podNetwork6     = "fd00:10:244::/48" // node N of a cluster has fd00:10:244:(N-1)::/64
	serviceNetwork6 = "fd00:10:96::/112"
	apiServiceIP6   = "fd00:10:96::1"

	apiPort = 6443
)

// The limits follow from the addresses: those of nodes end at 10*9+8, those of the 16
// load balancers of the eighth cluster at 239.
const (
	maxClusters = 8
	maxNodes    = 9
)

// Modes of services of type LoadBalancer.
const (
	lbServed  = "served"
	lbPending = "pending"
)

// Network plugins.
const (
	cniBridge  = "bridge"
	cniPTP     = "ptp" // routes to each pod, no bridge
	cniFlannel = "flannel"
	cniCalico  = "calico" // with its own IPAM: pods have no addresses in their node's podCIDR
	// cniVPC imitates clouds whose network knows each pod's address, such as AWS's VPC
	// CNI: the pods of all nodes have single addresses in one network. A packet that
	// leaves a node is dropped if its source is neither the node nor one of its pods.
	cniVPC    = "vpc"
	cniCilium = "cilium" // perhaps with modes
)

// Modes of kube-proxy.
const (
	proxyNFTables = "nftables"
	proxyIPTables = "iptables"
	proxyNone     = "none" // Cilium replaces it
)

// Places of IPv6 in a cluster with both families. The first family is used for the API
// server's Service, for pods' first addresses, and for Services that name no family.
const (
	ipv6First  = "first"
	ipv6Second = "second"
)

// Lab has the choices of `lab up`. It is stored in the state directory, so that the other
// commands need no flags.
type Lab struct {
	Dir      string       `json:"-"`
	Name     string       `json:"name"` // prefix of all names on the machine
	WAN      netip.Prefix `json:"wan"`  // a /24 in which all clusters see each other
	Clusters []string     `json:"clusters"`
	Nodes    int          `json:"nodes"` // per cluster
	NAT      []string     `json:"nat,omitempty"`
	MTU      int          `json:"mtu,omitempty"` // of the path between clusters; 0: the links' MTU, 1500
	LB       string       `json:"lb"`
	// For single clusters, by name. Other clusters have bridge, nftables and podNetwork.
	CNI    map[string]string         `json:"cni,omitempty"`
	Proxy  map[string]string         `json:"proxy,omitempty"`
	Pods   map[string][]netip.Prefix `json:"pods,omitempty"`
	Liqo   map[string]string         `json:"liqo,omitempty"` // the minor version, such as 1.2
	IPv6   map[string]string         `json:"ipv6,omitempty"` // first or second
	Images string                    `json:"images"`         // folder with the *.tar that every node imports
	// Loaded has the archives that `lab load` has imported. Nodes that are made again
	// need them.
	Loaded []string `json:"loaded,omitempty"`
}

// Cluster is one cluster of the address plan.
type Cluster struct {
	Name   string
	Behind bool       // behind a router that masquerades
	Public netip.Addr // on the WAN: the address of the first node or of the router
	// Subnet is the network of the nodes: the WAN, or a private network behind a router.
	Subnet  netip.Prefix
	Gateway netip.Addr   // the nodes' default route
	LBs     netip.Prefix // for services of type LoadBalancer: a /28 of Subnet
	CNI     string
	Modes   []string // of the network plugin
	Proxy   string
	Pods    []netip.Prefix // node N has a /24 of the N-th network; after the last one, the first follows again
	IPv6    string         // "": the cluster has only IPv4
	Subnet6 netip.Prefix   // the network of the nodes; zero without IPv6
	Nodes   []Node
}

// Node is one machine of a cluster. The first node runs the control plane.
type Node struct {
	Name    string
	Index   int // from 1
	Address netip.Addr
	PodCIDR netip.Prefix
	// The IPv6 address and range are zero in a cluster without IPv6.
	Address6 netip.Addr
	PodCIDR6 netip.Prefix
	// Singles are the addresses of its pods if they are not in PodCIDR.
	Singles []netip.Addr
}

// clusterName leaves room for "-9" in a network device's name of 15 bytes.
var clusterName = regexp.MustCompile(`^[a-z][a-z0-9]{0,11}$`)

// labName leaves room for "wan".
var labName = regexp.MustCompile(`^[a-z][a-z0-9]{0,11}$`)

// reservedNames returns the names that a namespace, a device or a file of the lab already
// has.
func reservedNames() []string {
	return []string{"all", "bin", "default", "host", "kubeconfig", "lo", "lock", "wan"}
}

// Validate reports all problems of the flags, joined.
func (l Lab) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(labName.MatchString(l.Name), "--name %q: want lower-case letters and digits, at most 12", l.Name)
	check(l.WAN.IsValid() && l.WAN.Addr().Is4() && l.WAN.Bits() == 24 && l.WAN == l.WAN.Masked(),
		"--wan %s: want an IPv4 network of /24", l.WAN)
	check(len(l.Clusters) > 0 && len(l.Clusters) <= maxClusters,
		"--clusters: %d clusters, want 1 to %d", len(l.Clusters), maxClusters)
	seen := map[string]bool{}
	for _, c := range l.Clusters {
		check(clusterName.MatchString(c), "--clusters %q: want lower-case letters and digits, at most 12", c)
		check(!slices.Contains(reservedNames(), c), "--clusters %q: this name is taken by the lab", c)
		check(!seen[c], "--clusters %q: given twice", c)
		seen[c] = true
	}
	check(l.Nodes >= 1 && l.Nodes <= maxNodes, "--nodes %d: want 1 to %d per cluster", l.Nodes, maxNodes)
	for _, c := range l.NAT {
		check(slices.Contains(l.Clusters, c), "--nat %q: no such cluster", c)
	}
	for c, cni := range l.CNI {
		check(slices.Contains(l.Clusters, c), "--cni %s=%s: no such cluster", c, cni)
		err := checkPlugin(cni)
		check(err == nil, "--cni %s=%s: %w", c, cni, err)
	}
	for c, mode := range l.Proxy {
		check(slices.Contains(l.Clusters, c), "--proxy %s=%s: no such cluster", c, mode)
		check(mode == proxyNFTables || mode == proxyIPTables, "--proxy %s=%s: want %s or %s", c, mode, proxyNFTables, proxyIPTables)
	}
	for c, pods := range l.Pods {
		check(slices.Contains(l.Clusters, c), "--pods %s: no such cluster", c)
		check(len(pods) == 1 || l.CNI[c] != cniFlannel, "--pods %s: flannel has one network", c)
		for _, p := range pods {
			check(p.Addr().Is4() && p.Bits() <= 20 && p == p.Masked(), "--pods %s=%s: want IPv4 networks of /20 or larger", c, p)
		}
	}
	for c, minor := range l.Liqo {
		check(slices.Contains(l.Clusters, c), "--liqo %s=%s: no such cluster", c, minor)
	}
	for c, place := range l.IPv6 {
		check(slices.Contains(l.Clusters, c), "--ipv6 %s=%s: no such cluster", c, place)
		check(place == ipv6First || place == ipv6Second, "--ipv6 %s=%s: want %s or %s", c, place, ipv6First, ipv6Second)
		cni, _ := plugin(cmp.Or(l.CNI[c], cniBridge))
		check(cni == cniBridge || cni == cniPTP, "--ipv6 %s: want the network plugin %s or %s, not %s", c, cniBridge, cniPTP, cni)
		check(!slices.Contains(l.NAT, c), "--ipv6 %s: this cluster is behind NAT, and the lab's routers translate IPv4 alone", c)
	}
	check(l.MTU == 0 || checkPathMTU(l.MTU) == nil, "--mtu %d: want 1280 to 1500", l.MTU)
	check(l.LB == lbServed || l.LB == lbPending, "--lb %q: want %s or %s", l.LB, lbServed, lbPending)
	return errors.Join(errs...)
}

// checkPathMTU refuses values that no path between clusters would have. Below 1280, pods'
// IPv6 sockets would fail, and the reason would be hard to find.
func checkPathMTU(mtu int) error {
	if mtu < 1280 || mtu > 1500 {
		return fmt.Errorf("path MTU %d: want 1280 to 1500", mtu)
	}
	return nil
}

// Plan gives every cluster and node its addresses. The lab must be valid.
func (l Lab) Plan() []Cluster {
	clusters := make([]Cluster, 0, len(l.Clusters))
	for i, name := range l.Clusters {
		index := i + 1
		c := Cluster{
			Name:    name,
			Public:  host(l.WAN, 10+index),
			Subnet:  l.WAN,
			Gateway: l.wanRouter(),
		}
		if slices.Contains(l.NAT, name) {
			c.Behind = true
			c.Subnet = l.private(index)
			c.Gateway = host(c.Subnet, 1)
		}
		c.LBs = netip.PrefixFrom(host(c.Subnet, 96+16*index), 28)
		c.CNI, c.Modes = plugin(cmp.Or(l.CNI[name], cniBridge))
		c.Proxy, c.Pods = cmp.Or(l.Proxy[name], proxyNFTables), l.Pods[name]
		if slices.Contains(c.Modes, ciliumKPR) {
			c.Proxy = proxyNone
		}
		if len(c.Pods) == 0 {
			c.Pods = []netip.Prefix{netip.MustParsePrefix(podNetwork)}
		}
		if c.IPv6 = l.IPv6[name]; c.IPv6 != "" {
			c.Subnet6 = l.subnet6(index)
		}
		for n := 1; n <= l.Nodes; n++ {
			node := Node{
				Name:    fmt.Sprintf("%s-%d", name, n),
				Index:   n,
				Address: host(c.Subnet, 10*n+index),
				PodCIDR: c.podCIDR(n),
				Singles: c.singles(n, l.Nodes),
			}
			if c.IPv6 != "" {
				node.Address6, node.PodCIDR6 = host6(c.Subnet6, n), podCIDR6(n)
			}
			c.Nodes = append(c.Nodes, node)
		}
		clusters = append(clusters, c)
	}
	return clusters
}

// podCIDR returns the n-th /24 of the cluster's pod network, or of one of its networks.
func (c Cluster) podCIDR(n int) netip.Prefix {
	b := c.Pods[(n-1)%len(c.Pods)].Addr().As4()
	b[2] += byte(n - 1)
	return netip.PrefixFrom(netip.AddrFrom4(b), 24)
}

// podCIDR6 returns the n-th /64 of podNetwork6.
func podCIDR6(n int) netip.Prefix {
	b := netip.MustParsePrefix(podNetwork6).Addr().As16()
	b[7] = byte(n - 1)
	return netip.PrefixFrom(netip.AddrFrom16(b), 64)
}

// podsOfVPC is the largest number of pods on a node of a VPC.
const podsOfVPC = 40

// singles returns the addresses of the n-th node's pods in a VPC. They are spread over
// one network, so that no two of them form a prefix that belongs to one node.
func (c Cluster) singles(n, nodes int) []netip.Addr {
	if c.CNI != cniVPC {
		return nil
	}
	addresses := make([]netip.Addr, podsOfVPC)
	for i := range addresses {
		b := c.Pods[0].Addr().As4()
		b[2], b[3] = b[2]+vpcNetwork, byte(vpcFirst+i*nodes+n-1)
		addresses[i] = netip.AddrFrom4(b)
	}
	return addresses
}

const (
	vpcNetwork = 1 // the network of the second nodes in other clusters, so that pods there can have the same addresses
	vpcFirst   = 4 // as in a subnet of AWS; the first address is the pods' gateway
)

func networkPlugins() []string {
	return []string{cniBridge, cniPTP, cniFlannel, cniCalico, cniVPC, cniCilium}
}

// ownRoutes reports whether a network plugin makes the routes and rules between nodes
// itself.
func ownRoutes(cni string) bool { return cni == cniFlannel || cni == cniCalico || cni == cniCilium }

// private returns the network of the index-th cluster if it is behind a router. The
// network depends on the WAN, so that labs on the same machine have different ones.
func (l Lab) private(index int) netip.Prefix {
	wan := l.WAN.Addr().As4()
	block := (int(wan[1]) + int(wan[2])) % 15 // 172.30.0.0/24: 0
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(100 + 10*block + index), 0}), 24)
}

// subnet6 returns the network of the index-th cluster's nodes. It also depends on the
// WAN.
func (l Lab) subnet6(index int) netip.Prefix {
	wan := l.WAN.Addr().As4()
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0x1b, wan[1], wan[2], 5: byte(index)}), 64)
}

// gateway6 returns the nodes' default gateway: the WAN's router, which has an address in
// each of these networks.
func (c Cluster) gateway6() netip.Addr { return host6(c.Subnet6, 0xfe) }

// Cluster returns the named cluster.
func (l Lab) Cluster(name string) (Cluster, error) {
	for _, c := range l.Plan() {
		if c.Name == name {
			return c, nil
		}
	}
	return Cluster{}, fmt.Errorf("cluster %q: not in this lab, which has %v", name, l.Clusters)
}

// Node returns the node with this name or number; "" means the first node.
func (c Cluster) Node(name string) (Node, error) {
	for _, n := range c.Nodes {
		if name == "" || name == n.Name || name == fmt.Sprint(n.Index) {
			return n, nil
		}
	}
	return Node{}, fmt.Errorf("node %q: not in cluster %s, which has %d", name, c.Name, len(c.Nodes))
}

// addresses returns the addresses of a node, that of the first family first.
func (c Cluster) addresses(n Node) []netip.Addr { return byFamily(c.IPv6, n.Address, n.Address6) }

// APIServer returns the URL of the cluster's API server. It is the same on this machine,
// on nodes, and in pods of all clusters.
func (c Cluster) APIServer() string {
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(c.Nodes[0].Address, apiPort))
}

// contextName returns the name of the cluster's context in the kubeconfig of the lab,
// which is a separate file.
func (c Cluster) contextName() string { return "lab-" + c.Name }

// hostAddress returns the address of this machine on the WAN. The WAN router routes
// between clusters.
func (l Lab) hostAddress() netip.Addr { return host(l.WAN, 1) }
func (l Lab) wanRouter() netip.Addr   { return host(l.WAN, 254) }

func (l Lab) wanNetns() string                 { return l.Name + "-wan" }
func (l Lab) hostLink() string                 { return l.Name + "wan" }
func (l Lab) nodeNetns(n Node) string          { return l.Name + "-" + n.Name }
func (l Lab) routerNetns(c Cluster) string     { return l.Name + "-" + c.Name + "-nat" }
func (l Lab) cgroup(n Node) string             { return l.Name + "-" + n.Name }
func (l Lab) path(elem ...string) string       { return filepath.Join(append([]string{l.Dir}, elem...)...) }
func (l Lab) nodeDir(n Node) string            { return l.path(n.Name) }
func (l Lab) pkiDir(c Cluster) string          { return l.path(c.Name, "pki") }
func (l Lab) kubeconfig() string               { return l.path("kubeconfig") }
func (l Lab) tool(name string) string          { return l.path("bin", name) }
func (l Lab) adminKubeconfig(c Cluster) string { return filepath.Join(l.pkiDir(c), "admin.kubeconfig") }

// routers lists the network namespaces of routers, the WAN's first.
func (l Lab) routers() []string {
	names := []string{l.wanNetns()}
	for _, c := range l.Plan() {
		if c.Behind {
			names = append(names, l.routerNetns(c))
		}
	}
	return names
}

func (l Lab) netns() []string {
	names := l.routers()
	for _, c := range l.Plan() {
		for _, n := range c.Nodes {
			names = append(names, l.nodeNetns(n))
		}
	}
	return names
}

func (l Lab) cgroups() []string {
	var names []string
	for _, c := range l.Plan() {
		for _, n := range c.Nodes {
			names = append(names, l.cgroup(n))
		}
	}
	return names
}

// host returns the n-th address of an IPv4 network of /24.
func host(network netip.Prefix, n int) netip.Addr {
	b := network.Masked().Addr().As4()
	b[3] = byte(n)
	return netip.AddrFrom4(b)
}

// host6 returns the n-th address of an IPv6 network.
func host6(network netip.Prefix, n int) netip.Addr {
	b := network.Masked().Addr().As16()
	b[15] = byte(n)
	return netip.AddrFrom16(b)
}

// byFamily returns the values of both families, that of the first family first. In a
// cluster without IPv6, it returns only that of IPv4.
func byFamily[T any](ipv6 string, v4, v6 T) []T {
	switch ipv6 {
	case ipv6First:
		return []T{v6, v4}
	case ipv6Second:
		return []T{v4, v6}
	}
	return []T{v4}
}

// readLab reads the lab in dir. If there is none, the error satisfies
// errors.Is(err, os.ErrNotExist).
func readLab(dir string) (Lab, error) {
	l := Lab{Dir: dir}
	data, err := os.ReadFile(l.path(labFile))
	if err != nil {
		return l, fmt.Errorf("read lab: %w", err)
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fmt.Errorf("read lab in %s: %w", dir, err)
	}
	return l, l.Validate()
}

// write stores the lab. A reader sees either the old content or the new one.
func (l Lab) write() error {
	return writeJSON(l.path(labFile), l)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
