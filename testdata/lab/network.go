package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// netnsFolder is where iproute2 keeps named network namespaces.
const netnsFolder = "/run/netns"

const (
	forwarding  = "net.ipv4.ip_forward=1"
	forwarding6 = "net.ipv6.conf.all.forwarding=1"
)

// script sets up one network namespace: settings in /proc/sys/net, then commands of
// ip(8).
type script struct {
	netns    string // "": this machine's
	sysctls  []string
	commands []string
	nft      string
}

func (s *script) ip(format string, args ...any) {
	s.commands = append(s.commands, fmt.Sprintf(format, args...))
}

// network returns the scripts that build the network between the nodes, in their
// order. The network is routed, because only a router reports a path MTU; one bridge
// would not.
func (l Lab) network() []script {
	clusters := l.Plan()
	wan := script{netns: l.wanNetns(), sysctls: []string{forwarding, "net.ipv4.conf.all.proxy_arp=1"}}
	wan.ip("link set lo up")
	wan.leg("host", l)
	wan.ip("route add %s dev host", l.hostAddress())

	this := script{}
	this.ip("link add %s type veth peer name host netns %s", l.hostLink(), l.wanNetns())
	this.ip("link set %s alias %s", l.hostLink(), l.Dir)
	this.ip("addr add %s/%d dev %s", l.hostAddress(), l.WAN.Bits(), l.hostLink())
	this.ip("link set %s up", l.hostLink())

	var routers []script
	for _, c := range clusters {
		if c.Behind {
			routers = append(routers, l.router(c, &wan))
			this.ip("route add %s via %s dev %s", c.Subnet, c.Public, l.hostLink())
		} else {
			wan.ip("link add %s address %s type bridge", c.Name, hardwareAddress(c.Gateway))
			wan.leg(c.Name, l)
			for _, route := range l.routesTo(c) {
				wan.ip("route add %s%s", route, l.mtuOption())
			}
			if c.IPv6 != "" {
				wan.sysctls = append(wan.sysctls, forwarding6)
				wan.ip("addr add %s/%d dev %s nodad", c.gateway6(), c.Subnet6.Bits(), c.Name)
			}
		}
	}
	return append([]script{this, wan}, routers...)
}

// leg brings up a device of the WAN router. All devices have the same address: nodes
// use it as their gateway, and ICMP errors come from it. The device answers ARP at
// once for addresses that are not on the link. By default it would wait for up to 0.8
// s, and new devices of a namespace have no default that could be changed.
func (s *script) leg(device string, l Lab) {
	s.ip("addr add %s/32 dev %s", l.wanRouter(), device)
	s.ip("ntable change name arp_cache dev %s proxy_delay 0", device)
	s.ip("link set %s up", device)
}

func (l Lab) routesTo(c Cluster) []string {
	if c.Behind {
		return []string{
			fmt.Sprintf("%s dev %s", c.Public, c.Name),
			fmt.Sprintf("%s via %s dev %s onlink", c.Subnet, c.Public, c.Name),
		}
	}
	var routes []string
	for _, n := range c.Nodes {
		routes = append(routes, fmt.Sprintf("%s dev %s", n.Address, c.Name))
	}
	return append(routes, fmt.Sprintf("%s dev %s", c.LBs, c.Name))
}

// mtuOption returns the option that limits the MTU of the path, and not of the link:
// nodes still assume 1500, and learn the real size from "fragmentation needed".
func (l Lab) mtuOption() string {
	if l.MTU == 0 {
		return ""
	}
	return fmt.Sprintf(" mtu %d", l.MTU)
}

// router returns the script of the masquerading router of c and links it to
// the WAN.
func (l Lab) router(c Cluster, wan *script) script {
	netns := l.routerNetns(c)
	wan.ip("link add %s type veth peer name eth0 netns %s", c.Name, netns)
	wan.leg(c.Name, l)
	for _, route := range l.routesTo(c) {
		wan.ip("route add %s%s", route, l.mtuOption())
	}

	r := script{netns: netns, sysctls: []string{forwarding}}
	r.ip("link set lo up")
	r.ip("addr add %s/%d dev eth0", c.Public, l.WAN.Bits())
	r.ip("link set eth0 up")
	r.ip("route add default via %s", l.wanRouter())
	r.ip("link add lan address %s type bridge", hardwareAddress(c.Gateway))
	r.ip("addr add %s/%d dev lan", c.Gateway, c.Subnet.Bits())
	r.ip("link set lan up")
	// The admin's machine reaches the nodes behind the router, as by a VPN. Packets
	// of other clusters pass only as answers.
	r.nft = fmt.Sprintf(`table ip lab {
	chain postrouting {
		type nat hook postrouting priority srcnat
		oifname eth0 masquerade
	}
	chain forward {
		type filter hook forward priority filter; policy drop
		ct state established,related accept
		iifname lan accept
		ip saddr %s accept
	}
}
`, l.hostAddress())
	return r
}

