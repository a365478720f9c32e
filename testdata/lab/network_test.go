package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func sprint(v any) string { return fmt.Sprint(v) }

func unwrapAll(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// text shows scripts as a shell session would.
func text(scripts ...script) string {
	var b strings.Builder
	for _, s := range scripts {
		fmt.Fprintf(&b, "# %s\n", s.netns)
		for _, c := range s.sysctls {
			fmt.Fprintln(&b, "sysctl", c)
		}
		for _, c := range s.commands {
			fmt.Fprintln(&b, "ip", c)
		}
	}
	return b.String()
}

func TestNetworkRoutesBetweenClusters(t *testing.T) {
	l := testLab(func(l *Lab) { l.NAT, l.MTU = []string{"milan"}, 1400 })
	const want = `# 
ip link add labwan type veth peer name host netns lab-wan
ip link set labwan alias /run/test
ip addr add 172.30.0.1/24 dev labwan
ip link set labwan up
ip route add 192.168.102.0/24 via 172.30.0.12 dev labwan
# lab-wan
sysctl net.ipv4.ip_forward=1
sysctl net.ipv4.conf.all.proxy_arp=1
ip link set lo up
ip addr add 172.30.0.254/32 dev host
ip ntable change name arp_cache dev host proxy_delay 0
ip link set host up
ip route add 172.30.0.1 dev host
ip link add rome address 02:1b:ac:1e:00:fe type bridge
ip addr add 172.30.0.254/32 dev rome
ip ntable change name arp_cache dev rome proxy_delay 0
ip link set rome up
ip route add 172.30.0.11 dev rome mtu 1400
ip route add 172.30.0.112/28 dev rome mtu 1400
ip link add milan type veth peer name eth0 netns lab-milan-nat
ip addr add 172.30.0.254/32 dev milan
ip ntable change name arp_cache dev milan proxy_delay 0
ip link set milan up
ip route add 172.30.0.12 dev milan mtu 1400
ip route add 192.168.102.0/24 via 172.30.0.12 dev milan onlink mtu 1400
# lab-milan-nat
sysctl net.ipv4.ip_forward=1
ip link set lo up
ip addr add 172.30.0.12/24 dev eth0
ip link set eth0 up
ip route add default via 172.30.0.254
ip link add lan address 02:1b:c0:a8:66:01 type bridge
ip addr add 192.168.102.1/24 dev lan
ip link set lan up
`
	if got := text(l.network()...); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNodesRouteToEachOthersPods(t *testing.T) {
	l := testLab(func(l *Lab) { l.Nodes, l.NAT = 2, []string{"milan"} })
	c, err := l.Cluster("milan")
	if err != nil {
		t.Fatal(err)
	}
	const want = `# lab-milan-nat
ip link add milan-2 type veth peer name eth0 address 02:1b:c0:a8:66:16 netns lab-milan-2
ip link set milan-2 master lan up
# lab-milan-2
ip link set lo up
ip addr add 192.168.102.22/24 dev eth0
ip link set eth0 up
ip route add default via 192.168.102.1
ip route add 10.244.0.0/24 via 192.168.102.12
`
	port, inside := l.nodeNetwork(c, c.Nodes[1])
	if got := text(port, inside); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDeviceNamesFitTheKernel(t *testing.T) {
	l := testLab(func(l *Lab) { l.Name, l.Clusters, l.Nodes = "abcdefghijkl", []string{"abcdefghijkl"}, maxNodes })
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	names := []string{l.hostLink(), l.Clusters[0]}
	for _, n := range l.Plan()[0].Nodes {
		names = append(names, n.Name)
	}
	for _, name := range names {
		if len(name) > 15 { // IFNAMSIZ is 16 with the final zero
			t.Errorf("device %q: %d bytes, want at most 15", name, len(name))
		}
	}
}

func TestCutsAreParsed(t *testing.T) {
	for name, tt := range map[string]struct {
		direction, port string
		want            []string // nil: refused
	}{
		"both ways": {"", "", []string{
			`iifname "rome" oifname "milan" counter drop`,
			`iifname "milan" oifname "rome" counter drop`,
		}},
		"one way":         {"a-to-b", "", []string{`iifname "rome" oifname "milan" counter drop`}},
		"one way by name": {"rome-to-milan", "", []string{`iifname "rome" oifname "milan" counter drop`}},
		"the other way":   {"b-to-a", "", []string{`iifname "milan" oifname "rome" counter drop`}},
		"a port": {"milan-to-rome", "udp/51840", []string{
			`iifname "milan" oifname "rome" udp dport 51840 counter drop`,
			`iifname "milan" oifname "rome" udp sport 51840 counter drop`,
		}},
		"no protocol":         {"", "51840", nil},
		"no port":             {"", "udp/", nil},
		"port zero":           {"", "udp/0", nil},
		"port too large":      {"", "tcp/65536", nil},
		"unknown protocol":    {"", "sctp/1", nil},
		"unknown direction":   {"rome-to-paris", "", nil},
		"direction to itself": {"rome-to-rome", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parseCut(testLab(), "rome", "milan", tt.direction, tt.port)
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("got error %v, want rules %v", err, tt.want)
			}
			if err != nil {
				return
			}
			var got []string
			for _, rule := range c.rules() {
				got = append(got, strings.TrimPrefix(rule, "add rule inet lab-cut forward "))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	for _, pair := range [][2]string{{"rome", "paris"}, {"rome", "rome"}} {
		if _, err := parseCut(testLab(), pair[0], pair[1], "", ""); err == nil {
			t.Errorf("cut %v: got no error", pair)
		}
	}
}
