package board

import (
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// The checks about each part of a packet's way.
var (
	ofGateway = []flows.Code{check.Answers, check.Operator, check.Configured, check.GatewayPod, check.Fresh}
	ofTunnel  = []flows.Code{check.SameRanges, check.Gateways, check.Endpoint, check.Keys, check.UDPPath, check.Ping, check.PathMTU, check.PacketLoss}
	ofNodes   = []flows.Code{check.NodePaths}
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

// picture is the way of a packet from the pods of A to those of B, with what the checks
// say of each part, the clusters, and what is dialled.
func picture(t draw.Theme, results []check.Result, ids [2]wire.ClusterID, dialled string, width int) []string {
	gap, gateway := 3, "gateway"
	if width < 78 {
		gap, gateway = 1, "gw"
	}
	link := func(m draw.Mark, rule string, cells int) string {
		rule = strings.Repeat(rule, cells)
		return t.Marks[m].Render(rule + t.Glyphs[m] + rule)
	}
	node := func(s flows.Side) string { return t.State(partOf(results, ofGateway, s), gateway, 0) }
	nodes := func(s flows.Side) string {
		m := partOf(results, ofNodes, s)
		if m == draw.OK && partOf(results, []flows.Code{check.PodTraffic}, s) == draw.Unknown { // nodes reach the gateway, and no pod was seen to
			m = draw.Unknown
		}
		return link(m, t.Rule, gap)
	}
	before := "  pods " + nodes(flows.A) + " " + node(flows.A) + " "
	tunnel := link(partOf(results, ofTunnel, flows.A, flows.B), t.Heavy, 2*gap)
	way := before + tunnel + " " + node(flows.B) + " " + nodes(flows.B) + " pods"

	total := draw.Cells(way)
	names := "  " + t.Side(flows.A, t.Middle(string(ids[flows.A]), total/3), 0)
	right := t.Side(flows.B, t.Middle(string(ids[flows.B]), total/3), 0)
	middle := t.Faint.Render(t.Plain(dialled))
	at := draw.Cells(before) + (draw.Cells(tunnel)-draw.Cells(middle))/2
	lines := []string{way}
	if at > draw.Cells(names) && at+draw.Cells(middle) < total-draw.Cells(right) {
		names = draw.Pad(names, at) + middle
		middle = ""
	}
	lines = append(lines, draw.Pad(names, total-draw.Cells(right))+right)
	if middle != "" {
		lines = append(lines, "  "+middle)
	}
	return lines
}
