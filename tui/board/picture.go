package board

import (
	"slices"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// The checks about each part of a packet's way.
var (
	ofServer   = []flows.Code{check.Answers}
	ofOperator = []flows.Code{check.Operator, check.Configured}
	ofGateway  = []flows.Code{check.GatewayPod, check.Fresh}
	ofTunnel   = []flows.Code{check.SameRanges, check.Gateways, check.Endpoint, check.Keys, check.UDPPath, check.Ping, check.PathMTU, check.PacketLoss}
	ofNodes    = []flows.Code{check.NodePaths, check.PodsWay}
)

// partOf returns the state of a part of the way. It follows from the checks with these
// codes that concern one of the sides.
func partOf(results []check.Result, codes []flows.Code, sides ...flows.Side) draw.Mark {
	var of []check.Result
	for _, r := range results {
		concerns := slices.ContainsFunc(r.Sides, func(s flows.Side) bool { return slices.Contains(sides, s) })
		if concerns && slices.Contains(codes, r.ID) {
			of = append(of, r)
		}
	}
	worst := check.Worst(of)
	switch skipped := slices.ContainsFunc(of, func(r check.Result) bool { return r.State == check.Skipped }); {
	case len(of) == 0:
		return draw.Unknown
	case skipped && worst == check.Pass: // an earlier part has failed, so this part is unknown
		return draw.Pending
	}
	return draw.CheckMarks[worst]
}

// picture returns the way of a packet as a picture of the connection: the parts in each cluster with their states,
// and the tunnel.
func picture(t draw.Theme, results []check.Result, p *peering, width int) draw.Connection {
	c := draw.Connection{Line: partOf(results, ofTunnel, flows.A, flows.B), Notes: []string{t.Faint.Render(t.Plain("UDP " + p.endpoint()))}}
	if t.Frames() {
		c.Notes = []string{t.Plain(p.endpoint()), t.Faint.Render("UDP")}
	}
	c.Listens, c.Known = p.server()
	for i, e := range p.ends {
		side := flows.Side(i)
		pods := partOf(results, ofNodes, side)
		if pods == draw.OK { // nodes reach the gateway, and perhaps no packet of a pod was seen
			pods = partOf(results, []flows.Code{check.PodTraffic}, side)
		}
		var states []string
		for _, part := range []struct {
			name string
			is   draw.Mark
		}{
			{"pods", pods},
			{"nodes", partOf(results, ofNodes, side)},
			{"gateway", partOf(results, ofGateway, side)},
			{"operator", partOf(results, ofOperator, side)},
			{"API server", partOf(results, ofServer, side)},
		} {
			states = append(states, t.State(part.is, part.name, 0))
			if part.is == draw.Fail || part.is == draw.Warn && c.Marks[i] != draw.Fail {
				c.Marks[i] = part.is
			}
		}
		c.Names[i], c.Lines[i] = string(e.ID), states
		if !t.Frames() {
			c.Lines[i] = t.PackApart(states, t.EndWidth(width))
		}
	}
	return c
}
