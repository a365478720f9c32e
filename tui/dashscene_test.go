package tui

import (
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/board"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// reading is what a gateway says of its peering with peer.
func reading(peer wire.ClusterID, role flows.Role, value networkingv1beta1.ConnectionStatusValue, at time.Time) flows.Reading {
	return flows.Reading{
		Peer: peer, Namespace: wire.TenantNamespaceName(peer), Role: role, CIDRs: true, Created: flowtest.Epoch().Add(-48 * time.Hour),
		Exists: true, Value: value, At: at, Interval: 10 * time.Second, Latency: 1200 * time.Microsecond, Reported: true, Message: "as the gateway says", PodTraffic: at,
	}
}

const (
	isConnected  = networkingv1beta1.Connected
	isConnecting = networkingv1beta1.Connecting
	isError      = networkingv1beta1.ConnectionError
)

func contextRefs(names ...string) []flows.ContextRef {
	refs := make([]flows.ContextRef, len(names))
	for i, name := range names {
		refs[i] = flows.ContextRef{Name: name}
	}
	return refs
}

// told is news of a cluster whose context has the same name.
func told(id wire.ClusterID, changed ...flows.Reading) board.News {
	return board.News{Ref: flows.ContextRef{Name: string(id)}, ID: id, UID: "uid-" + string(id), Changed: changed}
}

func silence(name string) board.News {
	return board.News{Ref: flows.ContextRef{Name: name}, Problem: &flows.Problem{Kind: flows.Unreachable, Message: "i/o timeout"}}
}

// scene has a dashboard watch a few peerings for a quarter of an hour:
// one slow, one that broke, one of which an API server does not answer.
func dashScene(s board.Screen) board.Screen {
	now := flowtest.Epoch()
	pairs := []struct {
		a, b    wire.ClusterID
		latency time.Duration
		traffic uint64 // bytes per 10 s
	}{
		{"rome", "milan", 1200 * time.Microsecond, 31 << 20},
		{"prod-eu", "milan", 61 * time.Millisecond, 20 << 20},
		{"rome", "edge-07", 14 * time.Millisecond, 40 << 10},
		{"prod-eu", "prod-us-east-1-customers-of-long-names", 92 * time.Millisecond, 88 << 20},
		{"rome", "turin", 900 * time.Microsecond, 0},
	}
	const rounds = 120
	for i := range rounds {
		at := now.Add(time.Duration(i) * 10 * time.Second)
		byCluster := map[wire.ClusterID]board.News{}
		for n, p := range pairs {
			for side, ids := range [2][2]wire.ClusterID{{p.a, p.b}, {p.b, p.a}} {
				switch ids[0] {
				case "turin", "prod-us-east-1-customers-of-long-names":
					continue
				}
				r := reading(ids[1], []flows.Role{flows.RoleClient, flows.RoleServer}[side], isConnected, at)
				r.Created = now.Add(-time.Duration(n*n) * 24 * time.Hour)
				r.Latency = p.latency + time.Duration((i*37+n*11+side*5)%20)*p.latency/40
				r.Received, r.Sent = uint64(i)*p.traffic, uint64(i)*p.traffic/4
				r.Endpoint, r.PeerAddress, r.Implementation, r.MTU = "UDP 203.0.113.7:31840", "203.0.113.7:31840", "kernel", 1340
				r.Handshake, r.Since = at.Truncate(2*time.Minute), now.Add(-time.Hour)
				if p.traffic == 0 {
					r.PodTraffic = time.Time{}
				}
				if p.a == "prod-eu" && p.b == "milan" && i > rounds*2/3 {
					r.Latency, r.Loss = r.Latency*5/2, 0.08
				}
				if p.b == "edge-07" && i > rounds-20 {
					r.Value, r.Latency, r.Loss, r.Since = isError, 0, 1, now.Add((rounds-20)*10*time.Second)
					r.Message = "the peer's gateway has stopped answering pings through the tunnel"
				}
				n := byCluster[ids[0]]
				n.Changed = append(n.Changed, r)
				byCluster[ids[0]] = n
			}
		}
		var all []board.News
		for _, id := range []wire.ClusterID{"rome", "milan", "prod-eu", "edge-07"} {
			n := told(id, byCluster[id].Changed...)
			if id == "edge-07" && i > rounds-10 {
				n = silence("edge-07")
			}
			all = append(all, n)
		}
		s = s.Take(session.Env{Now: at.Add(300 * time.Millisecond)}, all)
	}
	return s
}
