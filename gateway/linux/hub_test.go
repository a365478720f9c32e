//go:build linux

package linux

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// One gateway with two peers that have the same addresses, and flows from both
// that have the same five-tuple on the wire. Without conntrack zones the second
// flow is taken for the first: a peer then gets the other's answers.
func TestPeersWithEqualAddressesAreKeptApart(t *testing.T) {
	wan := newNamespace(t, "wan")
	wan.sysctl("ip_forward", "1")
	seesA := gateway.CIDRs{Pod: prefixes("10.61.0.0/16"), External: prefixes("10.72.0.0/16")}
	both := gateway.CIDRs{Pod: prefixes("10.60.0.0/16", "10.62.0.0/16"), External: prefixes("10.71.0.0/16", "10.73.0.0/16")}
	a := newCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5", both)
	b := newCluster(t, wan, "b", gateway.Client, "203.0.113", "10.244.1.6", seesA)
	c := newCluster(t, wan, "c", gateway.Client, "192.0.2", "10.244.1.7", seesA)

	in := a.inputs(b)
	in.Peers = append(in.Peers, a.inputs(c).Peers...)
	for i := range in.Peers {
		p := &in.Peers[i]
		p.Index, p.ListenPort = i, uint16(wireguardPort+i)
		p.Remapped = gateway.CIDRs{Pod: both.Pod[i : i+1], External: both.External[i : i+1]}
	}
	a.syncTo(a.gateway, a.gwKernel, a.state(in))
	for i, n := range a.nodes {
		a.syncTo(n, a.nodeKernels[i], a.nodeState(i))
	}
	b.syncAll(a)
	ofC := c.inputs(a)
	ofC.Peers[0].Index = 1
	ofC.Peers[0].Endpoint = netip.AddrPortFrom(ofC.Peers[0].Endpoint.Addr(), wireguardPort+1)
	c.syncTo(c.gateway, c.gwKernel, c.state(ofC))
	for i, n := range c.nodes {
		c.syncTo(n, c.nodeKernels[i], c.nodeState(i))
	}

	b.awaitHandshake(0)
	c.awaitHandshake(1)

	podA, podB, podC := a.pod(1, "podA", "10.244.2.2"), b.pod(1, "podB", "10.244.2.2"), c.pod(1, "podC", "10.244.2.2")
	server := podA.listenUDP("0.0.0.0:7777")
	go func() {
		buffer := make([]byte, 100)
		for {
			n, from, err := server.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(fmt.Appendf(nil, "%s from %s", buffer[:n], from.Addr().Unmap()), from)
		}
	}()
	ofPodB, ofPodC := podB.listenUDP("10.244.2.2:4444"), podC.listenUDP("10.244.2.2:4444")
	for i := range 20 {
		for _, x := range []struct {
			socket     *net.UDPConn
			name, seen string
		}{{ofPodB, "podB", "10.60.2.2"}, {ofPodC, "podC", "10.62.2.2"}} {
			question := fmt.Sprintf("%s %d", x.name, i)
			if got, want := ask(t, x.socket, question), question+" from "+x.seen; got != want {
				t.Fatalf("%s: got %q, want %q", x.name, got, want)
			}
		}
	}
	// And from the hub to each of them.
	podB.whoami(":8080")
	podC.whoami(":8080")
	expectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
	expectFrom(t, podA, "10.62.2.2", "podC sees 10.61.2.2")

	// Without the second peer only what is its own goes.
	in.Peers = in.Peers[:1]
	lines := a.syncTo(a.gateway, a.gwKernel, a.state(in))
	if len(lines) == 0 || lines[0] != "unexpected: tunnel liqo-tunnel1" {
		t.Errorf("peer removed: got %q", lines)
	}
	if left := a.gateway.dumpAll(); strings.Contains(left, "liqo-tunnel1") || strings.Contains(left, "18101") {
		t.Errorf("something of the removed peer is left:\n%s", left)
	}
	expectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
}

// ask returns the answer to one question.
func ask(t *testing.T, socket *net.UDPConn, question string) string {
	t.Helper()
	if _, err := socket.WriteToUDPAddrPort([]byte(question), netip.MustParseAddrPort("10.61.2.2:7777")); err != nil {
		t.Fatal(err)
	}
	if err := socket.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 100)
	n, err := socket.Read(buffer)
	if err != nil {
		return "no answer"
	}
	return string(buffer[:n])
}
