package gateway

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The underlays have the MTUs of clouds and pod networks. 9000 is larger than all of them.
func TestTunnelIsAsWideAsWhatItRunsOver(t *testing.T) {
	for _, c := range []struct {
		name              string
		wanted, pod, way  int // way: the MTU of the route to the endpoint; 0: the same as the pod's
		nodes             []int
		path, unproven    int
		link, sent, clamp int
	}{
		{"Ethernet", 9000, 1500, 0, nil, 0, 0, 1440, 1440, 1400},
		{"VXLAN on Ethernet", 9000, 1450, 0, nil, 0, 0, 1390, 1390, 1350},
		{"VXLAN on GCP", 9000, 1410, 0, nil, 0, 0, 1350, 1350, 1310},
		{"jumbo frames in a VPC", 9000, 9001, 0, nil, 8941, 1340, 8941, 8941, 8901},
		{"jumbo frames, and a narrow route to the peer", 9000, 9001, 1500, nil, 1440, 1340, 1440, 1440, 1400},
		{"jumbo frames, as long as nothing is known of the path", 9000, 9001, 0, nil, 0, 1340, 8941, 1328, 1288},
		{"jumbo frames, and a path that ends them", 9000, 9001, 0, nil, 1428, 1340, 8941, 1424, 1384},
		{"one node has a narrower way to gateways", 9000, 1500, 0, []int{1450, 1500, 0}, 1400, 1340, 1400, 1400, 1360},
		{"an admin knows better", 1300, 9001, 0, nil, 0, 0, 1300, 1300, 1260},
		{"an admin wants too much", 8000, 1500, 0, nil, 1440, 0, 1440, 1440, 1400},
	} {
		in := serverInputs()
		in.UnderlayMTU = c.pod
		in.Nodes = nil
		for i, mtu := range c.nodes {
			in.Nodes = append(in.Nodes, Node{Name: fmt.Sprint("node", i), IP: addrs(fmt.Sprintf("192.168.1.%d", i+20))[0], MTU: mtu})
		}
		p := &in.Peers[0]
		p.MTU, p.UnderlayMTU, p.PathMTU, p.UnprovenMTU = c.wanted, c.way, c.path, c.unproven
		s, err := Compute(in)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		sent := s.Tunnels[0].MTU
		for _, r := range s.Routes {
			if r.Device == TunnelDevice && r.MTU != 0 {
				sent = r.MTU
			}
		}
		clamped := strings.Contains(s.String(), fmt.Sprintf("maxseg size set %d ", c.clamp))
		if s.Tunnels[0].MTU != c.link || sent != c.sent || !clamped {
			t.Errorf("%s: got a device of %d, routes of %d, want %d, %d, and segments of %d (clamped: %t)", c.name, s.Tunnels[0].MTU, sent, c.link, c.sent, c.clamp, clamped)
		}
	}
}

// The peer's device, or an MTU that the kernel has learned for the path, can limit a packet to a size that no
// padded question has tried.
func TestNoPacketIsPaddedBeyondThePath(t *testing.T) {
	in := serverInputs()
	in.UnderlayMTU = 1500
	p := in.Peers[0]
	p.MTU = 9000
	device := in.LinkMTU(p)
	for path := minMTU - Overhead; path <= device; path++ {
		p.PathMTU = path
		longest := in.carries(p)
		if longest > path || path-longest >= paddedTo {
			t.Fatalf("a path of %d: got packets of up to %d", path, longest)
		}
		for size := 20; size <= longest; size++ {
			if padded := min(device, (size+15)/16*16); padded > path {
				t.Fatalf("a path of %d: a packet of %d becomes %d", path, size, padded)
			}
		}
	}
}

func TestNodesWayToAGatewayLimitsWhatIsSentToIt(t *testing.T) {
	in := nodeInputs()
	in.UnderlayMTU = 9001
	in.Gateways[0].MTU, in.Gateways[0].UnderlayMTU, in.Gateways[1].UnderlayMTU = 9000, 1450, 9001
	s, err := ComputeNode(in)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range s.Routes {
		if r.Type == Unicast && r.Table == NodeTable {
			got[r.Destination.String()] = r.MTU
		}
	}
	if got["10.60.0.0/16"] != 1400 || got["10.62.0.0/16"] != 8951 || s.Links[0].MTU != 8951 {
		t.Errorf("got routes of %v and a device of %d, want 1400 and 8951, and 8951", got, s.Links[0].MTU)
	}
}

// A node with a wrong report harms only itself.
func TestNodeThatIsTooNarrowIsNamedAndNotFollowed(t *testing.T) {
	in := serverInputs()
	in.Nodes[1].MTU = 100
	fit, unfit := in.Fitting()
	if !slices.ContainsFunc(unfit, func(u UnfitNode) bool { return u.Name == "control" && errors.Is(u.Err, errMTU) }) {
		t.Errorf("got %v, want one about control", unfit)
	}
	if got := fit.LinkMTU(fit.Peers[0]); got != 1340 || len(fit.Nodes) != 2 {
		t.Errorf("got a tunnel of %d and %d nodes, want 1340 and 2", got, len(fit.Nodes))
	}
}