// nodeNetwork returns the script that links n to its cluster's bridge, and the script
// for the inside of the node.
func (l Lab) nodeNetwork(c Cluster, n Node) (port, inside script) {
	bridge := c.Name
	port = script{netns: l.wanNetns()}
	if c.Behind {
		port.netns, bridge = l.routerNetns(c), "lan"
	}
	port.ip("link add %s type veth peer name eth0 address %s netns %s", n.Name, hardwareAddress(n.Address), l.nodeNetns(n))
	port.ip("link set %s master %s up", n.Name, bridge)

	inside = script{netns: l.nodeNetns(n)}
	inside.ip("link set lo up")
	inside.ip("addr add %s/%d dev eth0", n.Address, c.Subnet.Bits())
	inside.ip("link set eth0 up")
	inside.ip("route add default via %s", c.Gateway)
	for _, other := range c.Nodes {
		if other.Name == n.Name || ownRoutes(c.CNI) {
			continue
		}
		if c.CNI != cniVPC {
			inside.ip("route add %s via %s", other.PodCIDR, other.Address)
		}
		for _, pod := range other.Singles {
			inside.ip("route add %s via %s", pod, other.Address)
		}
	}
	if c.IPv6 != "" {
		inside.sysctls = append(inside.sysctls, forwarding6)
		inside.ip("addr add %s/%d dev eth0 nodad", n.Address6, c.Subnet6.Bits())
		inside.ip("route add default via %s", c.gateway6())
		for _, other := range c.Nodes {
			if other.Name != n.Name {
				inside.ip("route add %s via %s", other.PodCIDR6, other.Address6)
			}
		}
	}
	if c.CNI == cniVPC {
		inside.nft = sourceCheck(c, n)
	}
	return port, inside
}

// sourceCheck drops packets that leave a node with a source that is neither its own
// address nor a pod's, as the networks of clouds do.
func sourceCheck(c Cluster, n Node) string {
	sources := []string{n.Address.String(), c.LBs.String()}
	for _, pod := range n.Singles {
		sources = append(sources, pod.String())
	}
	return fmt.Sprintf(`table ip lab {
	chain sources {
		type filter hook postrouting priority 300
		oifname eth0 ip saddr != { %s } counter drop
	}
}
`, strings.Join(sources, ", "))
}

// hardwareAddress derives a MAC address from the IP address, so that neighbours need
// not learn a new one when a node restarts. A bridge without a fixed address would
// change it with its ports. This was measured: for 45 s, no answers came from the
// other nodes.
func hardwareAddress(a netip.Addr) string {
	ip := a.As4()
	return fmt.Sprintf("02:1b:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3])
}

// networkComplete reports whether the network between the nodes exists completely.
func (l Lab) networkComplete() bool {
	complete := exists(l.path(networkMarker)) && exists("/sys/class/net/"+l.hostLink())
	for _, netns := range l.routers() {
		complete = complete && exists(filepath.Join(netnsFolder, netns))
	}
	return complete
}

// buildNetwork builds the network again. It writes the marker last, because a killed
// `up` leaves the network incomplete.
func (l Lab) buildNetwork() error {
	if err := l.removeNetwork(); err != nil {
		return err
	}
	for _, netns := range l.routers() {
		if err := runTool("", "ip", "netns", "add", netns); err != nil {
			return err
		}
	}
	for _, s := range l.network() {
		if err := s.run(); err != nil {
			return err
		}
	}
	return os.WriteFile(l.path(networkMarker), nil, 0o600)
}

// buildNode gives a node that will start a new network namespace, and removes the old
// one. A real machine also loses its interfaces, rules and addresses when it
// restarts.
func (l Lab) buildNode(c Cluster, n Node) error {
	port, inside := l.nodeNetwork(c, n)
	if exists(filepath.Join(netnsFolder, inside.netns)) {
		if err := runTool("", "ip", "netns", "del", inside.netns); err != nil {
			return err
		}
		// The kernel deletes the old link some time after its namespace. Until then,
		// the name is used.
		_ = runTool("", "ip", "-n", port.netns, "link", "del", n.Name)
	}
	if err := runTool("", "ip", "netns", "add", inside.netns); err != nil {
		return err
	}
	if err := port.run(); err != nil {
		return err
	}
	return inside.run()
}

// owner returns the state directory of the lab that uses the name of l; "" if there
// is none. It reads the directory from the link to this machine: every lab has such a
// link, and no two labs can have the same one.
func (l Lab) owner() string {
	alias, err := os.ReadFile(filepath.Join("/sys/class/net", l.hostLink(), "ifalias"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(alias))
}

func (l Lab) removeNetwork() error {
	if err := os.RemoveAll(l.path(networkMarker)); err != nil {
		return err
	}
	var errs []error
	// A process that is left in a namespace keeps its devices. So delete the one link
	// that would stay visible on this machine.
	if exists(filepath.Join("/sys/class/net", l.hostLink())) {
		errs = append(errs, runTool("", "ip", "link", "del", l.hostLink()))
	}
	for _, netns := range l.netns() {
		if exists(filepath.Join(netnsFolder, netns)) {
			errs = append(errs, runTool("", "ip", "netns", "del", netns))
		}
	}
	return errors.Join(errs...)
}

func (s script) run() error {
	var prefix []string
	if s.netns != "" {
		prefix = []string{"nsenter", "--net=" + filepath.Join(netnsFolder, s.netns)}
	}
	run := func(input string, argv ...string) error {
		argv = append(slices.Clip(prefix), argv...)
		return runTool(input, argv[0], argv[1:]...)
	}
	if len(s.sysctls) > 0 {
		if err := run("", append([]string{"sysctl", "-qw"}, s.sysctls...)...); err != nil {
			return err
		}
	}
	if err := run(strings.Join(s.commands, "\n")+"\n", "ip", "-batch", "-"); err != nil {
		return err
	}
	if s.nft == "" {
		return nil
	}
	return run(s.nft, "nft", "-f", "-")
}

// runTool runs a program to its end. The error holds the program's output.
func runTool(stdin, name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
