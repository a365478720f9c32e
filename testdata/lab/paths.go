package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// cutTable is the nftables table, in the WAN router, of the paths that are cut.
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

// rules returns the cut in the language of nft(8). Devices of the WAN router
// are named for the cluster behind them.
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

// apply cuts a path, in addition to those cut already. Connections that exist
// are cut as well: the rules know no state.
func (c cut) apply(l Lab) error {
	lines := append([]string{
		"add table inet " + cutTable,
		"add chain inet " + cutTable + " forward { type filter hook forward priority filter; }",
	}, c.rules()...)
	return l.nftOnWAN(strings.Join(lines, "\n") + "\n")
}

// restorePaths undoes all cuts.
func restorePaths(l Lab) error {
	// Added first, so that the deletion cannot fail if nothing is cut.
	return l.nftOnWAN("add table inet " + cutTable + "\ndelete table inet " + cutTable + "\n")
}

func (l Lab) nftOnWAN(script string) error {
	return runTool(script, "nsenter", "--net="+filepath.Join(netnsFolder, l.wanNetns()), "nft", "-f", "-")
}

// cutRules returns the cuts in force as nft prints them, with their counters.
func cutRules(l Lab) []string {
	out, err := outputOf("nsenter", "--net="+filepath.Join(netnsFolder, l.wanNetns()),
		"nft", "list", "chain", "inet", cutTable, "forward")
	if err != nil {
		return nil // no such table: nothing is cut
	}
	var rules []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "drop") {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	return rules
}
