package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cutTable is the nftables table in the WAN router with all temporary faults of
// paths. Without this table, paths work.
const cutTable = "lab-cut"

// cut is traffic between two clusters that the WAN router drops.
type cut struct {
	from, to string
	bothWays bool
	// protocol and port limit it to packets from or to a port; "": all packets.
	protocol string
	port     uint16
}

// parseCut reads the arguments of `lab cut`. direction is "", "a-to-b" or
// "b-to-a", where a and b are the two clusters by position or by name.
func parseCut(l Lab, a, b, direction, port string) (cut, error) {
	for _, name := range []string{a, b} {
		if _, err := l.Cluster(name); err != nil {
			return cut{}, err
		}
	}
	if a == b {
		return cut{}, fmt.Errorf("cut %s from itself: want two clusters", a)
	}
	c := cut{from: a, to: b}
	switch direction {
	case "":
		c.bothWays = true
	case "a-to-b", a + "-to-" + b:
	case "b-to-a", b + "-to-" + a:
		c.from, c.to = b, a
	default:
		return cut{}, fmt.Errorf("--direction %q: want %s-to-%s or %s-to-%s", direction, a, b, b, a)
	}
	if port == "" {
		return c, nil
	}
	protocol, number, found := strings.Cut(port, "/")
	n, err := strconv.ParseUint(number, 10, 16)
	if !found || err != nil || n == 0 || protocol != "udp" && protocol != "tcp" {
		return cut{}, fmt.Errorf("--port %q: want udp/PORT or tcp/PORT", port)
	}
	c.protocol, c.port = protocol, uint16(n)
	return c, nil
}

// rules returns the cut as rules of nft(8). Devices of the WAN router have the
// name of the cluster behind them.
func (c cut) rules() []string {
	directions := [][2]string{{c.from, c.to}}
	if c.bothWays {
		directions = append(directions, [2]string{c.to, c.from})
	}
	var rules []string
	for _, d := range directions {
		path := fmt.Sprintf("add rule inet %s forward iifname %q oifname %q", cutTable, d[0], d[1])
		if c.protocol == "" {
			rules = append(rules, path+" counter drop")
			continue
		}
		for _, end := range []string{"dport", "sport"} {
			rules = append(rules, fmt.Sprintf("%s %s %s %d counter drop", path, c.protocol, end, c.port))
		}
	}
	return rules
}

// apply cuts a path, in addition to the present cuts. Existing connections are
// also cut, because the rules have no state.
func (c cut) apply(l Lab) error {
	lines := append([]string{
		"add table inet " + cutTable,
		"add chain inet " + cutTable + " forward { type filter hook forward priority filter; }",
	}, c.rules()...)
	return l.nftOnWAN(strings.Join(lines, "\n") + "\n")
}

// rebind makes the WAN router translate the UDP addresses of a cluster, as a
// provider's router would: peers see the router's address, and a port that the
// router chooses. Each call forgets earlier choices.
func rebind(l Lab, cluster string) error {
	if _, err := l.Cluster(cluster); err != nil {
		return err
	}
	if err := l.nftOnWAN(rebindScript(cluster, uint16(1+rand.IntN(1<<16-1)))); err != nil {
		return err
	}
	time.Sleep(unasked)
	return l.nftOnWAN(fmt.Sprintf("flush chain inet %s unasked\n", cutTable))
}

func parsePorts(text []string) ([]uint16, error) {
	ports := make([]uint16, len(text))
	for i, t := range text {
		n, err := strconv.ParseUint(t, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("port %q: want 1 to 65535", t)
		}
		ports[i] = uint16(n)
	}
	return ports, nil
}

