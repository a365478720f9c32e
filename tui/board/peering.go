package board

import (
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// pairID is the ID of a connection: the two cluster IDs, sorted. It is the same on
// both sides, and stays the same if A and B change places.
type pairID struct{ low, high wire.ClusterID }

// PairOf returns the ID of the connection between two clusters, given in any order.
func PairOf(x, y wire.ClusterID) pairID {
	if y < x {
		x, y = y, x
	}
	return pairID{x, y}
}

// end is one side of a row.
type end struct {
	view.End
	rate session.Rate
}

// peering is one row of the dashboard.
type peering struct {
	ID   pairID
	ends [2]end // A and B, see board.ends
	view.Verdict
	// seen is the time at which this program saw the state begin; zero if the state has not
	// changed since the row was made.
	seen    time.Time
	known   time.Time   // when the row was made
	expires time.Time   // when the verdict expires; zero: never
	worked  bool        // the last known state worked; states that are neither working nor broken don't count
	came    time.Time   // when it began to work after it was first seen broken; zero: not seen
	flaps   []time.Time // see flapsKept
	History [2]session.Series
	tested  *verify.Result // the last test from pod to pod that this program made

	key  sortKey
	name string // for the filter, and for the order of rows with equal keys
	show bool   // the filter shows the row
}

// together returns the verdict that follows from both ends at the time now.
func (p *peering) together(now time.Time) view.Verdict { return view.Together(p.both(), p.tested, now) }

func (p *peering) both() [2]view.End { return [2]view.End{p.ends[flows.A].End, p.ends[flows.B].End} }

// began returns the time at which the state began, if it is known. Gateways report since when the tunnel
// works. If this program saw the state change later, for example to degraded, the time of that change counts.
func (p *peering) began() time.Time {
	if p.Since.IsZero() || p.State.Works() && p.seen.After(p.Since) {
		return p.seen
	}
	return p.Since
}

// verdict returns the state, with the time at which it began.
func (p *peering) verdict() view.Verdict {
	v := p.Verdict
	v.Since = p.began()
	return v
}

// server returns the side that is dialled; ok is false if neither side reports it.
func (p *peering) server() (side flows.Side, ok bool) {
	return flows.ServerSide([2]flows.Reading{p.ends[flows.A].Reading, p.ends[flows.B].Reading})
}

// order returns both sides as screens name them: the one that dials, and the one that listens. If that is not
// known, A comes first.
func (p *peering) order() (first, second flows.Side) {
	if server, ok := p.server(); ok && server == flows.A {
		return flows.B, flows.A
	}
	return flows.A, flows.B
}

// title returns the names of both clusters.
func (p *peering) title(t draw.Theme) string {
	first, second := p.order()
	return t.Plain(string(p.ends[first].ID) + " " + t.To + " " + string(p.ends[second].ID))
}

// created returns the time at which the older of both gateways was made; zero: not known.
func (p *peering) created() time.Time {
	var first time.Time
	for _, e := range p.ends {
		if c := e.Reading.Created; !c.IsZero() && (first.IsZero() || c.Before(first)) {
			first = c
		}
	}
	return first
}

// roundTrip returns the round-trip time that one end measured last; 0 if its report is not fresh.
func (p *peering) roundTrip(s flows.Side, now time.Time) time.Duration {
	if !p.ends[s].Fresh(now) {
		return 0
	}
	return p.ends[s].Reading.Latency
}

// loss returns the larger share of lost pings of both ends; known is false if no end measures it.
func (p *peering) loss(now time.Time) (share float64, known bool) {
	for _, e := range p.ends {
		if lost, counted := e.Reading.Lost(); counted && e.Fresh(now) {
			share, known = max(share, lost), true
		}
	}
	return share, known
}

// traffic returns the rate from A's point of view. It uses the counters of A's gateway. If those are
// not known, it uses the counters of B's gateway, with sent and received exchanged.
func (p *peering) traffic(now time.Time) session.Rate {
	a, b := p.ends[flows.A], p.ends[flows.B]
	switch {
	case a.rate.Known && a.Fresh(now):
		return a.rate
	case b.rate.Known && b.Fresh(now):
		return session.Rate{Known: true, Received: b.rate.Sent, Sent: b.rate.Received}
	}
	return session.Rate{}
}

// handshake returns the time of the latest handshake that a fresh report of either end has. A stale report
// does not have the later handshakes.
func (p *peering) handshake(now time.Time) (latest time.Time) {
	for _, e := range p.ends {
		if at := e.Reading.Handshake; e.Fresh(now) && at.After(latest) {
			latest = at
		}
	}
	return latest
}

// mtu returns the length of the longest packet that both ends send, in bytes; 0: neither end reports it.
func (p *peering) mtu() int {
	a, b := p.ends[flows.A].Reading.Longest(), p.ends[flows.B].Reading.Longest()
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// endpoint returns the address at which the client dials the server. The client's report comes
// first, because the client may use another address than the server reports.
func (p *peering) endpoint() string {
	text := "-"
	for _, e := range p.ends {
		if e.Reading.Endpoint != "" && (e.Reading.Role == flows.RoleClient || text == "-") {
			text = strings.TrimPrefix(e.Reading.Endpoint, "UDP ")
		}
	}
	return text
}
