package check

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Opening is traffic that a firewall has to allow for a connection. Stateful firewalls allow the
// answers as well.
type Opening struct {
	From, To string // owners of addresses, and the addresses as far as they are known
	Brief    string // From with the first addresses of many
	Protocol string // "all" for traffic that a node forwards
	Port     int32  // 0 for traffic that a node forwards
	// Device is the network device of each node: the node forwards packets between this device and
	// its pods, in both directions. It is "" for traffic between machines.
	Device string
	For    string
}

// Openings returns the traffic that the firewalls between and inside of two clusters have to allow
// for their connection: the tunnel, the traffic between nodes and their own gateway, and the
// packets that nodes forward to and from their pods. failed has the reasons if the opening for the
// tunnel is unknown.
func Openings(f flows.Facts) (open []Opening, failed []Result) {
	failed = slices.DeleteFunc(Diagnose(f, nil), func(r Result) bool {
		return r.State != Fail || !slices.Contains([]flows.Code{Answers, Gateways, Endpoint}, r.ID)
	})
	if len(failed) > 0 {
		return nil, failed
	}
	in := inputs(f, nil)
	server, client := in.server(), in.server().Other()
	tunnel := func(from flows.Side, to, address string, port int32) {
		dials := in.cluster(from)
		open = append(open, Opening{
			From: nodesOf(dials, allAddresses), Brief: nodesOf(dials, addresses), To: to + ", " + address, Protocol: "UDP", Port: port, For: fmt.Sprintf("the tunnel, which %s dials", dials.ID),
		})
	}
	address, port := in.dialled()
	if relay, ok := in.relay(); ok {
		_, end := relay.Ends()
		tunnel(client, "the relay", address, port)
		tunnel(server, "the relay", relay.Host, end.Port)
	} else {
		tunnel(client, string(in.cluster(server).ID), address, port)
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		c := in.cluster(side)
		if !c.Can().FabricPort {
			continue
		}
		if len(c.Nodes) > 1 {
			all := fmt.Sprintf("all nodes of %s, and its gateways' pods", c.ID)
			open = append(open, Opening{From: all, Brief: all, To: all, Protocol: "UDP", Port: flows.FabricPort, For: "between pods and their gateway"})
		}
		device := fmt.Sprintf("the device %s of each node of %s", wire.FabricDevice, c.ID)
		open = append(open, Opening{From: device, Brief: device, To: "pods on this node", Protocol: "all", Device: wire.FabricDevice, For: "a node's own packet filter (firewalld, ufw, a FORWARD policy)"})
	}
	return open, nil
}

// nodesOf describes the addresses from which a cluster's gateway dials.
func nodesOf(c flows.ClusterFacts, text func([]netip.Addr) string) string {
	switch external, internal := nodeAddresses(c); {
	case len(external) > 0:
		return fmt.Sprintf("%s, %s", c.Name(), text(external))
	case len(internal) > 0:
		return fmt.Sprintf("%s, %s; behind NAT, its public address", c.Name(), text(internal))
	}
	return "the nodes of " + string(c.Name())
}