// forward makes the masquerading router of a cluster forward packets for one of
// its UDP ports to a port of the cluster's first node. An admin would configure a
// real router in this way.
func forward(l Lab, cluster string, port, nodePort uint16) error {
	c, err := l.Cluster(cluster)
	if err != nil {
		return err
	}
	if !c.Behind {
		return fmt.Errorf("forward: %s is not behind a router: `lab up --nat %s`", cluster, cluster)
	}
	return runTool(forwardScript(c, port, nodePort), "nsenter", "--net="+filepath.Join(netnsFolder, l.routerNetns(c)), "nft", "-f", "-")
}

func forwardScript(c Cluster, port, nodePort uint16) string {
	return fmt.Sprintf(`add chain ip lab prerouting { type nat hook prerouting priority dstnat; }
add rule ip lab prerouting iifname eth0 ip daddr %s udp dport %d dnat to %s:%d
insert rule ip lab forward ct status dnat accept
`, c.Public, port, c.Nodes[0].Address, nodePort)
}

// unasked is the time in which the cluster gets no packets except answers.
// Otherwise the next packet of a peer would begin a new flow, whose answers would
// keep their address. Afterwards, peers can dial the cluster again. later.
const unasked = 300 * time.Millisecond

// rebindScript moves flows to another conntrack zone, which does not know the
// earlier flows. Packets to the ports of earlier flows are dropped.
func rebindScript(cluster string, zone uint16) string {
	return fmt.Sprintf(`add table inet %[1]s
add chain inet %[1]s forget { type filter hook prerouting priority raw; }
flush chain inet %[1]s forget
add rule inet %[1]s forget ct zone set %[3]d
add chain inet %[1]s unasked { type filter hook forward priority filter; }
flush chain inet %[1]s unasked
add rule inet %[1]s unasked oifname %[2]q meta l4proto udp ct state new drop
add chain inet %[1]s translate { type nat hook postrouting priority srcnat; }
flush chain inet %[1]s translate
add rule inet %[1]s translate iifname %[2]q meta l4proto udp counter masquerade to :20000-29999 fully-random
`, cutTable, cluster, zone)
}

// narrow limits the path MTU between all clusters. With hole, longer packets are
// dropped without an error; otherwise, their senders get an error.
func narrow(l Lab, mtu int, hole bool) error {
	if err := checkPathMTU(mtu); err != nil {
		return fmt.Errorf("narrow: %w", err)
	}
	if hole {
		err := l.nftOnWAN(fmt.Sprintf(`add table inet %[1]s
add chain inet %[1]s silence { type filter hook output priority filter; }
flush chain inet %[1]s silence
add rule inet %[1]s silence icmp type destination-unreachable icmp code frag-needed drop
`, cutTable))
		if err != nil {
			return err
		}
	}
	l.MTU = mtu
	return l.setPathMTU()
}

// setPathMTU gives the routes to all clusters the MTU of the lab.
func (l Lab) setPathMTU() error {
	s := script{netns: l.wanNetns()}
	for _, c := range l.Plan() {
		for _, route := range l.routesTo(c) {
			s.ip("route replace %s%s", route, l.mtuOption())
		}
	}
	return s.run()
}

// restorePaths undoes all cuts, translations and limits.
func restorePaths(l Lab) error {
	if err := l.setPathMTU(); err != nil {
		return err
	}
	// The table is added first, so that the deletion can't fail if nothing is
	// cut.
	return l.nftOnWAN("add table inet " + cutTable + "\ndelete table inet " + cutTable + "\n")
}

func (l Lab) nftOnWAN(script string) error {
	return runTool(script, "nsenter", "--net="+filepath.Join(netnsFolder, l.wanNetns()), "nft", "-f", "-")
}

// cutRules returns the present cuts as nft prints them, with their counters.
func cutRules(l Lab) []string {
	out, err := outputOf("nsenter", "--net="+filepath.Join(netnsFolder, l.wanNetns()),
		"nft", "list", "chain", "inet", cutTable, "forward")
	if err != nil {
		return nil // without a table, nothing is cut
	}
	var rules []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "drop") {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	return rules
}
