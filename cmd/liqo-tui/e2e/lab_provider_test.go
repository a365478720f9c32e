package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// This machine stands for a provider like AWS: its load balancers have a name, and an
// address that no node has.

// wan is an address of the network between the lab's clusters.
func (l lab) wan(t *testing.T, last byte) netip.Addr {
	t.Helper()
	node := l.must(t, "kubectl", "rome", "get", "node", "rome-1", "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	ip := netip.MustParseAddr(node).As4()
	ip[3] = last
	return netip.AddrFrom4(ip)
}

// serve answers datagrams at an address by a function until the test ends.
func serve(t *testing.T, at netip.AddrPort, answer func(c *net.UDPConn, from netip.AddrPort, packet []byte)) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = c.Close(); <-ended })
	go func() {
		defer close(ended)
		packet := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFromUDPAddrPort(packet)
			if err != nil {
				return
			}
			answer(c, from, packet[:n])
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// balance passes packets to a port of the provider's address on to a node, once target
// is set.
func (l lab) balance(t *testing.T, port uint16, target *atomic.Pointer[netip.AddrPort]) {
	t.Helper()
	inside := map[netip.AddrPort]*net.UDPConn{} // by client
	serve(t, netip.AddrPortFrom(l.wan(t, 1), port), func(outside *net.UDPConn, from netip.AddrPort, packet []byte) {
		c, node := inside[from], target.Load()
		if node == nil {
			return
		}
		if c == nil {
			var err error
			if c, err = net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(*node)); err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			inside[from] = c
			go func() {
				answer := make([]byte, 1<<16)
				for {
					n, err := c.Read(answer)
					if err != nil {
						return
					}
					_, _ = outside.WriteToUDPAddrPort(answer[:n], from) // a lost answer is like any lost packet
				}
			}()
		}
		_, _ = c.Write(packet)
	})
}

// resolves lets pods of a cluster resolve one name, at the DNS server that the lab
// offers them (RFC 1035), until undo.
func (l lab) resolves(t *testing.T, cluster, name string, address netip.Addr) (undo func()) {
	t.Helper()
	var wanted []byte
	for label := range strings.SplitSeq(name, ".") {
		wanted = append(append(wanted, byte(len(label))), label...)
	}
	const header, typeA, found, unknown = 12, 1, 0x8580, 0x8583
	wanted = append(wanted, 0, 0, typeA, 0, 1)
	at := serve(t, netip.AddrPortFrom(l.wan(t, 1), 0), func(c *net.UDPConn, from netip.AddrPort, packet []byte) {
		end := header
		for end < len(packet) && packet[end] != 0 {
			end += 1 + int(packet[end])
		}
		if end += 5; end > len(packet) {
			return
		}
		question := strings.ToLower(string(packet[header:end]))
		reply := append([]byte(nil), packet[:end]...)
		binary.BigEndian.PutUint16(reply[2:], unknown)
		copy(reply[4:], []byte{0, 1, 0, 0, 0, 0, 0, 0})
		if question == string(wanted) {
			binary.BigEndian.PutUint16(reply[2:], found)
			reply[7] = 1 // one answer: the name at byte 12, valid for a second
			reply = append(append(reply, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 1, 0, 4), address.AsSlice()...)
		}
		_, _ = c.WriteToUDPAddrPort(reply, from)
	})
	l.apply(t, cluster, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: dns, namespace: kube-system}
spec: {clusterIP: 10.96.0.10, ports: [{name: dns, port: 53, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dns, namespace: kube-system, labels: {kubernetes.io/service-name: dns}}
addressType: IPv4
ports: [{name: dns, port: %d, protocol: UDP}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
`, at.Port(), at.Addr()))
	return func() {
		l.must(t, "kubectl", cluster, "-n", "kube-system", "delete", "service/dns", "endpointslice/dns")
	}
}

// passOn forwards a port of this machine to a cluster's API server until the test ends,
// and counts the connections.
func (l lab) passOn(t *testing.T, name, cluster string) (url string, passed *atomic.Int64) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", netip.AddrPortFrom(l.wan(t, 1), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	node := l.must(t, "kubectl", cluster, "get", "node", cluster+"-1", "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	passed = new(atomic.Int64)
	go func() {
		for {
			outside, err := listener.Accept()
			if err != nil {
				return
			}
			inside, err := net.Dial("tcp4", net.JoinHostPort(node, "6443"))
			if err != nil {
				t.Error(err)
				return
			}
			passed.Add(1)
			t.Cleanup(func() { _, _ = outside.Close(), inside.Close() })
			go func() { _, _ = io.Copy(inside, outside) }()
			go func() { _, _ = io.Copy(outside, inside) }()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return "https://" + net.JoinHostPort(name, port), passed
}
