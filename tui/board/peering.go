package board

import (
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// pairID is what a peering is known by, whatever happens to it and from
// whichever side it was seen first: the two cluster IDs, in order.
type pairID struct{ low, high wire.ClusterID }

// PairOf is the ID of a peering, whichever cluster is named first.
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
	ends [2]end // A and B, by the order of the contexts
	view.Verdict
	// seen is when the state was first seen to be what it is, if it was seen to
	// change.
	seen    time.Time
	known   time.Time // since when there is a row of it
	expires time.Time // of the verdict; zero: never
	worked  bool      // when it was last seen to work or not
	came    time.Time // when it was first seen to work, if it was seen before
	flaps   []time.Time
	History [2]session.Series
	tested  *verify.Result // the last test from pod to pod that this program made

	key  sortKey
	name string // for the filter, and to tell equal keys apart
	show bool   // the filter lets it through
}

// together is what both ends mean at a time.
func (p *peering) together(now time.Time) view.Verdict { return view.Together(p.both(), p.tested, now) }

func (p *peering) both() [2]view.End { return [2]view.End{p.ends[flows.A].End, p.ends[flows.B].End} }

// began is when the state did, as well as that is known. Gateways say since when the tunnel
// works: it may have been degraded since.
func (p *peering) began() time.Time {
	if p.Since.IsZero() || p.State.Works() && p.seen.After(p.Since) {
		return p.seen
	}
	return p.Since
}

// verdict is the state, with the time since when it is known.
func (p *peering) verdict() view.Verdict {
	v := p.Verdict
	v.Since = p.began()
	return v
}

// server is the side that is dialled; ok is false if nobody says.
func (p *peering) server() (side flows.Side, ok bool) {
	return flows.ServerSide([2]flows.Reading{p.ends[flows.A].Reading, p.ends[flows.B].Reading})
}

// created is when the older of both gateways was made; zero: not known.
func (p *peering) created() time.Time {
	var first time.Time
	for _, e := range p.ends {
		if c := e.Reading.Created; !c.IsZero() && (first.IsZero() || c.Before(first)) {
			first = c
		}
	}
	return first
}

// roundTrip is the latest measurement by one end; 0 if there is none of now.
func (p *peering) roundTrip(s flows.Side, now time.Time) time.Duration {
	if !p.ends[s].Fresh(now) {
		return 0
	}
	return p.ends[s].Reading.Latency
}

// loss is the larger share of lost pings; known is false if no end measures it.
func (p *peering) loss(now time.Time) (share float64, known bool) {
	for _, e := range p.ends {
		if lost, counted := e.Reading.Lost(); counted && e.Fresh(now) {
			share, known = max(share, lost), true
		}
	}
	return share, known
}

// traffic is the rate as A sees it: by its own gateway's counters, or else by
// those of B's, turned round.
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

// handshake is the latest one that either end tells of now: what was told long ago says
// nothing of those since.
func (p *peering) handshake(now time.Time) (latest time.Time) {
	for _, e := range p.ends {
		if at := e.Reading.Handshake; e.Fresh(now) && at.After(latest) {
			latest = at
		}
	}
	return latest
}

// mtu is the smaller one of both ends' tunnels; 0: nobody says.
func (p *peering) mtu() int {
	a, b := p.ends[flows.A].Reading.MTU, p.ends[flows.B].Reading.MTU
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// endpoint is where the server is dialled: as the client's side says it, which
// may be another way to it, or else as the server's does.
func (p *peering) endpoint() string {
	text := "-"
	for _, e := range p.ends {
		if e.Reading.Endpoint != "" && (e.Reading.Role == flows.RoleClient || text == "-") {
			text = strings.TrimPrefix(e.Reading.Endpoint, "UDP ")
		}
	}
	return text
}
